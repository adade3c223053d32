defmodule Mix.Tasks.Compile.DalaCargo do
  @moduledoc false
  # Builds the native library with cargo and installs it as priv/native/dala_gpu. Not in lib/, because it must exist before
  # lib/ is compiled.
  #
  #   DALA_GPU_BUILD=1     build, and fail if that is impossible
  #   DALA_GPU_BUILD=0     never build: use the library that is installed
  #   DALA_GPU_PROFILE     cargo's profile; by default dev, and release where MIX_ENV is prod
  #   DALA_GPU_FEATURES    back ends and more, as cargo features: "vulkan,gl,cpu,window" unless told otherwise
  use Mix.Task.Compiler

  @crate "dala_nif"
  @library "dala_gpu"

  @impl true
  def run(_argv) do
    wanted = System.get_env("DALA_GPU_BUILD")
    cargo = System.find_executable("cargo")
    source? = File.exists?(Path.join(crate_dir(), "Cargo.toml"))

    cond do
      wanted in ["0", "false"] -> use_installed("DALA_GPU_BUILD=#{wanted} forbids to build it")
      source? and cargo != nil -> build(cargo)
      wanted in ["1", "true"] -> failed("DALA_GPU_BUILD=#{wanted}, but #{missing(source?)}")
      true -> use_installed(missing(source?))
    end
  end

  @impl true
  def manifests, do: []

  @impl true
  def clean, do: File.rm_rf!(priv())

  defp build(cargo) do
    profile = System.get_env("DALA_GPU_PROFILE", if(Mix.env() == :prod, do: "release", else: "dev"))
    args = ~w(rustc --locked --package #{@crate} --lib --crate-type cdylib --profile #{profile})
    options = [cd: crate_dir(), into: IO.stream(:stdio, :line), stderr_to_stdout: true]

    case System.cmd(cargo, args ++ features(), options) do
      {_, 0} ->
        install(Path.join([target_dir(), out_dir(profile), built_name()]))

      {_, status} ->
        failed("cargo failed with status #{status}; the command was: cargo #{Enum.join(args, " ")}")
    end
  end

  # Renamed into place: overwriting the bytes of a library that a running VM has mapped would crash that VM.
  defp install(built) do
    File.mkdir_p!(priv())
    Mix.Project.build_structure()

    if up_to_date?(built) do
      {:noop, []}
    else
      temporary = installed() <> ".#{System.pid()}.tmp"
      File.cp!(built, temporary)
      File.rename!(temporary, installed())
      {:ok, []}
    end
  end

  defp up_to_date?(built) do
    with {:ok, from} <- File.stat(built), {:ok, to} <- File.stat(installed()) do
      from.size == to.size and from.mtime <= to.mtime
    else
      _ -> false
    end
  end

  defp use_installed(why) do
    if File.exists?(installed()) do
      Mix.Project.build_structure()
      {:noop, []}
    else
      failed("there is no native library at #{installed()}, and #{why}")
    end
  end

  defp missing(true), do: "cargo was not found (https://rustup.rs)"
  defp missing(false), do: "its source is not here"

  defp features do
    case System.get_env("DALA_GPU_FEATURES") do
      nil -> []
      features -> ["--no-default-features", "--features", features]
    end
  end

  defp crate_dir, do: Path.expand("../native/#{@crate}", __DIR__)

  # The crate is a member of the workspace above, whose target directory it shares.
  defp target_dir do
    case System.get_env("CARGO_TARGET_DIR") do
      nil -> Path.expand("../../target", __DIR__)
      path -> Path.expand(path, crate_dir())
    end
  end

  defp out_dir("dev"), do: "debug"
  defp out_dir(profile), do: profile

  defp priv, do: Path.expand("../priv/native", __DIR__)
  defp installed, do: Path.join(priv(), @library <> extension())

  # load_nif wants ".so" on every unix, macOS too.
  defp extension, do: if(match?({:win32, _}, :os.type()), do: ".dll", else: ".so")

  defp built_name do
    case :os.type() do
      {:win32, _} -> "#{@library}.dll"
      {:unix, :darwin} -> "lib#{@library}.dylib"
      _ -> "lib#{@library}.so"
    end
  end

  defp failed(message) do
    Mix.shell().error(message)

    diagnostic = %Mix.Task.Compiler.Diagnostic{
      compiler_name: "dala_cargo",
      file: crate_dir(),
      message: message,
      position: nil,
      severity: :error
    }

    {:error, [diagnostic]}
  end
end

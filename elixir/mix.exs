Code.require_file("build/cargo_compiler.exs", __DIR__)

defmodule Dala.Gpu.Compute.MixProject do
  use Mix.Project

  @version "0.1.0"

  def project do
    [
      app: :dala_compute,
      version: @version,
      elixir: "~> 1.14",
      description: "GPU compute for Elixir: typed buffers, named kernels, lanes, pipelines.",
      # The library is built first: the kernel macros use it while the rest compiles.
      compilers: [:dala_cargo] ++ Mix.compilers(),
      elixirc_paths: elixirc_paths(Mix.env()),
      # They are loaded by the tests that use them.
      test_ignore_filters: [&String.starts_with?(&1, "test/documents/")],
      start_permanent: Mix.env() == :prod,
      deps: deps(),
      package: package(),
      docs: docs()
    ]
  end

  def application do
    [mod: {Dala.Gpu.Compute.Application, []}, extra_applications: [:logger]]
  end

  defp elixirc_paths(:test), do: ["lib", "test/support"]
  defp elixirc_paths(_), do: ["lib"]

  # Nothing is needed to compile and test. Packages are asked for only where Hex is.
  defp deps do
    cond do
      path = System.get_env("DALA_NX_PATH") -> [{:nx, path: path}]
      hex?() -> packages()
      true -> []
    end
  end

  defp packages do
    [
      {:nx, "~> 0.7", optional: true},
      {:kino, "~> 0.13", optional: true},
      {:telemetry, "~> 1.0", optional: true},
      {:ex_doc, "~> 0.34", only: :docs, runtime: false}
    ]
  end

  defp hex?, do: System.get_env("DALA_GPU_NO_HEX") == nil and Code.ensure_loaded?(Hex)

  defp package do
    [
      licenses: ["MIT", "Apache-2.0"],
      links: %{},
      files: ~w(lib build native notebooks examples mix.exs README.md CHOICES.md .formatter.exs)
    ]
  end

  defp docs do
    [
      main: "readme",
      extras: ["README.md", "CHOICES.md" | Path.wildcard("notebooks/*.livemd")],
      groups_for_docs: [
        Buffers: &(&1[:type] == :buffer),
        Kernels: &(&1[:type] == :kernel),
        Commands: &(&1[:type] == :command),
        Pipelines: &(&1[:type] == :pipeline),
        Nx: &(&1[:type] == :nx),
        Devices: &(&1[:type] == :device),
        Twins: &(&1[:twin_of] != nil)
      ]
    ]
  end
end

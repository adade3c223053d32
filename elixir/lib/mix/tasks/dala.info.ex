defmodule Mix.Tasks.Dala.Info do
  @shortdoc "Says which devices there are"
  @moduledoc """
  Says which devices this machine has, which one is used, and what it can do.

      $ mix dala.info
  """
  use Mix.Task

  alias Dala.Gpu.Compute

  @requirements ["app.start"]

  @impl true
  def run(_argv) do
    case ExCubecl.devices() do
      {:ok, devices} -> Enum.each(devices, &Mix.shell().info(line(&1)))
      {:error, error} -> Mix.raise(Exception.message(error))
    end

    case ExCubecl.device_info() do
      {:ok, info} -> Mix.shell().info(default(info))
      {:error, error} -> Mix.raise(Exception.message(error))
    end
  rescue
    error in Compute.Error -> Mix.raise(Exception.message(error))
  end

  defp line(info) do
    gpu = if info.gpu, do: "GPU", else: "no GPU"
    memory = if info.memory_bytes, do: ", #{gibibytes(info.memory_bytes)}", else: ""
    "#{String.pad_trailing(info.backend, 8)} #{info.name} (#{info.kind}, #{gpu}#{memory})"
  end

  defp default(info) do
    memory = Compute.memory()
    by_support = Enum.sort(Enum.group_by(info.dtypes, &elem(&1, 1), &elem(&1, 0)))

    types =
      Enum.map_join(by_support, "; ", fn {how, types} -> "#{how} #{Enum.join(Enum.sort(types), " ")}" end)

    """

    in use   #{info.backend}: #{info.name}
    types    #{types}
    memory   #{gibibytes(memory.budget)} for buffers
    kernels  #{length(Compute.kernels())}
    version  #{info.version}\
    """
  end

  defp gibibytes(bytes), do: "#{Float.round(bytes / 1_073_741_824, 1)} GiB"
end

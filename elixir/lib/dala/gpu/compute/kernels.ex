defmodule Dala.Gpu.Compute.Kernels do
  @moduledoc false
  # Running kernels by name, and waiting for their end.

  alias Dala.Gpu.Compute.{Buffer, Device, Native, Runtime, Stage, Telemetry}
  alias Dala.Gpu.Surface

  def run(kernel, inputs, output, params \\ %{}) do
    stage = %{op: :run_kernel, kernel: kernel, inputs: inputs, output: output, params: params}

    Telemetry.span(:kernel, %{kernel: kernel}, fn ->
      with {:ok, stages} <- Stage.native(stage), do: Runtime.run(stages)
    end)
  end

  def run_to_surface(kernel, inputs, output, surface, params) do
    ref = Buffer.ref(output)

    with :ok <- Surface.open(surface),
         :ok <- run(kernel, inputs, output, params),
         do: Surface.call(surface, {:set_buffer, ref})
  end

  def add(a, b, output), do: run(:elementwise_add, [a, b], output)
  def multiply(a, b, output), do: run(:elementwise_mul, [a, b], output)
  def scale(input, scalar, output), do: run(:scalar_mul, [input], output, %{scalar: scalar})
  def relu(input, output), do: run(:relu, [input], output)
  def matmul(a, b, output), do: run(:matmul, [a, b], output)

  def list, do: Native.kernels(Device.get!())
end

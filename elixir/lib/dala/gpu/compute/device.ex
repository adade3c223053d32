defmodule Dala.Gpu.Compute.Device do
  @moduledoc false
  # The default device: what it is, what it did, and what it may use.

  import Dala.Gpu.Compute.Argument

  alias Dala.Gpu.Compute.{Error, Native, Runtime, Telemetry}
  alias Dala.ML.Plans

  def get!, do: unwrap!(Runtime.device())

  def info, do: Map.put(Native.info(get!()), :version, Native.version())

  def gpu? do
    case Runtime.device() do
      {:ok, device} -> Native.info(device).gpu
      {:error, _} -> false
    end
  end

  def memory do
    memory = unwrap!(Runtime.ask(&Native.memory/2))
    Telemetry.execute(:memory, Map.take(memory, [:live, :peak, :cached, :buffers]), %{budget: memory.budget})
    memory
  end

  def stats, do: Native.stats(get!())

  def trim, do: give_back(&Native.trim/2)
  def memory_pressure, do: give_back(&Native.memory_pressure/2)

  defp give_back(native) do
    Plans.forget()
    Runtime.ask(native)
  end

  def suspend(pending) when pending in [:wait, :fail],
    do: Runtime.ask(&Native.suspend(&1, pending == :fail, &2))

  def suspend(other), do: raise(ArgumentError, "pending commands :wait or :fail, found #{short(other)}")

  def resume, do: Native.resume(get!())

  def set_power(level), do: set_level(level, &Native.set_power/2)
  def report_thermal(level), do: set_level(level, &Native.report_thermal/2)

  defp set_level(level, native) when is_atom(level), do: checked!(native.(get!(), level))
  defp set_level(other, _native), do: raise(ArgumentError, "a level is an atom, found #{short(other)}")

  def trace(function) when is_function(function, 0) do
    tracing =
      Native.trace_start(get!()) || raise(Error, code: :tracing, message: "a trace is being taken already")

    try do
      {function.(), Native.trace_stop(tracing)}
    after
      # If the function raised.
      Native.trace_stop(tracing)
    end
  end

  def trace(other),
    do: raise(ArgumentError, "a function without arguments is traced, found #{short(other)}")
end

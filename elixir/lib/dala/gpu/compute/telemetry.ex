defmodule Dala.Gpu.Compute.Telemetry do
  @moduledoc """
  The events this package reports through the `:telemetry` library, if your project has it.

      :telemetry.attach(
        "slow-kernels",
        [:dala_gpu, :kernel, :stop],
        fn _event, %{duration: duration}, metadata, _config ->
          IO.inspect({metadata, System.convert_time_unit(duration, :native, :microsecond)})
        end,
        nil
      )

  | event | when | measurements |
  | --- | --- | --- |
  | `[:dala_gpu, :kernel, :start]` | before a kernel is run | `monotonic_time`, `system_time` |
  | `[:dala_gpu, :kernel, :stop]` | when it has been run | `duration`, `monotonic_time` |
  | `[:dala_gpu, :kernel, :exception]` | when running it raised | `duration`, `monotonic_time` |
  | `[:dala_gpu, :transfer, ...]` | around an upload or a download | the same |
  | `[:dala_gpu, :pipeline, ...]` | around a pipeline | the same |
  | `[:dala_gpu, :memory]` | when memory use is asked for | `live`, `peak`, `cached`, `buffers` |
  | `[:dala, :serving, :queued]` | when `Dala.Serving` took a request | `items`, `bytes` |
  | `[:dala, :serving, :batched]` | when requests were put together to run | `requests`, `items`, `size` |
  | `[:dala, :serving, :ran]` | when that ended | `duration`, `requests`, `items` |
  | `[:dala, :serving, :answered]` | when a request ended, however | `duration`, `waited`, `runs` |
  | `[:dala, :serving, :refused]` | when a server took no request; and when a caller has nobody left to ask | |
  | `[:dala, :serving, :repeated]` | when a caller asks another node, because of `why` | |

  Times are in native units. A call that fails without raising ends with `:stop`, and the metadata of that
  event has its error as `:error`. The metadata of `:exception` has `:kind`, `:reason` and `:stacktrace`. That of serving has the
  `:name`, and the `:lane` of a request, the `:outcome` of a run, how a request ended, `:end`, or why one was refused, `:reason`, and
  `:by` whom: `:server` or `:caller`.

  Whether `:telemetry` is there is found out once, when the application starts. After that it costs one
  look-up per event. If you load it into a running system later, call `init/0`.
  """

  @compile {:no_warn_undefined, :telemetry}

  @prefix :dala_gpu
  @spans [:kernel, :transfer, :pipeline]
  @points [:memory]

  @doc """
  Finds out whether `:telemetry` is there and remembers it. Returns the answer.

  Called when the application starts.
  """
  @spec init() :: boolean
  def init do
    found? = Code.ensure_loaded?(:telemetry) and function_exported?(:telemetry, :span, 3)
    :persistent_term.put(__MODULE__, found?)
    found?
  end

  @doc """
  Runs `fun`, reports when it starts and how it ends, and returns its result.

  `event` is `:kernel`, `:transfer` or `:pipeline`. A result of the form `{:error, reason}` adds
  `error: reason` to the metadata of the `:stop` event.

      iex> Dala.Gpu.Compute.Telemetry.span(:kernel, %{kernel: "relu"}, fn -> {:ok, 3} end)
      {:ok, 3}
  """
  @spec span(:kernel | :transfer | :pipeline, map, (() -> result)) :: result when result: term
  def span(event, metadata, fun) when event in @spans and is_map(metadata) and is_function(fun, 0) do
    if found?() do
      :telemetry.span([@prefix, event], metadata, fn ->
        case fun.() do
          {:error, reason} = result -> {result, Map.put(metadata, :error, reason)}
          result -> {result, metadata}
        end
      end)
    else
      fun.()
    end
  end

  def span(event, _metadata, _fun) when event not in @spans, do: unknown_event(event, @spans)

  def span(_event, metadata, fun) do
    raise ArgumentError,
          "expected a map and a function without arguments, got #{inspect(metadata)} and #{inspect(fun)}"
  end

  @doc """
  Reports one point in time. `event` is `:memory`.

      iex> Dala.Gpu.Compute.Telemetry.execute(:memory, %{live: 4096})
      :ok
  """
  @spec execute(:memory, map, map) :: :ok
  def execute(event, measurements, metadata \\ %{})

  def execute(event, measurements, metadata)
      when event in @points and is_map(measurements) and is_map(metadata) do
    if found?(), do: :telemetry.execute([@prefix, event], measurements, metadata), else: :ok
  end

  def execute(event, _measurements, _metadata) when event not in @points, do: unknown_event(event, @points)

  def execute(_event, measurements, metadata) do
    raise ArgumentError, "expected two maps, got #{inspect(measurements)} and #{inspect(metadata)}"
  end

  @doc false
  # What `Dala.Serving` reports.
  def serving(event, measurements, metadata) do
    if found?(), do: :telemetry.execute([:dala, :serving, event], measurements, metadata), else: :ok
  end

  # Before the application has started nobody knows yet: then this looks for itself.
  defp found? do
    case :persistent_term.get(__MODULE__, nil) do
      nil -> init()
      found? -> found?
    end
  end

  defp unknown_event(event, known) do
    raise ArgumentError, "unknown event #{inspect(event)}, expected one of #{inspect(known)}"
  end
end

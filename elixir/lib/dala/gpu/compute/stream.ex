defmodule Dala.Gpu.Compute.Stream do
  @moduledoc """
  Frames that flow through the same stages, with a limit of how many are in flight and a rule for those that come too fast.

      iex> alias Dala.Gpu.Compute
      iex> [input, output] = for _ <- 1..2, do: Compute.buffer_zeros({4}, :u8)
      iex> stage = %{op: :run_kernel, kernel: :scalar_add, inputs: [input], output: output, params: %{scalar: 9}}
      iex> stream = Compute.Stream.new(input: input, stages: [stage], output: output, policy: :block)
      iex> Compute.Stream.push(stream, <<0, 1, 2, 255>>)
      :started
      iex> tag = stream.tag
      iex> receive do
      ...>   {^tag, 0, {:ok, frame}} -> frame
      ...> end
      <<9, 10, 11, 255>>
      iex> Compute.Stream.stats(stream).frames_out
      1
      iex> Compute.Stream.stop(stream)
      :ok

  Each frame is written to the input buffer, goes through the stages, and the output buffer is read: one command, without
  waiting in between. Its answer comes as a message `{stream.tag, number, {:ok, binary} | {:error, error}}`; numbers count the
  frames that were pushed, from 0.
  """

  use Dala.Gpu.Compute.Twins, raising: [:new]

  import Dala.Gpu.Compute.Argument, only: [must!: 4, options!: 2, short: 1]

  alias Dala.Gpu.Compute.{Buffer, Commands, Error, Native, Runtime, Stage}

  @enforce_keys [:ref, :tag]
  defstruct [:ref, :tag]

  @type t() :: %__MODULE__{ref: reference(), tag: reference()}

  @defaults [
    input: nil,
    stages: [],
    output: nil,
    policy: :latest,
    in_flight: 2,
    lane: :interactive,
    deadline: nil,
    to: nil
  ]

  @doc """
  A stream.

    * `:input` - the buffer that frames are written to, if any
    * `:stages` - maps, as for `Dala.Gpu.Compute.submit/2`
    * `:output` - the buffer that is read and sent, if any
    * `:policy` - for frames that come while as many are in flight as may be: `:latest` lets one wait and drops it for a newer
      one, `{:queue, n}` lets so many wait and drops others, `:block` makes `push/2` wait
    * `:in_flight` - frames on the device's queue at once; 2
    * `:lane` - `:interactive`, `:default` or `:background`
    * `:deadline` - milliseconds that a frame may wait on the device's queue
    * `:to` - the process that gets the answers; the caller

  Raises if a stage is wrong.
  """
  @spec new(keyword()) :: t()
  def new(options) do
    options = options!(options, @defaults)
    tag = make_ref()
    to = {Keyword.get(options, :to) || self(), tag}
    buffers = {optional_ref(options[:input]), optional_ref(options[:output])}
    stages = Error.unwrap!(Stage.native(options[:stages]))
    device = Error.unwrap!(Runtime.device())
    ref = Error.unwrap!(Native.stream(device, buffers, stages, native_options!(options), to))
    %__MODULE__{ref: ref, tag: tag}
  end

  @doc """
  Pushes a frame, a binary of the input buffer's size: `:started`, `:waiting`, `:replaced` (it waits in place of an older one
  that was dropped) or `:dropped`. Waits only if the policy is `:block`.
  """
  @spec push(t(), binary()) :: :started | :waiting | :replaced | :dropped | {:error, Error.t()}
  def push(stream, frame) do
    must!(is_binary(frame), "a frame", "a binary", frame)
    push(stream, frame, make_ref())
  end

  # Whoever waits is told when there is room, and looks again by itself after a while: the one that was told may have died, and
  # a lane that is full of others' commands tells nobody.
  @look_again 20

  defp push(stream, frame, tag) do
    case native(stream, &Native.stream_push(&1, frame, tag)) do
      :full ->
        receive do
          {^tag, :ok} -> push(stream, frame, tag)
        after
          @look_again -> push(stream, frame, tag)
        end

      {:error, :stopped} ->
        flush(tag)
        {:error, Error.new(:stopped, "the stream was stopped")}

      pushed ->
        flush(tag)
        pushed
    end
  end

  # It may have been told just before it saw for itself.
  defp flush(tag) do
    receive do
      {^tag, :ok} -> flush(tag)
    after
      0 -> :ok
    end
  end

  @doc false
  # Stops the stream; no frame is sent after this returns.
  def stop_silently(stream), do: native(stream, &Native.stream_stop(&1, true))

  @doc """
  Counters: frames in, out, dropped and why, failed, waiting and in flight; times in microseconds, each with `p50` and `p99`.
  Empty once the stream was stopped.
  """
  @spec stats(t()) :: map()
  def stats(stream), do: native(stream, &Native.stream_stats/1) || %{}

  @doc """
  Stops the stream: frames that have not started are cancelled, and each is answered. Stopping twice is harmless.
  """
  @spec stop(t()) :: :ok
  def stop(stream), do: native(stream, &Native.stream_stop(&1, false))

  defp native(%__MODULE__{ref: ref} = stream, function) when is_reference(ref) do
    function.(ref)
  rescue
    # Another kind of reference.
    ArgumentError -> raise ArgumentError, "this is no stream: #{inspect(stream.ref)}"
  end

  defp native(other, _function), do: raise(ArgumentError, "this is no stream: #{short(other)}")

  defp native_options!(options) do
    {policy, in_flight} = {options[:policy], options[:in_flight]}
    must!(policy?(policy), :policy, ":latest, {:queue, n} or :block", policy)
    must!(is_integer(in_flight) and in_flight in 1..1_000_000, :in_flight, "a positive integer", in_flight)
    {lane, deadline, _} = Commands.queue_options!(options)
    {policy, in_flight, lane, deadline}
  end

  defp policy?({:queue, n}), do: is_integer(n) and n in 0..1_000_000
  defp policy?(policy), do: policy in [:latest, :block]

  defp optional_ref(nil), do: nil
  defp optional_ref(buffer), do: Buffer.ref(buffer)

  defimpl Inspect do
    def inspect(_stream, _opts), do: "#Dala.Gpu.Compute.Stream<>"
  end
end

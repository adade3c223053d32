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

  alias Dala.Gpu.Compute.{Buffer, Error, Native, Runtime, Stage}

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
    options = Keyword.merge(@defaults, validate!(options))
    tag = make_ref()
    to = {Keyword.get(options, :to) || self(), tag}
    buffers = {optional_ref(options[:input]), optional_ref(options[:output])}

    with {:ok, stages} <- Stage.native(options[:stages]),
         {:ok, device} <- Runtime.device(),
         {:ok, ref} <- Native.stream(device, buffers, stages, native_options!(options), to) do
      %__MODULE__{ref: ref, tag: tag}
    else
      {:error, error} -> raise error
    end
  end

  @doc """
  Pushes a frame, a binary of the input buffer's size: `:started`, `:waiting`, `:replaced` (it waits in place of an older one
  that was dropped) or `:dropped`. Waits only if the policy is `:block`.
  """
  @spec push(t(), binary()) :: :started | :waiting | :replaced | :dropped | {:error, Error.t()}
  def push(stream, frame) when is_binary(frame), do: push(stream, frame, make_ref())

  def push(_stream, other), do: raise(ArgumentError, "a frame must be a binary, found #{Stage.short(other)}")

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

  defp native(other, _function), do: raise(ArgumentError, "this is no stream: #{Stage.short(other)}")

  defp validate!(options) do
    if Keyword.keyword?(options),
      do: Keyword.validate!(options, Keyword.keys(@defaults)),
      else: raise(ArgumentError, "options must be a keyword list, found #{Stage.short(options)}")
  end

  defp native_options!(options) do
    policy =
      case options[:policy] do
        policy when policy in [:latest, :block] -> policy
        {:queue, n} when is_integer(n) and n in 0..1_000_000 -> {:queue, n}
        other -> invalid!(:policy, other, ":latest, {:queue, n} or :block")
      end

    in_flight =
      case options[:in_flight] do
        n when is_integer(n) and n in 1..1_000_000 -> n
        other -> invalid!(:in_flight, other, "a positive integer")
      end

    {lane, deadline, _} = Dala.Gpu.Compute.submit_options!(Keyword.take(options, [:lane, :deadline]))
    {policy, in_flight, lane, deadline}
  end

  defp invalid!(name, value, expected) do
    raise ArgumentError, "#{inspect(name)} must be #{expected}, found #{Stage.short(value)}"
  end

  defp optional_ref(nil), do: nil
  defp optional_ref(buffer), do: Buffer.ref(buffer)

  defimpl Inspect do
    def inspect(_stream, _opts), do: "#Dala.Gpu.Compute.Stream<>"
  end
end

defmodule Dala.Gpu.Compute.Runtime do
  @moduledoc false
  # What the public modules share: every function returns `:ok`, `{:ok, value}` or `{:error, %Error{}}`. Waiting is a
  # `receive`; no native function waits.

  alias Dala.Gpu.Compute.{Error, Native, Server}

  # More than this takes the native side too long for a normal scheduler.
  @many 48
  # Bytes that are copied by the VM in so long, if they do not begin at a byte.
  @large 256 * 1024
  # Bytes of buffers that a process makes before it collects its garbage: references weigh nothing to the collector, so that
  # it would not come by itself.
  @collect_after 16 * 1024 * 1024
  # Bytes that a minor collection may leave before a full one is made: references that have grown old are only found by those.
  @full_collection_after 32 * 1024 * 1024
  @catch_up_within 1_000

  @spec device() :: {:ok, reference()} | {:error, Error.t()}
  def device, do: Server.device()

  ## Buffers

  def buffer(shape, dtype, data) do
    buffer = if byte_size(data) > @large, do: &Native.buffer_large/4, else: &Native.buffer/4
    make(byte_size(data), &buffer.(&1, shape, dtype, data))
  end

  def zeros(shape, dtype, bytes) do
    make(bytes, &Native.zeros(&1, shape, dtype))
  end

  defp make(bytes, make) do
    with {:ok, device} <- device() do
      collect(device, bytes)

      case with_room(fn -> make.(device) end) do
        {:error, %Error{code: :out_of_memory}} ->
          # Buffers that nobody refers to may be waiting to be collected.
          :erlang.garbage_collect()
          Process.sleep(1)
          with_room(fn -> make.(device) end)

        result ->
          result
      end
    end
  end

  # Counted in the process's dictionary: what is counted lies on its heap, only it can collect that, and the count ends with
  # it. A table of processes would need somebody to watch them all, and takes eight times as long; a counter that they share
  # would make one of them collect, and wait, for what another made.
  defp collect(device, bytes) do
    # Bytes made since the last collection, and bytes that were live after the last full one.
    {made, least} = Process.get(__MODULE__, {0, 0})

    if made + bytes < @collect_after do
      Process.put(__MODULE__, {made + bytes, least})
    else
      catch_up(device)
      live = collected(device, :minor)
      least = if live > least + @full_collection_after, do: collected(device, :major), else: min(live, least)
      Process.put(__MODULE__, {bytes, least})
    end
  end

  defp collected(device, type) do
    :erlang.garbage_collect(self(), type: type)
    # Destructors run when the process gives up its turn, not before.
    :erlang.yield()
    Native.live_bytes(device)
  end

  # A process that makes buffers faster than they are filled would have them all in memory at once. A suspended device does not
  # catch up, and buffers may be made on it all the same.
  defp catch_up(device) do
    if not Native.is_suspended(device) do
      with {:ok, id} <- submit([:barrier], {:interactive, nil, :wait}), do: wait(id, @catch_up_within)
    end
  end

  # Runs a model; its outputs are new buffers, which count as made here.
  def run_model(name, inputs) do
    run = fn device ->
      tag = make_ref()
      :ok = Native.run_model(device, name, inputs, tag)
      answer(tag)
    end

    with {:ok, outputs} <- make(0, run), {:ok, device} <- device() do
      bytes = outputs |> Enum.map(&elem(Native.buffer_info(&1), 3)) |> Enum.sum()
      collect(device, bytes)
      {:ok, outputs}
    end
  rescue
    ArgumentError -> {:error, not_a_buffer(inputs)}
  end

  def info(ref) do
    {:ok, Native.buffer_info(ref)}
  rescue
    ArgumentError -> {:error, not_a_buffer(ref)}
  end

  def free(ref) do
    Native.free(ref)
  rescue
    ArgumentError -> {:error, not_a_buffer(ref)}
  end

  def read(ref) do
    with {:ok, device} <- device() do
      tag = make_ref()

      with :ok <- with_room(fn -> start_read(device, ref, tag) end), do: answer(tag)
    end
  end

  defp start_read(device, ref, tag) do
    Native.read(device, ref, tag)
  rescue
    ArgumentError -> {:error, not_a_buffer(ref)}
  end

  def not_a_buffer(term), do: Error.new(:invalid_argument, "this is no buffer: #{inspect(term)}")

  ## Commands

  @default_options {:default, nil, :wait}

  @doc false
  # Queues stages. `tag` is nil, or tags the message that tells of the end.
  def submit(stages, options \\ @default_options, owned \\ true, tag \\ nil) do
    with {:ok, device} <- device() do
      queue(options, &submit(device, stages, &1, owned, tag))
    end
  end

  defp submit(device, stages, options, owned, tag) do
    if heavy?(stages, options) do
      Native.submit_many(device, stages, options, owned, tag)
    else
      # Planning a kernel for the first time takes too long for a normal scheduler.
      with {:error, %Error{code: :unplanned}} <- Native.submit(device, stages, options, owned, tag) do
        Native.submit_many(device, stages, options, owned, tag)
      end
    end
  end

  @doc false
  # Queues a run of a compiled pipeline: `{:ok, {id, stages}}`, `:unplanned` if it is still to be compiled, or `:freed`.
  # `at_least` is nil, or how many of its stages are enough.
  def submit_plan(pipeline, at_least, tag) do
    with {:ok, device} <- device() do
      queue(@default_options, fn options ->
        with :large <- Native.pipeline_submit(device, pipeline, at_least, options, true, tag),
             do: Native.pipeline_submit_large(device, pipeline, at_least, options, true, tag)
      end)
    end
  end

  @doc false
  # The same on other buffers, in place of those that the stages name: pairs of references.
  def submit_plan_on(pipeline, at_least, buffers, tag) do
    with {:ok, device} <- device() do
      queue(
        @default_options,
        &Native.pipeline_submit_on(device, pipeline, at_least, buffers, {&1, true, tag})
      )
    end
  end

  def submit_json(json, options \\ @default_options) do
    with {:ok, device} <- device() do
      queue(options, &Native.submit_json(device, json, &1))
    end
  end

  defp queue({_lane, nil, :wait} = options, submit), do: with_room(fn -> submit.(options) end)

  # Waiting for room counts against the deadline.
  defp queue({lane, deadline, :wait}, submit) do
    until = System.monotonic_time(:microsecond) + deadline
    left = fn -> max(until - System.monotonic_time(:microsecond), 0) end
    with_room(fn -> submit.({lane, left.(), :wait}) end, 1, until)
  end

  defp queue(options, submit), do: submit.(options)

  @doc false
  # Queues stages and waits for their end.
  def run(stages, options \\ @default_options) do
    tag = make_ref()

    with {:ok, _id} <- submit(stages, options, true, tag), do: answer(tag)
  end

  def wait(id, timeout) do
    with {:ok, device} <- device() do
      tag = make_ref()

      case Native.wait(device, id, tag) do
        {:done, result} -> result
        {:waiting, wait} -> receive_end(id, wait, tag, timeout)
      end
    end
  end

  defp receive_end(id, wait, tag, timeout) do
    receive do
      {^tag, result} -> result
    after
      timeout ->
        # The message was sent before this returns, or never will be.
        Native.stop_waiting(wait)

        receive do
          {^tag, result} -> result
        after
          0 ->
            message = "command #{id} has not ended after #{timeout} ms; it goes on"
            {:error, Error.new(:wait_timeout, message, %{command: id, timeout: timeout})}
        end
    end
  end

  def call(function) do
    with {:ok, device} <- device(), do: function.(device)
  end

  @doc false
  # Calls what answers by a message.
  def ask(function) do
    with {:ok, device} <- device() do
      tag = make_ref()
      :ok = function.(device, tag)
      answer(tag)
    end
  end

  @doc false
  # Waits for the message of what was called with this tag.
  def answer(tag) do
    receive do
      {^tag, answer} -> answer
    end
  end

  # Lanes that are full empty themselves: their commands run.
  defp with_room(submit, pause \\ 1, until \\ :infinity) do
    case submit.() do
      {:error, %Error{code: :overloaded}} ->
        if System.monotonic_time(:microsecond) >= until do
          message = "there was no room in the lane before the command's deadline"
          {:error, Error.new(:deadline_exceeded, message)}
        else
          Process.sleep(pause)
          with_room(submit, min(pause * 2, 16), until)
        end

      result ->
        result
    end
  end

  # Dropping the oldest command ends all that need its result.
  defp heavy?(_stages, {_lane, _deadline, :drop_oldest}), do: true
  defp heavy?([_, _ | _] = stages, _options), do: Enum.reduce(stages, 0, &(weight(&1) + &2)) > @many
  defp heavy?([stage], _options), do: weight(stage) > @many
  defp heavy?([], _options), do: false

  # About so many microseconds.
  defp weight({:run_kernel, _kernel, inputs, _output, params}) do
    Enum.reduce(params, 1 + div(length(inputs), 4), fn
      {_name, list}, weight when is_list(list) -> weight + 1 + div(length(list), 16)
      {_name, _value}, weight -> weight + 1
    end)
  end

  # Data of up to 16 KiB is copied, and any that does not begin at a byte.
  defp weight({:write_buffer, _output, data}), do: 1 + div(byte_size(data), 8192)
  defp weight(_stage), do: 1
end

defmodule Dala.Serving.Server do
  @moduledoc false
  # Serves one name on this node: hands requests to the desk, runs what the desk says, and tells callers what became of them.
  #
  #   to it       {:ask, ref, started, from, caller, request}, {:cancel, ref}
  #   from it     {started, :started, ref}; then once, to the alias `ref`:
  #               {ref, {:answer, result, word}}; {ref, {:refused, {code, microseconds, text}, word}}, if nothing was run; or
  #               {ref, {:lost, error, word}}, if the device was lost

  use GenServer

  alias Dala.Gpu.Compute.{Error, Native, Telemetry}
  alias Dala.Serving.{Members, Work}

  # How many combinations of shapes share runs. Requests of further ones are run one by one.
  @most_shapes 64
  # What the native side takes for a number of items.
  @most_items 0xFFFFFFFF
  @most_bytes 0xFFFFFFFFFFFFFFFF
  # Microseconds that a timer takes.
  @most_time 0xFFFFFFFF * 1000
  # A request that no node would take.
  @own_fault [:too_large, :empty]
  # How long one that has left still answers whoever has not heard of it.
  @parting 250

  def start_link(name, work, sizes, queue, longest),
    do: GenServer.start_link(__MODULE__, {self(), name, work, sizes, queue, longest})

  @impl true
  def init({parent, name, work, sizes, {items, bytes, slots}, longest}) do
    # Runs end with it, and it does not end with them.
    Process.flag(:trap_exit, true)
    # Nor does it wait for one node while others wait for it.
    Members.never_suspended()
    # Callers that are refused and come again may be thousands, and it has little to do for each.
    Process.flag(:priority, :high)
    desk = Native.desk(items, bytes, slots)
    shapes = Work.tried_shapes(work)
    keys = if shapes && work.shares, do: %{shapes => Native.desk_key(desk, sizes, work.tried)}, else: %{}

    state = %{
      name: name,
      work: work,
      sizes: sizes,
      longest: longest,
      desk: desk,
      single: Native.desk_key(desk, [1], Enum.filter(work.tried, &match?({1, _}, &1))),
      keys: keys,
      jobs: %{},
      # Of requests, and of monitors.
      tickets: %{},
      callers: %{},
      last_caller: 0,
      runs: %{},
      timer: nil,
      members: nil,
      # Nil, or those who wait until nothing is left.
      drains: nil,
      counts: %{
        taken: 0,
        refused: 0,
        batches: 0,
        done: 0,
        failed: 0,
        lost: 0,
        expired: 0,
        left: 0,
        device_losses: 0
      }
    }

    with {:error, reason} <- join(state) do
      # Another was faster. Whoever started this one is told so, and does not end with it.
      Process.unlink(parent)
      {:stop, reason}
    end
  end

  # Whoever routes to it may be started again, and has forgotten it then.
  defp join(%{drains: nil} = state) do
    with :ok <- Members.join(state.name, state.work.takes) do
      if state.members, do: Process.demonitor(state.members, [:flush])
      {:ok, %{state | members: Process.monitor(Members)}}
    end
  end

  defp join(state), do: {:ok, state}

  defp join_later(state) do
    Process.send_after(self(), :join, 10)
    state
  end

  @impl true
  def handle_call(:drain, from, state) do
    if state.drains == nil do
      Native.desk_drain(state.desk)
      Members.tell(state.name, Native.desk_word(state.desk, state.single))
    end

    {:noreply, emptied(%{state | drains: [from | state.drains || []]})}
  end

  def handle_call(:info, _from, state),
    do: {:reply, state.desk |> Native.desk_load() |> Map.merge(state.counts), state}

  # What is there of a request that can be read: whoever asks may be of another version.
  defguardp is_request(request)
            when is_atom(:erlang.map_get(:lane, request)) and is_integer(:erlang.map_get(:items, request)) and
                   :erlang.map_get(:items, request) >= 0 and
                   :erlang.map_get(:bytes, request) in 0..@most_bytes and
                   (:erlang.map_get(:left, request) == nil or :erlang.map_get(:left, request) in 0..@most_time) and
                   is_map_key(request, :input) and is_map_key(request, :shapes)

  @impl true
  def handle_info({:ask, ref, started, from, caller, request}, state)
      when is_reference(ref) and is_reference(started) and is_pid(from) and is_request(request) do
    {key, items, state} = key(state, request)
    {number, held} = Map.get(state.callers, caller, {state.last_caller + 1, 0})
    offer = {key, request.lane, number, request.left, items, request.bytes}

    case Native.desk_offer(state.desk, offer) do
      {:ok, ticket} ->
        job = %{ref: ref, started: started, from: from, caller: caller, input: request.input, key: key}
        job = Map.merge(job, %{lane: request.lane, monitor: Process.monitor(from)})
        job = Map.put(job, :pure, Map.get(request, :pure) == true)
        tickets = Map.merge(state.tickets, %{ref => ticket, job.monitor => ticket})
        state = %{state | jobs: Map.put(state.jobs, ticket, job), tickets: tickets}
        state = %{state | callers: Map.put(state.callers, caller, {number, held + 1})}
        state = %{state | last_caller: max(state.last_caller, number)}
        report(state, :queued, %{items: items, bytes: request.bytes}, %{lane: request.lane})
        {:noreply, state |> count(:taken) |> next()}

      {:error, {code, _, text}} when code in @own_fault ->
        tell(state, ref, key, {:answer, {:error, Error.new(code, text)}})
        {:noreply, state |> refused(request.lane, code) |> next()}

      {:error, {code, _retry_after, _text} = why} ->
        tell(state, ref, key, {:refused, why})
        {:noreply, state |> refused(request.lane, code) |> next()}

      # A lane or a number that this version does not know.
      {:error, %Error{} = error} ->
        tell(state, ref, key, {:answer, {:error, error}})
        {:noreply, state |> refused(request.lane, error.code) |> next()}
    end
  end

  def handle_info({:ask, ref, _, _, _, _}, state) when is_reference(ref) do
    tell(state, ref, state.single, {:refused, {:unknown_request, 0, "it is of another version"}})
    {:noreply, refused(state, nil, :unknown_request)}
  end

  def handle_info({:cancel, ref}, state) do
    with %{^ref => ticket} <- state.tickets, do: Native.desk_gone(state.desk, ticket)
    {:noreply, next(state)}
  end

  def handle_info(:next, state), do: {:noreply, next(state)}

  # Its end is told like that of any process.
  def handle_info({:too_long, run}, state) do
    with %{^run => %{pid: pid}} <- state.runs, do: Process.exit(pid, :kill)
    {:noreply, state}
  end

  def handle_info({:left, waiting}, state) do
    Enum.each(waiting, &GenServer.reply(&1, :ok))
    {:noreply, state}
  end

  # One that is not found by others for now has its work all the same.
  def handle_info(:join, state) do
    case join(state) do
      {:ok, state} -> {:noreply, state}
      {:error, {:already_started, _} = reason} -> {:stop, reason, state}
      {:error, _} -> {:noreply, join_later(state)}
    end
  end

  # A run ended.
  def handle_info({run, result}, state) when is_map_key(state.runs, run) do
    Process.demonitor(run, [:flush])
    {:noreply, finish(state, run, result)}
  end

  def handle_info({:DOWN, run, :process, _, reason}, state) when is_map_key(state.runs, run),
    do: {:noreply, finish(state, run, {:failed, Work.failed(inspect(reason))})}

  def handle_info({:DOWN, members, :process, _, _}, %{members: members} = state) do
    {:noreply, join_later(%{state | members: nil})}
  end

  # Whoever waited for an answer is gone. A process that asks for itself has asked for nothing else.
  def handle_info({:DOWN, monitor, :process, pid, _}, state) do
    with %{^monitor => ticket} <- state.tickets, %{^ticket => job} <- state.jobs do
      case state.callers do
        %{^pid => {number, _}} when job.caller == pid -> Native.desk_caller_gone(state.desk, number)
        _ -> Native.desk_gone(state.desk, ticket)
      end
    end

    {:noreply, next(state)}
  end

  def handle_info(_other, state), do: {:noreply, state}

  ## What the desk says

  # What a request shares runs with, and for how many items it counts.
  defp key(%{work: %{shares: false}} = state, _request), do: {state.single, 1, state}

  defp key(state, %{shapes: shapes, items: items}) do
    items = min(items, @most_items)

    case state.keys do
      %{^shapes => key} ->
        {key, items, state}

      keys when map_size(keys) >= @most_shapes ->
        {state.single, 1, state}

      keys ->
        key = Native.desk_key(state.desk, state.sizes, [])
        {key, items, %{state | keys: Map.put(keys, shapes, key)}}
    end
  end

  # Begins what is to run now, and tells those whose requests ended meanwhile.
  defp next(state) do
    if state.timer, do: Process.cancel_timer(state.timer)
    next = Native.desk_next(state.desk)
    state = settle(%{state | timer: nil}, %{}, nil, %{})

    case next do
      {:run, batch} -> state |> begin(batch) |> next()
      {:wait, micros} -> %{state | timer: Process.send_after(self(), :next, div(micros + 999, 1000))}
      :idle -> emptied(state)
    end
  end

  defp begin(state, {batch, size, items, tickets}) do
    jobs = Enum.map(tickets, &Map.fetch!(state.jobs, &1))
    for job <- jobs, do: send(job.started, {job.started, :started, job.ref})
    {work, inputs} = {state.work, Enum.map(jobs, & &1.input)}
    %Task{ref: run, pid: pid} = Task.async(fn -> Work.run(work, size, inputs) end)
    if state.longest != :infinity, do: Process.send_after(self(), {:too_long, run}, state.longest)
    report(state, :batched, %{requests: length(tickets), items: items, size: size}, %{})
    run_of = %{pid: pid, batch: batch, tickets: tickets, items: items, began: System.monotonic_time()}
    count(%{state | runs: Map.put(state.runs, run, run_of)}, :batches)
  end

  defp finish(state, run, {how, made}) do
    {%{batch: batch, tickets: tickets, items: items, began: began}, runs} = Map.pop(state.runs, run)
    # What is not pure is not run again, neither with others nor alone: nobody knows how far the run came.
    once = if how == :done, do: [], else: Enum.reject(tickets, &state.jobs[&1].pure)
    Enum.each(once, &Native.desk_gone(state.desk, &1))
    :ok = Native.desk_finished(state.desk, batch, how)
    duration = System.monotonic_time() - began
    report(state, :ran, %{duration: duration, requests: length(tickets), items: items}, %{outcome: how})
    state = if how == :lost, do: count(state, :device_losses), else: state
    {outputs, error} = if how == :done, do: {Map.new(Enum.zip(tickets, made)), nil}, else: {%{}, made}
    %{state | runs: runs} |> settle(outputs, error, Map.new(once, &{&1, how})) |> next()
  end

  # Tells those whose requests ended what became of them; of some this is known better than by the desk.
  defp settle(state, outputs, error, known) do
    for {ticket, how, took, waited, runs} <- Native.desk_ended(state.desk), reduce: state do
      state ->
        how = Map.get(known, ticket, how)
        {job, jobs} = Map.pop!(state.jobs, ticket)
        Process.demonitor(job.monitor, [:flush])
        state = %{state | jobs: jobs, tickets: Map.drop(state.tickets, [job.ref, job.monitor])}
        state = %{state | callers: let_go(state.callers, job.caller)}
        answer = answer(how, runs, outputs[ticket], error)
        if answer, do: tell(state, job.ref, job.key, answer)
        times = %{duration: native(took), waited: native(waited), runs: runs}
        report(state, :answered, times, %{lane: job.lane, end: how})
        count(state, how)
    end
  end

  defp answer(:done, _runs, output, _error), do: {:answer, {:ok, output}}

  defp answer(:failed, _runs, _output, error),
    do: {:answer, {:error, error || Work.failed("no reason is known")}}

  # Another node may have a device.
  defp answer(:lost, _runs, _output, error),
    do: {:lost, error || Error.new(:device_lost, "the device was lost with it")}

  # Another may have the time.
  defp answer(:expired, 0, _output, _error), do: {:refused, {:expired, 0, "it did not start in time"}}

  defp answer(:expired, _runs, _output, _error),
    do: {:answer, {:error, Error.new(:expired, "it was not done in time")}}

  defp answer(_left, _runs, _output, _error), do: nil

  defp tell(state, ref, key, {kind, what}),
    do: send(ref, {ref, {kind, what, Native.desk_word(state.desk, key)}})

  defp let_go(callers, caller) do
    case callers do
      %{^caller => {_, 1}} -> Map.delete(callers, caller)
      %{^caller => {number, held}} -> Map.put(callers, caller, {number, held - 1})
      _ -> callers
    end
  end

  # One that drains leaves when nothing is left. What is on its way is refused, which says that nothing was run: whoever waits may end
  # this node then.
  defp emptied(%{drains: [_ | _] = waiting, jobs: jobs} = state) when jobs == %{} do
    Members.leave(state.name, state.work.takes)
    Process.send_after(self(), {:left, waiting}, @parting)
    %{state | drains: []}
  end

  defp emptied(state), do: state

  defp refused(state, lane, reason) do
    report(state, :refused, %{}, %{lane: lane, reason: reason, by: :server})
    count(state, :refused)
  end

  defp count(state, what), do: %{state | counts: Map.update(state.counts, what, 1, &(&1 + 1))}
  defp native(micros), do: System.convert_time_unit(micros, :microsecond, :native)

  defp report(state, event, measurements, metadata),
    do: Telemetry.serving(event, measurements, Map.put(metadata, :name, state.name))
end

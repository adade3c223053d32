defmodule Dala.Serving.Members do
  @moduledoc false
  # Who serves what in the cluster, as this node knows it: a router for each name and what is taken there, told of those who come and go.
  #
  # Servers are members of a group of `:pg`, `{name, takes}`. What they take is part of it, so that callers know it without asking.

  use GenServer

  require Logger

  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.{Error, Native}

  @scope Dala.Serving
  @again 10

  ## Called by anybody

  def start_link(_options), do: GenServer.start_link(__MODULE__, nil, name: __MODULE__)

  # The scope of `:pg`, under the same supervisor.
  def scope_spec, do: %{id: @scope, start: {:pg, :start_link, [@scope]}}

  # The router of a name and what is taken there, `{routes, takes}`. There are several while nodes take different things, as when one
  # version replaces another: first what most take, last what takes anything. Where nobody serves it, a router that knows nobody.
  def find(name) do
    case :ets.lookup(__MODULE__, {:name, name}) ++ :ets.lookup(__MODULE__, :nobody) do
      [{_, ways} | _] -> {:ok, ways}
      [] -> {:error, Error.new(:nif_not_loaded, Native.not_loaded() || "not loaded")}
    end
  rescue
    ArgumentError -> {:error, not_started()}
  end

  # The process behind a member's number, unless it left.
  def pid(number), do: look({:member, number})

  # The process that serves a name on this node, if it lives.
  def local(name) do
    pid = look({:local, name})
    if pid && Process.alive?(pid), do: pid
  end

  # The number of the one that serves a name on a node, if there is and takes this.
  def on(name, takes, node), do: look({:on, name, takes, node})

  defp look(key) do
    case :ets.lookup(__MODULE__, key) do
      [{_, pid}] -> pid
      [] -> nil
    end
  rescue
    ArgumentError -> nil
  end

  # Whoever sends to a node whose connection is full, as that of one that is frozen, is suspended until it is not, which may be a minute. From
  # OTP 25.3 on a process can be spared that. Gives what it was before.
  def never_suspended(never? \\ true) do
    :erlang.process_flag(:async_dist, never?)
  rescue
    ArgumentError -> false
  end

  ## Called by servers

  # The calling process serves a name from now on, here and in the cluster.
  def join(name, takes) do
    with :ok <- Compute.Server.ask(__MODULE__, {:join, name, takes, self()}, 120_000) do
      group = {name, takes}
      if self() not in :pg.get_local_members(@scope, group), do: :pg.join(@scope, group, self())
      :ok
    end
  catch
    # Its process is about to be started again, and this one is told then.
    :exit, _ -> :ok
  end

  def leave(name, takes) do
    :pg.leave(@scope, {name, takes}, self())
    GenServer.call(__MODULE__, {:leave, name, self()})
  catch
    :exit, _ -> :ok
  end

  # Tells all nodes what this one says of itself, without being asked.
  def tell(name, word) do
    for node <- [node() | Node.list()], do: send({__MODULE__, node}, {:word, name, self(), word})
    :ok
  end

  defp not_started, do: Error.new(:not_started, "the application :dala_compute is not started")

  ## The process

  @impl true
  def init(nil) do
    :ets.new(__MODULE__, [:named_table, :protected, read_concurrency: true])
    if Native.not_loaded() == nil, do: :ets.insert(__MODULE__, {:nobody, [{Native.routes(), :anything}]})
    {:ok, %{scope: nil, watch: nil, numbers: %{}, ways: %{}}, {:continue, :watch}}
  end

  @impl true
  def handle_continue(:watch, state), do: {:noreply, watch(state)}

  @impl true
  def handle_call({:join, name, takes, pid}, _from, state) do
    case local(name) do
      other when other in [nil, pid] ->
        if other == nil, do: Process.monitor(pid)
        if not groups?(), do: Logger.warning("Dala.Serving finds no other nodes before OTP 25.1")
        :ets.insert(__MODULE__, {{:local, name}, pid})
        {:reply, :ok, join(state, name, takes, pid)}

      other ->
        {:reply, {:error, {:already_started, other}}, state}
    end
  end

  def handle_call({:leave, name, pid}, _from, state) do
    :ets.delete_object(__MODULE__, {{:local, name}, pid})
    {:reply, :ok, leave(state, name, pid)}
  end

  @impl true
  def handle_info({watch, :join, {name, takes}, pids}, %{watch: watch} = state),
    do: {:noreply, Enum.reduce(pids, state, &join(&2, name, takes, &1))}

  def handle_info({watch, :leave, {name, _takes}, pids}, %{watch: watch} = state),
    do: {:noreply, Enum.reduce(pids, state, &leave(&2, name, &1))}

  def handle_info({:word, name, pid, word}, state) do
    with %{{^name, ^pid} => {number, takes}} <- state.numbers,
         do: Native.routes_heard(elem(state.ways[name][takes], 0), number, word)

    {:noreply, state}
  end

  def handle_info(:watch, state), do: {:noreply, watch(state)}

  # Without the scope nobody knows who else serves. It is started again, and those of this node join it anew.
  def handle_info({:DOWN, scope, :process, _, _}, %{scope: scope} = state) do
    others = Enum.reject(Map.keys(state.numbers), &local?/1)
    state = Enum.reduce(others, state, fn {name, pid}, state -> leave(state, name, pid) end)
    {:noreply, watch(%{state | scope: nil, watch: nil})}
  end

  def handle_info({:DOWN, _, :process, pid, _}, state) do
    :ets.match_delete(__MODULE__, {{:local, :_}, pid})
    names = for {name, ^pid} <- Map.keys(state.numbers), do: name
    {:noreply, Enum.reduce(names, state, &leave(&2, &1, pid))}
  end

  def handle_info(_other, state), do: {:noreply, state}

  # Whether one can be told of all groups.
  defp groups?, do: Code.ensure_loaded?(:pg) and function_exported?(:pg, :monitor_scope, 1)

  # Hears of all groups from now on, as soon as there is a scope.
  defp watch(%{watch: nil} = state) do
    case groups?() && Process.whereis(@scope) do
      false -> state
      nil -> watch_later(state)
      pid -> watch(state, Process.monitor(pid))
    end
  catch
    :exit, _ -> watch_later(state)
  end

  defp watch(state), do: state

  defp watch(state, scope) do
    {watch, groups} = :pg.monitor_scope(@scope)
    for {_, pid} = member <- Map.keys(state.numbers), local?(member), do: send(pid, :join)

    for {{name, takes}, pids} <- groups, pid <- pids, reduce: %{state | scope: scope, watch: watch} do
      state -> join(state, name, takes, pid)
    end
  end

  defp watch_later(state) do
    Process.send_after(self(), :watch, @again)
    state
  end

  defp local?({name, pid}), do: local(name) == pid

  defp join(state, name, _takes, pid) when is_map_key(state.numbers, {name, pid}), do: state

  # What another version may take is not known here.
  defp join(state, name, takes, pid) do
    if Native.not_loaded() || not known?(takes) do
      state
    else
      # Never one that was given before this process was started again: requests that were sent then still have it.
      number = System.unique_integer([:positive, :monotonic])
      {routes, count} = state.ways[name][takes] || {Native.routes(), 0}
      :ets.insert(__MODULE__, [{{:member, number}, pid}, {{:on, name, takes, node(pid)}, number}])
      Native.routes_join(routes, number)
      state = %{state | numbers: Map.put(state.numbers, {name, pid}, {number, takes})}
      list(state, name, Map.put(state.ways[name] || %{}, takes, {routes, count + 1}))
    end
  end

  defp known?(:anything), do: true

  defp known?(takes) do
    input? = &match?({name, type, dims} when is_binary(name) and is_atom(type) and is_list(dims), &1)
    is_list(takes) and not List.improper?(takes) and Enum.all?(takes, input?)
  end

  defp leave(state, name, pid) do
    case Map.pop(state.numbers, {name, pid}) do
      {nil, _} ->
        state

      {{number, takes}, numbers} ->
        {{routes, count}, others} = Map.pop!(state.ways[name], takes)
        Native.routes_leave(routes, number)
        :ets.delete(__MODULE__, {:member, number})
        :ets.delete_object(__MODULE__, {{:on, name, takes, node(pid)}, number})
        ways = if count > 1, do: Map.put(others, takes, {routes, count - 1}), else: others
        list(%{state | numbers: numbers}, name, ways)
    end
  end

  # Nothing is kept of a name that nobody serves.
  defp list(state, name, ways) when ways == %{} do
    :ets.delete(__MODULE__, {:name, name})
    %{state | ways: Map.delete(state.ways, name)}
  end

  defp list(state, name, ways) do
    order = Enum.sort_by(ways, fn {takes, {_, count}} -> {takes == :anything, -count} end)
    :ets.insert(__MODULE__, {{:name, name}, for({takes, {routes, _}} <- order, do: {routes, takes})})
    %{state | ways: Map.put(state.ways, name, ways)}
  end
end

defmodule Dala.ML.Plans do
  @moduledoc false
  # What pipelines of models were compiled to, for the pictures that came last. Compiling one takes a while and gives it its own
  # copy of the weights, so that it is done once for each kind of picture, and only a few are kept.
  use GenServer

  alias Dala.Gpu.Compute.{Error, Server}

  @most 4

  def start_link(_options), do: GenServer.start_link(__MODULE__, nil, name: __MODULE__)

  # The plan of a key; made by the function, in a process of its own, if it is not there: `{:ok, plan}` or `{:error, error}`.
  def get(key, make), do: Server.ask(__MODULE__, {:get, key, make}, :infinity)

  # Gives up what is kept, also by the caller, if it has predicted something.
  def forget do
    :erlang.garbage_collect()
    GenServer.call(__MODULE__, :forget, :infinity)
  catch
    # Then there is nothing.
    :exit, _ -> :ok
  end

  # `plans` has the last used first; `making` has who waits for a key that is being made.
  @impl true
  def init(nil), do: {:ok, %{plans: [], making: %{}}}

  @impl true
  def handle_call({:get, key, make}, from, state) do
    case {List.keytake(state.plans, key, 0), state.making} do
      {{{^key, plan}, others}, _} ->
        {:reply, {:ok, plan}, %{state | plans: [{key, plan} | others]}}

      {nil, %{^key => {monitor, waiting}}} ->
        {:noreply, put_in(state.making[key], {monitor, [from | waiting]})}

      {nil, _} ->
        {_pid, monitor} = spawn_monitor(fn -> exit({:made, make.()}) end)
        {:noreply, put_in(state.making[key], {monitor, [from]})}
    end
  end

  def handle_call(:forget, from, state), do: {:noreply, %{state | plans: []}, {:continue, {:collect, from}}}

  @impl true
  def handle_info({:DOWN, monitor, :process, _pid, reason}, state) do
    case Enum.find(state.making, &match?({_key, {^monitor, _waiting}}, &1)) do
      {key, {_monitor, waiting}} ->
        result = made(reason)
        Enum.each(waiting, &GenServer.reply(&1, result))
        state = %{state | making: Map.delete(state.making, key)}
        {:noreply, keep(state, key, result), {:continue, :collect}}

      nil ->
        {:noreply, state}
    end
  end

  def handle_info(_other, state), do: {:noreply, state}

  # References that are still on the heap would keep the memory of what was given up.
  @impl true
  def handle_continue(:collect, state) do
    :erlang.garbage_collect()
    {:noreply, state}
  end

  def handle_continue({:collect, from}, state) do
    :erlang.garbage_collect()
    GenServer.reply(from, :ok)
    {:noreply, state}
  end

  defp made({:made, result}), do: result
  defp made(reason), do: {:error, Error.new(:internal, "compiling a model failed: #{inspect(reason)}")}

  defp keep(state, key, {:ok, plan}), do: %{state | plans: Enum.take([{key, plan} | state.plans], @most)}
  defp keep(state, _key, {:error, _}), do: state
end

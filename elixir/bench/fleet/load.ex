defmodule Fleet.Load do
  @moduledoc false
  # Requests to a name, and what became of each of them.

  alias Fleet.Host

  @compile {:no_warn_undefined, [Nx, Nx.Batch, Nx.Serving]}

  # How long it is looked whether somebody is answered twice, in milliseconds: what was sent to a node that was frozen or cut off comes late.
  @linger 2_000

  # `how`: `rate: per_second` at random moments whatever the answers, or `callers: n`, each of which asks when it was answered. Both for
  # `seconds`. `ask` is a function of a number, from `asks/2`.
  def run(ask, how, options \\ []) do
    table = :ets.new(:requests, [:public, write_concurrency: true])
    {seconds, deadline} = {how[:seconds], Keyword.get(options, :deadline, 1_000)}
    # Those that were asked, and by how many microseconds the latest of them was asked too late.
    counters = :counters.new(2, [:atomics])
    watch = %{table: table, ask: ask, counters: counters, linger: @linger}
    # The same moments each time, so that what is compared is asked alike.
    :rand.seed(:exsss, 1)
    begun = now()
    till = begun + seconds * 1_000_000

    if how[:rate],
      do: arrive(watch, begun, till, how[:rate], 0),
      else: ask_on(watch, till, how[:callers])

    asked = :counters.get(counters, 1)
    wait(table, asked, now() + (deadline + 3_000) * 1_000)
    result = sum(table, asked, {seconds, till}, deadline)
    # More than a timer's millisecond or two: then whoever asks is what is measured.
    late = div(:counters.get(counters, 2), 1000)
    result = if late > 50, do: Map.put(result, :asked_late_ms, late), else: result
    :ets.delete(table)
    result
  end

  # On another node, which knows none of the functions of this one; what came of it is asked for later.
  def run_and_keep(what, how, options),
    do: :persistent_term.put(__MODULE__, run(asks(what, options), how, options))

  def kept, do: :persistent_term.get(__MODULE__, nil)

  defp arrive(watch, at, till, rate, number) do
    time = now()

    cond do
      at >= till ->
        :ok

      at > time ->
        Process.sleep(1)
        arrive(watch, at, till, rate, number)

      true ->
        :counters.add(watch.counters, 1, 1)
        if time - at > :counters.get(watch.counters, 2), do: :counters.put(watch.counters, 2, time - at)
        spawn(fn -> request(watch, number) end)
        arrive(watch, at + round(-:math.log(1 - :rand.uniform()) * 1_000_000 / rate), till, rate, number + 1)
    end
  end

  defp ask_on(watch, till, callers) do
    for caller <- 1..callers do
      spawn_monitor(fn ->
        numbers = Stream.iterate(caller, &(&1 + callers))

        Enum.take_while(numbers, fn number ->
          :counters.add(watch.counters, 1, 1)
          request(%{watch | linger: 0}, number)
          now() < till
        end)
      end)
    end
    |> Enum.each(fn {_, monitor} -> receive(do: ({:DOWN, ^monitor, _, _, _} -> :ok)) end)
  end

  defp request(watch, number) do
    begun = now()
    outcome = watch.ask.(number)
    ended = now()
    row = {number, outcome, ended - begun, ended}
    # An answer that is there twice, and one that comes when nobody waits any more.
    if not :ets.insert_new(watch.table, row), do: doubled(watch, number)
    Process.sleep(watch.linger)
    with {:messages, [_ | _]} <- Process.info(self(), :messages), do: doubled(watch, number)
  end

  defp doubled(watch, number), do: :ets.insert(watch.table, {{:doubled, number}, :doubled, 0, 0})

  defp wait(table, asked, till) do
    if :ets.info(table, :size) < asked and now() < till do
      Process.sleep(20)
      wait(table, asked, till)
    else
      Process.sleep(@linger + 100)
    end
  end

  defp sum(table, asked, {seconds, till}, deadline) do
    rows = :ets.tab2list(table)
    counts = Enum.frequencies(for {_, outcome, _, _} <- rows, do: outcome)
    answers = for {_, outcome, time, ended} <- rows, outcome in [:answered, :other], do: {time, ended}
    times = Enum.sort(for {time, _} <- answers, do: time)
    all = Enum.max(for({_, _, time, _} <- rows, do: time), fn -> 0 end)

    %{
      asked: asked,
      answered: length(times),
      # What was answered while requests came: what comes after is no part of so many seconds.
      per_second: Enum.count(answers, fn {_, ended} -> ended <= till end) / seconds,
      lost: asked - length(rows) + Map.get(counts, :doubled, 0),
      p50: at(times, 0.5),
      p99: at(times, 0.99),
      after_deadline: max(0.0, all / 1000 - deadline)
    }
    |> Map.merge(Map.drop(counts, [:answered]), fn _, a, _ -> a end)
  end

  defp at([], _), do: 0.0
  defp at(times, part), do: Enum.at(times, min(length(times) - 1, floor(part * length(times)))) / 1000

  ## What is asked, each a function that gives `:answered`, `:other` for the other model, `:wrong`, or the reason why not

  def asks(what, options \\ [])

  def asks(:model, options) do
    options = Keyword.merge([deadline: 1_000], options)
    fn number -> model(number, Host.floats(number), options) end
  end

  # Every 50th makes a run fail: exactly these have to.
  def asks(:poisoned, options) do
    fn
      number when rem(number, 50) == 0 ->
        poison = "POISONPOISONPOIS" <> binary_part(Host.floats(number), 16, Host.width() * 4 - 16)

        case Dala.Serving.run(:model, poison, options) do
          {:ok, _} -> :wrong
          {:error, %{code: code}} when code in [:refused, :expired] -> code
          {:error, _} -> :failed_as_it_should
        end

      number ->
        model(number, Host.floats(number), options)
    end
  end

  def asks(:function, options),
    do: fn number -> ended(Dala.Serving.run(:function, number, options), number) end

  # May be done at most once.
  def asks(:once, options) do
    fn number -> ended(Dala.Serving.run(:function, {:once, number}, options), {:once, number}) end
  end

  def asks(:nx, _options) do
    fn number ->
      try do
        row = Nx.from_binary(Host.floats(number), :f32)
        answer = Nx.Serving.batched_run({:distributed, :nx}, Nx.Batch.stack([row]))
        if Nx.to_binary(answer) == Host.floats(number), do: :answered, else: :wrong
      catch
        :exit, _ -> :exits
        :error, _ -> :raises
      end
    end
  end

  defp model(number, floats, options) do
    {same, other} = Host.answer(number)

    case Dala.Serving.run(:model, floats, options) do
      {:ok, %{"y" => {^same, _, _}}} -> :answered
      {:ok, %{"y" => {^other, _, _}}} -> :other
      answer -> ended(answer, nil)
    end
  end

  defp ended({:ok, same}, same), do: :answered
  defp ended({:ok, _}, _), do: :wrong
  defp ended({:error, %{code: code}}, _), do: code

  def now, do: System.monotonic_time(:microsecond)
end

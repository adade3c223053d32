defmodule Eventually do
  @moduledoc false
  # Waits for what other processes and threads do in their own time.

  @doc "Whether the check holds within so many milliseconds; gives what it gave, or false."
  def eventually(check, within \\ 60_000),
    do: eventually_until(check, System.monotonic_time(:millisecond) + within)

  defp eventually_until(check, until) do
    # Read before the check: the last one is made after that time.
    over? = System.monotonic_time(:millisecond) >= until
    held = check.()

    cond do
      held ->
        held

      over? ->
        false

      true ->
        Process.sleep(10)
        eventually_until(check, until)
    end
  end

  @doc """
  What the device holds, when nothing of what tests before left is still to be given back: any process may hold buffers that
  nobody needs until it collects its garbage.
  """
  def settled_memory(seen \\ nil, times \\ 0) do
    for process <- Process.list(), do: :erlang.garbage_collect(process)
    memory = Map.take(Dala.Gpu.Compute.memory(), [:live, :buffers])

    # For longer than any thread that gives something back may stand still.
    case if(memory == seen, do: times + 1, else: 0) do
      15 ->
        memory

      times ->
        Process.sleep(20)
        settled_memory(memory, times)
    end
  end
end

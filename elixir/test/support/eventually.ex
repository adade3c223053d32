defmodule Eventually do
  @moduledoc false
  # Waits for what other processes and threads do in their own time.

  @doc "Whether the check holds within so many tries, 10 ms apart."
  def eventually(check, tries \\ 200)
  def eventually(check, 0), do: check.()
  def eventually(check, tries), do: check.() || (Process.sleep(10) && eventually(check, tries - 1))

  @doc """
  What the device holds, when nothing of what tests before left is still to be given back: any process may hold buffers that
  nobody needs until it collects its garbage.
  """
  def settled_memory(seen \\ nil, times \\ 0) do
    for process <- Process.list(), do: :erlang.garbage_collect(process)
    memory = Map.take(Dala.Gpu.Compute.memory(), [:live, :buffers])

    case if(memory == seen, do: times + 1, else: 0) do
      3 ->
        memory

      times ->
        Process.sleep(20)
        settled_memory(memory, times)
    end
  end
end

defmodule Dala.Test.Serving do
  @moduledoc false
  # What other nodes are told to do: they know modules, and none of the functions that tests write.

  @doc "Serves `name` by `square/1`, from a process that stays."
  def start(name, batch) do
    {parent, tag} = {self(), make_ref()}

    spawn(fn ->
      {:ok, _} = Dala.Serving.start_link(name: name, run: &__MODULE__.square/1, batch: batch)
      send(parent, tag)
      Process.sleep(:infinity)
    end)

    receive do
      ^tag -> :ok
    after
      120_000 -> :timeout
    end
  end

  @doc "Squares, where they were made; takes a few milliseconds."
  def square(numbers) do
    Process.sleep(4)
    Enum.map(numbers, &{node(), &1 * &1})
  end
end

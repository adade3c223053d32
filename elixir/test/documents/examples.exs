defmodule Documents.Examples do
  @moduledoc false
  # The code examples of the documents, word for word, and those of them that had to be edited. They end in `.txt`, because
  # the formatter would change them.

  @suffix ".exs.txt"

  def names, do: names("original")
  def edited, do: names("edited")

  defp names(folder) do
    for file <- Enum.sort(File.ls!(Path.join(__DIR__, folder))), do: String.replace_suffix(file, @suffix, "")
  end

  def original(name), do: File.read!(path("original", name))

  # What is run.
  def text(name) do
    edited = path("edited", name)
    if File.exists?(edited), do: File.read!(edited), else: original(name)
  end

  defp path(folder, name), do: Path.join([__DIR__, folder, name <> @suffix])

  def expressions(text) do
    case Code.string_to_quoted!(text) do
      {:__block__, _, expressions} -> expressions
      expression -> [expression]
    end
  end

  # One expression after the other, so that what the first ones gave is not lost. Gives the results and the variables.
  def run(expressions, binding) do
    Enum.map_reduce(expressions, binding, &Code.eval_quoted/2)
  end

  # What was edited, with the line of the original, or the one after which something new stands.
  def changes(name) do
    lines = &String.split(&1, "\n")
    difference = List.myers_difference(lines.(original(name)), lines.(text(name)))
    Enum.join(hunks(difference, name, 1))
  end

  defp hunks([{:eq, same} | rest], name, line), do: hunks(rest, name, line + length(same))

  defp hunks([{:del, old}, {:ins, new} | rest], name, line),
    do: [hunk(name, "line #{line}", old, new) | hunks(rest, name, line + length(old))]

  defp hunks([{:del, old} | rest], name, line),
    do: [hunk(name, "line #{line}", old, []) | hunks(rest, name, line + length(old))]

  defp hunks([{:ins, new} | rest], name, line),
    do: [hunk(name, "after line #{line - 1}", [], new) | hunks(rest, name, line)]

  defp hunks([], _name, _line), do: []

  defp hunk(name, place, old, new) do
    lines = ["@@ #{name}, #{place}"] ++ Enum.map(old, &("-" <> &1)) ++ Enum.map(new, &("+" <> &1))
    Enum.map_join(lines, &(&1 <> "\n"))
  end
end

defmodule Dala.Test.Livemd do
  @moduledoc false
  # Notebooks as Livebook stores them: Markdown with cells of code, each followed by its output if that was kept.

  @output ~s(<!-- livebook:{"output":true} -->)

  # The setup cell, and the others: `%{code: text, output: text or nil, line: number}`.
  def read!(path) do
    lines = path |> File.read!() |> String.split("\n")
    [%{output: nil} = setup | cells] = cells(lines, 1, [])
    {setup, cells}
  end

  defp cells([], _line, cells), do: Enum.reverse(cells)

  defp cells(["```elixir" | rest], line, cells) do
    {code, rest} = fenced(rest)
    cell = %{code: Enum.join(code, "\n"), output: nil, line: line + 1}
    cells(rest, line + length(code) + 2, [cell | cells])
  end

  defp cells([@output, "", "```" | rest], line, [%{output: nil} = cell | cells]) do
    {output, rest} = fenced(rest)
    cells(rest, line + length(output) + 4, [%{cell | output: Enum.join(output, "\n")} | cells])
  end

  # A mark that nothing follows would be an output that nobody compares.
  defp cells([@output | _], line, _cells), do: raise("line #{line}: an output without a cell or a block")
  defp cells([_ | rest], line, cells), do: cells(rest, line + 1, cells)

  defp fenced(lines) do
    {inside, ["```" | rest]} = Enum.split_while(lines, &(&1 != "```"))
    {inside, rest}
  end

  # The result of each cell. Cells share variables, aliases and imports, as in Livebook.
  def run(cells, path) do
    {results, _} =
      Enum.map_reduce(cells, {[], Code.env_for_eval(file: path)}, fn cell, {binding, env} ->
        quoted = Code.string_to_quoted!(cell.code, file: path, line: cell.line)
        {result, binding, env} = Code.eval_quoted_with_env(quoted, binding, env)
        {result, {binding, env}}
      end)

    results
  end
end

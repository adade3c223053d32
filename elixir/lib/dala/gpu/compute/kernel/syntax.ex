defmodule Dala.Gpu.Compute.Kernel.Syntax do
  @moduledoc false
  # Quoted Elixir to the text of an expression, as the body of `kernel :name do ... end`.
  #
  # Only the form is looked at here. Names and the number of arguments are checked where the text is read:
  # there the inputs, the params and the functions are known.

  # How strongly an operator binds in an expression. What binds weaker than what is around it needs
  # parentheses.
  @any 0
  @comparison 3
  @prefix 6
  @primary 7

  @infix %{
    :|| => {"||", 1},
    :or => {"||", 1},
    :&& => {"&&", 2},
    :and => {"&&", 2},
    :< => {"<", @comparison},
    :<= => {"<=", @comparison},
    :> => {">", @comparison},
    :>= => {">=", @comparison},
    :== => {"==", @comparison},
    :!= => {"!=", @comparison},
    :+ => {"+", 4},
    :- => {"-", 4},
    :* => {"*", 5},
    :/ => {"/", 5},
    :rem => {"%", 5}
  }
  @infix_names Map.keys(@infix)
  @orderings [:<, :<=, :>, :>=]
  @comparisons [:==, :!= | @orderings]
  @channels [:r, :g, :b, :a]

  # A local is written out wherever it is used, so that a few lines can grow without end: `y = y * y`.
  @longest_text 65_536

  @allowed "allowed are numbers, true, false, names, + - * / ** rem(a, b), comparisons, && || ! and or, " <>
             "not, if with else, cond that ends with true, function calls, the channels x.r x.g x.b x.a, " <>
             "and lines that name a value (y = x * 2)"

  @doc """
  The expression that `ast` stands for.

  Raises `CompileError`, with `file` and the line, for code that has no equal in an expression.
  """
  @spec to_expression(Macro.t(), Path.t()) :: String.t()
  def to_expression(ast, file \\ "nofile") do
    context = %{locals: %{}, line: nil, file: file}
    {text, _strength} = ast |> body(context) |> check_length(context)
    text
  end

  # Every value is a pair of its text and how strongly its outermost operator binds.

  defp value(number, _context) when is_integer(number) or is_float(number) do
    {to_string(number), if(negative?(number), do: @prefix, else: @primary)}
  end

  defp value(truth, _context) when is_boolean(truth), do: {to_string(truth), @primary}

  defp value({:__block__, meta, lines}, context), do: block(lines, at(meta, context))

  defp value({op, meta, [a, b]} = ast, context) when op in @infix_names do
    context = at(meta, context)
    if op in @orderings, do: refuse_chain(a, b, ast, context)
    {symbol, strength} = @infix[op]
    # Comparisons do not chain, so both sides of one need parentheses around another.
    left = if op in @comparisons, do: strength + 1, else: strength
    {inside(a, left, context) <> " #{symbol} " <> inside(b, strength + 1, context), strength}
  end

  defp value({:**, meta, [a, b]}, context), do: call("pow", [a, b], at(meta, context))
  # Two signs in a row would be hard to read: `-(-x)`.
  defp value({:-, meta, [a]}, context), do: {"-" <> inside(a, @primary, at(meta, context)), @prefix}
  defp value({:+, meta, [a]}, context), do: value(a, at(meta, context))

  defp value({op, meta, [a]}, context) when op in [:!, :not] do
    {"!" <> inside(a, @prefix, at(meta, context)), @prefix}
  end

  defp value({:if, meta, [condition, branches]} = ast, context) do
    context = at(meta, context)

    with true <- Keyword.keyword?(branches),
         [do: yes, else: no] <- Enum.sort_by(branches, &elem(&1, 0)) do
      select(condition, yes, body(no, context), context)
    else
      _ -> refuse(ast, "an if needs do and else, because every element has a value", context)
    end
  end

  defp value({:cond, meta, [[do: [_ | _] = clauses]]} = ast, context) do
    context = at(meta, context)

    with true <- Enum.all?(clauses, &match?({:->, _, [[_condition], _body]}, &1)),
         [{:->, _, [[true], last]} | earlier] <- Enum.reverse(clauses) do
      Enum.reduce(earlier, body(last, context), fn {:->, meta, [[condition], yes]}, otherwise ->
        select(condition, yes, otherwise, at(meta, context))
      end)
    else
      _ ->
        refuse(ast, "the last clause of a cond is `true -> ...`, because every element has a value", context)
    end
  end

  defp value({{:., _, [base, channel]}, meta, []} = ast, context) when channel in @channels do
    context = at(meta, context)

    with true <- Keyword.get(meta, :no_parens, false),
         {name, variable_meta, scope} when is_atom(name) and is_atom(scope) <- base,
         {text, @primary} <- value({name, variable_meta, scope}, context),
         true <- name?(text) do
      {"#{text}.#{channel}", @primary}
    else
      _ -> refuse(ast, "only inputs have channels: x.r, x.g, x.b, x.a", context)
    end
  end

  defp value({:=, meta, [_, _]} = ast, context) do
    refuse(ast, "a value is named on a line of its own", at(meta, context))
  end

  defp value({name, meta, scope} = ast, context) when is_atom(name) and is_atom(scope) do
    context = at(meta, context)

    case context.locals do
      %{^name => local} -> local
      _ -> if name?(name), do: {to_string(name), @primary}, else: refuse(ast, context)
    end
  end

  defp value({form, meta, _} = ast, context) when form in [:__aliases__, :fn] do
    refuse(ast, at(meta, context))
  end

  defp value({name, meta, arguments} = ast, context) when is_atom(name) and is_list(arguments) do
    context = at(meta, context)

    # A list among the arguments is a `do` block or options, which no function of an expression has.
    if not name?(name) or name == :rem or Macro.operator?(name, length(arguments)) or
         Enum.any?(arguments, &is_list/1) do
      refuse(ast, context)
    else
      call(to_string(name), arguments, context)
    end
  end

  defp value({_, meta, _} = ast, context) when is_list(meta), do: refuse(ast, at(meta, context))
  defp value(other, context), do: refuse(other, context)

  defp call(name, arguments, context) do
    {"#{name}(#{Enum.map_join(arguments, ", ", &inside(&1, @any, context))})", @primary}
  end

  defp select(condition, yes, {otherwise, _strength}, context) do
    {chosen, _strength} = body(yes, context)
    {"select(#{inside(condition, @any, context)}, #{chosen}, #{otherwise})", @primary}
  end

  # Code between `do` and `end`. Names given there end with it, as in Elixir.
  defp body({:__block__, meta, lines}, context), do: block(lines, at(meta, context))
  defp body(line, context), do: block([line], context)

  defp block([], context), do: refuse_because("the kernel is empty: it needs a value", context)

  defp block([{:=, meta, [_, _]} = last], context) do
    {_name, value} = assigned(last, at(meta, context))
    value
  end

  defp block([last], context), do: value(last, context)

  defp block([{:=, meta, [_, _]} = line | rest], context) do
    {name, local} = assigned(line, at(meta, context))
    block(rest, put_in(context.locals[name], local))
  end

  defp block([unused | _], context) do
    context = at(unused, context)
    refuse(unused, "its value is not used: name it (y = ...) or make it the last line", context)
  end

  defp assigned({:=, _, [{name, _, scope}, right]}, context)
       when is_atom(name) and is_atom(scope) and name != :_ do
    {name, right |> value(context) |> check_length(context)}
  end

  defp assigned(ast, context), do: refuse(ast, "only a name can stand left of =", context)

  # The text of `ast` where an operator of strength `around` surrounds it.
  defp inside(ast, around, context) do
    {text, strength} = value(ast, context)
    if strength < around, do: "(#{text})", else: text
  end

  # `0 < x < 1` is `(0 < x) < 1` in Elixir: never what was meant.
  defp refuse_chain({op, _, [_, _]}, right, ast, context) when op in @orderings do
    unless match?({op, _, [_, _]} when op in @comparisons, right) do
      refuse(ast, "comparisons do not chain: use &&", context)
    end
  end

  defp refuse_chain(_left, _right, _ast, _context), do: :ok

  defp check_length({text, _strength} = value, context) do
    if byte_size(text) > @longest_text do
      refuse_because(
        "the text grows past #{@longest_text} bytes: a named value is written out wherever it is used",
        context
      )
    end

    value
  end

  # -0.0 is not below zero, but it is written with a minus.
  defp negative?(number), do: number < 0 or (is_float(number) and <<number::float>> == <<-0.0::float>>)

  defp name?(name), do: to_string(name) =~ ~r/\A[\p{L}_][\p{L}\p{N}_]*\z/u and name not in [:_, "_"]

  # The nearest line known: numbers and atoms carry none.
  defp at(meta, context) when is_list(meta), do: %{context | line: Keyword.get(meta, :line, context.line)}
  defp at({_, meta, _}, context) when is_list(meta), do: at(meta, context)
  defp at(_ast, context), do: context

  defp refuse(ast, context), do: refuse(ast, @allowed, context)

  defp refuse(ast, hint, context),
    do: refuse_because("`#{show(ast)}` cannot be part of a kernel: #{hint}", context)

  defp refuse_because(message, context) do
    raise CompileError, file: context.file, line: context.line, description: message
  end

  defp show(ast) do
    text = ast |> Macro.to_string() |> String.replace(~r/\s+/, " ")
    if String.length(text) > 60, do: String.slice(text, 0, 57) <> "...", else: text
  end
end

defmodule Dala.Gpu.Compute.Kernel.SyntaxTest do
  use ExUnit.Case, async: true

  import Dala.Gpu.Compute.Kernel.Syntax

  # What a kernel's author writes, with lines.
  defp text(source), do: source |> Code.string_to_quoted!() |> to_expression("kernels.ex")

  defp assert_texts(pairs) do
    for {source, expected} <- pairs, do: assert({source, text(source)} == {source, expected})
  end

  test "numbers, truth values and names" do
    assert_texts([
      {"2", "2"},
      {"1_000", "1000"},
      {"0xFF", "255"},
      {"0.5", "0.5"},
      {"1.0e-10", "1.0e-10"},
      {"1.5e300", "1.5e300"},
      {"true", "true"},
      {"false", "false"},
      {"x", "x"},
      {"gain_2", "gain_2"},
      {"index", "index"},
      {"channel", "channel"}
    ])
  end

  test "arithmetic keeps its order" do
    assert_texts([
      {"a + b - c", "a + b - c"},
      {"a - (b - c)", "a - (b - c)"},
      {"a + (b + c)", "a + (b + c)"},
      {"(a + b) * c", "(a + b) * c"},
      {"a + b * c", "a + b * c"},
      {"a / (b * c)", "a / (b * c)"},
      {"a / b * c", "a / b * c"},
      {"rem(index, 2)", "index % 2"},
      {"rem(a + 1, b * 2)", "(a + 1) % (b * 2)"},
      {"a * rem(b, c)", "a * (b % c)"},
      {"rem(a, b) * c", "a % b * c"},
      {"a ** 2", "pow(a, 2)"},
      {"2 ** a ** b", "pow(pow(2, a), b)"},
      {"pow(a + 1, 2)", "pow(a + 1, 2)"}
    ])
  end

  test "signs" do
    assert_texts([
      {"-x", "-x"},
      {"-1", "-1"},
      {"+x", "x"},
      {"-(x + 1)", "-(x + 1)"},
      {"-x * 2", "-x * 2"},
      {"-(x * 2)", "-(x * 2)"},
      {"a - -b", "a - -b"},
      {"a - (-1)", "a - -1"},
      {"-(-x)", "-(-x)"},
      {"-x.r", "-x.r"}
    ])

    # Numbers that a macro put in are not written by anyone.
    assert to_expression(quote do: x - unquote(-3)) == "x - -3"
    assert to_expression(quote do: -unquote(-3)) == "-(-3)"
    assert to_expression(quote do: unquote(-0.0) + x) == "-0.0 + x"
  end

  test "comparison and logic" do
    assert_texts([
      {"a < b", "a < b"},
      {"a <= b && b >= c", "a <= b && b >= c"},
      {"a == b or a != c", "a == b || a != c"},
      {"a > 0 and b > 0 or c > 0", "a > 0 && b > 0 || c > 0"},
      {"a > 0 and (b > 0 or c > 0)", "a > 0 && (b > 0 || c > 0)"},
      {"!(a < b)", "!(a < b)"},
      {"not (a < b)", "!(a < b)"},
      {"(!a) && b", "!a && b"},
      {"(a < b) == (c < d)", "(a < b) == (c < d)"},
      {"a < b == c < d", "(a < b) == (c < d)"},
      {"a + 1 < b * 2", "a + 1 < b * 2"},
      {"(a < b) + 1", "(a < b) + 1"}
    ])
  end

  test "choices" do
    assert_texts([
      {"if x > 0, do: x, else: 0", "select(x > 0, x, 0)"},
      {"if x > 0, else: 0, do: x", "select(x > 0, x, 0)"},
      {"if x > 0 do\n  x * 2\nelse\n  -x\nend", "select(x > 0, x * 2, -x)"},
      {"1 + if(x > 0, do: 2, else: 3) * 2", "1 + select(x > 0, 2, 3) * 2"},
      {"cond do\n x < 0 -> 0\n x > 1 -> 1\n true -> x\nend", "select(x < 0, 0, select(x > 1, 1, x))"},
      {"if x > 0, do: y = x, else: 0", "select(x > 0, x, 0)"},
      {"cond do\n x < 0 ->\n  y = x + 1\n  y * 2\n true -> x\nend", "select(x < 0, (x + 1) * 2, x)"},
      {"cond do\n true -> x + 1\nend", "x + 1"},
      {"2 * cond do\n true -> x + 1\nend", "2 * (x + 1)"}
    ])
  end

  test "calls and channels" do
    assert_texts([
      {"clamp(x * gain + bias, 0, 1)", "clamp(x * gain + bias, 0, 1)"},
      {"f32(coord(1)) / f32(dim(1))", "f32(coord(1)) / f32(dim(1))"},
      {"gather(table, s32(x) + 1)", "gather(table, s32(x) + 1)"},
      {"0.299 * x.r + 0.587 * x.g + 0.114 * x.b", "0.299 * x.r + 0.587 * x.g + 0.114 * x.b"},
      {"channel(x, 2) * x.a", "channel(x, 2) * x.a"}
    ])
  end

  test "named values are put in where they are used" do
    assert_texts([
      {"y = x * gain\ny + 1", "x * gain + 1"},
      {"y = x + gain\ny * y", "(x + gain) * (x + gain)"},
      {"y = x + 1\n-y", "-(x + 1)"},
      {"y = -x\na - y", "a - -x"},
      {"y = x\ny.r", "x.r"},
      {"a = 1\ncoord(a)", "coord(1)"},
      {"y = x + 1\nclamp(y, 0, 1)", "clamp(x + 1, 0, 1)"},
      {"a = x - 1\nb = a - 2\nc - b", "c - (x - 1 - 2)"},
      # The latest value counts, and earlier ones keep theirs.
      {"y = x + 1\nz = y\ny = y * 2\ny - z", "(x + 1) * 2 - (x + 1)"},
      # An input may get another meaning.
      {"y = x\nx = 2\nx * y", "2 * x"},
      {"y = x * 2", "x * 2"},
      # A name given in a branch ends with it.
      {"y = 1\nz = if x > 0 do\n  y = x * 2\n  y + 1\nelse\n  y\nend\nz + y",
       "select(x > 0, x * 2 + 1, 1) + 1"}
    ])
  end

  test "other code is refused with file and line" do
    for {source, snippet} <- [
          {"x\n|> relu()", "x |> relu()"},
          {"x + :math.sin(x)", ":math.sin(x)"},
          {"case x do\n 1 -> 2\nend", "case x do 1 -> 2 end"},
          {"fn a -> a end", "fn a -> a end"},
          {"x in y", "x in y"},
          {"&(&1 + x)", "&(&1 + x)"},
          {"\"text\"", "\"text\""},
          {"[x]", "[x]"},
          {"{x, y}", "{x, y}"},
          {"{x, y, z}", "{x, y, z}"},
          {"nil", "nil"},
          {":infinity", ":infinity"},
          {"x === y", "x === y"},
          {"x <> y", "x <> y"},
          {"@gain * x", "@gain"},
          {"done?", "done?"},
          {"check!(x)", "check!(x)"},
          {"f.(x)", "f.(x)"},
          {"Foo", "Foo"},
          {"%{a: x}", "%{a: x}"},
          {"rem(x)", "rem(x)"},
          {"relu(x, slope: 2)", "relu(x, slope: 2)"},
          {"_ + 1", "_"},
          {"x.q", "x.q"}
        ] do
      error = assert_raise CompileError, fn -> text(source) end
      message = Exception.message(error)

      assert message =~ "`#{snippet}` cannot be part of a kernel: allowed are numbers",
             "in #{source}: #{message}"
    end
  end

  test "the line is that of the code" do
    error = assert_raise CompileError, fn -> text("y = x * 2\nz = 3\n\ny + \"three\"") end
    assert {error.file, error.line} == {"kernels.ex", 4}
    assert Exception.message(error) =~ ~r/\Akernels.ex:4: `"three"` cannot/

    error = assert_raise CompileError, fn -> text("y = x * 2\ny = [1]\ny") end
    assert error.line == 2
  end

  test "near misses say what to write" do
    for {source, hint} <- [
          {"if x > 0, do: x", "an if needs do and else"},
          {"if(x > 0, x)", "an if needs do and else"},
          {"cond do\n x > 0 -> 1\nend", "the last clause of a cond is `true -> ...`"},
          {"cond do\n a, b -> 1\n true -> 2\nend", "the last clause of a cond"},
          {"0 < x < 1", "comparisons do not chain: use &&"},
          {"0 <= x + 1 < 1", "comparisons do not chain: use &&"},
          {"y = x * 2\ny.r", "only inputs have channels"},
          {"(x + 1).r", "only inputs have channels"},
          {"x.r()", "only inputs have channels"},
          {"x.r.g", "only inputs have channels"},
          {"y = 2\ny.r", "only inputs have channels"},
          {"x + (y = 2)", "a value is named on a line of its own"},
          {"{a, b} = x\na", "only a name can stand left of ="},
          {"_ = x\nx", "only a name can stand left of ="},
          {"x * 2\nx + 1", "its value is not used"}
        ] do
      error = assert_raise CompileError, fn -> text(source) end
      assert {source, true} == {source, Exception.message(error) =~ hint}
    end

    assert_raise CompileError, ~r/the kernel is empty/, fn -> to_expression({:__block__, [], []}) end
  end

  # Without rem, ** and if the text is Elixir too: read again, it must be the same code.
  test "parentheses keep every tree as it was" do
    :rand.seed(:exsss, {1, 2, 3})

    for _ <- 1..2_000 do
      tree = random_tree(5)
      text = to_expression(tree)
      assert {text, bare(Code.string_to_quoted!(text))} == {text, bare(tree)}
    end
  end

  @operators [:+, :-, :*, :/, :==, :!=, :&&, :||]

  defp random_tree(depth) do
    case if(depth == 0, do: 0, else: :rand.uniform(8)) do
      n when n < 2 -> Enum.random([1, 0.5, true, {:x, [], nil}, {:y, [], nil}])
      2 -> {:-, [], [random_tree(depth - 1)]}
      3 -> {:!, [], [random_tree(depth - 1)]}
      4 -> {:min, [], [random_tree(depth - 1), random_tree(depth - 1)]}
      _ -> {Enum.random(@operators), [], [random_tree(depth - 1), random_tree(depth - 1)]}
    end
  end

  # Code without lines, and without the blocks that Elixir puts around some parentheses.
  defp bare(code) do
    Macro.postwalk(code, fn
      {:__block__, _, [one]} -> one
      {name, _meta, arguments} -> {name, [], arguments}
      other -> other
    end)
  end

  test "text that grows without end is refused early" do
    source = Enum.map_join(1..40, "\n", fn _ -> "x = x * x" end)
    error = assert_raise CompileError, fn -> text(source) end
    assert Exception.message(error) =~ "a named value is written out wherever it is used"
    assert error.line in 10..20
  end

  test "terms that are no code are refused" do
    for term <- [%{a: 1}, {1, 2}, {1, 2, 3, 4}, self(), make_ref(), "x", {:a, :b, :c, :d}, {"a", [], []}] do
      assert_raise CompileError, ~r/cannot be part of a kernel/, fn -> to_expression(term) end
    end
  end
end

defmodule Dala.Gpu.Compute.Twins do
  @moduledoc false
  # Gives functions their twins, with documentation and spec:
  #
  #   * a function that may return `{:error, error}`, as its spec says, has one with a `!` that raises the error
  #   * one of `raising:` returns a value or raises, and has one called `try_` that returns `{:ok, value}` or `{:error, error}`
  #
  #     use Dala.Gpu.Compute.Twins, raising: [:read], except: [:old_run]

  alias Dala.Gpu.Compute.Error

  defmacro __using__(options) do
    quote do
      @dala_twins unquote(options)
      Module.register_attribute(__MODULE__, :dala_heads, accumulate: true)
      @on_definition unquote(__MODULE__)
      @before_compile unquote(__MODULE__)
    end
  end

  @doc false
  # Specs do not know the names and defaults of arguments.
  def __on_definition__(env, kind, name, arguments, _guards, _body) do
    if kind == :def, do: Module.put_attribute(env.module, :dala_heads, {{name, length(arguments)}, arguments})
  end

  @doc false
  defmacro __before_compile__(%{module: module}) do
    options = Module.get_attribute(module, :dala_twins)
    # Of several clauses the first, which has the defaults.
    heads = module |> Module.get_attribute(:dala_heads) |> Map.new()

    for {:spec, {:"::", _, [{name, _, types}, result]}, _} <- Module.get_attribute(module, :spec),
        {kind, twin, result} <- List.wrap(twin(name, alternatives(result), options)),
        do: define(kind, {name, twin}, heads[{name, length(types)}], types, result)
  end

  defp twin(name, results, options) do
    cond do
      name in Keyword.get(options, :except, []) -> nil
      Enum.any?(results, &error?/1) -> {:raising, :"#{name}!", raising(results)}
      name in Keyword.get(options, :raising, []) -> {:returning, :"try_#{name}", returning(results)}
      true -> nil
    end
  end

  defp define(kind, {name, twin}, arguments, types, result) do
    variables = Enum.map(arguments, &variable/1)
    call = quote do: unquote(name)(unquote_splicing(variables))

    quote do
      @doc unquote(doc(kind, "`#{name}/#{length(types)}`"))
      @doc twin_of: unquote(name)
      @spec unquote(twin)(unquote_splicing(types)) :: unquote(result)
      def unquote(twin)(unquote_splicing(arguments)), do: unquote(body(kind, call))
    end
  end

  defp doc(:raising, function), do: "The same as #{function}, or raises the error that it returns."

  defp doc(:returning, function),
    do: "The same as #{function}, as `{:ok, value}`, or as `{:error, error}` with the error that it raises."

  defp body(:raising, call), do: quote(do: unquote(Error).unwrap!(unquote(call)))
  defp body(:returning, call), do: quote(do: unquote(Error).attempt(fn -> unquote(call) end))

  defp variable({:\\, _, [variable, _default]}), do: variable
  defp variable(variable), do: variable

  ## Types

  defp alternatives({:|, _, [one, others]}), do: alternatives(one) ++ alternatives(others)
  defp alternatives(one), do: [one]

  # Spelled out, or a type of that name.
  defp error?({:error, _}), do: true
  defp error?(type), do: match?({:error, _, _}, type)

  defp raising(results) do
    for(result <- results, not error?(result), do: with({:ok, value} <- result, do: value)) |> union()
  end

  defp returning(results) do
    done = if results == [:ok], do: :ok, else: {:ok, union(results)}
    union([done, {:error, quote(do: unquote(Error).t())}])
  end

  defp union(types), do: types |> Enum.reverse() |> Enum.reduce(&{:|, [], [&1, &2]})
end

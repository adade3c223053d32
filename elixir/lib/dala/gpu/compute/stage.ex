defmodule Dala.Gpu.Compute.Stage do
  @moduledoc false
  # From the maps that users write to what the native side takes.

  import Dala.Gpu.Compute.Argument, only: [shape?: 1, short: 1, unsigned?: 1]

  alias Dala.Gpu.Compute.{Buffer, Codec, Error, Transient}

  # A list, not a map: messages name them in this order.
  @keys [
    run_kernel: [:op, :kernel, :inputs, :output, :params],
    copy_buffer: [:op, :kernel, :inputs, :output, :params],
    write_buffer: [:op, :output, :data],
    barrier: [:op, :kernel, :inputs, :output, :params]
  ]
  @ops Keyword.keys(@keys)

  @doc false
  # One stage or a list of them; the first problem is the answer.
  @spec native(map() | [map()]) :: {:ok, list()} | {:error, Error.t()}
  def native(stages) when is_list(stages) do
    case problems(stages) do
      {native, []} -> {:ok, native}
      {_, [problem | _]} -> {:error, problem}
    end
  end

  def native(stage), do: native([stage])

  @doc false
  # What could be translated, and everything that could not.
  def problems(stages) do
    if proper?(stages) do
      count = length(stages)

      stages
      |> Enum.with_index()
      |> Enum.reduce({[], []}, fn {stage, index}, {native, problems} ->
        case translate(stage) do
          {:ok, stage} -> {[stage | native], problems}
          {:error, why} -> {native, [problem(why, index, count) | problems]}
        end
      end)
      |> then(fn {native, problems} -> {Enum.reverse(native), Enum.reverse(problems)} end)
    else
      {[], [Error.new(:invalid_stage, "stages must be a list, found #{short(stages)}")]}
    end
  end

  defp problem(why, _index, 1), do: Error.new(:invalid_stage, why)
  defp problem(why, index, _), do: Error.new(:invalid_stage, "stage #{index}: #{why}", %{stage: index})

  defp proper?(list), do: is_list(list) and not List.improper?(list)

  defp translate(%{op: op} = stage) when op in @ops do
    case Enum.sort(Map.keys(stage) -- @keys[op]) do
      [] -> translate(op, stage)
      [key | _] -> {:error, "#{short(key)} is no key of #{inspect(op)}: it has #{inspect(@keys[op])}"}
    end
  end

  defp translate(%{op: op}), do: {:error, "#{short(op)} is no operation: use one of #{inspect(@ops)}"}
  defp translate(%{}), do: {:error, "a stage needs :op, one of #{inspect(@ops)}"}
  defp translate(other), do: {:error, "a stage must be a map, found #{short(other)}"}

  defp translate(:barrier, _stage), do: {:ok, :barrier}

  defp translate(:run_kernel, stage) do
    with {:ok, kernel} <- name(stage[:kernel], "kernel"),
         {:ok, inputs} <- operands(stage[:inputs]),
         {:ok, output} <- outputs(stage[:output]),
         {:ok, params} <- params(Map.get(stage, :params, %{})) do
      {:ok, {:run_kernel, kernel, inputs, output, params}}
    end
  end

  defp translate(:copy_buffer, stage) do
    with {:ok, inputs} <- operands(stage[:inputs]), {:ok, output} <- operand(stage[:output], "output") do
      case inputs do
        [from] -> {:ok, {:copy_buffer, from, output}}
        _ -> {:error, "copy_buffer takes one input, found #{length(inputs)}"}
      end
    end
  end

  defp translate(:write_buffer, stage) do
    with {:ok, output} <- ref(stage[:output], "output") do
      case stage[:data] do
        data when is_binary(data) -> {:ok, {:write_buffer, output, data}}
        other -> {:error, "data must be a binary, found #{short(other)}"}
      end
    end
  end

  defp operands(list) do
    if proper?(list),
      do: map_ok(list, &operand(&1, "an input")),
      else: {:error, "inputs must be a list of buffers, found #{short(list)}"}
  end

  # A buffer, or a list of them for a kernel of several outputs.
  defp outputs(list) when is_list(list) do
    if proper?(list) and list != [],
      do: map_ok(list, &operand(&1, "an output")),
      else: {:error, "output must be a buffer or a list of buffers, found #{short(list)}"}
  end

  defp outputs(one), do: operand(one, "output")

  @doc false
  # What the function makes of each of them, or its first error.
  def map_ok(list, function) do
    Enum.reduce_while(list, {:ok, []}, fn term, {:ok, done} ->
      case function.(term) do
        {:ok, value} -> {:cont, {:ok, [value | done]}}
        error -> {:halt, error}
      end
    end)
    |> case do
      {:ok, done} -> {:ok, Enum.reverse(done)}
      error -> error
    end
  end

  # A buffer, or in a pipeline a transient.
  defp operand(%Transient{id: id, shape: shape, dtype: dtype} = transient, what) do
    if unsigned?(id) and (shape == nil or shape?(shape)) and (dtype == nil or Codec.dtype?(dtype)),
      do: {:ok, {:transient, id, shape && Tuple.to_list(shape), dtype}},
      else: {:error, "#{what} must be a buffer, found #{short(transient)}, which is no transient"}
  end

  defp operand(other, what), do: ref(other, what)

  @doc false
  # Whether stages for the native side have a transient among them.
  def transients?(stages) do
    transient? = &match?({:transient, _, _, _}, &1)

    Enum.any?(stages, fn
      {:run_kernel, _kernel, inputs, output, _params} -> Enum.any?(List.wrap(output) ++ inputs, transient?)
      {:copy_buffer, from, to} -> transient?.(from) or transient?.(to)
      _ -> false
    end)
  end

  defp ref(%Buffer{ref: ref}, _what) when is_reference(ref), do: {:ok, ref}
  defp ref(ref, _what) when is_reference(ref), do: {:ok, ref}
  defp ref(other, what), do: {:error, "#{what} must be a buffer, found #{short(other)}"}

  @doc false
  # Names are atoms or strings; neither is ever made of the other's kind from input.
  def name(name, _what) when is_atom(name) and name not in [nil, true, false], do: {:ok, Atom.to_string(name)}

  def name(name, what) when is_binary(name) do
    if String.valid?(name), do: {:ok, name}, else: {:error, "#{what} must be a name, found #{short(name)}"}
  end

  def name(other, what), do: {:error, "#{what} must be a name, found #{short(other)}"}

  @doc false
  def params(params) when is_map(params) and not is_struct(params), do: params(Map.to_list(params), [])
  def params(nil), do: {:ok, []}

  def params(params) do
    if proper?(params),
      do: params(params, []),
      else: {:error, "params must be a map, found #{short(params)}"}
  end

  defp params([], done), do: {:ok, done}

  defp params([{key, value} | rest], done) do
    with {:ok, key} <- name(key, "a param"), {:ok, value} <- value(value, key) do
      params(rest, [{key, value} | done])
    end
  end

  defp params([other | _], _done),
    do: {:error, "params must be a map or a keyword list, found #{short(other)} in it"}

  @int64 -0x8000000000000000..0x7FFFFFFFFFFFFFFF

  defp value(value, _key) when is_boolean(value) or is_float(value), do: {:ok, value}
  defp value(value, _key) when is_integer(value) and value in @int64, do: {:ok, value}
  defp value(value, _key) when is_atom(value) and value != nil, do: {:ok, Atom.to_string(value)}

  defp value(value, key) when is_tuple(value) and tuple_size(value) <= 64,
    do: numbers(Tuple.to_list(value), value, key)

  defp value(value, key) when is_list(value) do
    if proper?(value) and not longer?(value, 4096),
      do: numbers(value, value, key),
      else: bad_value(value, key)
  end

  defp value(value, key) when is_binary(value) do
    if String.valid?(value), do: {:ok, value}, else: bad_value(value, key)
  end

  defp value(value, key), do: bad_value(value, key)

  defp numbers(list, value, key) do
    number? = &(is_float(&1) or (is_integer(&1) and &1 in @int64))
    if Enum.all?(list, number?), do: {:ok, list}, else: bad_value(value, key)
  end

  defp bad_value(value, key) do
    {:error,
     "param #{key} must be a number, a boolean, a word, or a tuple or list of numbers, found #{short(value)}"}
  end

  defp longer?(list, limit), do: length(list) > limit
end

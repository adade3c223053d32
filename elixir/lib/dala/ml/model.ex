defmodule Dala.ML.Model do
  @moduledoc """
  A network that `Dala.Gpu.Compute.load_model/3` has loaded: what goes in, what comes out, and what it is made of.

    * `:name` - what it was loaded as, and the name of its kernel
    * `:inputs`, `:outputs` - each with its `:name` in the file, its `:dtype` and its `:shape`, such as `{:batch, 3, 224, 224}`;
      where it says `:batch` any number will do
    * `:parameters` - how many weights it has
    * `:operators` - what the file's nodes compute and how many there are of each, the most frequent first: `[{"Conv", 52}, ...]`

    * `:open_sizes` - the names of the sizes that calls decide, beside the batch; they stand in the shapes too: `{1, 3, "height",
      "width"}`. `load_model/3` can be given them
    * `:decided_by_values` - nil, or what in it follows from the values of its inputs: such a model is no kernel, and
      `Dala.ML.run/2` runs it

  It is plain data, and may be sent anywhere: the weights are on the device.
  """

  alias Dala.Gpu.Compute.{Argument, Buffer, Error, Native, Runtime, Stage}

  @enforce_keys [:name, :inputs, :outputs, :parameters, :operators]
  defstruct [:name, :inputs, :outputs, :parameters, :operators, :decided_by_values, open_sizes: []]

  @type port_info() :: %{name: String.t(), dtype: Buffer.dtype(), shape: tuple()}

  @type t() :: %__MODULE__{
          name: atom() | String.t(),
          inputs: [port_info()],
          outputs: [port_info()],
          parameters: non_neg_integer(),
          operators: [{String.t(), pos_integer()}],
          open_sizes: [String.t()],
          decided_by_values: String.t() | nil
        }

  @doc false
  def load(name, path, options \\ []) do
    text = name!(name)
    Argument.must!(Argument.text?(path), "a path", "a string", path)
    sizes = sizes!(Argument.options!(options, sizes: [])[:sizes])
    path = Path.expand(path)

    with {:ok, fields} <- Runtime.ask(&Native.load_model(&1, text, path, sizes, &2)),
         do: {:ok, new(name, fields)}
  end

  @doc false
  # The outputs by name.
  def run(model, inputs) do
    with {:ok, model} <- fetch(model),
         {:ok, inputs} <- in_order(model, inputs),
         {:ok, outputs} <- Runtime.run_model(to_string(model.name), inputs) do
      {:ok,
       model.outputs |> Enum.zip(outputs) |> Map.new(fn {port, ref} -> {port.name, Buffer.from_ref(ref)} end)}
    end
  end

  # References in the order of the model's inputs.
  defp in_order(%{inputs: ports} = model, inputs) when is_map(inputs) and not is_struct(inputs) do
    name? = &(is_atom(&1) or Argument.text?(&1))
    Argument.must!(Enum.all?(Map.keys(inputs), name?), "inputs", "buffers by name", inputs)
    inputs = Map.new(inputs, fn {name, buffer} -> {to_string(name), buffer} end)
    names = Enum.map(ports, & &1.name)

    case {Enum.find(ports, &(not is_map_key(inputs, &1.name))),
          Enum.find(Map.keys(inputs), &(&1 not in names))} do
      {nil, nil} ->
        {:ok, Enum.map(names, &Buffer.ref(inputs[&1]))}

      {nil, other} ->
        wrong(:unknown_input, "#{said(model)} has no input `#{other}`: it has #{Enum.join(names, ", ")}")

      {port, _} ->
        wrong(
          :missing_input,
          "input `#{port.name}` is missing: it takes #{port.dtype} #{inspect(port.shape)}"
        )
    end
  end

  defp in_order(%{inputs: ports} = model, inputs) when is_list(inputs) do
    Argument.must!(not List.improper?(inputs), "inputs", "a list", inputs)

    case {length(ports), length(inputs)} do
      {same, same} -> {:ok, Enum.map(inputs, &Buffer.ref/1)}
      {wanted, given} -> wrong(:arity, "#{said(model)} has #{wanted} inputs, #{given} were given")
    end
  end

  defp in_order(model, input), do: in_order(model, [input])

  defp said(model), do: "model `#{model.name}`"
  defp wrong(code, message), do: {:error, Error.new(code, message)}

  defp sizes!(sizes) do
    expected = "a map or a keyword list of names and sizes"
    list? = is_list(sizes) and not List.improper?(sizes)
    Argument.must!(list? or (is_map(sizes) and not is_struct(sizes)), :sizes, expected, sizes)

    for pair <- sizes do
      Argument.must!(match?({_, size} when is_integer(size) and size > 0, pair), :sizes, expected, sizes)
      {name, size} = pair
      Argument.must!(is_atom(name) or Argument.text?(name), :sizes, expected, sizes)
      {to_string(name), size}
    end
  end

  @doc false
  # What was loaded under the name counts, whatever the struct says by now.
  def fetch(%__MODULE__{name: name}), do: fetch(name)

  def fetch(name) do
    text = name!(name)

    case Runtime.call(&{:ok, Native.model(&1, text)}) do
      {:ok, nil} ->
        message = "no model is called `#{text}`: Dala.Gpu.Compute.load_model/3 loads one"
        {:error, Error.new(:unknown_model, message)}

      {:ok, fields} ->
        {:ok, new(name, fields)}

      error ->
        error
    end
  end

  defp new(name, fields), do: struct!(__MODULE__, Map.put(fields, :name, name))

  defp name!(name) do
    case Stage.name(name, "a model") do
      {:ok, text} -> text
      {:error, message} -> raise ArgumentError, message
    end
  end
end

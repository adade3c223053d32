defmodule Dala.Serving.Tensors do
  @moduledoc false
  # What somebody asks, as it travels: the inputs of a model as binaries or as buffers of the node that is asked, anything else as it
  # is.

  alias Dala.Gpu.Compute.{Argument, Buffer, Buffers, Codec, Error, NxBridge, Runtime}

  # `takes` is `:anything`, or `{name, dtype, dims}` of each input. Raises what is wrong.
  def request(:anything, input),
    do: %{input: input, shapes: [], items: 1, bytes: :erlang.external_size(input), nodes: []}

  def request(ports, input) do
    tensors = Enum.zip_with(ports, in_order(ports, input), &tensor/2)
    bytes = tensors |> Enum.map(&size(elem(&1, 0))) |> Enum.sum()
    shapes = for {_, dims} <- tensors, do: Enum.drop(dims, 1)
    nodes = for {%Buffer{ref: ref}, _} <- tensors, uniq: true, do: node(ref)
    %{input: tensors, shapes: shapes, items: items(ports, tensors), bytes: bytes, nodes: nodes}
  end

  # The same request with the elements of its buffers, for whoever is asked.
  def read(%{nodes: []} = request), do: request

  def read(%{nodes: [node]} = request) when node == node(),
    do: %{request | input: here(request.input), nodes: []}

  def read(%{nodes: nodes}),
    do:
      wrong(
        :buffer_elsewhere,
        "its buffers live on #{Enum.join(nodes, ", ")}: one node must have all, and serve"
      )

  # The elements of what is on this node.
  def here(tensors), do: for({data, dims} <- tensors, do: {elements(data), dims})

  defp elements(%Buffer{} = buffer), do: Error.unwrap!(Runtime.read(live!(buffer).ref))
  defp elements(binary), do: binary

  # A buffer that another node told of: it may be gone, and may be another than was said.
  def live!(%Buffer{ref: ref, shape: shape, dtype: dtype} = buffer) do
    {_, dims, found, _} = Error.unwrap!(Runtime.info(ref))
    if {dims, found} != {Tuple.to_list(shape), dtype}, do: wrong(:shape_mismatch, "it is another buffer")
    buffer
  end

  defp size(%Buffer{size: size}), do: size
  defp size(binary), do: byte_size(binary)

  defp in_order([_], input) when not is_map(input) or is_struct(input), do: [input]

  defp in_order(ports, inputs) when is_map(inputs) and not is_struct(inputs) do
    names = Enum.map(ports, &elem(&1, 0))
    inputs = Map.new(inputs, fn {name, value} -> {name!(name), value} end)

    case Enum.find(Map.keys(inputs), &(&1 not in names)) do
      nil -> :ok
      other -> wrong(:unknown_input, "there is no input `#{other}`: there are #{Enum.join(names, ", ")}")
    end

    for name <- names do
      if not is_map_key(inputs, name), do: wrong(:missing_input, "input `#{name}` is missing")
      inputs[name]
    end
  end

  defp in_order(ports, inputs) when is_list(inputs) and length(inputs) == length(ports), do: inputs

  defp in_order(ports, _inputs) do
    names = Enum.map_join(ports, ", ", &elem(&1, 0))
    wrong(:arity, "it takes a map of #{length(ports)} inputs: #{names}")
  end

  defp name!(name) do
    Argument.must!(is_atom(name) or Argument.text?(name), "an input", "named by a string", name)
    to_string(name)
  end

  defp tensor({name, dtype, dims}, value) do
    {binary, shape, found} = bytes(value, dtype)
    if found != dtype, do: wrong(:dtype_mismatch, "input `#{name}` takes #{dtype}, not #{found}")
    shape = if shape, do: full(Argument.dims!(shape), dims), else: guessed(size(binary), dims, dtype)

    if shape == nil or not fits?(shape, dims) do
      found = if shape, do: inspect(List.to_tuple(shape)), else: "#{size(binary)} bytes"
      wrong(:shape_mismatch, "input `#{name}` takes #{dtype} #{inspect(List.to_tuple(dims))}, not #{found}")
    end

    expected = Enum.product(shape) * Codec.element_size(dtype)

    if size(binary) != expected,
      do: wrong(:size_mismatch, "input `#{name}` has #{size(binary)} bytes, and its shape #{expected}")

    {binary, shape}
  end

  # One of another node cannot be asked here.
  defp bytes(%Buffer{ref: ref} = buffer, _dtype) when is_reference(ref) do
    buffer = if node(ref) == node(), do: Buffers.info(buffer), else: buffer
    {buffer, buffer.shape, buffer.dtype}
  end

  defp bytes({binary, shape, dtype}, _dtype) when is_binary(binary),
    do: {binary, shape, Argument.dtype!(dtype)}

  defp bytes(binary, dtype) when is_binary(binary), do: {binary, nil, dtype}

  defp bytes(list, dtype) when is_list(list) do
    case Codec.encode(list, dtype) do
      {:ok, binary} -> {binary, nil, dtype}
      {:error, message} -> wrong(:invalid_value, message)
    end
  end

  defp bytes(%{__struct__: Nx.Tensor} = tensor, _dtype), do: NxBridge.to_binary(tensor)

  defp bytes(other, _dtype),
    do: wrong(:invalid_value, "this is no input of a model: #{Argument.short(other)}")

  # One item may come without a batch around it.
  defp full(shape, [first | rest]) when length(shape) == length(rest) and first in [:batch, 1],
    do: [1 | shape]

  defp full(shape, _dims), do: shape

  # As many items as there are bytes for, if all else is known.
  defp guessed(bytes, dims, dtype) do
    {batch, rest} = Enum.split_with(dims, &(&1 == :batch))

    if Enum.all?(rest, &is_integer/1) do
      item = Enum.product(rest) * Codec.element_size(dtype)
      items = if item > 0 and batch != [], do: div(bytes, item), else: 1
      Enum.map(dims, &if(&1 == :batch, do: items, else: &1))
    end
  end

  defp fits?(shape, dims) do
    length(shape) == length(dims) and
      Enum.all?(Enum.zip(shape, dims), fn {size, dim} -> not is_integer(dim) or dim == size end)
  end

  # How many items a model with an open batch is given; other models are given one.
  defp items(ports, tensors) do
    if Enum.all?(ports, &match?({_, _, [:batch | _]}, &1)) do
      case tensors |> Enum.map(fn {_, [rows | _]} -> rows end) |> Enum.uniq() do
        [rows] -> rows
        rows -> wrong(:shape_mismatch, "inputs have different numbers of items: #{Enum.join(rows, ", ")}")
      end
    else
      1
    end
  end

  @spec wrong(atom(), String.t()) :: no_return()
  defp wrong(code, message), do: raise(Error.new(code, message))
end

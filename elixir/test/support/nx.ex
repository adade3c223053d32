# A small stand-in for Nx, so that the bridge to it is tested where Nx cannot be had. It knows only what the
# tests use, and behaves there as Nx 0.7 does.
unless Code.ensure_loaded?(Nx) do
  defmodule Nx.Tensor do
    @moduledoc false
    @enforce_keys [:type, :shape, :names]
    defstruct [:data, :type, :shape, :names, vectorized_axes: []]
  end

  defmodule Nx do
    @moduledoc false

    def tensor(data, opts \\ []) do
      shape = nested_shape(data)
      elements = List.flatten([data])
      type = type!(opts[:type] || inferred_type(elements))
      binary = for element <- elements, into: <<>>, do: encode(element, type)
      %Nx.Tensor{data: binary, type: type, shape: shape, names: names(shape, opts)}
    end

    def from_binary(binary, type, _opts \\ []) when is_binary(binary) do
      {_kind, bits} = type = type!(type)
      if binary == "", do: raise(ArgumentError, "cannot build an empty tensor")
      if rem(bit_size(binary), bits) != 0, do: raise(ArgumentError, "binary does not match the given size")
      %Nx.Tensor{data: binary, type: type, shape: {div(bit_size(binary), bits)}, names: [nil]}
    end

    def reshape(%Nx.Tensor{} = tensor, shape, opts \\ []) when is_tuple(shape) do
      if Tuple.product(shape) != Tuple.product(tensor.shape) do
        raise ArgumentError,
              "cannot reshape, current shape #{inspect(tensor.shape)} is not compatible with new shape " <>
                inspect(shape)
      end

      %{tensor | shape: shape, names: names(shape, opts)}
    end

    # The leading axis becomes a vectorized one.
    def vectorize(%Nx.Tensor{} = tensor, name) do
      [size | shape] = Tuple.to_list(tensor.shape)

      %{
        tensor
        | shape: List.to_tuple(shape),
          names: tl(tensor.names),
          vectorized_axes: tensor.vectorized_axes ++ [{name, size}]
      }
    end

    def shape(%Nx.Tensor{shape: shape}), do: shape
    def type(%Nx.Tensor{type: type}), do: type
    def to_binary(%Nx.Tensor{data: data}), do: data

    def to_flat_list(%Nx.Tensor{data: data, type: {kind, bits} = type}) when kind in [:f, :bf, :s, :u] do
      bytes = div(bits, 8)
      for at <- 0..(byte_size(data) - 1)//bytes, do: decode(binary_part(data, at, bytes), type)
    end

    defp names(shape, opts), do: opts[:names] || List.duplicate(nil, tuple_size(shape))

    defp nested_shape(data), do: data |> dims() |> List.to_tuple()
    defp dims([first | _] = list), do: [length(list) | dims(first)]
    defp dims(_number), do: []

    defp inferred_type(elements) do
      if Enum.all?(elements, &is_integer/1), do: {:s, 64}, else: {:f, 32}
    end

    defp type!({kind, bits}) when kind in [:f, :bf, :c, :s, :u] and is_integer(bits), do: {kind, bits}

    defp type!(name) do
      case Regex.run(~r/\A(f|bf|c|s|u)(\d+)\z/, to_string(name)) do
        [_, kind, bits] -> {String.to_atom(kind), String.to_integer(bits)}
        nil -> raise ArgumentError, "invalid numerical type: #{inspect(name)}"
      end
    end

    defp encode(:infinity, {:f, 32}), do: <<0x7F800000::native-32>>
    defp encode(:neg_infinity, {:f, 32}), do: <<0xFF800000::native-32>>
    defp encode(:nan, {:f, 32}), do: <<0x7FC00000::native-32>>
    defp encode(number, {:f, bits}), do: <<number::float-native-size(bits)>>
    defp encode(number, {:s, bits}), do: <<number::signed-native-size(bits)>>
    defp encode(number, {:u, bits}), do: <<number::unsigned-native-size(bits)>>
    defp encode(number, {:c, bits}), do: encode(number, {:f, div(bits, 2)}) <> encode(0.0, {:f, div(bits, 2)})

    defp encode(number, {:bf, 16}) do
      <<upper::16, _lower::16>> = <<number::float-big-32>>
      <<upper::native-16>>
    end

    defp decode(<<0x7F800000::native-32>>, {:f, 32}), do: :infinity
    defp decode(<<0xFF800000::native-32>>, {:f, 32}), do: :neg_infinity

    # Sizes are part of what is matched: new Elixirs want those from outside pinned, old ones cannot pin them.
    defp decode(element, {:f, bits}) do
      case <<bits, element::binary>> do
        <<bits, number::float-native-size(bits)>> -> number
        _ -> :nan
      end
    end

    defp decode(<<upper::native-16>>, {:bf, 16}) do
      <<number::float-big-32>> = <<upper::16, 0::16>>
      number
    end

    defp decode(element, {:s, bits}) do
      <<bits, number::signed-native-size(bits)>> = <<bits, element::binary>>
      number
    end

    defp decode(element, {:u, bits}) do
      <<bits, number::unsigned-native-size(bits)>> = <<bits, element::binary>>
      number
    end
  end
end

defmodule Dala.Gpu.Compute.NxBridge do
  @moduledoc false
  # Tensors to buffers and back. Nx is looked for at each call, so that a package compiled without it works as
  # soon as it is there.

  alias Dala.Gpu.Compute.{Argument, Buffers, Codec, Error}

  @compile {:no_warn_undefined, Nx}

  @types %{
    {:f, 32} => :f32,
    {:f, 64} => :f64,
    {:s, 32} => :s32,
    {:s, 64} => :s64,
    {:u, 32} => :u32,
    {:u, 8} => :u8,
    {:f, 16} => :f16,
    {:bf, 16} => :bf16,
    {:s, 8} => :s8,
    {:s, 16} => :s16,
    {:u, 16} => :u16,
    {:u, 64} => :u64
  }
  @nx_types Map.new(@types, fn {type, dtype} -> {dtype, type} end)

  def from_nx(tensor) do
    {binary, shape, dtype} = to_binary(tensor)
    Buffers.from_binary(binary, shape, dtype)
  end

  def to_nx(buffer, shape, dtype) do
    %{shape: own_shape, dtype: own_dtype, ref: ref} = Buffers.info(buffer)
    {shape, dtype} = {shape || own_shape, dtype || own_dtype}
    count = fn dims -> Enum.product(Argument.dims!(dims)) end

    cond do
      Argument.dtype!(dtype) != own_dtype ->
        raise Error, code: :dtype_mismatch, message: "the buffer holds #{own_dtype}, not #{dtype}"

      count.(shape) != count.(own_shape) ->
        raise Error,
          code: :shape_mismatch,
          message:
            "#{inspect(own_shape)} has #{count.(own_shape)} elements, #{inspect(shape)} has #{count.(shape)}"

      true ->
        from_binary(Buffers.read(ref), shape, dtype)
    end
  end

  @doc """
  The bytes, the shape and the element type of `tensor`.

  Raises `Dala.Gpu.Compute.Error` if its type has no equal, if it is vectorized, or without Nx.
  """
  @spec to_binary(struct) :: {binary, tuple, Codec.dtype()}
  def to_binary(tensor) do
    require_nx()

    case tensor do
      %{__struct__: Nx.Tensor, vectorized_axes: [_ | _] = axes} ->
        raise Error,
          code: :unsupported_type,
          message:
            "the tensor is vectorized over #{inspect(Keyword.keys(axes))}: call Nx.devectorize/1 first",
          details: %{vectorized_axes: axes}

      %{__struct__: Nx.Tensor, type: type, shape: shape} ->
        {Nx.to_binary(tensor), shape, dtype(type)}

      other ->
        raise ArgumentError, "expected an Nx tensor, got #{inspect(other, limit: 5, printable_limit: 40)}"
    end
  end

  @doc """
  A tensor of `shape` and `dtype` with the contents of `binary`.

  Raises `Dala.Gpu.Compute.Error` if they do not fit each other, or without Nx.
  """
  @spec from_binary(binary, tuple | [non_neg_integer], Codec.dtype()) :: struct
  def from_binary(binary, shape, dtype) when is_list(shape) do
    if List.improper?(shape), do: bad_shape(shape)
    from_binary(binary, List.to_tuple(shape), dtype)
  end

  def from_binary(binary, shape, dtype) when is_binary(binary) and is_tuple(shape) do
    require_nx()
    dims = Tuple.to_list(shape)
    unless Enum.all?(dims, &(is_integer(&1) and &1 >= 0)), do: bad_shape(shape)
    needed = Enum.product(dims) * Codec.element_size(dtype)

    cond do
      byte_size(binary) != needed ->
        raise Error,
          code: :size_mismatch,
          message:
            "a tensor #{dtype}#{inspect(shape)} has #{needed} bytes, but there are #{byte_size(binary)}",
          details: %{expected: needed, actual: byte_size(binary)}

      needed == 0 ->
        raise Error,
          code: :invalid_argument,
          message: "Nx has no empty tensors, so there is none of shape #{inspect(shape)}",
          details: %{shape: shape}

      true ->
        binary |> Nx.from_binary(@nx_types[dtype]) |> Nx.reshape(shape)
    end
  end

  def from_binary(binary, _shape, _dtype) when not is_binary(binary) do
    raise ArgumentError, "expected a binary, got #{inspect(binary, limit: 5, printable_limit: 40)}"
  end

  def from_binary(_binary, shape, _dtype), do: bad_shape(shape)

  defp require_nx do
    unless Code.ensure_loaded?(Nx) do
      raise Error,
        code: :nx_not_loaded,
        message: "Nx is not there: add {:nx, \"~> 0.7\"} to the dependencies of your project",
        details: %{}
    end
  end

  defp dtype(type) do
    case @types do
      %{^type => dtype} ->
        dtype

      _ ->
        raise Error,
          code: :unsupported_type,
          message: "buffers have no #{name(type)} elements" <> advice(type),
          details: %{type: type, supported: Codec.dtypes()}
    end
  end

  defp name({kind, size}), do: "#{kind}#{size}"
  defp name(other), do: inspect(other)

  defp advice({:c, _}), do: ": take Nx.real/1 and Nx.imag/1 apart first"
  defp advice({:u, size}) when size < 8, do: cast(:u8)
  defp advice({:s, _}), do: cast(:s8)
  defp advice(_float), do: cast(:f16)

  defp cast(dtype), do: ": cast the tensor first, with Nx.as_type(tensor, #{inspect(dtype)})"

  @spec bad_shape(term) :: no_return
  defp bad_shape(shape) do
    raise ArgumentError,
          "expected a shape such as {2, 3}, got #{inspect(shape, limit: 8, printable_limit: 40)}"
  end
end

defmodule Dala.Gpu.Compute.Buffer do
  @moduledoc """
  Typed, shaped memory on a device.

    * `:ref` - the native buffer; wherever a buffer is taken, its `ref` is taken too
    * `:id` - its number, for commands that are written as JSON
    * `:shape` - a tuple of dimensions; `{}` is a single number
    * `:dtype` - the element type: `:f32`, `:f64`, `:f16`, `:bf16`, `:s8` to `:s64` or `:u8` to `:u64`
    * `:size` - in bytes

  A buffer lives as long as anything refers to it: any process, message or pipeline. Send it to another process and it
  outlives the one that made it. `Dala.Gpu.Compute.free/1` gives its memory back at once.
  """

  alias Dala.Gpu.Compute.{Error, Runtime}

  @enforce_keys [:ref, :id, :shape, :dtype, :size]
  defstruct [:ref, :id, :shape, :dtype, :size]

  @type dtype() :: :f32 | :f64 | :s32 | :s64 | :u32 | :u8 | :f16 | :bf16 | :s8 | :s16 | :u16 | :u64

  @type t() :: %__MODULE__{
          ref: reference(),
          id: non_neg_integer(),
          shape: tuple(),
          dtype: dtype(),
          size: non_neg_integer()
        }

  @doc """
  The buffer of a native reference, such as the lower layer gives.

      iex> {:ok, ref} = ExCubecl.buffer([1.0, 2.0], [2], :f32)
      iex> buffer = Dala.Gpu.Compute.Buffer.from_ref(ref)
      iex> {buffer.shape, buffer.dtype, buffer.size}
      {{2}, :f32, 8}
  """
  @spec from_ref(reference()) :: t()
  def from_ref(ref) do
    case Runtime.info(ref) do
      {:ok, {id, shape, dtype, size}} ->
        %__MODULE__{ref: ref, id: id, shape: List.to_tuple(shape), dtype: dtype, size: size}

      {:error, %Error{message: message}} ->
        raise ArgumentError, message
    end
  end

  @doc """
  The native reference of a buffer, or of a reference itself.

      iex> buffer = Dala.Gpu.Compute.buffer([1.0], {1})
      iex> Dala.Gpu.Compute.Buffer.ref(buffer) == Dala.Gpu.Compute.Buffer.ref(buffer.ref)
      true
  """
  @spec ref(t() | reference()) :: reference()
  def ref(%__MODULE__{ref: ref}) when is_reference(ref), do: ref
  def ref(ref) when is_reference(ref), do: ref
  def ref(other), do: raise(ArgumentError, Runtime.not_a_buffer(other).message)

  # Says what it is without asking the device for its elements.
  defimpl Inspect do
    import Inspect.Algebra

    def inspect(buffer, opts) do
      fields = [
        to_doc(buffer.dtype, opts),
        " ",
        to_doc(buffer.shape, opts),
        " ",
        to_doc(buffer.size, opts),
        " B"
      ]

      concat(["#Dala.Gpu.Compute.Buffer<", to_doc(buffer.id, opts), " "] ++ fields ++ [">"])
    end
  end
end

defmodule Dala.Gpu.Compute.Buffers do
  @moduledoc false
  # Making, reading, writing and freeing buffers.

  import Dala.Gpu.Compute.Argument

  alias Dala.Gpu.Compute.{Buffer, Codec, Error, Runtime, Telemetry}

  def new(values, shape, dtype) do
    dtype = dtype!(dtype)
    must!(is_list(values), "values", "a list", values)

    case Codec.encode(values, dtype) do
      {:ok, binary} -> from_binary(binary, shape, dtype)
      {:error, message} -> raise Error, code: :invalid_value, message: message
    end
  end

  def from_binary(binary, shape, dtype) do
    {dims, dtype} = {dims!(shape), dtype!(dtype)}
    must!(is_binary(binary), "data", "a binary", binary)

    upload(binary, fn -> unwrap!(Runtime.buffer(dims, dtype, binary)) end)
    |> Buffer.from_ref()
  end

  def zeros(shape, dtype) do
    {dims, dtype} = {dims!(shape), dtype!(dtype)}
    bytes = Enum.product(dims) * Codec.element_size(dtype)
    Buffer.from_ref(unwrap!(Runtime.zeros(dims, dtype, bytes)))
  end

  def read(buffer) do
    ref = Buffer.ref(buffer)
    unwrap!(Telemetry.span(:transfer, %{direction: :download}, fn -> Runtime.read(ref) end))
  end

  def read_list(buffer), do: Codec.decode(read(buffer), info(buffer).dtype)

  def write(buffer, binary) do
    ref = Buffer.ref(buffer)
    must!(is_binary(binary), "data", "a binary", binary)
    upload(binary, fn -> Runtime.run([{:write_buffer, ref, binary}]) end)
  end

  def free(buffer), do: buffer |> Buffer.ref() |> free_ref()

  def free_many(buffers) do
    must!(is_list(buffers) and not List.improper?(buffers), "buffers", "a list", buffers)
    # All are looked at before the first is freed.
    buffers |> Enum.map(&Buffer.ref/1) |> Enum.each(&free_ref/1)
  end

  def shape(buffer), do: info(buffer).shape
  def dtype(buffer), do: info(buffer).dtype
  def size(buffer), do: info(buffer).size

  # Of a reference too, and whatever the struct says.
  def info(buffer), do: Buffer.from_ref(Buffer.ref(buffer))

  defp free_ref(ref), do: checked!(Runtime.free(ref))

  defp upload(binary, function) do
    Telemetry.span(:transfer, %{direction: :upload, bytes: byte_size(binary)}, function)
  end
end

defmodule Dala.Gpu.Compute.Picture do
  @moduledoc """
  Buffers as pictures that can be looked at.

      iex> red = Dala.Gpu.Compute.buffer_from_binary(:binary.copy(<<255, 0, 0>>, 6), {2, 3, 3}, :u8)
      iex> <<0x89, "PNG", _::binary>> = Dala.Gpu.Compute.Picture.to_png(red)
      iex> {:ok, again} = Dala.Media.decode(Dala.Gpu.Compute.Picture.to_png(red))
      iex> {again.shape, Dala.Gpu.Compute.read(again) == Dala.Gpu.Compute.read(red)}
      {{2, 3, 3}, true}

  ## Livebook

  Where [Kino](https://hexdocs.pm/kino) is loaded, a cell that ends with a buffer shows it: as the picture it is, if it is
  `:u8` of shape `{height, width}`, or `:u8` or `:f32` of shape `{height, width, channels}` with 1, 3 or 4 channels; other
  buffers, and pictures of more than four million pixels, as a line that says what they are. A matrix of floats is no picture
  there, though `to_png/1` makes one of it.
  """

  use Dala.Gpu.Compute.Twins, raising: [:to_png]

  alias Dala.Gpu.Compute.{Buffer, Buffers, Error, Native}

  @doc """
  A PNG file with the pixels of a buffer: `{height, width}`, or `{height, width, channels}` with 1 (gray), 3 (RGB) or 4 (RGBA)
  channels, of type `:u8`, or `:f32` from 0 to 1. It is written in native code.

      iex> gray = Dala.Gpu.Compute.buffer([0.0, 0.5, 1.0, 2.0], {2, 2}, :f32)
      iex> <<0x89, "PNG", _::binary>> = Dala.Gpu.Compute.Picture.to_png(gray)
      iex> Dala.Gpu.Compute.Picture.to_png(Dala.Gpu.Compute.buffer_zeros({4}, :f32))
      ** (Dala.Gpu.Compute.Error) a picture is :u8 or :f32 of shape {height, width} or {height, width, 1 | 3 | 4}, found :f32 {4}
  """
  @spec to_png(Buffer.t() | reference()) :: binary()
  def to_png(buffer) do
    buffer = Buffers.info(buffer)
    shape = Error.unwrap!(layout(buffer))
    Error.unwrap!(Native.encode_png(shape, buffer.dtype == :f32, Buffers.read(buffer)))
  end

  @doc false
  # The height, width and channels of a picture.
  def layout(%Buffer{dtype: dtype, shape: shape} = buffer) when dtype in [:u8, :f32] do
    case shape do
      {height, width} -> layout(buffer, height, width, 1)
      {height, width, channels} -> layout(buffer, height, width, channels)
      _ -> {:error, no_picture(buffer)}
    end
  end

  def layout(%Buffer{} = buffer), do: {:error, no_picture(buffer)}

  # The format has 31 bits for each side, and no empty pictures.
  defp layout(_buffer, height, width, channels)
       when height in 1..0x7FFFFFFF and width in 1..0x7FFFFFFF and channels in [1, 3, 4],
       do: {:ok, {height, width, channels}}

  defp layout(buffer, _height, _width, _channels), do: {:error, no_picture(buffer)}

  defp no_picture(buffer) do
    message =
      "a picture is :u8 or :f32 of shape {height, width} or {height, width, 1 | 3 | 4}, " <>
        "found #{inspect(buffer.dtype)} #{inspect(buffer.shape)}"

    Error.new(:no_picture, message)
  end

  # Waits for Kino if it is compiled together with this.
  if match?({:module, _}, Code.ensure_compiled(Kino.Render)) do
    # Larger ones would fill the notebook.
    @most_pixels 4_000_000

    defimpl Kino.Render, for: Buffer do
      def to_livebook(buffer), do: Kino.Render.to_livebook(Dala.Gpu.Compute.Picture.kino(buffer))
    end

    @doc false
    def kino(buffer) do
      case shown(buffer) do
        {:ok, png} -> Kino.Image.new(png, :png)
        :error -> Kino.Text.new(inspect(buffer))
      end
    rescue
      # A notebook shows what is wrong with a buffer rather than fail.
      error in Error -> Kino.Text.new("#{inspect(buffer)}: #{error.message}")
    end

    # Two dimensions of floats are more often a matrix.
    defp shown(%Buffer{dtype: :f32, shape: {_, _}}), do: :error

    defp shown(buffer) do
      case layout(buffer) do
        {:ok, {height, width, _}} when height * width <= @most_pixels -> {:ok, to_png(buffer)}
        _ -> :error
      end
    end
  end
end

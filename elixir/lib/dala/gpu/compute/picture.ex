defmodule Dala.Gpu.Compute.Picture do
  @moduledoc """
  Buffers as pictures that can be looked at.

  In Livebook a `:u8` buffer of shape `{height, width}` or `{height, width, channels}` is shown as the picture it is.
  """

  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.{Buffer, Error}

  @signature <<0x89, "PNG", 13, 10, 26, 10>>

  @doc """
  A PNG file with the pixels of a `:u8` buffer: `{height, width}` with any of 1 (gray), 3 (RGB) or 4 (RGBA) channels.

      iex> red = Dala.Gpu.Compute.buffer_from_binary(:binary.copy(<<255, 0, 0>>, 6), {2, 3, 3}, :u8)
      iex> <<0x89, "PNG", _::binary>> = Dala.Gpu.Compute.Picture.to_png(red)
      iex> Dala.Gpu.Compute.Picture.to_png(Dala.Gpu.Compute.buffer_zeros({4}, :f32))
      ** (Dala.Gpu.Compute.Error) a picture is :u8 of shape {height, width} or {height, width, 1 | 3 | 4}, found :f32 {4}
  """
  @spec to_png(Buffer.t()) :: binary()
  def to_png(buffer) do
    buffer = Buffer.from_ref(Buffer.ref(buffer))

    case layout(buffer) do
      {:ok, {height, width, channels}} ->
        encode(Compute.read(buffer), height, width, channels)

      :error ->
        message =
          "a picture is :u8 of shape {height, width} or {height, width, 1 | 3 | 4}, " <>
            "found #{inspect(buffer.dtype)} #{inspect(buffer.shape)}"

        raise Error, code: :no_picture, message: message
    end
  end

  @doc false
  def layout(%Buffer{dtype: :u8, shape: {height, width}}), do: layout(height, width, 1)
  def layout(%Buffer{dtype: :u8, shape: {height, width, channels}}), do: layout(height, width, channels)
  def layout(%Buffer{}), do: :error

  # The format has 31 bits for each side, and no empty pictures.
  defp layout(height, width, channels)
       when height in 1..0x7FFFFFFF and width in 1..0x7FFFFFFF and channels in [1, 3, 4],
       do: {:ok, {height, width, channels}}

  defp layout(_height, _width, _channels), do: :error

  defp encode(pixels, height, width, channels) do
    colour = %{1 => 0, 3 => 2, 4 => 6}[channels]
    size = width * channels
    # Each row says how it is filtered: not at all.
    rows = for <<row::binary-size(size) <- pixels>>, do: [0, row]

    IO.iodata_to_binary([
      @signature,
      chunk("IHDR", <<width::32, height::32, 8, colour, 0, 0, 0>>),
      chunk("IDAT", :zlib.compress(rows)),
      chunk("IEND", "")
    ])
  end

  defp chunk(type, data), do: [<<byte_size(data)::32>>, type, data, <<:erlang.crc32([type, data])::32>>]

  if Code.ensure_loaded?(Kino.Render) do
    # Larger ones would fill the notebook.
    @most_pixels 4_000_000

    defimpl Kino.Render, for: Buffer do
      def to_livebook(buffer) do
        Kino.Render.to_livebook(Dala.Gpu.Compute.Picture.kino(buffer))
      end
    end

    @doc false
    def kino(buffer) do
      case layout(buffer) do
        {:ok, {height, width, _}} when height * width <= @most_pixels -> Kino.Image.new(to_png(buffer), :png)
        _ -> Kino.Text.new(inspect(buffer))
      end
    end
  end
end

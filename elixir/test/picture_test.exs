defmodule PictureTest do
  use ExUnit.Case
  doctest Dala.Gpu.Compute.Picture

  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.Picture

  # Taken apart by hand, as the format's description says.
  defp parts(<<0x89, "PNG", 13, 10, 26, 10, rest::binary>>), do: chunks(rest)

  defp chunks(""), do: %{}

  defp chunks(<<size::32, type::binary-4, data::binary-size(size), crc::32, rest::binary>>) do
    assert crc == :erlang.crc32(type <> data)
    Map.put(chunks(rest), type, data)
  end

  test "every pixel is where it belongs" do
    for {shape, colour, channels} <- [{{2, 3}, 0, 1}, {{2, 3, 1}, 0, 1}, {{2, 3, 3}, 2, 3}, {{2, 3, 4}, 6, 4}] do
      bytes = for n <- 1..(6 * channels), into: <<>>, do: <<n * 7>>
      parts = parts(Picture.to_png(Compute.buffer_from_binary(bytes, shape, :u8)))
      assert <<3::32, 2::32, 8, ^colour, 0, 0, 0>> = parts["IHDR"]
      row = 3 * channels
      <<0, first::binary-size(row), 0, second::binary-size(row)>> = :zlib.uncompress(parts["IDAT"])
      assert first <> second == bytes
      assert parts["IEND"] == ""
    end
  end

  test "what is no picture is refused" do
    for {shape, dtype} <- [
          {{4}, :u8},
          {{2, 2}, :f32},
          {{2, 2, 2}, :u8},
          {{0, 3, 4}, :u8},
          {{1, 2, 2, 3}, :u8}
        ] do
      error = assert_raise Compute.Error, fn -> Picture.to_png(Compute.buffer_zeros(shape, dtype)) end
      assert error.code == :no_picture
    end
  end
end

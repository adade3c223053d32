defmodule PictureTest do
  use ExUnit.Case

  import Eventually
  doctest Dala.Gpu.Compute.Picture

  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.{Error, Picture}
  alias Dala.Media
  alias Dala.Test.Models

  @photos Path.expand("../../crates/dala-model/tests/data", __DIR__)

  defp file(name), do: File.read!(Path.join(@photos, name))

  defp refused(code, file, options \\ []) do
    assert {:error, %Error{code: ^code, message: message}} = Media.decode(file, options)
    message
  end

  describe "to_png" do
    # The files are read by a decoder that the tests have for themselves.
    test "puts every pixel where it belongs" do
      for shape <- [{2, 3}, {2, 3, 1}, {2, 3, 3}, {2, 3, 4}, {1, 1, 3}, {61, 37, 4}] do
        size = Tuple.product(shape)
        bytes = for n <- 1..size, into: <<>>, do: <<rem(n * n * 7, 251)>>

        {pixels, {height, width, channels}} =
          Models.png(Picture.to_png(Compute.buffer_from_binary(bytes, shape, :u8)))

        assert pixels == bytes
        assert {height, width} == {elem(shape, 0), elem(shape, 1)}
        assert height * width * channels == size
      end
    end

    test "takes floats from 0 to 1, and rounds as kernels do" do
      floats = [0.0, 1.0, 0.5, -3.0, 7.0, :nan, :infinity, :neg_infinity, 1 / 255, 100 / 255, 2.5 / 255]
      levels = <<0, 255, 128, 0, 255, 0, 255, 0, 1, 100, 2>>
      buffer = Compute.buffer(floats, {1, length(floats)}, :f32)
      assert {^levels, {1, _, 1}} = Models.png(Picture.to_png(buffer))

      # The same as the kernel that turns floats into levels.
      floats = for n <- 0..1199, do: n / 1199
      buffer = Compute.buffer(floats, {20, 20, 3}, :f32)
      {pixels, {20, 20, 3}} = Models.png(Picture.to_png(buffer))
      assert pixels == for(x <- Compute.read_list(buffer), into: <<>>, do: <<round(x * 255)>>)
    end

    test "takes a reference, and what a kernel wrote last" do
      buffer = Compute.buffer_zeros({4, 4, 3}, :u8)
      :ok = Compute.run_kernel(:fill, [], buffer, %{value: 9})
      assert {pixels, _} = Models.png(Picture.to_png(buffer.ref))
      assert pixels == :binary.copy(<<9>>, 48)
    end

    test "refuses what is no picture" do
      for {shape, dtype} <- [
            {{4}, :u8},
            {{}, :u8},
            {{2, 2}, :f64},
            {{2, 2, 3}, :s32},
            {{2, 2, 2}, :u8},
            {{0, 3, 4}, :u8},
            {{3, 0}, :f32},
            {{1, 2, 2, 3}, :u8}
          ] do
        error = assert_raise Error, fn -> Picture.to_png(Compute.buffer_zeros(shape, dtype)) end
        assert error.code == :no_picture
      end

      buffer = Compute.buffer_zeros({2, 2}, :u8)
      Compute.free(buffer)
      assert assert_raise(Error, fn -> Picture.to_png(buffer) end).code == :freed
      for bad <- [nil, "png", make_ref()], do: assert_raise(ArgumentError, fn -> Picture.to_png(bad) end)
    end
  end

  describe "Dala.Media.decode" do
    test "reads PNG files as the tests' own decoder does" do
      for name <- ["cat_chelsea.crop224.png", "tripod_camera.png"] do
        {pixels, shape} = Models.png(file(name))
        assert {:ok, %{dtype: :u8, shape: ^shape} = buffer} = Media.decode(file(name))
        assert Compute.read(buffer) == pixels
      end
    end

    test "reads what to_png wrote, with 1, 3 and 4 channels" do
      for channels <- [1, 3, 4] do
        bytes = for n <- 1..(5 * 7 * channels), into: <<>>, do: <<rem(n * 89, 256)>>
        png = Picture.to_png(Compute.buffer_from_binary(bytes, {5, 7, channels}, :u8))
        assert {:ok, %{shape: {5, 7, ^channels}} = buffer} = Media.decode(png)
        assert Compute.read(buffer) == bytes
      end
    end

    # What Pillow says of the same file. Decoders may round differently.
    test "reads JPEG files" do
      {:ok, photo} = Media.decode(file("cat_chelsea.jpg"))
      assert photo.shape == {300, 451, 3}
      means = Compute.buffer_zeros({3}, :f32)
      floats = Compute.buffer_zeros(photo.shape, :f32)
      :ok = Compute.run_kernel(:cast, [photo], floats)
      :ok = Compute.run_kernel(:reduce_mean, [floats], means, %{axes: [0, 1]})

      for {mean, expected} <- Enum.zip(Compute.read_list(means), [147.690, 111.447, 86.782]),
          do: assert_in_delta(mean, expected, 0.1)

      pixels = Compute.read(photo)

      for {{y, x}, pixel} <- [
            {{0, 0}, [144, 121, 105]},
            {{150, 225}, [195, 153, 128]},
            {{299, 450}, [162, 138, 128]},
            {{250, 60}, [181, 148, 133]}
          ] do
        found = :binary.bin_to_list(pixels, (y * 451 + x) * 3, 3)
        assert Enum.zip_with(found, pixel, &abs(&1 - &2)) |> Enum.max() <= 3, inspect({found, pixel})
      end
    end

    test "turns photos as their camera says" do
      <<0xFF, 0xD8, rest::binary>> = file("cat_chelsea.jpg")
      # A table of one entry: the orientation is 6, a quarter turn.
      exif = "Exif\0\0" <> "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
      turned = <<0xFF, 0xD8, 0xFF, 0xE1, byte_size(exif) + 2::16, exif::binary, rest::binary>>
      {:ok, straight} = Media.decode(file("cat_chelsea.jpg"))
      {:ok, turned} = Media.decode(turned)
      {height, width, 3} = straight.shape
      assert turned.shape == {width, height, 3}
      # What was at the bottom left is at the top left.
      bottom_left = binary_part(Compute.read(straight), (height - 1) * width * 3, 3)
      assert binary_part(Compute.read(turned), 0, 3) == bottom_left
    end

    test "reads WebP, TIFF, BMP, PNM and NumPy files" do
      files = Path.expand("../../crates/dala-image/tests/data", __DIR__)
      pixels = for y <- 0..2, x <- 0..3, into: <<>>, do: <<10 + 40 * x, 5 + 50 * y, 200 - 6 * x * y>>

      for name <- ["rgb.png", "rgb.tiff", "rgb.bmp", "rgb.ppm"] do
        assert {:ok, %{shape: {3, 4, 3}} = buffer} = Media.decode(File.read!(Path.join(files, name)))
        assert Compute.read(buffer) == pixels
      end

      # Turned, as its camera says.
      assert {:ok, %{shape: {4, 3, 3}}} = Media.decode(File.read!(Path.join(files, "rgb.webp")))
      # 16 bits and floats become levels.
      assert {:ok, %{shape: {3, 4, 1}} = buffer} = Media.decode(File.read!(Path.join(files, "gray16.tiff")))
      assert Compute.read(buffer) == <<0, 0, 0, 1, 1, 1, 1, 2, 18, 128, 254, 255>>
      assert {:ok, %{shape: {2, 3, 1}} = buffer} = Media.decode(File.read!(Path.join(files, "floats.npy")))
      assert Compute.read(buffer) == <<0, 64, 128, 191, 255, 255>>

      for name <- ["rgb.webp", "rgb.tiff", "rgb.bmp", "rgb.ppm", "floats.npy"] do
        file = File.read!(Path.join(files, name))
        refused(:truncated, binary_part(file, 0, div(byte_size(file), 2)))
        refused(:too_large, file, max_pixels: 5)
      end
    end

    test "says what is wrong with other files" do
      {png, jpeg} = {file("tripod_camera.png"), file("espresso_coffee.jpg")}

      for other <- ["", "GIF89a", "no picture", :crypto.strong_rand_bytes(1000)],
          do: refused(:unknown_format, other)

      for part <- [0.1, 0.5, 0.9] do
        for file <- [png, jpeg], do: refused(:truncated, binary_part(file, 0, trunc(byte_size(file) * part)))
      end

      refused(:truncated, binary_part(jpeg, 0, byte_size(jpeg) - 1))
      <<head::binary-200, byte, tail::binary>> = png
      refused(:malformed, <<head::binary, Bitwise.bxor(byte, 0x55), tail::binary>>)
      <<signature::binary-8, _length::32, rest::binary>> = png
      refused(:malformed, <<signature::binary, 0xFFFFFFFF::32, rest::binary>>)
    end

    test "refuses pictures that are too large before it decodes them" do
      header = <<60_000::32, 60_000::32, 8, 2, 0, 0, 0>>

      chunk = fn type, data ->
        <<byte_size(data)::32, type::binary, data::binary, :erlang.crc32(type <> data)::32>>
      end

      bomb = <<0x89, "PNG\r\n", 26, 10>> <> chunk.("IHDR", header) <> chunk.("IDAT", :zlib.compress(<<0>>))
      assert refused(:too_large, bomb) =~ "60000 x 60000"
      {:ok, %{shape: {height, width, _}}} = Media.decode(file("tripod_camera.png"))
      assert {:ok, _} = Media.decode(file("tripod_camera.png"), max_pixels: height * width)
      refused(:too_large, file("tripod_camera.png"), max_pixels: height * width - 1)
      refused(:too_large, file("cat_chelsea.jpg"), max_pixels: 1000)
    end

    test "survives files with bytes changed, and leaves no buffer behind" do
      before = settled_memory().buffers
      :rand.seed(:exsss, {1, 2, 3})
      files = [file("cat_chelsea.crop224.png"), file("cat_chelsea.jpg")]

      ends =
        for file <- files, _ <- 1..60 do
          at = :rand.uniform(byte_size(file) - 1)
          {head, <<_, tail::binary>>} = :erlang.split_binary(file, at)

          case Media.decode(<<head::binary, :rand.uniform(256) - 1, tail::binary>>) do
            {:ok, buffer} -> Compute.free(buffer) && :ok
            {:error, %Error{code: code}} -> code
          end
        end

      assert Enum.uniq(ends) --
               [:ok, :malformed, :truncated, :unknown_format, :unsupported_picture, :too_large] == []

      assert :ok in ends and :malformed in ends
      # The thread that answered lets go of its picture a moment after the answer.
      assert eventually(fn -> :erlang.garbage_collect() && Compute.memory().buffers <= before end)
    end

    test "raises on what is no file" do
      for bad <- [nil, ~c"list", :atom, <<1::3>>],
          do: assert_raise(ArgumentError, fn -> Media.decode(bad) end)

      for bad <- [-1, nil, 1.5], do: assert_raise(ArgumentError, fn -> Media.decode("", max_pixels: bad) end)
      assert_raise ArgumentError, fn -> Media.decode("", max: 1) end
      assert_raise ArgumentError, fn -> Media.decode("", :max) end
    end
  end

  describe "Livebook" do
    test "shows pictures" do
      for {shape, dtype} <- [{{2, 3}, :u8}, {{2, 3, 1}, :u8}, {{2, 3, 3}, :u8}, {{2, 3, 4}, :f32}] do
        assert %{type: :image, mime_type: "image/png", content: png} =
                 Kino.Render.to_livebook(Compute.buffer_zeros(shape, dtype))

        assert {_, {2, 3, _}} = Models.png(png)
      end
    end

    test "shows other buffers as a line" do
      large = Compute.buffer_zeros({2001, 2000}, :u8)

      for buffer <- [large | for(shape <- [{6}, {2, 3}, {2, 3, 2}], do: Compute.buffer_zeros(shape, :f32))] do
        output = Kino.Render.to_livebook(buffer)
        refute output.type == :image
        assert output.text == inspect(buffer)
      end
    end

    test "shows what is wrong with a buffer" do
      buffer = Compute.buffer_zeros({2, 3}, :u8)
      Compute.free(buffer)
      assert Kino.Render.to_livebook(buffer).text =~ "freed"
    end
  end
end

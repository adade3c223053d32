defmodule RecipesTest do
  # Recipes with the real models, beside what other programs say of the same files.
  use ExUnit.Case

  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.Error
  alias Dala.ML
  alias Dala.Test.Models

  @crates Path.expand("../../crates", __DIR__)
  @astronaut Path.join(@crates, "dala-model/zoo/pictures/astronaut.png")
  @data Path.join(@crates, "dala-recipes/tests/data")

  # What ONNX Runtime gives for the same steps.
  @face %{score: 0.92911, left: 181.530, top: 58.202, right: 269.883, bottom: 177.811}
  @landmarks [
    {203.154, 101.679},
    {247.007, 104.514},
    {223.265, 125.076},
    {203.378, 142.327},
    {241.335, 144.419}
  ]

  defp near?({a, b}, {c, d}, most), do: near?(a, c, most) and near?(b, d, most)
  defp near?(a, b, most), do: abs(a - b) < most

  describe "faces" do
    test "are where ONNX Runtime finds them, however the photo is given" do
      if Models.fetched?(["faces.onnx"]) do
        file = File.read!(@astronaut)
        pixels = Dala.Media.decode!(file)

        for photo <- [{:path, @astronaut}, file, pixels, pixels.ref] do
          assert {:ok, [face]} = ML.detect(photo)
          assert near?(face.score, @face.score, 1.0e-3)

          for side <- [:left, :top, :right, :bottom],
              do: assert(near?(face[side], @face[side], 0.1), "#{side}: #{face[side]}")

          assert Enum.zip_with(face.landmarks, @landmarks, &near?(&1, &2, 0.1)) == List.duplicate(true, 5)
        end

        assert {:ok, [_]} = ML.detect(Models.file("faces.onnx"), {:path, @astronaut}, longer_side: 256)
        assert ML.detect!({:path, @astronaut}, threshold: 0.999, longer_side: 256) == []
        assert ML.detect!(Compute.buffer_zeros({5, 7}, :f32)) == []
      end
    end

    test "are found by many processes at once" do
      if Models.fetched?(["faces.onnx"]) do
        find = fn _ -> ML.detect!({:path, @astronaut}, longer_side: 256) end
        [first | others] = 1..6 |> Task.async_stream(find, timeout: :infinity) |> Enum.map(&elem(&1, 1))
        assert length(first) == 1 and Enum.all?(others, &(&1 == first))
      end
    end

    test "need their model read once, and again if its file changes" do
      if Models.fetched?(["faces.onnx"]) do
        model =
          Path.join(System.tmp_dir!(), "faces_#{System.pid()}_#{System.unique_integer([:positive])}.onnx")

        on_exit(fn -> File.rm(model) end)
        File.cp!(Models.file("faces.onnx"), model)
        launches = fn -> Compute.stats().launches end

        detect = fn ->
          before = launches.()
          {ML.detect({:path, @astronaut}, model: model), launches.() - before}
        end

        assert {{:ok, [_face]}, with_weights} = detect.()
        assert {{:ok, [_face]}, photo} = detect.()
        # Its weights are packed by launches of their own, once.
        assert photo > 10 and with_weights > photo + 10

        File.write!(model, "This is a text.")
        assert {{:error, %Error{code: :not_onnx}}, _} = detect.()
      end
    end
  end

  describe "text" do
    test "is read line by line" do
      if Models.fetched?(["text_detector.onnx", "text_recogniser.onnx"]) do
        assert {:ok, [%{text: "Shopping list", score: score, corners: corners}, second | _]} =
                 ML.read({:path, Path.join(@data, "note.png")})

        # RapidOCR leaves out the spaces, too.
        assert String.replace(second.text, " ", "") == "twoloavesofbread"
        assert score > 0.9 and length(corners) == 4
        # Nothing is written there.
        assert ML.read(Compute.buffer_zeros({40, 60, 3}, :u8)) == {:ok, []}
      end
    end
  end

  test "photos become twice as large, as ONNX Runtime makes them" do
    if Models.fetched?(["upscale.onnx"]) do
      # 128 by 128 pixels out of the middle of 224, which is the size that the file says.
      photo = Compute.read(Models.photo!("cat_chelsea.crop224.png"))
      part = for row <- 48..175, into: <<>>, do: binary_part(photo, (row * 224 + 48) * 3, 128 * 3)
      assert {:ok, large} = ML.upscale(Compute.buffer_from_binary(part, {128, 128, 3}, :u8))
      assert {large.shape, large.dtype} == {{256, 256, 3}, :u8}
      pixels = Compute.read(large)

      for {{row, column}, expected} <- %{
            {40, 40} => [78, 79, 83],
            {100, 131} => [182, 150, 132],
            {128, 128} => [185, 153, 130],
            {150, 60} => [174, 128, 88],
            {201, 77} => [124, 88, 52],
            {222, 210} => [198, 167, 133]
          } do
        found = :binary.bin_to_list(pixels, (row * 256 + column) * 3, 3)
        assert Enum.zip_with(found, expected, &abs(&1 - &2)) |> Enum.max() <= 1, inspect({row, column, found})
      end
    end
  end

  describe "speech" do
    test "is heard where the package silero-vad hears it" do
      if Models.fetched?(["speech.onnx"]) do
        file = Path.join(@data, "speech.wav")
        assert {:ok, heard} = ML.listen({:path, file})
        assert near?(heard.seconds, 3.71, 0.01)

        spans =
          for span <- heard.spans, do: {round(span.start_seconds * 1000), round(span.end_seconds * 1000)}

        assert spans == [{578, 1406}, {2018, 3166}]
        assert length(heard.probabilities) == 117 and heard.window_seconds == 0.032
        assert ML.listen(File.read!(file)) == {:ok, heard}
      end
    end

    test "is not looked for in what is no recording" do
      assert {:error, %Error{code: code, message: message}} = ML.listen({:path, "nowhere.wav"})
      assert {code, message} == {:io, "cannot read nowhere.wav: No such file or directory (os error 2)"}
      assert {:error, %Error{}} = ML.listen(binary_part(File.read!(Path.join(@data, "speech.wav")), 0, 5000))
    end
  end

  test "files are told apart by what is in them" do
    if Models.fetched?(["file_type.onnx", "file_type.json"]) do
      file = Path.join(@data, "photo.jpg")
      assert {:ok, %{label: "jpeg", score: score} = kind} = ML.describe_type({:path, file})
      assert score > 0.9
      assert ML.describe_type(File.read!(file)) == {:ok, kind}
      assert ML.describe_type!("").label == "empty"
      assert ML.describe_type!({:path, @data}).label == "directory"
      assert {:error, %Error{code: :bad_input}} = ML.describe_type({:path, "nowhere"})
    end
  end

  test "what is missing is said with how to get it, and what is wrong with its name" do
    empty = System.tmp_dir!()

    for model <- ["nowhere.onnx", Path.join(empty, "nowhere.onnx")] do
      assert {:error, %Error{code: :io}} = ML.detect({:path, @astronaut}, model: model)
      assert {:error, %Error{code: :io}} = ML.upscale({:path, @astronaut}, model: model)
      assert {:error, %Error{code: :io}} = ML.listen({:path, Path.join(@data, "speech.wav")}, model: model)
      assert {:error, %Error{code: :io}} = ML.read({:path, @astronaut}, detector: model, recogniser: model)
      assert {:error, %Error{code: :io}} = ML.read({model, model}, {:path, @astronaut}, [])
      assert {:error, %Error{code: :io}} = ML.upscale(model, {:path, @astronaut}, [])
      assert {:error, %Error{code: :io}} = ML.listen(model, {:path, Path.join(@data, "speech.wav")}, [])
    end

    # The folder of models is the one that the environment says now.
    before = System.get_env("DALA_MODELS")

    on_exit(fn ->
      if before, do: System.put_env("DALA_MODELS", before), else: System.delete_env("DALA_MODELS")
    end)

    System.put_env("DALA_MODELS", Path.join(empty, "nowhere"))
    assert {:error, %Error{code: :missing_model, message: message}} = ML.detect({:path, @astronaut})
    assert message =~ "nowhere/faces.onnx is not there. Run `scripts/get-models faces`"
    assert {:error, %Error{code: :missing_model}} = ML.describe_type("x")
  end

  test "a model for something else is refused" do
    other = Models.file("mobilenet_v2.onnx")
    assert {:error, %Error{code: :unfit_model}} = ML.detect({:path, @astronaut}, model: other)
    assert_raise Error, fn -> ML.upscale!({:path, @astronaut}, model: other) end
  end

  test "arguments of the wrong kind are the caller's mistake" do
    # What the compiler does not know it cannot warn of.
    one = Process.get(:nothing, "text_detector.onnx")

    for call <- [
          fn -> ML.detect(:photo) end,
          fn -> ML.detect({:path, 7}) end,
          fn -> ML.detect({:path, "a\0b"}) end,
          fn -> ML.detect(<<1::3>>) end,
          fn -> ML.detect("", threshold: 1) end,
          fn -> ML.detect("", threshold: "much") end,
          fn -> ML.detect("", longer_side: 0) end,
          fn -> ML.detect("", model: :faces) end,
          fn -> ML.detect("", surely: true) end,
          fn -> ML.detect("faces.onnx", "", :surely) end,
          fn -> ML.read(one, "", []) end,
          fn -> ML.read("", detector: 1) end,
          fn -> ML.upscale(make_ref()) end,
          fn -> ML.listen(Compute.buffer_zeros({4}, :f32)) end,
          fn -> ML.describe_type([]) end
        ] do
      assert_raise ArgumentError, call
    end

    assert {:error, %Error{code: :no_picture}} = ML.detect(Compute.buffer_zeros({4}, :f32))
    freed = Compute.buffer_zeros({4, 4, 3}, :u8)
    Compute.free(freed)
    assert {:error, %Error{code: :freed}} = ML.detect(freed)
  end
end

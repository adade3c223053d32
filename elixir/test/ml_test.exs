defmodule Dala.MLTest do
  use ExUnit.Case

  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.Native
  alias Dala.ML
  alias Dala.ML.{Model, Plans}
  alias Dala.Test.{Kernels, Models}

  doctest Dala.ML

  @photos [
    {"cat_chelsea", 285, "Egyptian cat"},
    {"espresso_coffee", 967, "espresso"},
    {"tripod_camera", 872, "tripod"}
  ]

  # A model that names the colour of a picture: the mean of each channel.
  @colours [{"GlobalAveragePool", ["x"], ["y"]}]
  @rgb ["red", "green", "blue"]

  setup_all do
    folder = Path.join(System.tmp_dir!(), "dala-ml-#{System.unique_integer([:positive])}-#{System.pid()}")
    File.mkdir_p!(folder)
    on_exit(fn -> File.rm_rf!(folder) end)
    {:ok, folder: folder}
  end

  defp write(folder, data) do
    path = Path.join(folder, "#{System.unique_integer([:positive])}.onnx")
    File.write!(path, data)
    path
  end

  defp fresh, do: :"model_#{System.unique_integer([:positive])}"

  defp colours(folder, input \\ ["batch", 3, 8, 8], output \\ ["batch", 3, 1, 1]) do
    {:ok, model} =
      Compute.load_model(fresh(), write(folder, Models.onnx(@colours, [{"x", input}], [{"y", output}])))

    model
  end

  defp plain(pixel, {height, width} \\ {11, 13}, dtype \\ :u8),
    do:
      Compute.buffer(
        List.flatten(List.duplicate(pixel, height * width)),
        {height, width, length(pixel)},
        dtype
      )

  defp close?(a, b, allowed), do: Enum.zip(a, b) |> Enum.all?(fn {a, b} -> abs(a - b) <= allowed end)

  describe "load_model" do
    test "says what was loaded" do
      name = fresh()
      assert {:ok, %Model{name: ^name} = model} = Compute.load_model(name, Models.file("mobilenet_v2.onnx"))
      assert [%{dtype: :f32, shape: {:batch, 3, 224, 224}, name: input}] = model.inputs
      assert [%{dtype: :f32, shape: {:batch, 1000}}] = model.outputs
      # The trained numbers, and the means and variances of its normalisations.
      assert model.parameters in 3_504_872..3_600_000
      assert Enum.take(model.operators, 3) == [{"BatchNormalization", 52}, {"Conv", 52}, {"Clip", 35}]
      kernel = Enum.find(Compute.kernels(), &(&1.name == Atom.to_string(name)))
      assert kernel.inputs == [input]
      assert {:error, %{code: :duplicate_kernel}} = Compute.load_model(name, Models.file("mobilenet_v2.onnx"))
    end

    test "takes a name once, from whichever process", %{folder: folder} do
      {name, path} =
        {fresh(), write(folder, Models.onnx(@colours, [{"x", [1, 3, 2, 2]}], [{"y", [1, 3, 1, 1]}]))}

      loads = for _ <- 1..20, do: Task.async(fn -> Compute.load_model(name, path) end)
      results = Task.await_many(loads, :infinity)
      assert [{:ok, _}] = Enum.filter(results, &match?({:ok, _}, &1))
      assert Enum.count(results, &match?({:error, %{code: :duplicate_kernel}}, &1)) == 19
      assert {:ok, _} = ML.predict(name, plain([1, 2, 3]))
    end

    test "refuses what is no model, and keeps nothing of it", %{folder: folder} do
      whole = File.read!(Models.file("mobilenet_v2.onnx"))
      name = fresh()
      half = div(byte_size(whole), 2)

      for {data, codes} <- [
            {"", [:not_onnx]},
            {"no model at all, but some text", [:not_onnx, :malformed, :truncated]},
            {:crypto.strong_rand_bytes(4096), [:not_onnx, :malformed, :truncated]},
            {binary_part(whole, 0, half), [:truncated]},
            {binary_part(whole, 0, byte_size(whole) - 1), [:truncated]}
          ] do
        assert {:error, %Compute.Error{} = error} = Compute.load_model(name, write(folder, data))
        assert error.code in codes, inspect(error)
      end

      assert {:error, %{code: :io, message: message}} = Compute.load_model(name, "/no/such/file.onnx")
      assert message =~ "/no/such/file.onnx" and message =~ "No such file"
      assert {:error, %{code: :io}} = Compute.load_model(name, folder)
      assert {:error, %{code: :bad_name}} = Compute.load_model(:"no name!", Models.file("mobilenet_v2.onnx"))
      refute Enum.any?(Compute.kernels(), &(&1.name == Atom.to_string(name)))
      assert {:error, %{code: :unknown_model}} = ML.predict(name, plain([1, 2, 3]))

      for bad <- [nil, 1, ~c"charlist", <<255>>, "a\0b"],
          do: assert_raise(ArgumentError, fn -> Compute.load_model(name, bad) end)

      for bad <- [nil, 1, {}, <<255>>],
          do: assert_raise(ArgumentError, fn -> Compute.load_model(bad, "x.onnx") end)
    end

    test "lists every operator that is not supported", %{folder: folder} do
      nodes = for n <- 1..20, do: {"Unheard#{n}", ["x"], ["y#{n}"]}
      path = write(folder, Models.onnx(nodes, [{"x", [1, 3]}], [{"y20", [1, 3]}]))
      assert {:error, %{code: :unsupported_operator} = error} = Compute.load_model(fresh(), path)
      assert Enum.map(error.details.operators, & &1.operator) == for(n <- 1..20, do: "Unheard#{n}")
      assert %{node: "node0", why: why} = hd(error.details.operators)
      assert is_binary(why)
      assert error.message =~ "Unheard1 " and error.message =~ "Unheard12"
    end

    test "leaves the schedulers alone" do
      file = Models.file("mobilenet_v2.onnx")
      # Reading and checking the file takes some 50 ms.
      assert_short("load_model", 5_000_000, fn -> {:ok, _} = Compute.load_model(fresh(), file) end)
    end
  end

  describe "run" do
    # What is up, and what is down.
    @halves [{"Relu", ["x"], ["up"]}, {"Neg", ["x"], ["down"]}]
    @ends [{"up", ["batch", "width"]}, {"down", ["batch", "width"]}]

    test "gives every output by its name, for inputs by name, in order or alone", %{folder: folder} do
      path = write(folder, Models.onnx(@halves, [{"x", ["batch", "width"]}], @ends))
      {:ok, %{open_sizes: ["width"], decided_by_values: nil} = model} = Compute.load_model(fresh(), path)

      for width <- [1, 3, 5] do
        list = for n <- 1..width, do: n * -1.0 ** n
        x = Compute.buffer(list, {1, width})

        for inputs <- [%{"x" => x}, %{x: x}, [x], x, x.ref] do
          assert {:ok, %{"up" => up, "down" => down} = all} = ML.run(model, inputs)
          assert map_size(all) == 2
          assert Compute.read_list(up) == Enum.map(list, &max(&1, 0.0))
          assert {Compute.shape(down), Compute.read_list(down)} == {{1, width}, Enum.map(list, &(-&1))}
        end
      end

      # It is a kernel as well.
      x = Compute.buffer([1.0, -2.0], {1, 2})
      [up, down] = for _ <- 1..2, do: Compute.buffer_zeros({1, 2})
      pipeline = Compute.pipeline()
      Compute.pipeline_add(pipeline, %{op: :run_kernel, kernel: model.name, inputs: [x], output: [up, down]})
      assert :ok = Compute.pipeline_run(pipeline)
      assert {Compute.read_list(up), Compute.read_list(down)} == {[1.0, 0.0], [-1.0, 2.0]}
    end

    test "says what is wrong with inputs and sizes", %{folder: folder} do
      path = write(folder, Models.onnx(@halves, [{"x", ["batch", "width"]}], @ends))
      {:ok, model} = Compute.load_model(fresh(), path, sizes: %{width: 4})
      assert {[%{shape: {:batch, 4}}], []} = {model.inputs, model.open_sizes}
      x = Compute.buffer_zeros({1, 4})
      assert {:ok, %{"up" => _}} = ML.run(model.name, x)
      assert {:error, %{code: :arity, message: message}} = ML.run(model, [x, x])
      assert message == "model `#{model.name}` has 1 inputs, 2 were given"
      assert {:error, %{code: :missing_input, message: message}} = ML.run(model, %{})
      assert message == "input `x` is missing: it takes f32 {:batch, 4}"
      assert {:error, %{code: :unknown_input, message: message}} = ML.run(model, %{x: x, z: x})
      assert message == "model `#{model.name}` has no input `z`: it has x"
      assert {:error, %{code: :bad_input}} = ML.run(model, Compute.buffer_zeros({1, 5}))
      assert {:error, %{code: :invalid_argument}} = ML.run(model, [make_ref()])
      assert_raise Compute.Error, fn -> ML.run!(model, Compute.buffer_zeros({1, 5})) end
      assert {:error, %{code: :unknown_size}} = Compute.load_model(fresh(), path, sizes: [height: 4])

      for bad <- [3, [1], [{:width, 0}], [{1, 2}], %{width: "4"}, [width: 1.5]],
          do: assert_raise(ArgumentError, fn -> Compute.load_model(fresh(), path, sizes: bad) end)
    end

    test "runs models whose values decide how much there is", %{folder: folder} do
      nodes = [{"NonZero", ["x"], ["i"]}, {"Transpose", ["i"], ["t"]}, {"GatherND", ["x", "t"], ["y"]}]
      path = write(folder, Models.onnx(nodes, [{"x", [6]}], [{"y", ["n"]}]))
      {:ok, %{name: name, decided_by_values: why}} = Compute.load_model(fresh(), path)
      assert is_binary(why)
      assert {:error, %{code: :duplicate_kernel}} = Compute.load_model(name, path)

      for list <- [[0.0, 1.0, 0.0, 2.0, 3.0, 0.0], [5.0, 0.0, 0.0, 0.0, 0.0, 0.0], List.duplicate(2.0, 6)] do
        {:ok, %{"y" => y}} = ML.run(name, Compute.buffer(list, {6}))
        assert Compute.read_list(y) == Enum.reject(list, &(&1 == 0.0))
      end

      x = Compute.buffer_zeros({6})
      assert {:error, %{code: :unknown_kernel}} = Compute.run_kernel(name, [x], x)
    end

    test "leaves nothing behind", %{folder: folder} do
      path = write(folder, Models.onnx(@halves, [{"x", [1, 1_000_000]}], @ends))
      {:ok, model} = Compute.load_model(fresh(), path)
      x = Compute.buffer_zeros({1, 1_000_000})
      {:ok, device} = Compute.Runtime.device()
      # What other tests have, such as models that stay open, is there all the time.
      %{live: before} = Eventually.settled_memory()
      for _ <- 1..200, do: {:ok, _} = ML.run(model, x)
      # 1.6 GB were made.
      assert Native.live_bytes(device) - before < 400_000_000
    end

    test "leaves the schedulers alone", %{folder: folder} do
      path = write(folder, Models.onnx(@halves, [{"x", [1, 64]}], @ends))
      {:ok, model} = Compute.load_model(fresh(), path)
      run = fn -> {:ok, _} = ML.run(model, Compute.buffer_zeros({1, 64})) end
      assert_short("run_model", 1_000_000, fn -> for _ <- 1..20, do: run.() end)
    end
  end

  describe "a model is a kernel" do
    setup do
      Models.mobilenet!()
    end

    test "for batches of 1 and 8" do
      pictures = for {photo, index, _} <- @photos, do: {normalized("#{photo}.crop224.png"), index}
      eight = pictures |> Stream.cycle() |> Enum.take(8)

      for batch <- [Enum.take(pictures, 1), eight] do
        count = length(batch)

        input =
          Compute.buffer_from_binary(
            for({data, _} <- batch, into: <<>>, do: data),
            {count, 3, 224, 224},
            :f32
          )

        output = Compute.buffer_zeros({count, 1000}, :f32)
        assert :ok = Compute.run_kernel(:mobilenet_v2, [input], output)
        rows = Enum.chunk_every(Compute.read_list(output), 1000)
        assert Enum.map(rows, &best/1) == Enum.map(batch, &elem(&1, 1))
        # A row does not depend on the others.
        for {row, number} <- Enum.with_index(rows),
            number >= 3,
            do: assert(close?(row, Enum.at(rows, number - 3), 1.0e-4))
      end
    end

    test "for commands" do
      [{photo, index, _} | _] = @photos
      input = Compute.buffer_from_binary(normalized("#{photo}.crop224.png"), {1, 3, 224, 224}, :f32)
      output = Compute.buffer_zeros({1, 1000}, :f32)
      id = Compute.submit(%{op: :run_kernel, kernel: "mobilenet_v2", inputs: [input], output: output})
      assert :ok = Compute.wait(id)
      assert best(Compute.read_list(output)) == index
    end

    test "that says which shapes it takes" do
      output = Compute.buffer_zeros({1, 1000}, :f32)
      wrong = Compute.buffer_zeros({1, 3, 224, 223}, :f32)

      assert {:error, %{code: :shape_mismatch, message: message}} =
               Compute.run_kernel(:mobilenet_v2, [wrong], output)

      assert message =~ "{batch, 3, 224, 224}"
    end
  end

  defp normalized(name) do
    photo = Models.photo!(name)
    output = Compute.buffer_zeros({1, 3, 224, 224}, :f32)
    :ok = Compute.run_kernel(:preprocess, [photo], output, %{normalize: true, size: {224, 224}})
    Compute.read(output)
  end

  # The mean. What calls cost they cost every time; what the system takes now and then it does not.
  defp assert_short(name, limit, calls) do
    on_exit(fn -> Native.measure(false) end)

    mean = fn ->
      Native.measure(true)
      calls.()
      Native.measure(false)
      [{_, count, all, _}] = for({^name, _, _, _} = call <- Native.measurements(), do: call)
      div(all, count)
    end

    assert Enum.any?(1..5, fn _ -> mean.() < limit end)
  end

  defp best(row), do: row |> Enum.with_index() |> Enum.max() |> elem(1)

  describe "predict" do
    setup do
      Models.mobilenet!()
    end

    test "names what photos show" do
      for {photo, index, label} <- @photos, fit <- [:crop, :stretch] do
        image = Models.photo!("#{photo}.crop224.png")
        assert {:ok, [first | _] = top} = ML.predict(:mobilenet_v2, image, fit: fit)
        assert %{index: ^index, label: ^label} = first
        probabilities = Enum.map(top, & &1.probability)
        assert length(top) == 5 and Enum.sort(probabilities, :desc) == probabilities
      end
    end

    test "takes a gray photo of any size" do
      assert {:ok, [%{index: 872, label: "tripod"}]} =
               ML.predict(:mobilenet_v2, Models.photo!("tripod_camera.png"), top: 1)
    end

    test "gives probabilities" do
      image = Models.photo!("cat_chelsea.crop224.png")
      assert {:ok, all} = ML.predict(:mobilenet_v2, image, top: 1000)
      assert_in_delta Enum.sum(Enum.map(all, & &1.probability)), 1.0, 1.0e-4
      assert Enum.sort(Enum.map(all, & &1.index)) == Enum.to_list(0..999)
      assert {:ok, ^all} = ML.predict(:mobilenet_v2, image.ref, top: 5000)
      assert {:ok, []} = ML.predict(:mobilenet_v2, image, top: 0)
    end

    test "reads back nothing but the probabilities" do
      image = Models.photo!("cat_chelsea.crop224.png")
      # Waits until it is there.
      Compute.read(image)
      before = Compute.stats()
      assert {:ok, _} = ML.predict(:mobilenet_v2, image)
      later = Compute.stats()
      assert later.downloaded_bytes - before.downloaded_bytes == 4000
    end

    test "compiles once for pictures of a size" do
      image = Models.photo!("espresso_coffee.crop224.png")
      assert {:ok, first} = ML.predict(:mobilenet_v2, image)
      {before, kernels} = {Compute.stats(), Kernels.obtained()}
      assert {:ok, ^first} = ML.predict(:mobilenet_v2, Models.photo!("espresso_coffee.crop224.png"))
      later = Compute.stats()
      assert Kernels.obtained() == kernels
      # The weights are there already.
      assert later.uploaded_bytes - before.uploaded_bytes < 1_000_000
    end

    @tag timeout: 3_600_000
    test "from 50 processes at once" do
      images = for {photo, index, _} <- @photos, do: {Models.photo!("#{photo}.crop224.png"), index}
      # Those who come first all want the same plan.
      Plans.forget()

      tasks =
        for {image, index} <- images |> Stream.cycle() |> Enum.take(50) do
          Task.async(fn ->
            for _ <- 1..2 do
              {:ok, [%{index: found}]} = ML.predict(:mobilenet_v2, image, top: 1)
              found == index
            end
          end)
        end

      assert tasks |> Task.await_many(:infinity) |> List.flatten() |> Enum.all?()
    end

    test "goes on when processes that predict are killed" do
      image = Models.photo!("cat_chelsea.crop224.png")
      Plans.forget()

      for pause <- [0, 1, 5, 20, 60] do
        {pid, monitor} = spawn_monitor(fn -> ML.predict(:mobilenet_v2, image) end)
        Process.sleep(pause)
        Process.exit(pid, :kill)
        assert_receive {:DOWN, ^monitor, :process, ^pid, _}, 120_000
      end

      Process.exit(Process.whereis(Plans), :kill)
      assert {:ok, [%{index: 285} | _]} = ML.predict(:mobilenet_v2, image)
    end

    test "gives memory back" do
      image = Models.photo!("cat_chelsea.crop224.png")
      predict = fn -> {:ok, _} = ML.predict(:mobilenet_v2, image) end
      predict.()
      live = fn -> Compute.memory().live end
      settled = live.()
      for _ <- 1..20, do: predict.()
      assert Eventually.eventually(fn -> live.() <= settled + 1_000_000 end)
      # What was compiled has the weights.
      assert :ok = Compute.trim()
      assert Eventually.eventually(fn -> live.() < settled - 10_000_000 end)
      predict.()
    end
  end

  describe "predict with a small model" do
    test "labels its classes", %{folder: folder} do
      model = colours(folder)

      for {pixel, index} <- [{[200, 10, 20], 0}, {[10, 200, 20, 255], 1}, {[10, 20, 200], 2}],
          fit <- [:crop, :stretch] do
        image = plain(pixel)
        assert {:ok, [first, _, _]} = ML.predict(model, image, fit: fit, labels: @rgb)
        assert %{index: ^index, label: label} = first
        assert label == Enum.at(@rgb, index)
        assert {:ok, [%{label: nil, index: ^index} | _]} = ML.predict(model.name, image, fit: fit)
      end
    end

    test "reads labels from files", %{folder: folder} do
      {model, image} = {colours(folder), plain([9, 8, 200])}
      path = Path.join(folder, "labels.txt")

      for text <- ["red\ngreen\nblue\n", "red\r\ngreen\r\nblue"] do
        File.write!(path, text)
        assert {:ok, [%{label: "blue"}]} = ML.predict(model, image, labels: path, top: 1)
      end

      assert {:error, %{code: :io}} = ML.predict(model, image, labels: path <> ".none")

      for labels <- [:imagenet, ["one"], []],
          do: assert({:error, %{code: :labels_mismatch}} = ML.predict(model, image, labels: labels))
    end

    test "computes what was asked for", %{folder: folder} do
      model = colours(folder)
      options = [mean: [0.0, 0.0, 0.0], std: [1.0, 1.0, 1.0], softmax: false]
      assert {:ok, top} = ML.predict(model, plain([255, 51, 0]), options)
      assert close?(Enum.map(top, & &1.probability), [1.0, 0.2, 0.0], 1.0e-5)
      assert {:ok, ^top} = ML.predict(model, plain([1.0, 0.2, 0.0], {9, 5}, :f32), options)
      # Of equal ones the first is first.
      assert {:ok, gray} = ML.predict(model, plain([7, 7, 7]), options)
      assert Enum.map(gray, & &1.index) == [0, 1, 2]
      assert {:ok, softmax} = ML.predict(model, plain([255, 51, 0]), Keyword.delete(options, :softmax))
      sum = :math.exp(1.0) + :math.exp(0.2) + 1

      assert close?(
               Enum.map(softmax, & &1.probability),
               [:math.exp(1.0) / sum, :math.exp(0.2) / sum, 1 / sum],
               1.0e-5
             )

      assert {:error, %{code: code}} = ML.predict(model, plain([1, 2, 3]), std: [1, 0, 1])
      assert code in [:out_of_range, :param_range, :param_out_of_range, :bad_param]
    end

    test "keeps the plans of a few sizes, and makes others anew", %{folder: folder} do
      model = colours(folder)

      for _ <- 1..2,
          size <- 1..9,
          do: assert({:ok, [%{index: 1} | _]} = ML.predict(model, plain([0, 90, 0], {size, 4})))
    end

    test "says what is wrong", %{folder: folder} do
      {model, image} = {colours(folder), plain([1, 2, 3])}

      for image <- [
            Compute.buffer_zeros({4}, :u8),
            Compute.buffer_zeros({4, 4, 7}, :u8),
            Compute.buffer_zeros({4, 4, 3}, :s64),
            Compute.buffer_zeros({0, 4, 3}, :u8)
          ] do
        assert {:error, %Compute.Error{}} = ML.predict(model, image)
      end

      nan = Compute.buffer(List.duplicate(:nan, 12), {2, 2, 3}, :f32)
      assert {:error, %{code: :not_finite}} = ML.predict(model, nan)
      freed = plain([1, 2, 3])
      Compute.free(freed)
      assert {:error, %{code: :freed}} = ML.predict(model, freed)
      fixed = colours(folder, [8, 3, 4, 4], [8, 3, 1, 1])
      assert {:error, %{code: :no_classifier, message: message}} = ML.predict(fixed, image)
      assert message =~ "{8, 3, 4, 4}"
      assert {:error, %{code: :unknown_model}} = ML.predict(%{model | name: :gone}, image)

      for options <- [
            [top: -1],
            [top: 1.5],
            [fit: :pad],
            [labels: 1],
            [labels: [:a]],
            [mean: [1]],
            [softmax: 1],
            [what: 1],
            :top
          ],
          do: assert_raise(ArgumentError, fn -> ML.predict(model, image, options) end)

      for image <- [nil, <<1, 2, 3>>, make_ref()],
          do: assert_raise(ArgumentError, fn -> ML.predict(model, image) end)

      for model <- [nil, 1, %{}], do: assert_raise(ArgumentError, fn -> ML.predict(model, image) end)
    end
  end
end

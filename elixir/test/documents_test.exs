Code.require_file("documents/examples.exs", __DIR__)
Code.require_file("documents/pictures.exs", __DIR__)

defmodule DocumentsTest do
  # Every code example of the documents is run and its numbers are checked. Their signatures are checked in api_test.exs.
  use ExUnit.Case

  alias Dala.Gpu.Compute
  alias Dala.Test.Models
  alias Documents.{Examples, Pictures}

  @choices Path.expand("../CHOICES.md", __DIR__)

  # Floats are compared with what double precision gives; u8 may be off by a level in each stage that rounds.
  @float 1.0e-4
  @shape {6, 7, 4}

  describe "Dala.Gpu.Compute" do
    @tag example: "compute_quick_start"
    test "quick start", %{example: name} do
      {results, binding} = run(name, [])
      [info, _a, _b, _c, :ok, sum, :ok, :ok, :ok] = results
      assert %{name: device, gpu: gpu, version: version} = info
      assert is_binary(device) and is_boolean(gpu) and is_binary(version)
      assert sum == floats([5.0, 7.0, 9.0])

      for name <- [:a, :b, :c] do
        error = assert_raise Compute.Error, fn -> Compute.read(binding[name]) end
        assert error.code == :freed
      end
    end

    @tag example: "compute_async_execution"
    test "async execution", %{example: name} do
      {[_id, state, :ok], binding} =
        run(name, [a: vector([1.5, -2.0, 0.25]), b: junk({3}, :f32)], b: [1.5, 0.0, 0.25])

      assert state in [:pending, :completed]
      assert Compute.poll(binding[:cmd_id]) == :completed
    end

    for dtype <- [:f32, :u8] do
      @tag example: "compute_pipeline_orchestration", dtype: dtype
      test "pipeline orchestration, #{dtype}", %{example: name, dtype: dtype} do
        input = Pictures.picture(@shape, dtype)
        blurred = Pictures.blur(input, @shape, dtype, 3, 1.5)
        binding = images([:temp_buf, :output_buf], dtype) ++ [input_buf: image(input, dtype)]
        {results, _} = run(name, binding, temp_buf: {blurred, 1}, output_buf: {Pictures.relu(blurred), 2})
        assert List.last(results) == :ok
        # Otherwise the second stage would have had nothing to do.
        assert dtype == :u8 or Enum.any?(blurred, &(&1 < 0))
      end

      @tag example: "compute_run_kernel", dtype: dtype
      test "run_kernel, #{dtype}", %{example: name, dtype: dtype} do
        input = Pictures.picture(@shape, dtype)

        binding =
          [a: vector([1.0, -2.0, 3.0]), b: vector([10.0, 20.0, 30.0]), c: junk({3}, :f32)] ++
            images([:out_buf], dtype) ++ [image_buf: image(input, dtype)]

        expected = [
          c: [11.0, 18.0, 33.0],
          b: [1.0, -0.2, 3.0],
          out_buf: {Pictures.blur(input, @shape, dtype, 3, 1.5), 1}
        ]

        assert {[:ok, :ok, :ok], _} = run(name, binding, expected)
      end
    end

    @tag example: "compute_add"
    test "add", %{example: name} do
      binding = [a: vector([1.0, 2.0, -3.5]), b: vector([0.5, -4.0, 3.0])]
      assert {[_c, :ok], _} = run(name, binding, c: [1.5, -2.0, -0.5])
    end

    @tag example: "compute_buffer"
    test "buffer", %{example: name} do
      {[buffer], _} = run(name, [], buf: [1.0, 2.0, 3.0])
      assert {Compute.shape(buffer), Compute.dtype(buffer), Compute.size(buffer)} == {{3}, :f32, 12}
    end

    @tag example: "compute_buffer_from_binary"
    test "buffer_from_binary", %{example: name} do
      data = for n <- 1..(640 * 480), into: <<>>, do: <<n * 2_654_435_761::32>>
      {[buffer], _} = run(name, binary_data: data)
      assert Compute.read(buffer) == data
      assert {Compute.shape(buffer), Compute.dtype(buffer)} == {{640, 480, 4}, :u8}
    end

    @tag example: "compute_buffer_zeros"
    test "buffer_zeros", %{example: name} do
      # Memory that was used before is the likeliest to be handed out.
      Compute.free(junk({256, 256}, :f32))
      {[buffer], _} = run(name, [])
      assert Compute.read(buffer) == :binary.copy(<<0>>, 256 * 256 * 4)
      assert {Compute.shape(buffer), Compute.dtype(buffer)} == {{256, 256}, :f32}
    end

    @tag example: "compute_from_nx"
    test "from_nx", %{example: name} do
      {[_tensor, buffer], _} = run(name, [], buf: [1.0, 2.0, 3.0])
      assert {Compute.shape(buffer), Compute.dtype(buffer)} == {{3}, :f32}
    end

    @tag example: "compute_to_nx"
    test "to_nx", %{example: name} do
      {[tensor], _} = run(name, buf: vector([4.0, -5.0, 0.5]))
      assert Nx.to_flat_list(tensor) == [4.0, -5.0, 0.5]
      assert {Nx.shape(tensor), Nx.type(tensor)} == {{3}, {:f, 32}}
    end

    @tag example: "compute_matmul"
    test "matmul", %{example: name} do
      {results, _} = run(name, [list_4: [1.0, 2.0, 3.0, 4.0]], c: [7.0, 10.0, 15.0, 22.0])
      assert List.last(results) == :ok
    end

    @tag example: "compute_multiply"
    test "multiply", %{example: name} do
      binding = [a: vector([1.0, 2.0, -3.0]), b: vector([4.0, 0.5, 2.0]), output: junk({3}, :f32)]
      assert {[:ok], _} = run(name, binding, output: [4.0, 1.0, -6.0])
    end

    @tag example: "compute_scale"
    test "scale", %{example: name} do
      binding = [input: vector([1.0, -2.0, 0.5]), output: junk({3}, :f32)]
      assert {[:ok], _} = run(name, binding, output: [2.5, -5.0, 1.25])
    end

    @tag example: "compute_relu"
    test "relu", %{example: name} do
      binding = [input: vector([1.0, -2.0, 0.0]), output: junk({3}, :f32)]
      assert {[:ok], _} = run(name, binding, output: [1.0, 0.0, 0.0])
    end

    @tag example: "compute_read"
    test "read", %{example: name} do
      {[data], _} = run(name, buf: vector([5.0, 7.0, 9.0]))
      assert data == floats([5.0, 7.0, 9.0])
    end

    @tag example: "compute_submit"
    test "submit", %{example: name} do
      b = junk({3}, :f32)
      later = fn -> Compute.read(b) end
      binding = [a: vector([1.5, -2.0, 0.25]), b: b, handle_error: &raise/1, retry_later: later]
      {[id, data], _} = run(name, binding, b: [1.5, 0.0, 0.25])
      assert data == floats([1.5, 0.0, 0.25])
      assert Compute.poll(id) == :completed
    end
  end

  describe "Dala.Gpu.Compute.Pipeline" do
    for dtype <- [:f32, :u8] do
      @tag example: "pipeline_image_processing", dtype: dtype
      test "image processing, #{dtype}", %{example: name, dtype: dtype} do
        {height, width, _} = @shape
        input = Pictures.picture(@shape, dtype)
        blurred = Pictures.blur(input, @shape, dtype, 3, 1.5)
        sharpened = Pictures.sharpen(blurred, @shape, dtype, 0.5)
        gray = Pictures.grayscale(sharpened, @shape, dtype)

        binding =
          [input_buf: image(input, dtype), output_buf: junk({height, width}, dtype)] ++
            images([:blurred_buf, :sharpened_buf], dtype)

        expected = [blurred_buf: {blurred, 1}, sharpened_buf: {sharpened, 2}, output_buf: {gray, 3}]
        {results, binding} = run(name, binding, expected)
        assert List.last(results) == :ok

        # The result of the pipe is dropped, and the pipeline has its stages all the same.
        assert Compute.Pipeline.stage_count(binding[:pipeline]) == 3

        assert Enum.map(Compute.Pipeline.stages(binding[:pipeline]), & &1.kernel) == [
                 :blur,
                 :sharpen,
                 :grayscale
               ]
      end
    end
  end

  describe "Dala.Gpu.Compute.Pipeline with a model" do
    setup do
      Models.mobilenet!()
    end

    for {photo, class} <- [cat_chelsea: 285, espresso_coffee: 967, tripod_camera: 872] do
      @tag :long
      @tag example: "pipeline_ai_inference", photo: "#{photo}.crop224.png", class: class
      test "AI inference, #{photo}", %{example: name, photo: photo, class: class} do
        camera = Models.photo!(photo)
        logits = for name <- [:logits_buf, :probs_buf], do: {name, junk({1, 1000}, :f32)}
        binding = logits ++ [camera_buf: camera, preprocessed_buf: junk({1, 3, 224, 224}, :f32)]
        # Waits until the pixels are there.
        Compute.read(camera)
        before = Compute.stats()
        {results, binding} = run(name, binding)
        later = Compute.stats()
        assert List.last(results) == :ok
        assert later.downloaded_bytes == before.downloaded_bytes

        probabilities = Compute.read_list(binding[:probs_buf])
        assert Enum.max(probabilities) == Enum.at(probabilities, class)
        assert_in_delta Enum.sum(probabilities), 1.0, @float
        # What each stage gave is in its buffer too.
        logits = Compute.read_list(binding[:logits_buf])
        powers = Enum.map(logits, &:math.exp/1)
        sum = Enum.sum(powers)
        check!(binding[:probs_buf], Enum.map(powers, &(&1 / sum)), name)
        check!(binding[:preprocessed_buf], normalized(Compute.read(camera)), name)

        # The same again is a replay: nothing is compiled or brought to the device.
        assert :ok = Compute.pipeline_run(binding[:pipeline])
        assert Compute.read_list(binding[:probs_buf]) == probabilities
      end
    end

    # Channel by channel, as ImageNet's are.
    defp normalized(pixels) do
      for {channel, mean, std} <- [{0, 0.485, 0.229}, {1, 0.456, 0.224}, {2, 0.406, 0.225}],
          <<pixel::binary-3 <- pixels>>,
          do: (:binary.at(pixel, channel) / 255 - mean) / std
    end
  end

  describe "the guide" do
    @tag example: "guide_submit_poll_wait"
    test "submit, poll, wait", %{example: name} do
      binding = [input: low([1.0, -2.0]), output: low([77.0, 77.0]), id: &id/1]
      {_, binding} = run(name, binding, output: [1.0, 0.0])
      assert binding[:status] in [:pending, :running, :completed]
      assert ExCubecl.poll(binding[:cmd_id]) == {:ok, :completed}
    end

    @tag example: "guide_polling_pattern"
    test "polling pattern", %{example: name} do
      binding = [input: low([1.0, -2.0]), output: low([77.0, 77.0]), id: &id/1]
      {_, binding} = run(name, binding, output: [1.0, 0.0])
      assert binding[:result] == :ok
    end

    @tag example: "guide_parallel_gpu_work"
    test "parallel GPU work", %{example: name} do
      lists = for n <- 1..5, do: for(at <- 1..100, do: (at - 50) * n * 1.0)
      inputs = Enum.map(lists, &low/1)

      # The example forgets its outputs: whoever is asked for their ids can keep them.
      remember = fn buffer ->
        send(self(), {:asked, buffer})
        id(buffer)
      end

      {_, binding} = run(name, inputs: inputs, id: remember)
      assert length(Enum.uniq(binding[:cmd_ids])) == 5

      for {list, input} <- Enum.zip(lists, inputs) do
        assert_received {:asked, ^input}
        assert_received {:asked, output}
        check!(output, Pictures.relu(list), name)
      end
    end

    @tag example: "guide_basic_pipeline"
    test "basic pipeline", %{example: name} do
      binding = [buf_a: low([1.0, 2.0, -3.0]), buf_b: low([0.5, -4.0, 1.0])]
      outputs = [buf_out: low([77.0, 77.0, 77.0]), buf_result: low([77.0, 77.0, 77.0])]
      {_, binding} = run(name, binding ++ outputs, buf_out: [1.5, -2.0, -2.0], buf_result: [1.5, 0.0, 0.0])
      assert {:error, %{code: :freed_pipeline}} = ExCubecl.pipeline_run(binding[:pipeline])
    end

    @tag example: "guide_multi_stage_pipeline"
    test "multi-stage pipeline", %{example: name} do
      {_, binding} = run(name, [], stage1: [2.0, 4.0, 6.0], stage2: [2.0, 4.0, 6.0])
      assert binding[:result] == floats([2.0, 4.0, 6.0])
    end

    @tag example: "guide_combining_async_and_pipelines"
    test "async and pipelines", %{example: name} do
      input = Pictures.picture(@shape, :f32)
      # Nothing is said of a radius: it is 1, and sigma half of it.
      blurred = Pictures.blur(input, @shape, :f32, 1, 0.5)
      binding = images([:buf_blur, :buf_out], :f32) ++ [buf_in: image(input, :f32)]
      low = for {name, buffer} <- binding, do: {name, buffer.ref}
      run(name, low, buf_blur: blurred, buf_out: Pictures.relu(blurred))
    end
  end

  describe "Dala.Gpu" do
    # As the documents draw it: 640 wide and 480 high.
    @surface {480, 640, 4}

    @tag example: "compute_surfaces"
    test "surfaces", %{example: name} do
      pixels = Pictures.gradient(@surface)
      {results, binding} = run(name, [output_buf: junk(@surface, :u8)], output_buf: pixels)
      surface = binding[:surface]
      assert [{:ok, ^surface}, :ok, data, :ok, :ok] = results
      assert data == :erlang.list_to_binary(pixels)
      assert shown(surface) == data
      assert {:ok, %{width: 640, height: 480, presented: 1}} = Dala.Gpu.surface_info(surface)
    end

    @tag example: "compute_run_to_surface"
    test "run_to_surface", %{example: name} do
      input = Pictures.gradient(@surface)
      inverted = Enum.map(input, &(255 - &1))
      :ok = Compute.Kernel.define(:documents_invert, "255 - x")
      input = Compute.buffer_from_binary(:erlang.list_to_binary(input), @surface, :u8)
      Compute.read(input)
      before = Compute.stats().downloaded_bytes
      binding = [kernel: :documents_invert, input_buf: input, output_buf: junk(@surface, :u8)]
      {[{:ok, surface}, :ok], _} = Examples.run(Examples.expressions(Examples.text(name)), binding)
      {:ok, %{on_device: on_device}} = Dala.Gpu.surface_info(surface)

      # "Avoiding an intermediate read-back to the CPU": where the CPU is the device, handing pixels over counts as one.
      assert Compute.stats().downloaded_bytes - before == if(on_device, do: 0, else: 480 * 640 * 4)
      assert :ok = Dala.Gpu.present(surface)
      assert shown(surface) == :erlang.list_to_binary(inverted)
      check!(binding[:output_buf], inverted, name)
    end

    defp shown(surface) do
      {:ok, png} = Dala.Gpu.snapshot(surface)
      {:ok, picture} = Dala.Media.decode(png)
      assert picture.shape == @surface
      Compute.read(picture)
    end
  end

  describe "the examples" do
    test "are all run" do
      tagged = for %{tags: %{example: name}} <- __MODULE__.__ex_unit__().tests, uniq: true, do: name
      assert Enum.sort(tagged) == Examples.names()
    end
  end

  describe "edits" do
    test "are those of CHOICES.md, line by line" do
      [_, listed] = Regex.run(~r/^```diff\n(.*?)^```/ms, File.read!(@choices))
      assert Enum.map_join(Examples.edited(), &Examples.changes/1) == listed
    end

    test "are forced: the originals do not run" do
      buffers = [a: vector([1.0]), b: vector([1.0]), input: low([1.0]), inputs: [low([1.0])]]

      for name <- Examples.edited() do
        # The compiler complains about names that are not there.
        ExUnit.CaptureIO.capture_io(:stderr, fn ->
          result =
            try do
              Examples.run(Examples.expressions(Examples.original(name)), buffers)
            rescue
              error in [MatchError, CompileError] -> error
            end

          assert is_exception(result), "#{name} runs as it is"
        end)
      end
    end

    test "belong to an original" do
      assert Examples.edited() -- Examples.names() == []
    end
  end

  ## Running and comparing

  # Runs an example. `expected` has what buffers hold after it: numbers, and how many levels u8 may be off.
  defp run(name, binding, expected \\ []) do
    check_run(name, Examples.expressions(Examples.text(name)), binding, expected)
  end

  defp check_run(name, expressions, binding, expected) do
    # A buffer that holds the result before the example has run would prove nothing.
    for {variable, wanted} <- expected do
      case Keyword.fetch(binding, variable) do
        {:ok, buffer} ->
          assert problem(buffer, wanted), "#{name}: #{variable} holds the result from the start"

        :error ->
          assert Enum.any?(numbers(wanted), &(&1 != 0)), "#{name}: #{variable} should not be all zeros"
      end
    end

    {results, binding} = Examples.run(expressions, binding)
    for {variable, wanted} <- expected, do: check!(binding[variable], wanted, "#{name}: #{variable}")
    {results, binding}
  end

  defp check!(buffer, wanted, what) do
    if problem = problem(buffer, wanted), do: flunk("#{what}: #{problem}")
  end

  # Nil if the buffer holds what is wanted.
  defp problem(buffer, wanted) do
    tolerance = if Compute.dtype(buffer) == :u8, do: levels(wanted), else: @float
    {found, wanted} = {Compute.read_list(buffer), numbers(wanted)}

    if length(found) != length(wanted) do
      "#{length(found)} elements instead of #{length(wanted)}"
    else
      [found, wanted]
      |> Enum.zip()
      |> Enum.with_index()
      |> Enum.find_value(fn {{found, wanted}, index} ->
        close? = is_number(found) and abs(found - wanted) <= tolerance
        if not close?, do: "element #{index} is #{inspect(found)} instead of #{wanted}"
      end)
    end
  end

  defp numbers({numbers, _levels}), do: numbers
  defp numbers(numbers), do: numbers
  defp levels({_numbers, levels}), do: levels
  defp levels(_numbers), do: 0

  ## Buffers

  defp vector(list), do: Compute.buffer(list, {length(list)}, :f32)
  defp image(list, dtype), do: Compute.buffer(list, @shape, dtype)
  defp images(names, dtype), do: for(name <- names, do: {name, junk(@shape, dtype)})

  # Of the lower layer.
  defp low(list), do: ExCubecl.buffer!(list, [length(list)], :f32)

  defp id(buffer) do
    {:ok, id} = ExCubecl.id(buffer)
    id
  end

  # What outputs hold before something is written to them.
  defp junk(shape, dtype) do
    number = if dtype == :u8, do: 77, else: 77.0
    Compute.buffer(List.duplicate(number, Tuple.product(shape)), shape, dtype)
  end

  defp floats(list), do: for(x <- list, into: <<>>, do: <<x::float-32-little>>)
end

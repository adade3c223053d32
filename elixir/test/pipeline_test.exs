Code.require_file("documents/pictures.exs", __DIR__)

defmodule PipelineTest do
  # What pipelines are compiled to: that it computes the same, is kept, and is made anew when it must be.
  use ExUnit.Case

  import Eventually
  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.{Error, Native, Pipeline, Stream, Transient}
  alias Documents.Pictures

  @shape {19, 23, 4}

  describe "transients" do
    for dtype <- [:u8, :f32] do
      test "give what the same stages give one by one, #{dtype}" do
        dtype = unquote(dtype)
        input = Compute.buffer(Pictures.picture(@shape, dtype), @shape, dtype)
        {height, width, _} = @shape
        [blurred, sharpened] = for _ <- 1..2, do: Compute.buffer_zeros(@shape, dtype)
        [wanted, found, kept] = for _ <- 1..3, do: Compute.buffer_zeros({height, width}, dtype)

        for stage <- image_stages(input, blurred, sharpened, wanted), do: :ok = run_alone(stage)
        expected = Compute.read_list(wanted)
        assert Enum.uniq(expected) != [0]

        # Neither says what it is: that follows.
        stages = image_stages(input, Compute.transient(), Compute.transient(), found)
        assert Compute.pipeline_run(pipeline(stages)) == :ok
        assert_same(Compute.read_list(found), expected, dtype)

        # Buffers in their place hold their results too.
        [soft, sharp] = for _ <- 1..2, do: Compute.buffer_zeros(@shape, dtype)
        assert Compute.pipeline_run(pipeline(image_stages(input, soft, sharp, kept))) == :ok

        for {one, other} <- [{soft, blurred}, {sharp, sharpened}, {kept, wanted}],
            do: assert_same(Compute.read_list(one), Compute.read_list(other), dtype)
      end
    end

    test "are given a shape and a type where these do not follow" do
      picture = Compute.buffer(Pictures.picture(@shape, :u8), @shape, :u8)
      [wanted, found] = for _ <- 1..2, do: Compute.buffer_zeros({4, 5}, :u8)
      small = Compute.buffer_zeros({4, 5, 4}, :u8)
      resized = &[kernel(:resize, [picture], &1), kernel(:grayscale, [&1], &2)]

      for stage <- resized.(small, wanted), do: :ok = run_alone(stage)
      assert Compute.pipeline_run(pipeline(resized.(Compute.transient({4, 5, 4}), found))) == :ok
      assert_same(Compute.read_list(found), Compute.read_list(wanted), :u8)
      again = Compute.transient({4, 5, 4}, :u8)
      assert Compute.pipeline_run(pipeline(resized.(again, found))) == :ok

      assert {:error, %Error{code: :ambiguous_shape} = error} =
               Compute.pipeline_run(pipeline(resized.(Compute.transient(nil, :u8), found)))

      assert Exception.message(error) =~
               "the shape of the transient `t0` does not follow from kernel `resize`"

      assert [%{details: %{stage: 0}}] = error.details.problems

      # What is said must be so.
      wrong = Compute.transient({3, 3})
      x = Compute.buffer([1.0, 2.0], {2})

      assert {:error, %Error{code: :shape_mismatch}} =
               Compute.pipeline_run(pipeline([relu(x, wrong), relu(wrong, x)]))
    end

    test "are copied from and to" do
      x = Compute.buffer([1.0, -2.0, 3.0], {3})
      y = Compute.buffer_zeros({3})
      [a, b] = for _ <- 1..2, do: Compute.transient()
      copy = &%{op: :copy_buffer, inputs: [&1], output: &2}
      stages = [copy.(x, a), relu(a, b), %{op: :barrier}, copy.(b, y)]
      assert Compute.pipeline_run(pipeline(stages)) == :ok
      assert Compute.read_list(y) == [1.0, 0.0, 3.0]
    end

    test "are two buffers in two pipelines, and one wherever they are in one" do
      between = Compute.transient()

      results =
        for number <- 1..2 do
          x = Compute.buffer([number * 1.0, -number * 1.0], {2})
          y = Compute.buffer_zeros({2})
          stages = [kernel(:scale, [x], between, %{scalar: 2.0}), kernel(:add, [between, between], y)]
          pipeline = pipeline(stages)
          assert Compute.pipeline_run(pipeline) == :ok
          {pipeline, y}
        end

      for {pipeline, _} <- Enum.reverse(results), do: assert(Compute.pipeline_run(pipeline) == :ok)
      assert Enum.map(results, fn {_, y} -> Compute.read_list(y) end) == [[4.0, -4.0], [8.0, -8.0]]
    end

    test "cannot be read before they are written" do
      y = Compute.buffer_zeros({2})
      transient = Compute.transient({2}, :f32)
      assert {:error, %Error{code: :unwritten} = error} = Compute.pipeline_run(pipeline([relu(transient, y)]))
      assert Exception.message(error) =~ "which no stage before writes"
    end

    test "are nothing outside of a pipeline" do
      x = Compute.buffer([1.0], {1})
      transient = Compute.transient({1}, :f32)
      assert {:error, %Error{code: :transient_outside}} = Compute.run_kernel(:relu, [x], transient)

      assert {:error, %Error{code: :transient_outside}} =
               ExCubecl.submit([relu(x, transient), relu(transient, x)])

      assert_raise Error, ~r/exists only while a pipeline runs/, fn -> Compute.submit(relu(transient, x)) end
      assert_raise Error, ~r/exists only while/, fn -> Stream.new(input: x, stages: [relu(transient, x)]) end
      assert_raise ArgumentError, ~r/this is no buffer/, fn -> Compute.read(transient) end

      assert {:error, %Error{code: :invalid_stage}} =
               Compute.pipeline_run(pipeline([%{op: :write_buffer, output: transient, data: <<0::32>>}]))
    end

    test "that are none are refused" do
      assert_raise ArgumentError, ~r/a shape is a tuple/, fn -> Compute.transient([3]) end
      assert_raise ArgumentError, ~r/a shape is a tuple/, fn -> Compute.transient({-1}) end
      assert_raise ArgumentError, ~r/an element type is one of/, fn -> Compute.transient({3}, :f8) end
      x = Compute.buffer([1.0], {1})
      good = Compute.transient()

      for bad <- [
            %{good | id: nil},
            %{good | id: -1},
            %{good | id: 0x1FFFFFFFFFFFFFFFF},
            %{good | shape: [1]},
            %{good | shape: {:a}},
            %{good | shape: {0x1FFFFFFFFFFFFFFFF}},
            %{good | shape: Tuple.duplicate(1, 33)},
            %{good | dtype: :f8}
          ] do
        assert {:error, %Error{code: :invalid_stage}} = Compute.pipeline_run(pipeline([relu(x, bad)])),
               inspect(bad)
      end

      # The same, said to be something else.
      stages = [relu(x, good), relu(%{good | shape: {1}}, x)]
      assert {:error, %Error{code: :invalid_stage} = error} = Compute.pipeline_run(pipeline(stages))
      assert Exception.message(error) == "this is no transient of one shape and type"
    end

    test "that are too large fail the run, not the VM" do
      :ok = Compute.Kernel.define(:pipeline_test_ones, "1.0", inputs: [])
      sum = Compute.buffer_zeros({})

      for {shape, code} <- [
            {{0x4000000000000000, 4}, :invalid_stage},
            {{0xFFFFFFFFFFFFFFFF}, :invalid_stage},
            {{1_000_000, 1_000_000, 1_000}, :shape_too_large}
          ] do
        [large, other] = [Compute.transient(shape, :f32), Compute.transient()]

        stages = [
          kernel(:pipeline_test_ones, [], large),
          kernel(:transpose, [large], other),
          kernel(:reduce_sum, [other], sum)
        ]

        assert {:error, %Error{code: ^code}} = Compute.pipeline_run(pipeline(stages))
      end

      assert Compute.relu(sum, sum) == :ok
    end

    test "show what they are" do
      assert %Transient{id: id, shape: nil, dtype: nil} = transient = Compute.transient()
      assert inspect(transient) == "#Dala.Gpu.Compute.Transient<#{id}>"
      assert %Transient{id: id} = transient = Compute.transient({2, 3}, :u8)
      assert inspect(transient) == "#Dala.Gpu.Compute.Transient<#{id} :u8 {2, 3}>"
      assert inspect(%Transient{id: :x, shape: [1 | 2], dtype: %{}}) =~ "Transient"
    end

    test "are taken by the lower layer" do
      [x, y] = for _ <- 1..2, do: ExCubecl.buffer!([1.0, -2.0], [2])
      {:ok, pipeline} = ExCubecl.pipeline()
      between = Compute.transient()
      assert ExCubecl.pipeline_add(pipeline, "relu", [x], between) == :ok
      assert ExCubecl.pipeline_add(pipeline, "scalar_mul", [between], y, %{scalar: 4.0}) == :ok
      assert {:ok, [id, id]} = ExCubecl.pipeline_run(pipeline)
      assert ExCubecl.poll(id) == {:ok, :completed}
      assert Compute.read_list(y) == [4.0, 0.0]
    end
  end

  describe "what is compiled" do
    setup do
      # Counted by the VM, whichever process calls.
      function = {Native, :pipeline_compile, 3}
      :erlang.trace_pattern(function, true, [:call_count])
      on_exit(fn -> :erlang.trace_pattern(function, false, [:call_count]) end)

      %{
        compiled: fn ->
          {:call_count, count} = :erlang.trace_info(function, :call_count)
          count
        end
      }
    end

    test "is compiled once, until a stage is added", %{compiled: compiled} do
      x = Compute.buffer([1.0, -2.0], {2})
      y = Compute.buffer_zeros({2})
      between = Compute.transient()
      pipeline = pipeline([kernel(:scale, [x], between, %{scalar: 3.0}), relu(between, y)])
      assert compiled.() == 0
      assert Compute.pipeline_run(pipeline) == :ok
      assert compiled.() == 1

      kernels = Dala.Test.Kernels.obtained()
      for _ <- 1..20, do: assert(Compute.pipeline_run(pipeline) == :ok)
      assert {:ok, [_, _]} = ExCubecl.pipeline_run(pipeline.ref)
      # By another process, too.
      assert Task.await(Task.async(fn -> Compute.pipeline_run(pipeline) end), :infinity) == :ok
      assert Compute.explain(pipeline) =~ "relu"
      assert {compiled.(), Dala.Test.Kernels.obtained()} == {1, kernels}
      assert Compute.read_list(y) == [3.0, 0.0]

      Compute.pipeline_add(pipeline, kernel(:scale, [y], y, %{scalar: 5.0}))
      assert Compute.pipeline_run(pipeline) == :ok
      assert Compute.read_list(y) == [15.0, 0.0]
      assert Compute.pipeline_run(pipeline) == :ok
      assert Compute.read_list(y) == [15.0, 0.0]
      assert compiled.() == 2

      # Looking at it compiles it as well, and executes nothing.
      other = pipeline([kernel(:scale, [y], y, %{scalar: 2.0})])
      assert Compute.to_svg(other) =~ "scale"
      assert Compute.read_list(y) == [15.0, 0.0]
      assert Compute.pipeline_run(other) == :ok
      assert Compute.read_list(y) == [30.0, 0.0]
      assert compiled.() == 3
    end

    test "is what there was when it was to run, however many stages are added meanwhile", %{
      compiled: compiled
    } do
      x = Compute.buffer([0.0], {1})
      pipeline = pipeline([kernel(:scalar_add, [x], x, %{scalar: 1.0})])
      stop = :atomics.new(1, [])

      adder =
        Task.async(fn ->
          Elixir.Stream.repeatedly(fn -> Compute.pipeline_add(pipeline, %{op: :barrier}) end)
          |> Enum.find(fn _ -> :atomics.get(stop, 1) == 1 or Pipeline.stage_count(pipeline) > 20_000 end)
        end)

      for _ <- 1..5, do: assert(Compute.pipeline_run(pipeline) == :ok)
      :atomics.put(stop, 1, 1)
      Task.await(adder, :infinity)
      assert compiled.() <= 5
      assert Compute.read_list(x) == [5.0]
    end

    test "is nothing where a stage carries data", %{compiled: compiled} do
      x = Compute.buffer_zeros({2})
      y = Compute.buffer_zeros({2})
      write = %{op: :write_buffer, output: x, data: <<1.0::float-32-little, -2.0::float-32-little>>}
      pipeline = pipeline([write, relu(x, y)])
      for _ <- 1..2, do: assert(Compute.pipeline_run(pipeline) == :ok)
      assert {:ok, [id, id]} = ExCubecl.pipeline_run(pipeline.ref)
      assert {Compute.read_list(x), Compute.read_list(y)} == {[1.0, -2.0], [1.0, 0.0]}
      assert compiled.() == 0

      # All that is wrong is said here too.
      wrong = pipeline([%{write | data: <<0>>}, relu(x, y), %{relu(x, y) | kernel: :rleu}])
      assert {:error, %Error{details: %{problems: [size, kernel]}} = error} = Compute.pipeline_run(wrong)
      assert {size.code, size.details.stage} == {:size_mismatch, 0}
      assert {kernel.code, kernel.details.stage} == {:unknown_kernel, 2}
      assert Exception.message(error) =~ "the pipeline has 2 problems:\n  stage 0: "

      # What needs a plan cannot be had.
      between = Compute.transient()
      mixed = pipeline([write, relu(x, between), relu(between, y)])
      assert {:error, %Error{code: :not_plannable} = error} = Compute.pipeline_run(mixed)
      assert Exception.message(error) =~ "stage 0: write_buffer cannot be part of a plan"
      assert [%{details: %{stage: 0}}] = error.details.problems
      assert_raise Error, ~r/write_buffer cannot be part of a plan/, fn -> Compute.explain(pipeline) end
    end

    test "is nothing where something is wrong", %{compiled: compiled} do
      x = Compute.buffer([1.0], {1})
      pipeline = pipeline([relu(x, x), %{relu(x, x) | kernel: :rleu}])
      for _ <- 1..2, do: assert({:error, %Error{code: :unknown_kernel}} = Compute.pipeline_run(pipeline))
      assert compiled.() == 2
      assert Compute.read_list(x) == [1.0]
    end
  end

  describe "runs" do
    test "of 20 processes are one after the other" do
      x = Compute.buffer([0.0, 10.0], {2})
      y = Compute.buffer_zeros({2})
      between = Compute.transient()

      stages = [
        kernel(:scalar_add, [x], x, %{scalar: 1.0}),
        kernel(:scale, [x], between, %{scalar: 2.0}),
        relu(between, y)
      ]

      pipeline = pipeline(stages)
      run = fn -> for _ <- 1..50, uniq: true, do: Compute.pipeline_run(pipeline) end
      results = for(_ <- 1..20, do: Task.async(run)) |> Task.await_many(:infinity)
      assert Enum.uniq(List.flatten(results)) == [:ok]
      assert Compute.read_list(x) == [1000.0, 1010.0]
      assert Compute.read_list(y) == [2000.0, 2020.0]
    end

    test "of many pipelines at once do not share their transients" do
      runs =
        for number <- 1..20 do
          Task.async(fn ->
            x = Compute.buffer(List.duplicate(number * 1.0, 500), {500})
            y = Compute.buffer_zeros({})
            [a, b] = for _ <- 1..2, do: Compute.transient()
            # Two reductions: what is between them is in memory.
            stages = [
              kernel(:softmax, [x], a),
              kernel(:scale, [a], b, %{scalar: number * 500.0}),
              kernel(:reduce_sum, [b], y)
            ]

            pipeline = pipeline(stages)

            for _ <- 1..50, uniq: true do
              :ok = Compute.pipeline_run(pipeline)
              [sum] = Compute.read_list(y)
              abs(sum - number * 500.0) < 0.1
            end
          end)
        end

      assert Task.await_many(runs, :infinity) == List.duplicate([true], 20)
    end

    test "of a large pipeline are right" do
      count = 400
      buffers = for _ <- 0..count, do: Compute.buffer_zeros({3})
      :ok = Compute.write(hd(buffers), <<1.0::float-32-little, 2.0::float-32-little, 3.0::float-32-little>>)

      stages =
        for [from, to] <- Enum.chunk_every(buffers, 2, 1, :discard),
            do: kernel(:scalar_add, [from], to, %{scalar: 1.0})

      pipeline = pipeline(stages)
      for _ <- 1..3, do: assert(Compute.pipeline_run(pipeline) == :ok)

      for {buffer, n} <- Enum.with_index(buffers),
          do: assert(Compute.read_list(buffer) == [1.0 + n, 2.0 + n, 3.0 + n])

      assert {:ok, ids} = ExCubecl.pipeline_run(pipeline.ref)
      assert {length(ids), length(Enum.uniq(ids))} == {count, 1}
    end

    test "write what could not be read before" do
      x = Compute.buffer([1.0, -2.0], {2})
      [poisoned, y] = for _ <- 1..2, do: Compute.buffer_zeros({2})
      poison(poisoned)
      pipeline = pipeline([relu(x, poisoned), kernel(:scale, [poisoned], y, %{scalar: 2.0})])
      assert Compute.pipeline_run(pipeline) == :ok
      assert {Compute.read_list(poisoned), Compute.read_list(y)} == {[1.0, 0.0], [2.0, 0.0]}

      # What they only read must be readable.
      poison(x)
      assert {:error, %Error{code: code}} = Compute.pipeline_run(pipeline)
      assert code in [:poisoned, :dependency_failed]
      :ok = Compute.write(x, <<4.0::float-32-little, 4.0::float-32-little>>)
      assert Compute.pipeline_run(pipeline) == :ok
      assert Compute.read_list(y) == [8.0, 8.0]
    end

    test "of a process that dies are cancelled, and others' go on" do
      x = Compute.buffer([1.0, -2.0], {2})
      y = Compute.buffer_zeros({2})
      pipeline = pipeline([relu(x, y)])
      :ok = Compute.pipeline_run(pipeline)
      cancelled = Compute.stats().cancelled
      :ok = Compute.suspend()
      on_exit(&Compute.resume/0)
      before = pending()
      pid = spawn(fn -> Compute.pipeline_run(pipeline) end)
      assert eventually(fn -> pending() > before end)
      Process.exit(pid, :kill)
      assert eventually(fn -> Compute.stats().cancelled > cancelled end)
      :ok = Compute.resume()
      assert Compute.pipeline_run(pipeline) == :ok
      assert Compute.read_list(y) == [1.0, 0.0]
    end
  end

  describe "what was freed" do
    test "is said, with its stage and whatever else is wrong" do
      [x, y] = for _ <- 1..2, do: Compute.buffer([1.0, -2.0], {2})
      freed = Compute.buffer([3.0, 4.0], {2})
      Compute.free(freed)
      wrong = pipeline([relu(x, y), relu(freed, y), %{relu(x, y) | kernel: :rleu}])
      assert {:error, %Error{code: :freed} = error} = Compute.pipeline_run(wrong)

      assert Enum.map(error.details.problems, &{&1.details.stage, &1.code}) == [
               {1, :freed},
               {2, :unknown_kernel}
             ]

      assert error.message =~
               ~r/^the pipeline has 2 problems:\n  stage 1: buffer #\d+ was freed\n  stage 2: no kernel/

      # One stage needs no number.
      assert {:error, %Error{code: :freed} = error} = Compute.pipeline_run(pipeline([relu(freed, y)]))
      assert Exception.message(error) == "buffer ##{freed.id} was freed"
      assert [%Error{code: :freed}] = error.details.problems
    end

    test "is said after it was compiled, too" do
      [x, y, z] = for _ <- 1..3, do: Compute.buffer([1.0, -2.0], {2})
      between = Compute.transient()
      pipeline = pipeline([relu(x, between), relu(between, y), relu(y, z)])
      for _ <- 1..3, do: assert(Compute.pipeline_run(pipeline) == :ok)
      Compute.free(y)

      for _ <- 1..2 do
        assert {:error, %Error{code: :freed} = error} = Compute.pipeline_run(pipeline)
        assert Enum.map(error.details.problems, & &1.details.stage) == [1, 2]
        assert {:error, %Error{code: :freed}} = ExCubecl.pipeline_run(pipeline.ref)
      end

      assert_raise Error, ~r/was freed/, fn -> Compute.explain(pipeline) end
      Compute.free_pipeline(pipeline)
      assert {:error, %Error{code: :freed_pipeline}} = Compute.pipeline_run(pipeline)
      assert_raise Error, "the pipeline was freed", fn -> Compute.explain(pipeline) end
      assert_raise Error, "the pipeline was freed", fn -> Compute.to_svg(pipeline) end
    end

    test "while it runs ends the runs that come after" do
      for _ <- 1..20 do
        [x, y] = for _ <- 1..2, do: Compute.buffer([1.0, -2.0], {2})
        pipeline = pipeline([relu(x, y)])
        runs = for _ <- 1..4, do: Task.async(fn -> for(_ <- 1..20, do: Compute.pipeline_run(pipeline)) end)
        if :rand.uniform(2) == 1, do: Compute.free(y), else: Compute.free_pipeline(pipeline)

        for result <- List.flatten(Task.await_many(runs, :infinity)), result != :ok do
          assert {:error, %Error{code: code}} = result
          assert code in [:freed, :freed_pipeline]
        end
      end
    end

    test "gives back what was kept between stages" do
      count = 1024 * 1024
      [x, y] = for shape <- [{count}, {}], do: Compute.buffer_zeros(shape)
      [a, b] = for _ <- 1..2, do: Compute.transient()
      # Each needs all of the one before it.
      pipeline = pipeline([kernel(:softmax, [x], a), kernel(:softmax, [a], b), kernel(:reduce_sum, [b], y)])
      Compute.read(y)
      live = settled_memory().live
      assert Compute.pipeline_run(pipeline) == :ok
      during = Compute.memory().live
      Compute.free_pipeline(pipeline)
      assert eventually(fn -> Compute.memory().live <= live end)
      assert during > live
    end
  end

  describe "a plan" do
    test "is explained and drawn" do
      [x, y] = for list <- [[1.0, -2.0], [0.0, 0.0]], do: Compute.buffer(list, {2})
      between = Compute.transient()
      pipeline = pipeline([relu(x, between), kernel(:sigmoid, [between], y)])
      text = Compute.explain(pipeline)
      assert text =~ "2 stages in 1 launch"
      assert text =~ "relu" and text =~ "sigmoid" and text =~ "fused"
      svg = Compute.to_svg(pipeline)
      assert String.starts_with?(svg, "<svg") and String.ends_with?(String.trim(svg), "</svg>")
      assert svg =~ "relu" and svg =~ "sigmoid"
      # Nothing was executed.
      assert Compute.read_list(y) == [0.0, 0.0]
      assert Compute.explain(pipeline(image_stages_of_1080p())) =~ "blur"
    end

    test "of a wrong pipeline is an error, with all that is wrong" do
      x = Compute.buffer([1.0], {1})
      wide = Compute.buffer_zeros({3})
      pipeline = pipeline([relu(x, wide), %{relu(x, x) | kernel: :rleu}])

      for show <- [&Compute.explain/1, &Compute.to_svg/1] do
        error = assert_raise Error, fn -> show.(pipeline) end
        assert Exception.message(error) =~ "the pipeline has 2 problems:\n  stage 0: "
        assert length(error.details.problems) == 2
        assert_raise Error, ~r/is no operation/, fn -> show.(pipeline([%{op: :fly}])) end
        assert_raise ArgumentError, ~r/this is no pipeline/, fn -> show.(make_ref()) end
        assert_raise ArgumentError, ~r/this is no pipeline/, fn -> show.(%Pipeline{ref: make_ref()}) end
      end
    end
  end

  describe "a trace" do
    test "tells what the device did" do
      x = Compute.buffer([1.0, -2.0], {2})
      between = Compute.transient()
      pipeline = pipeline([relu(x, between), kernel(:sigmoid, [between], x)])

      {result, json} =
        Compute.trace(fn ->
          :ok = Compute.pipeline_run(pipeline)
          :ok = Compute.run_kernel(:tanh, [x], x)
          Compute.read_list(x)
        end)

      assert [_, _] = result
      assert json =~ ~s("traceEvents")

      for name <- ["relu + sigmoid", "tanh", "read", "process_name", "live bytes"],
          do: assert(json =~ ~s("name":"#{name}"))

      assert %{"traceEvents" => [_ | _]} = decode(json)
      # What came before or after is not in it.
      assert {:nothing, json} = Compute.trace(fn -> :nothing end)
      refute json =~ "tanh"
    end

    test "is taken one at a time, and ends with its function or its process" do
      {error, _} = Compute.trace(fn -> catch_error(Compute.trace(fn -> :ok end)) end)
      assert %Error{code: :tracing} = error
      assert_raise RuntimeError, "out", fn -> Compute.trace(fn -> raise "out" end) end
      assert catch_throw(Compute.trace(fn -> throw(:away) end)) == :away
      assert {:ok, _} = Compute.trace(fn -> :ok end)

      parent = self()

      pid =
        spawn(fn ->
          Compute.trace(fn ->
            send(parent, :traced)
            Process.sleep(:infinity)
          end)
        end)

      assert_receive :traced
      assert %Error{code: :tracing} = catch_error(Compute.trace(fn -> :ok end))
      Process.exit(pid, :kill)

      assert eventually(fn ->
               try do
                 {:ok, _} = Compute.trace(fn -> :ok end)
               rescue
                 Error -> false
               end
             end)

      assert_raise ArgumentError, ~r/a function without arguments/, fn -> Compute.trace(fn x -> x end) end
    end
  end

  ## Stages

  defp pipeline(stages), do: Enum.reduce(stages, Compute.pipeline(), &Compute.pipeline_add(&2, &1))

  defp kernel(kernel, inputs, output, params \\ %{}),
    do: %{op: :run_kernel, kernel: kernel, inputs: inputs, output: output, params: params}

  defp relu(x, y), do: kernel(:relu, [x], y)

  # The documents' example.
  defp image_stages(input, blurred, sharpened, output) do
    [
      kernel(:blur, [input], blurred, %{radius: 3, sigma: 1.5}),
      kernel(:sharpen, [blurred], sharpened, %{amount: 0.5}),
      kernel(:grayscale, [sharpened], output)
    ]
  end

  defp image_stages_of_1080p do
    [picture, gray] = for shape <- [{1080, 1920, 4}, {1080, 1920}], do: Compute.buffer_zeros(shape, :u8)
    image_stages(picture, Compute.transient(), Compute.transient(), gray)
  end

  defp run_alone(stage), do: Compute.run_kernel(stage.kernel, stage.inputs, stage.output, stage.params)

  # Integers are the same; floats may be rounded elsewhere.
  defp assert_same(found, wanted, :u8), do: assert(found == wanted)

  defp assert_same(found, wanted, :f32) do
    assert length(found) == length(wanted)

    for {one, other} <- Enum.zip(found, wanted),
        do: assert_in_delta(one, other, 1.0e-4 * max(1.0, abs(other)))
  end

  ## Looking

  # What should have written it was cancelled.
  defp poison(buffer) do
    Compute.read(buffer)
    :ok = Compute.suspend()
    id = Compute.submit(%{op: :write_buffer, output: buffer, data: :binary.copy(<<0>>, buffer.size)})
    true = Compute.cancel(id)
    :ok = Compute.resume()
    assert_raise Error, fn -> Compute.read(buffer) end
  end

  defp pending, do: Enum.sum(for {_, lane} <- Compute.stats().lanes, do: lane.pending)

  # Decoded if the VM can; otherwise it must look like it.
  defp decode(json) do
    if Code.ensure_loaded?(:json) do
      apply(:json, :decode, [json])
    else
      assert String.starts_with?(json, "{") and String.ends_with?(json, "}")
      count = fn text -> length(String.split(json, text)) end
      assert {count.("{"), count.("[")} == {count.("}"), count.("]")}
      %{"traceEvents" => Regex.scan(~r/"ph":"[XbeCM]"/, json)}
    end
  end
end

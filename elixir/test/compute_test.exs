defmodule ComputeTest do
  use ExUnit.Case

  import Eventually
  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.{Buffer, Error, Kernel, Native, Pipeline}

  defmodule Filters do
    use Dala.Gpu.Compute.Kernel

    kernel :test_brighten, params: [gain: 1.0, bias: 0.0] do
      clamp(x * gain + bias, 0, 1)
    end

    kernel :test_blend, inputs: [:a, :b], params: [amount: 0.5] do
      rest = 1 - amount
      a * rest + b * amount
    end

    kernel :test_ramp, inputs: [] do
      if rem(index, 2) == 0, do: f32(index), else: -f32(index)
    end
  end

  describe "kernels of a module" do
    test "run, with params and without" do
      x = Compute.buffer([0.1, 0.5], {2})
      assert Filters.test_brighten([x], x, %{gain: 4.0, bias: 0.1}) == :ok
      assert [a, 1.0] = Compute.read_list(x)
      assert_in_delta a, 0.5, 1.0e-6

      [a, b, c] = for list <- [[0.0, 2.0], [4.0, 4.0], [9.0, 9.0]], do: Compute.buffer(list, {2})
      assert Filters.test_blend([a, b], c) == :ok
      assert Compute.read_list(c) == [2.0, 3.0]
      assert Filters.test_blend([a, b], c, amount: 1.0) == :ok
      assert Compute.read_list(c) == [4.0, 4.0]
    end

    test "are used by name once they are defined" do
      assert Filters.define_kernels() == :ok
      assert Filters.define_kernels() == :ok
      out = Compute.buffer_zeros({4})
      assert Compute.run_kernel(:test_ramp, [], out) == :ok
      assert Compute.read_list(out) == [0.0, -1.0, 2.0, -3.0]
      assert Enum.map(Filters.__kernels__(), &elem(&1, 0)) == [:test_brighten, :test_blend, :test_ramp]
    end

    test "another kernel of the same name is an error" do
      assert Kernel.define(:test_same, "x + 1") == :ok
      assert Kernel.define("test_same", "x + 1") == :ok
      assert {:error, %Error{code: :duplicate_kernel}} = Kernel.define(:test_same, "x + 2")
      assert {:error, %Error{code: :duplicate_kernel}} = Kernel.define(:relu, "x")
      assert {:error, %Error{code: :invalid_argument}} = Kernel.define(:test_same, "x", unknown: 1)
    end

    test "required params are required" do
      assert Kernel.define(:test_required, "x * gain", params: [gain: :float]) == :ok
      x = Compute.buffer([2.0], {1})

      assert {:error, %Error{code: :missing_param, details: %{param: "gain"}}} =
               Compute.run_kernel(:test_required, [x], x)

      assert Compute.run_kernel(:test_required, [x], x, gain: 3) == :ok
      assert Compute.read_list(x) == [6.0]
    end

    test "mistakes are found while the module is compiled" do
      code = """
      defmodule ComputeTest.Wrong do
        use Dala.Gpu.Compute.Kernel
        kernel :wrong do
          Enum.sum(x)
        end
      end
      """

      assert_raise CompileError, ~r/filters.ex:4/, fn -> Code.eval_string(code, [], file: "filters.ex") end
    end
  end

  describe "buffers" do
    test "hold every type, also what has no literal" do
      for {dtype, list} <- [
            f32: [1.5, -0.0, :infinity, :neg_infinity, :nan],
            f64: [1.0e300, :nan],
            s32: [-2_147_483_648, 2_147_483_647],
            s64: [-9_223_372_036_854_775_808, 9_223_372_036_854_775_807],
            u32: [0, 4_294_967_295],
            u8: [0, 255],
            f16: [1.5, -0.0, 65_504.0, :infinity, :neg_infinity, :nan],
            bf16: [1.5, -0.0, :infinity, :neg_infinity, :nan],
            s8: [-128, 127],
            s16: [-32_768, 32_767],
            u16: [0, 65_535],
            u64: [0, 18_446_744_073_709_551_615]
          ] do
        buffer = Compute.buffer(list, {length(list)}, dtype)
        assert Compute.read_list(buffer) == list
        assert Compute.size(buffer) == byte_size(Compute.read(buffer))
      end
    end

    test "of 16-bit floats compute, as lists and as tensors" do
      for dtype <- [:f16, :bf16] do
        halves = Compute.buffer([1.5, 2.0, -0.25], {3}, dtype)
        assert Compute.run_kernel("elementwise_add", [halves, halves], halves) == :ok
        assert Compute.read_list(halves) == [3.0, 4.0, -0.5]
        tensor = Compute.to_nx(halves)
        assert Nx.type(tensor) == {if(dtype == :f16, do: :f, else: :bf), 16}
        again = Compute.from_nx(tensor)
        assert Compute.read_list(again) == [3.0, 4.0, -0.5]
      end
    end

    test "of small integers saturate, or wrap if asked" do
      wide = Compute.buffer([-200, 100, 300], {3}, :s32)
      small = Compute.buffer_zeros({3}, :s8)
      assert Compute.run_kernel("cast", [wide], small) == :ok
      assert Compute.read_list(small) == [-128, 100, 127]
      assert Compute.run_kernel("cast", [wide], small, %{overflow: "wrap"}) == :ok
      assert Compute.read_list(small) == [56, 100, 44]
    end

    test "may be scalars, or empty" do
      assert Compute.read_list(Compute.buffer([7.0], {})) == [7.0]
      empty = Compute.buffer([], {0, 3})
      assert Compute.read(empty) == ""
      assert Compute.relu(empty, empty) == :ok
      assert Compute.read(Compute.buffer_zeros({0})) == ""
    end

    test "large ones are read as they were written" do
      data = :crypto.strong_rand_bytes(3_000_001)
      buffer = Compute.buffer_from_binary(data, {3_000_001}, :u8)
      assert Compute.read(buffer) == data
      # The memory of one read is used for the next; what was read before must not change.
      first = Compute.read(buffer)
      :ok = Compute.write(buffer, :binary.copy(<<7>>, 3_000_001))
      second = Compute.read(buffer)
      assert first == data
      assert second == :binary.copy(<<7>>, 3_000_001)
    end

    test "binaries need not begin at a byte" do
      for size <- [5, 100, 20_000, 700_001] do
        data = :crypto.strong_rand_bytes(size)
        <<size::32, _::3, shifted::binary-size(size), _::5>> = <<size::32, 5::3, data::binary, 7::5>>
        buffer = Compute.buffer_from_binary(shifted, {size}, :u8)
        part = Compute.buffer_from_binary(binary_part(data, 1, size - 2), {size - 2}, :u8)
        assert Compute.read(buffer) == data
        assert Compute.read(part) == binary_part(data, 1, size - 2)
      end
    end

    test "what is wrong is said" do
      assert_raise Error, ~r/6 bytes of data for a buffer of 8 bytes/, fn ->
        Compute.buffer_from_binary("123456", {2}, :f32)
      end

      assert_raise ArgumentError, ~r/a shape is a tuple/, fn -> Compute.buffer([1.0], [1]) end
      assert_raise ArgumentError, ~r/an element type is one of/, fn -> Compute.buffer([1.0], {1}, :f8) end
      assert_raise ArgumentError, ~r/this is no buffer/, fn -> Compute.read(make_ref()) end
      assert_raise ArgumentError, ~r/this is no buffer/, fn -> Compute.free(:buffer) end
      error = assert_raise Error, fn -> Compute.buffer_zeros({1_000_000, 1_000_000}, :f64) end
      assert error.code in [:out_of_memory, :buffer_too_large]
      assert error.details != %{}
    end

    test "a buffer that was freed cannot be used, and its memory is back" do
      buffer = Compute.buffer_zeros({1024, 1024}, :f32)
      live = settled_memory().live
      assert Compute.free(buffer) == :ok
      # The zeros may not have been written yet; memory that is in use is given back after that.
      assert eventually(fn -> Compute.memory().live <= live - 4_194_304 end)
      assert_raise Error, ~r/was freed/, fn -> Compute.read(buffer) end
      assert Compute.shape(buffer) == {1024, 1024}
    end

    test "show what they are, whatever they are" do
      buffer = Compute.buffer_zeros({2, 3}, :u8)
      assert inspect(buffer) == "#Dala.Gpu.Compute.Buffer<#{buffer.id} :u8 {2, 3} 6 B>"
      Compute.free(buffer)
      assert inspect(buffer) =~ "Buffer"
      assert inspect(%Buffer{ref: 1, id: nil, shape: :x, dtype: [], size: %{}}) =~ "Buffer"
      assert inspect(%Pipeline{ref: make_ref()}) == "#Dala.Gpu.Compute.Pipeline<no pipeline>"
      assert inspect(%Pipeline{}) =~ "no pipeline"
    end
  end

  describe "commands" do
    setup do
      on_exit(fn -> Compute.resume() end)
      %{x: Compute.buffer([1.0, -2.0], {2})}
    end

    test "are pending until they end", %{x: x} do
      :ok = Compute.suspend()
      id = Compute.submit(relu(x))

      assert {Compute.poll(id), Compute.status(id), ExCubecl.poll(id)} ==
               {:pending, :pending, {:ok, :pending}}

      assert {:error, %Error{code: :wait_timeout}} = Compute.wait(id, 20)
      :ok = Compute.resume()
      assert Compute.wait(id) == :ok

      assert {Compute.poll(id), Compute.status(id), ExCubecl.poll(id)} ==
               {:completed, :completed, {:ok, :completed}}

      assert Compute.read_list(x) == [1.0, 0.0]
    end

    test "may be cancelled, and poison what they should have written", %{x: x} do
      y = Compute.buffer_zeros({2})
      :ok = Compute.suspend()
      id = Compute.submit(relu(x, y))
      dependent = Compute.submit(relu(y, x))
      assert Compute.cancel(id)
      :ok = Compute.resume()
      assert {:error, %Error{code: :cancelled}} = Compute.wait(id)
      assert Compute.status(id) == :cancelled
      assert ExCubecl.poll(id) == {:ok, :failed}
      assert {:error, %Error{code: :cancelled}} = Compute.poll(id)
      assert {:error, %Error{code: :dependency_failed, details: %{command: ^id}}} = Compute.wait(dependent)
      error = assert_raise Error, fn -> Compute.read(y) end
      assert {error.code, error.details.cause.code} == {:poisoned, :cancelled}
      # Written again, it is well again.
      assert Compute.write(y, <<0::64>>) == :ok
      assert Compute.read_list(y) == [0.0, 0.0]
    end

    test "that are late fail", %{x: x} do
      :ok = Compute.suspend()
      id = Compute.submit(relu(x), deadline: 5, lane: :background)
      Process.sleep(30)
      :ok = Compute.resume()
      assert {:error, %Error{code: :deadline_exceeded}} = Compute.wait(id)
    end

    test "full lanes refuse, make wait, or drop the oldest" do
      work = %{op: :barrier}
      :ok = Compute.suspend()
      ids = for _ <- 1..4096, do: Compute.submit(work, lane: :background, when_full: :refuse)

      assert_raise Error, ~r/the background lane is full/, fn ->
        Compute.submit(work, lane: :background, when_full: :refuse)
      end

      id = Compute.submit(work, lane: :background, when_full: :drop_oldest)
      assert {:error, %Error{code: :dropped}} = Compute.wait(hd(ids))
      # One that waits for room gets it when the device goes on.
      waiting = Task.async(fn -> Compute.submit(work, lane: :background, detached: true) end)
      assert Task.yield(waiting, 20) == nil
      :ok = Compute.resume()
      last = Task.await(waiting, :infinity)
      for command <- [id, last | tl(ids)], do: assert(Compute.wait(command) == :ok)
    end

    test "waiting for room counts against the deadline" do
      work = %{op: :barrier}
      :ok = Compute.suspend()
      [first | _] = for _ <- 1..4096, do: Compute.submit(work, lane: :background, when_full: :refuse)

      late =
        Task.async(fn ->
          receive do: (:go -> Compute.wait(Compute.submit(work, lane: :background, deadline: 600_000)))
        end)

      # What each try to find room says is left.
      submit = {Compute.Native, :submit, 5}
      :erlang.trace(late.pid, true, [:call])
      :erlang.trace_pattern(submit, true, [])
      on_exit(fn -> :erlang.trace_pattern(submit, false, []) end)
      send(late.pid, :go)
      assert_receive {:trace, _, :call, {_, _, [_, _, {:background, left, :wait} | _]}}
      assert left <= 600_000_000

      for _ <- 1..5, reduce: left do
        before ->
          assert_receive {:trace, _, :call, {_, _, [_, _, {:background, left, :wait} | _]}}
          # It rested for a millisecond at least.
          assert left <= before - 1_000
          left
      end

      # Now there is room for one.
      assert Compute.cancel(first)
      :ok = Compute.resume()
      assert Task.await(late, :infinity) == :ok
    end

    test "that find no room before their deadline are not queued" do
      work = %{op: :barrier}
      :ok = Compute.suspend()
      for _ <- 1..4096, do: Compute.submit(work, lane: :background, when_full: :refuse)
      error = assert_raise Error, fn -> Compute.submit(work, lane: :background, deadline: 5) end
      assert error.code == :deadline_exceeded
      assert error.message =~ "no room in the lane"
    end

    test "tell when they end", %{x: x} do
      ref = make_ref()
      id = Compute.submit([relu(x), %{op: :barrier}], notify: ref)
      assert_receive {^ref, :ok}
      assert Compute.poll(id) == :completed

      assert_raise ArgumentError, ~r/:notify must be a reference/, fn ->
        Compute.submit(relu(x), notify: :me)
      end
    end

    test "that are wrong have no id", %{x: x} do
      assert_raise Error, ~r/no kernel is called `rleu`/, fn -> Compute.submit(%{relu(x) | kernel: :rleu}) end
      assert_raise Error, ~r/stage 1: a stage needs :op/, fn -> Compute.submit([relu(x), %{}]) end
      ops = ":fly is no operation: use one of [:run_kernel, :copy_buffer, :write_buffer, :barrier]"
      assert_raise Error, ops, fn -> Compute.submit(%{op: :fly}) end
      # The first of those that are wrong, whatever the order of a map's keys.
      wrong = Map.merge(%{op: :barrier}, Map.new([:zoom, :alpha, :size, :beta], &{&1, 1}))
      assert_raise Error, ~r/^:alpha is no key of :barrier/, fn -> Compute.submit(wrong) end
      assert_raise ArgumentError, ~r/unknown keys/, fn -> Compute.submit(relu(x), lanes: 1) end
      assert_raise ArgumentError, ~r/:lane must be one of/, fn -> Compute.submit(relu(x), lane: :fast) end
    end

    test "as JSON", %{x: x} do
      {:ok, y} = ExCubecl.buffer([0.0, 0.0], [2])
      {:ok, y_id} = ExCubecl.id(y)

      json = """
      [{"op": "run_kernel", "kernel": "relu", "inputs": [#{x.id}], "output": #{y_id}, "params": {"slope": 0.5}},
       {"op": "barrier"},
       {"op": "copy_buffer", "inputs": [#{y_id}], "output": #{x.id}}]
      """

      assert {:ok, id} = ExCubecl.submit(json)
      assert ExCubecl.wait(id) == :ok
      assert Compute.read_list(x) == [1.0, -1.0]

      for text <- [
            "",
            "some_command",
            "{}",
            "[[]]",
            ~s({"op": "fly"}),
            ~s({"op": "barrier", "x": 1}),
            "7",
            <<255>>
          ] do
        assert {:error, %Error{code: :invalid_command}} = ExCubecl.submit(text), text
      end

      assert {:error, %Error{code: :unknown_buffer}} =
               ExCubecl.submit(~s({"op": "copy_buffer", "inputs": [987654321], "output": #{y_id}}))

      assert {:error, %Error{code: :unknown_kernel}} =
               ExCubecl.submit(~s({"op": "run_kernel", "kernel": "fly", "inputs": [], "output": #{y_id}}))

      # A buffer that is only known by its id is nobody's: this keeps it.
      assert Compute.read_list(y) == [1.0, -1.0]
    end

    test "that fail are the same to a read that waits for them", %{x: x} do
      :ok = Compute.suspend()
      id = Compute.submit(relu(x))
      reader = Task.async(fn -> catch_error(Compute.read(x)) end)
      Process.sleep(20)
      assert Compute.cancel(id)
      :ok = Compute.resume()

      assert %Error{code: :poisoned, details: %{cause: %Error{code: :cancelled}}} =
               Task.await(reader, :infinity)
    end

    test "fail while the device is suspended, if asked for", %{x: x} do
      # Its data has arrived: what is on its way would fail too.
      Compute.read(x)
      :ok = Compute.suspend(:fail)
      assert {:error, %Error{code: :suspended}} = Compute.relu(x, x)
      :ok = Compute.resume()
      assert Compute.relu(x, x) == :ok
    end
  end

  describe "pipelines" do
    test "say everything that is wrong" do
      x = Compute.buffer([1.0], {1})
      wide = Compute.buffer_zeros({3})
      pipeline = Compute.pipeline()

      for stage <- [relu(x), relu(x, wide), %{relu(x) | kernel: :rleu}],
          do: Compute.pipeline_add(pipeline, stage)

      assert {:error, %Error{details: %{problems: [shape, kernel]}} = error} = Compute.pipeline_run(pipeline)
      assert {shape.code, shape.details.stage} == {:shape_mismatch, 1}
      assert {kernel.code, kernel.details.stage} == {:unknown_kernel, 2}
      assert Exception.message(error) =~ "2 problems"
      # Nothing was executed.
      assert Compute.read_list(x) == [1.0]
    end

    test "run again, on what is in their buffers then" do
      x = Compute.buffer([1.0, -1.0], {2})
      y = Compute.buffer_zeros({2})
      pipeline = Compute.pipeline()
      Compute.pipeline_add(pipeline, relu(x, y))
      assert Compute.pipeline_run(pipeline) == :ok
      assert Compute.read_list(y) == [1.0, 0.0]
      :ok = Compute.write(x, <<5.0::float-32-little, 6.0::float-32-little>>)
      assert Compute.pipeline_run(pipeline) == :ok
      assert Compute.read_list(y) == [5.0, 6.0]
      assert Pipeline.stages(pipeline) == [relu(x, y)]
    end

    test "are shared by every copy, and keep their buffers" do
      pipeline = Compute.pipeline()
      parent = self()

      {pid, monitor} =
        spawn_monitor(fn ->
          x = Compute.buffer([-3.0], {1})
          Compute.pipeline_add(pipeline, relu(x))
          send(parent, {:id, x.id})
        end)

      assert_receive {:DOWN, ^monitor, :process, ^pid, :normal}
      assert_receive {:id, id}
      assert Pipeline.stage_count(pipeline) == 1
      assert Compute.pipeline_run(pipeline) == :ok
      [%{output: %{id: ^id} = x}] = Pipeline.stages(pipeline)
      assert Compute.read_list(x) == [0.0]
    end

    test "that were freed say so" do
      pipeline = Compute.pipeline()
      assert Compute.free_pipeline(pipeline) == :ok
      assert Compute.free_pipeline(pipeline) == :ok
      assert {:error, %Error{code: :freed_pipeline}} = Compute.pipeline_run(pipeline)
      assert_raise Error, ~r/was freed/, fn -> Compute.pipeline_add(pipeline, %{op: :barrier}) end
      assert Pipeline.stages(pipeline) == []
    end
  end

  describe "Nx" do
    test "tensors go in and come out" do
      tensor = Nx.tensor([[1.0, -2.0], [3.0, -4.0]], type: {:f, 32})
      buffer = Compute.from_nx(tensor)
      assert {buffer.shape, buffer.dtype} == {{2, 2}, :f32}
      assert Compute.relu(buffer, buffer) == :ok
      back = Compute.to_nx(buffer, {4}, :f32)
      assert Nx.shape(back) == {4}
      assert Nx.to_flat_list(back) == [1.0, 0.0, 3.0, 0.0]
      assert Nx.shape(Compute.to_nx(buffer)) == {2, 2}
    end

    test "other types and shapes are refused" do
      buffer = Compute.buffer([1.0, 2.0], {2})
      assert_raise Error, ~r/holds f32, not s32/, fn -> Compute.to_nx(buffer, {2}, :s32) end
      assert_raise Error, ~r/has 2 elements/, fn -> Compute.to_nx(buffer, {3}, :f32) end
    end
  end

  describe "the device" do
    test "says what it is" do
      info = Compute.device_info()
      assert is_binary(info.name) and is_boolean(info.gpu) and is_binary(info.version)
      assert Enum.sort(Map.keys(info.dtypes)) == Enum.sort(ExCubecl.supported_dtypes())
      wanted = System.get_env("DALA_DEVICE")
      if wanted, do: assert(info.backend == wanted)
    end

    test "counts what it does" do
      before = Compute.stats()
      x = Compute.buffer([1.0], {1})
      :ok = Compute.relu(x, x)
      Compute.read(x)
      stats = Compute.stats()
      assert stats.launches > before.launches
      assert stats.completed >= before.completed + 3
      assert stats.uploaded_bytes >= before.uploaded_bytes + 4
      assert stats.downloaded_bytes >= before.downloaded_bytes + 4
      assert Enum.sort(Map.keys(stats.lanes)) == [:background, :default, :interactive]
    end

    test "obeys power and heat" do
      :ok = Compute.set_power(:low)
      :ok = Compute.report_thermal(:serious)
      assert %{power: :low, thermal: :serious} = Compute.stats()
      :ok = Compute.set_power(:balanced)
      :ok = Compute.report_thermal(:nominal)
      assert_raise ArgumentError, fn -> Compute.set_power(:max) end
      assert_raise ArgumentError, fn -> Compute.report_thermal("hot") end
    end

    test "is shown at the shell" do
      output = ExUnit.CaptureIO.capture_io(fn -> Mix.Tasks.Dala.Info.run([]) end)
      assert output =~ Compute.device_info().name
      assert output =~ "in use   #{Compute.device_info().backend}"
      assert output =~ "kernels  "
    end
  end

  describe "the library" do
    test "that cannot be loaded says how to build it, and raises nothing where it need not" do
      code = """
      IO.inspect({ExCubecl.available?(), Dala.Gpu.Compute.gpu?()})
      {:error, error} = ExCubecl.buffer([1.0], [1])
      IO.puts(error.code)
      IO.puts(Exception.message(error))
      IO.inspect(Application.ensure_all_started(:dala_compute))
      IO.inspect(ExCubecl.available?())
      """

      paths = Enum.flat_map(:code.get_path(), &["-pa", List.to_string(&1)])
      env = [{"DALA_GPU_NIF_PATH", "/nowhere/dala_gpu"}]
      {output, 0} = System.cmd("elixir", paths ++ ["-e", code], env: env, stderr_to_stdout: true)
      assert output =~ "{false, false}"
      assert output =~ "nif_not_loaded"
      assert output =~ "/nowhere/dala_gpu"
      assert output =~ List.to_string(:erlang.system_info(:system_architecture))
      assert output =~ "DALA_GPU_BUILD=1 mix compile"
      assert output =~ "{:ok, "
    end

    test "runs where some schedulers are not online, as on one core of several" do
      code = """
      {:ok, _} = Application.ensure_all_started(:dala_compute)
      alias Dala.Gpu.Compute
      IO.inspect(Compute.read_list(Compute.buffer([3.0], {1})))
      # Asks every process.
      defmodule Gone, do: nil
      :code.delete(Gone)
      IO.inspect(:code.purge(Gone))
      """

      paths = Enum.flat_map(:code.get_path(), &["-pa", List.to_string(&1)])

      ask = fn ->
        System.cmd("elixir", ["--erl", "+S 2:1"] ++ paths ++ ["-e", code], stderr_to_stdout: true)
      end

      assert {:ok, {output, 0}} = Task.yield(Task.async(ask), 300_000)
      assert output =~ "[3.0]"
    end

    test "is not replaced in a running system, and goes on" do
      {module, binary, file} = :code.get_object_code(Native)

      assert {:error, :on_load_failure} =
               ExUnit.CaptureLog.with_log(fn -> :code.load_binary(module, file, binary) end) |> elem(0)

      assert Native.nop() == :ok
      assert Compute.read_list(Compute.buffer([3.0], {1})) == [3.0]
    end
  end

  test "telemetry tells of kernels, transfers and pipelines" do
    Dala.Gpu.Compute.Telemetry.init()
    parent = self()
    events = for event <- [:kernel, :transfer, :pipeline], do: [:dala_gpu, event, :stop]

    for event <- events do
      handler = fn name, measurements, metadata, _ -> send(parent, {name, measurements, metadata}) end
      :telemetry.attach({__MODULE__, event}, event, handler, nil)
    end

    on_exit(fn -> for event <- events, do: :telemetry.detach({__MODULE__, event}) end)
    x = Compute.buffer([1.0], {1})
    :ok = Compute.relu(x, x)
    assert_receive {[:dala_gpu, :transfer, :stop], %{duration: _}, %{direction: :upload, bytes: 4}}
    assert_receive {[:dala_gpu, :kernel, :stop], %{duration: _}, %{kernel: :relu}}
    {:error, error} = Compute.run_kernel(:rleu, [x], x)
    assert_receive {[:dala_gpu, :kernel, :stop], _, %{kernel: :rleu, error: ^error}}
    pipeline = Compute.pipeline_add(Compute.pipeline(), relu(x))
    :ok = Compute.pipeline_run(pipeline)
    assert_receive {[:dala_gpu, :pipeline, :stop], _, %{stages: 1}}
  end

  defp relu(x), do: relu(x, x)
  defp relu(x, y), do: %{op: :run_kernel, kernel: :relu, inputs: [x], output: y}
end

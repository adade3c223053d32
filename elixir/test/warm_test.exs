defmodule Dala.Gpu.Compute.WarmTest do
  use ExUnit.Case

  alias Dala.Gpu.Compute
  alias Dala.Test.Models
  import Eventually

  # Kernels are kept as text for OpenGL, which its driver compiles: nothing of ours is kept.
  @kept Compute.device_info().backend in ["cpu", "vulkan"]

  setup do
    folder = Path.join(System.tmp_dir!(), "dala-warm-#{System.unique_integer([:positive])}-#{System.pid()}")
    on_exit(fn -> File.rm_rf!(folder) end)
    {:ok, folder: folder}
  end

  defp relu(buffer), do: %{op: :run_kernel, kernel: :relu, inputs: [buffer], output: buffer}

  # What another VM prints, with kernels kept in the folder.
  defp elsewhere(code, env) do
    code = "{:ok, _} = Application.ensure_all_started(:dala_compute)\nalias Dala.Gpu.Compute\n" <> code
    paths = Enum.flat_map(:code.get_path(), &["-pa", List.to_string(&1)])
    env = [{"DALA_DEVICE", Compute.device_info().backend} | env]
    {output, status} = System.cmd("elixir", paths ++ ["-e", code], env: env, stderr_to_stdout: true)
    assert status == 0, output
    output
  end

  describe "warm/1" do
    test "builds what a pipeline needs, once, and runs nothing" do
      x = Compute.buffer([-1.0, 2.0], {2})
      pipeline = Compute.pipeline_add(Compute.pipeline(), relu(x))
      before = Compute.stats()
      assert {:ok, built} = Compute.warm(pipeline)
      assert Compute.stats().compilations - before.compilations == built
      assert Compute.stats().launches == before.launches
      assert Compute.read_list(x) == [-1.0, 2.0]
      assert {:ok, 0} = Compute.warm([pipeline, pipeline])
      assert :ok = Compute.pipeline_run(pipeline)
      assert Compute.read_list(x) == [0.0, 2.0]
    end

    test "says what is wrong" do
      pipeline = Compute.pipeline_add(Compute.pipeline(), %{op: :run_kernel, kernel: :no_such})
      assert {:error, %Compute.Error{}} = Compute.warm(pipeline)
      assert {:error, %Compute.Error{}} = Compute.warm([pipeline])
      Compute.free_pipeline(pipeline)
      assert {:error, %{code: :freed_pipeline}} = Compute.warm(pipeline)

      for bad <- [1, %{}, [1], {}, [Compute.pipeline() | 1]],
          do: assert_raise(ArgumentError, fn -> Compute.warm(bad) end)

      for bad <- [[batches: 3], [batch: 0], [batch: nil], 1, [1]],
          do: assert_raise(ArgumentError, fn -> Compute.warm(Compute.pipeline(), bad) end)

      assert {:error, %{code: :unknown_model}} = Compute.warm(:never_loaded)
    end

    test "builds what a model needs for a batch, and gives its memory back" do
      path = Path.join(System.tmp_dir!(), "dala-warm-#{System.unique_integer([:positive])}.onnx")
      nodes = [{"GlobalAveragePool", ["x"], ["y"]}]
      File.write!(path, Models.onnx(nodes, [{"x", ["N", 3, 2, 2]}], [{"y", ["N", 3, 1, 1]}]))
      on_exit(fn -> File.rm(path) end)
      assert {:ok, model} = Compute.load_model(:warm_model, path)
      live = settled_memory().live
      assert {:ok, _built} = Compute.warm(model, batch: 5)
      assert {:ok, 0} = Compute.warm([:warm_model, "warm_model"], batch: 5)
      # The plan is let go of by a thread.
      assert eventually(fn -> Compute.memory().live <= live end)
    end
  end

  describe "kernel_cache/0" do
    test "is shared with the next start of the program", %{folder: folder} do
      code = """
      x = Compute.buffer(Enum.to_list(1..64), {64}, :f32)
      pipeline = Compute.pipeline()
      for kernel <- [:relu, :softmax, :sigmoid],
          do: Compute.pipeline_add(pipeline, %{op: :run_kernel, kernel: kernel, inputs: [x], output: x})
      {:ok, built} = Compute.warm(pipeline)
      :ok = Compute.pipeline_run(pipeline)
      stats = Compute.stats()
      IO.inspect({built, stats.compilations, stats.kernels_found, Compute.kernel_cache()})
      """

      [{first, first, 0, %{folder: ^folder, refused: nil} = cache}, {second, second, found, cache_again}] =
        for _ <- 1..2, do: code |> elsewhere([{"DALA_CACHE", folder}]) |> Code.eval_string() |> elem(0)

      assert first > 0

      if @kept do
        assert {cache.kernels, second, found} == {first, 0, first}
        assert cache_again == cache
      else
        assert {cache.kernels, second, found} == {0, first, 0}
      end
    end

    test "may be named by the configuration, or turned off", %{folder: folder} do
      ask = fn setting ->
        elsewhere(
          """
          Application.put_env(:dala_compute, :cache, #{setting})
          IO.inspect(with {:ok, _} <- Dala.Gpu.Compute.Server.device(), do: Compute.kernel_cache().folder)
          """,
          [{"DALA_CACHE", nil}]
        )
      end

      assert ask.(inspect(folder)) =~ folder
      assert ask.(":off") =~ "nil"
      assert ask.("17") =~ "config :dala_compute, cache: 17 is neither a folder nor :off"
    end

    test "that others may write to is refused with a warning", %{folder: folder} do
      File.mkdir_p!(folder)
      File.chmod!(folder, 0o777)
      output = elsewhere("IO.inspect(Compute.kernel_cache())", [{"DALA_CACHE", folder}])
      assert output =~ "is open to others (mode 777)"
      warned = elsewhere("Compute.buffer([1.0], {1})", [{"DALA_CACHE", folder}])
      assert warned =~ "compiled kernels are not kept for the next start: #{folder} is open to others"
    end
  end
end

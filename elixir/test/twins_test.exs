defmodule TwinsTest do
  # Whether every public function can be had in both forms: one that raises its error, and one that returns it.
  use ExUnit.Case

  import Dala.Test.Docs

  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.{Error, Kernel, Picture, Pipeline, Stream}

  @arguments_only "nothing but a wrong argument can be wrong"
  @pipes "it returns its pipeline, for pipes; what is wrong with a stage is said by the run"
  @no_device "it is native or plain data, and needs no device"

  # Functions that return a value, and have no twin that returns a tuple.
  @without_twin %{
    {Compute, :dtype, 1} => @arguments_only,
    {Compute, :free, 1} => @arguments_only,
    {Compute, :free_many, 1} => @arguments_only,
    {Compute, :free_pipeline, 1} => @arguments_only,
    {Compute, :gpu?, 0} => "false if there is no device",
    {Compute, :kernel_cache, 0} => @no_device,
    {Compute, :pipeline, 0} => @no_device,
    {Compute, :pipeline_add, 2} => @pipes,
    {Compute, :shape, 1} => @arguments_only,
    {Compute, :size, 1} => @arguments_only,
    {Compute, :status, 1} => "poll/1 returns the error",
    {Compute, :trace, 1} => "what the function raises is the caller's",
    {Compute, :transient, 2} => @arguments_only,
    {Compute, :version, 0} => @no_device,
    {Compute.Buffer, :from_ref, 1} => @arguments_only,
    {Compute.Buffer, :ref, 1} => @arguments_only,
    {Pipeline, :add, 2} => @pipes,
    {Pipeline, :new, 0} => @no_device,
    {Pipeline, :stage_count, 1} => @arguments_only,
    {Pipeline, :stages, 1} => @arguments_only,
    {Compute.Server, :child_spec, 1} => "written by `use GenServer`",
    {Stream, :stats, 1} => @arguments_only,
    {Stream, :stop, 1} => @arguments_only,
    {Compute.Telemetry, :execute, 3} => @arguments_only,
    {Compute.Telemetry, :init, 0} => @no_device,
    {Compute.Telemetry, :span, 3} => "what the function raises is the caller's",
    {Dala.Gpu, :close_surface, 1} => "a surface that is closed already is fine",
    {Dala.ML, :imagenet_labels, 0} => @no_device,
    {Dala.Media, :frame_stream, 2} => "it is lazy: what fails is known when it is enumerated",
    {Dala.Serving, :info, 1} => @arguments_only,
    {Dala.Serving, :report, 1} => @arguments_only,
    {Dala.Serving, :start_link, 1} => "it returns what a supervisor wants",
    {Dala.Serving, :stream, 3} => "it is lazy: each answer says whether it failed",
    {ExCubecl, :available?, 0} => "false if there is no device",
    {ExCubecl, :supported_dtypes, 0} => @no_device,
    {ExCubecl, :version, 0} => @no_device
  }

  describe "public functions" do
    test "that may return an error have a twin that raises it" do
      without = for {module, name, arity} = f <- returning(), not twin?({module, :"#{name}!", arity}), do: f
      assert without == []
    end

    test "that return a value have a twin that returns a tuple, or a reason why not" do
      without = for {module, name, arity} = f <- raising(), not twin?({module, :"try_#{name}", arity}), do: f
      assert Enum.sort(without) == Enum.sort(Map.keys(@without_twin))
    end

    test "of both kinds are found" do
      assert length(returning()) > 40
      assert length(raising()) - map_size(@without_twin) >= 20
    end

    test "take the same arguments as their twins" do
      functions = Map.new(functions(), &{&1.id, &1})

      for %{id: {module, _, arity}, meta: %{twin_of: name}} = twin <- Map.values(functions) do
        original = Map.fetch!(functions, {module, name, arity})
        assert twin.meta[:defaults] == original.meta[:defaults]
        assert arguments(twin) == arguments(original)
      end
    end
  end

  describe "a twin with a !" do
    test "gives what the other has in its tuple" do
      buffer = Compute.buffer_zeros({3}, :u8)
      assert Compute.write!(buffer, <<1, 2, 3>>) == :ok
      assert Compute.run_kernel!(:scalar_add, [buffer], buffer, %{scalar: 1}) == :ok
      id = Compute.submit(%{op: :barrier})
      assert Compute.wait!(id) == :ok
      assert Compute.poll!(id) == :completed
      assert Compute.read(Dala.Media.decode!(Picture.to_png(Compute.buffer([7], {1, 1}, :u8)))) == <<7>>
      assert ExCubecl.read!(ExCubecl.buffer!([7], [1], :u8)) == <<7>>
    end

    test "raises what the other returns" do
      freed = Compute.buffer([1.0], {1})
      Compute.free(freed)

      for {module, name, arguments, code} <- [
            {Compute, :write, [freed, <<0, 0, 0, 0>>], :freed},
            {Compute, :relu, [freed, freed], :freed},
            {Compute, :poll, [123_456_789_012], :unknown_command},
            {Compute, :load_model, [:twins_net, "no/such/file.onnx"], :io},
            {Kernel, :define, [:twins_kernel, "3 * y"], :bad_expression},
            {Dala.Gpu, :create_surface, [0, 480], :invalid_size},
            {Dala.Media, :decode, ["no picture"], :unknown_format},
            {ExCubecl, :buffer, [[300], [1], :u8], :invalid_value},
            {ExCubecl, :buffer, [[300], {1}, :u8], :invalid_argument}
          ] do
        assert {:error, %Error{code: ^code} = error} = apply(module, name, arguments)
        assert catch_error(apply(module, :"#{name}!", arguments)) == error
      end
    end
  end

  describe "a twin with try_" do
    test "gives what the other returns in a tuple" do
      assert {:ok, %Compute.Buffer{} = buffer} = Compute.try_buffer([1, 2], {2}, :u8)
      assert Compute.try_read(buffer) == {:ok, <<1, 2>>}
      assert {:ok, id} = Compute.try_submit(%{op: :barrier})
      assert Compute.wait(id) == :ok
      assert Compute.try_cancel(id) == {:ok, false}
      # There is no value in it.
      assert Compute.try_resume() == :ok
    end

    test "returns what the other raises" do
      freed = Compute.buffer([1.0], {1})
      Compute.free(freed)

      for {module, name, arguments, code} <- [
            {Compute, :read, [freed], :freed},
            {Compute, :buffer, [[300], {1}, :u8], :invalid_value},
            {Compute, :submit, [%{op: :fly}], :invalid_stage},
            {Compute, :explain, [Compute.pipeline_add(Compute.pipeline(), %{op: :fly})], :invalid_stage},
            {Stream, :new, [[stages: [%{op: :fly}]]], :invalid_stage},
            {Picture, :to_png, [Compute.buffer([1.0], {1})], :no_picture}
          ] do
        assert %Error{code: ^code} = error = catch_error(apply(module, name, arguments))
        assert apply(module, :"try_#{name}", arguments) == {:error, error}
      end
    end

    test "leaves arguments of the wrong kind to whoever wrote them" do
      assert_raise ArgumentError, fn -> Compute.try_read(:no_buffer) end
      assert_raise ArgumentError, fn -> Compute.try_buffer([1], [1]) end
    end
  end

  ## What there is

  # Neither twins themselves, nor what is not to be used any more, nor tasks.
  defp originals do
    for %{id: {module, _, _}, kind: :function, meta: meta} = function <- functions(),
        not is_map_key(meta, :twin_of) and not is_map_key(meta, :deprecated),
        not String.starts_with?(inspect(module), "Mix.Tasks."),
        do: function
  end

  defp returning, do: for(%{id: id} <- originals(), error?(id), do: id)
  defp raising, do: for(%{id: id} <- originals(), not exception?(id), not error?(id), do: id)

  # `exception/1` and `message/1` are those of any exception.
  defp exception?({module, _, _}), do: module == Error

  defp error?({module, name, arity}) do
    {:ok, specs} = Code.Typespec.fetch_specs(module)

    for {{^name, ^arity}, list} <- specs, spec <- list do
      {:"::", _, [_, result]} = without_guard(Code.Typespec.spec_to_quoted(name, spec))
      Macro.to_string(result) =~ ~r/\{:error, |\berror\(\)/
    end
    |> Enum.any?()
  end

  defp without_guard({:when, _, [spec, _]}), do: spec
  defp without_guard(spec), do: spec

  defp twin?({module, name, arity}),
    do: Code.ensure_loaded?(module) and function_exported?(module, name, arity)

  defp arguments(%{signature: signature}), do: signature |> String.split("(", parts: 2) |> List.last()
end

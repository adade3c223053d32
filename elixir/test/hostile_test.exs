defmodule Dala.Gpu.Compute.HostileTest do
  # Calls of every public function with terms that make no sense, mixed with calls that do. Nothing but what is documented
  # may come of it.
  #
  #   DALA_HOSTILE_CALLS   how many calls; 100,000
  #   DALA_FUZZ_SECONDS    for how long, instead of how many
  #   DALA_HOSTILE_SEED    which ones
  use ExUnit.Case, async: false

  import Bitwise
  import Eventually, only: [eventually: 1]

  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.{Buffer, Error, Kernel, Picture, Pipeline, Server, Stream, Transient}
  alias Dala.{ML, Serving}
  alias Dala.Test.Models

  @calls String.to_integer(System.get_env("DALA_HOSTILE_CALLS", "100000"))
  @seconds System.get_env("DALA_FUZZ_SECONDS") && String.to_integer(System.get_env("DALA_FUZZ_SECONDS"))
  @amount (@seconds && "#{@seconds} s of") || @calls
  @seed String.to_integer(System.get_env("DALA_HOSTILE_SEED", "20240229"))

  # Calls by one process, which then dies and takes what it made with it.
  @chunk 250
  # A call that takes longer hangs, however slow the machine is.
  @limit 120_000
  # What may be learned after the first fifth: kernels that are built, and the ends of 65,536 commands.
  @growth_mb 96

  @modules [Compute, Buffer, Kernel, Picture, Pipeline, Stream, Dala.Gpu, Dala.Media, ML] ++
             [Serving, ExCubecl]

  # Function, kinds of its arguments, and what it may return.
  @functions [
    {Compute, :buffer, [:values, :shape], :buffer},
    {Compute, :buffer, [:values, :shape, :dtype], :buffer},
    {Compute, :buffer_from_binary, [:data, :shape, :dtype], :buffer},
    {Compute, :buffer_zeros, [:shape], :buffer},
    {Compute, :buffer_zeros, [:shape, :dtype], :buffer},
    {Compute, :read, [:buffer], :binary},
    {Compute, :read_binary, [:buffer], :binary},
    {Compute, :read_list, [:buffer], :list},
    {Compute, :write, [:buffer, :data], :done},
    {Compute, :free, [:spare], :ok},
    {Compute, :free_many, [{:list, :spare}], :ok},
    {Compute, :shape, [:buffer], :shape},
    {Compute, :dtype, [:buffer], :dtype},
    {Compute, :size, [:buffer], :size},
    {Compute, :run_kernel, [:kernel, :inputs, :buffer], :done},
    {Compute, :run_kernel, [:kernel, :inputs, :buffer, :params], :done},
    {Compute, :run_kernel_async, [:kernel, :inputs, :buffer], :done},
    {Compute, :run_kernel_async, [:kernel, :inputs, :buffer, :params], :done},
    {Compute, :run_to_surface, [:kernel, :inputs, :buffer, :surface], :done},
    {Compute, :run_to_surface, [:kernel, :inputs, :buffer, :surface, :params], :done},
    {Compute, :add, [:buffer, :buffer, :buffer], :done},
    {Compute, :multiply, [:buffer, :buffer, :buffer], :done},
    {Compute, :scale, [:buffer, :number, :buffer], :done},
    {Compute, :relu, [:buffer, :buffer], :done},
    {Compute, :matmul, [:buffer, :buffer, :buffer], :done},
    {Compute, :kernels, [], :maps},
    {Compute, :load_model, [:name, :path], {:tuple, :model}},
    {Compute, :load_model, [:name, :path, :model_options], {:tuple, :model}},
    {Compute, :submit, [:stages], :id},
    {Compute, :submit, [:stages, :submit_options], :id},
    {Compute, :poll, [:id], :poll},
    {Compute, :status, [:id], :status},
    {Compute, :wait, [:id], :done},
    {Compute, :wait, [:id, :timeout], :done},
    {Compute, :cancel, [:id], :boolean},
    {Compute, :pipeline, [], :pipeline},
    {Compute, :pipeline_add, [:pipeline, :stage], :pipeline},
    {Compute, :pipeline_run, [:pipeline], :done},
    {Compute, :free_pipeline, [:spare_pipeline], :ok},
    {Compute, :transient, [], :transient},
    {Compute, :transient, [:shape], :transient},
    {Compute, :transient, [:shape, :dtype], :transient},
    {Compute, :explain, [:pipeline], :string},
    {Compute, :to_svg, [:pipeline], :string},
    {Compute, :warm, [:warmable], {:tuple, :size}},
    {Compute, :warm, [:warmable, :warm_options], {:tuple, :size}},
    {Compute, :trace, [:function], :traced},
    {Compute, :from_nx, [:tensor], :buffer},
    {Compute, :to_nx, [:buffer], :tensor},
    {Compute, :to_nx, [:buffer, :shape], :tensor},
    {Compute, :to_nx, [:buffer, :shape, :dtype], :tensor},
    {Compute, :device_info, [], :map},
    {Compute, :gpu?, [], :boolean},
    {Compute, :version, [], :string},
    {Compute, :memory, [], :map},
    {Compute, :kernel_cache, [], :map},
    {Compute, :trim, [], :done},
    {Compute, :stats, [], :map},
    {Compute, :suspend, [], :done},
    {Compute, :suspend, [:pending], :done},
    {Compute, :resume, [], :ok},
    {Compute, :set_power, [:power], :ok},
    {Compute, :report_thermal, [:heat], :ok},
    {Compute, :memory_pressure, [], :done},
    {Buffer, :from_ref, [:buffer_ref], :buffer},
    {Buffer, :ref, [:buffer], :reference},
    {Kernel, :define, [:name, :expression], :done},
    {Kernel, :define, [:name, :expression, :define_options], :done},
    {Kernel, :list, [], :maps},
    {Pipeline, :new, [], :pipeline},
    {Pipeline, :add, [:pipeline, :stage], :pipeline},
    {Pipeline, :run, [:pipeline], :done},
    {Pipeline, :stages, [:pipeline], :list},
    {Pipeline, :stage_count, [:pipeline], :size},
    {Stream, :new, [:stream_options], :stream},
    {Stream, :push, [:stream, :data], :pushed},
    {Stream, :stats, [:stream], :map},
    {Stream, :stop, [:spare_stream], :ok},
    {Picture, :to_png, [:picture], :binary},
    {Dala.Gpu, :create_surface, [:side, :side], {:tuple, :surface}},
    {Dala.Gpu, :create_surface, [:side, :side, :surface_options], {:tuple, :surface}},
    {Dala.Gpu, :set_pixels, [:surface, :pixels], :done},
    {Dala.Gpu, :present, [:surface], :done},
    {Dala.Gpu, :resize, [:surface, :side, :side], :done},
    {Dala.Gpu, :snapshot, [:surface], {:tuple, :binary}},
    {Dala.Gpu, :surface_info, [:surface], {:tuple, :map}},
    {Dala.Gpu, :close_surface, [:surface], :ok},
    {Dala.Media, :decode, [:file], {:tuple, :buffer}},
    {Dala.Media, :decode, [:file, :decode_options], {:tuple, :buffer}},
    {Dala.Media, :frame_stream, [:frames, :media_options], :frames},
    {ML, :predict, [:model, :picture], {:tuple, :predictions}},
    {ML, :predict, [:model, :picture, :predict_options], {:tuple, :predictions}},
    {ML, :run, [:model, :model_inputs], {:tuple, :outputs}},
    {ML, :detect, [:photo], {:tuple, :list}},
    {ML, :detect, [:photo, :detect_options], {:tuple, :list}},
    {ML, :detect, [:path, :photo, :detect_options], {:tuple, :list}},
    {ML, :read, [:photo], {:tuple, :list}},
    {ML, :read, [:photo, :read_options], {:tuple, :list}},
    {ML, :read, [:two_paths, :photo, :read_options], {:tuple, :list}},
    {ML, :upscale, [:photo], {:tuple, :buffer}},
    {ML, :upscale, [:photo, :recipe_options], {:tuple, :buffer}},
    {ML, :upscale, [:path, :photo, :recipe_options], {:tuple, :buffer}},
    {ML, :listen, [:photo], {:tuple, :map}},
    {ML, :listen, [:photo, :recipe_options], {:tuple, :map}},
    {ML, :listen, [:path, :photo, :recipe_options], {:tuple, :map}},
    {ML, :describe_type, [:photo], {:tuple, :map}},
    {ML, :describe_type, [:photo, :recipe_options], {:tuple, :map}},
    {ML, :imagenet_labels, [], :list},
    {Serving, :start_link, [:server_options], :server},
    {Serving, :run, [:served, :anything], {:tuple, :anything}},
    {Serving, :run, [:served, :anything, :run_options], {:tuple, :anything}},
    {Serving, :stream, [:served, :frames], :answers},
    {Serving, :stream, [:served, :frames, :run_options], :answers},
    {Serving, :drain, [:served], :done},
    {Serving, :drain, [:served, :timeout], :done},
    {Serving, :info, [:served], :map},
    {Serving, :report, [:served], :string},
    {ExCubecl, :available?, [], :boolean},
    {ExCubecl, :device_info, [], {:tuple, :map}},
    {ExCubecl, :device_count, [], {:tuple, :size}},
    {ExCubecl, :buffer, [:values, :dims], {:tuple, :reference}},
    {ExCubecl, :buffer, [:values, :dims, :dtype], {:tuple, :reference}},
    {ExCubecl, :read, [:buffer], {:tuple, :binary}},
    {ExCubecl, :shape, [:buffer], {:tuple, :dims}},
    {ExCubecl, :dtype, [:buffer], {:tuple, :dtype}},
    {ExCubecl, :size, [:buffer], {:tuple, :size}},
    {ExCubecl, :id, [:buffer], {:tuple, :size}},
    {ExCubecl, :kernels, [], {:tuple, :list}},
    {ExCubecl, :run_kernel, [:kernel, :inputs, :buffer], :done},
    {ExCubecl, :run_kernel, [:kernel, :inputs, :buffer, :params], :done},
    {ExCubecl, :submit, [:command], {:tuple, :id}},
    {ExCubecl, :poll, [:id], {:tuple, :state}},
    {ExCubecl, :wait, [:id], :done},
    {ExCubecl, :wait, [:id, :timeout], :done},
    {ExCubecl, :pipeline, [], {:tuple, :reference}},
    {ExCubecl, :pipeline_add, [:pipeline_ref, :kernel, :inputs, :buffer], :done},
    {ExCubecl, :pipeline_add, [:pipeline_ref, :kernel, :inputs, :buffer, :params], :done},
    {ExCubecl, :pipeline_run, [:pipeline_ref], {:tuple, :list}},
    {ExCubecl, :pipeline_free, [:spare_pipeline_ref], :done},
    {ExCubecl, :supported_dtypes, [], :list},
    {ExCubecl, :version, [], :string},
    # Looking at something must not fail either.
    {Elixir.Kernel, :inspect, [:anything], :inspected}
  ]

  # Those with a `!` raise what the others return, those with `try_` return what the others raise.
  @twins for {module, name, kinds, returns} <- @functions,
             {twin, returns} <- [
               {:"#{name}!", with({:tuple, kind} <- returns, do: kind) |> then(&{:no_failure, &1})},
               {:"try_#{name}", if(returns == :ok, do: :done, else: {:tuple, returns})}
             ],
             Code.ensure_loaded?(module) and function_exported?(module, twin, length(kinds)),
             do: {name, {module, twin, kinds, returns}}
  @original Map.new(@twins, fn {name, {_, twin, _, _}} -> {twin, name} end)
  @functions @functions ++ Keyword.values(@twins)

  # These ask the system and take long: once in a hundred times that it is their turn.
  @slow [device_count: 0, trim: 0, memory_pressure: 0]

  test "the calls below are all there are" do
    tested = for {module, name, kinds, _} <- @functions, do: {module, name, length(kinds)}

    for module <- @modules do
      {:docs_v1, _, _, _, _, _, docs} = Code.fetch_docs(module)

      for {{:function, name, arity}, _, _, doc, meta} <- docs, doc != :hidden do
        for arity <- (arity - Map.get(meta, :defaults, 0))..arity do
          assert {module, name, arity} in tested
        end
      end
    end
  end

  @tag timeout: 7_200_000 + 2_000 * (@seconds || 0)
  test "nothing but what is documented comes of #{@amount} calls" do
    IO.puts("hostile: #{@amount} calls, DALA_HOSTILE_SEED=#{@seed}")

    # Drivers are loaded once, and are large.
    {:ok, _} = ExCubecl.device_count()
    model!()
    load_modules()
    {start, time} = {settled_memory(), System.monotonic_time(:millisecond)}
    {first, next} = run_chunks([], 1, 1 / 5, time)
    {atoms, rss} = {:erlang.system_info(:atom_count), rss_mb()}
    {others, chunks} = run_chunks([], next, 1, time)
    failures = first ++ others
    {new_atoms, new_rss} = {:erlang.system_info(:atom_count) - atoms, rss_mb() - rss}
    finish = settled_memory(start)

    IO.puts(
      "hostile: #{(chunks - 1) * @chunk} calls, #{System.monotonic_time(:millisecond) - time} ms; after the first fifth #{new_atoms} atoms and " <>
        "#{new_rss} MB more (#{rss} MB before); live #{start.live} -> #{finish.live} B, " <>
        "buffers #{start.buffers} -> #{finish.buffers}"
    )

    assert failures == [], report(failures)
    assert new_atoms < 100
    assert new_rss < @growth_mb
    assert {finish.live, finish.buffers} == {start.live, start.buffers}
    assert eventually(fn -> Enum.all?(Compute.stats().lanes, fn {_, lane} -> lane.pending == 0 end) end)
    assert good_call?()
  end

  ## Running

  # The mean of each channel: a classifier of three colours.
  defp model! do
    {inputs, outputs} = {[{"x", ["batch", 3, 4, 4]}], [{"y", ["batch", 3, 1, 1]}]}
    File.write!(model_file(), Models.onnx([{"GlobalAveragePool", ["x"], ["y"]}], inputs, outputs))
    File.write!(model_file() <> ".cut", binary_part(File.read!(model_file()), 0, 40))
    on_exit(fn -> for end_of_name <- ["", ".cut"], do: File.rm!(model_file() <> end_of_name) end)
    {:ok, _} = Compute.load_model(:hostile_net, model_file())
    # Models of recipes that stay open would be memory that is not given back.
    before = System.get_env("DALA_MODELS")
    System.put_env("DALA_MODELS", model_file() <> ".none")

    on_exit(fn ->
      if before, do: System.put_env("DALA_MODELS", before), else: System.delete_env("DALA_MODELS")
    end)
  end

  # The VM loads a module when it is first called, and the module's atoms with it. Those are not of the calls' making.
  defp load_modules do
    for {application, _, _} <- Application.loaded_applications(),
        modules = Application.spec(application, :modules) || [],
        do: :code.ensure_modules_loaded(modules)
  end

  defp model_file, do: Path.join(System.tmp_dir!(), "dala-hostile-#{System.pid()}.onnx")

  # What fails in chunks from this one on, up to a part of all calls or of the time, and the number of the chunk after them.
  defp run_chunks(failures, chunk, part, start) do
    if over?(chunk, part, start),
      do: {failures, chunk},
      else: run_chunks(failures ++ run_chunk(chunk), chunk + 1, part, start)
  end

  # One chunk runs whatever the limits are.
  defp over?(1, _, _), do: false

  if @seconds do
    defp over?(_, part, start), do: System.monotonic_time(:millisecond) - start >= part * @seconds * 1000
  else
    defp over?(chunk, part, _), do: chunk > max(div(@calls, @chunk), 5) * part
  end

  # One process makes the calls, this one looks whether it gets on.
  defp run_chunk(chunk) do
    parent = self()
    progress = :counters.new(1, [])
    {pid, monitor} = spawn_monitor(fn -> send(parent, {self(), calls(chunk, progress)}) end)
    watch(pid, monitor, progress, {-1, System.monotonic_time(:millisecond)}, chunk)
  end

  defp watch(pid, monitor, progress, {seen, since}, chunk) do
    receive do
      {^pid, failures} ->
        receive do: ({:DOWN, ^monitor, _, _, _} -> failures)

      {:DOWN, ^monitor, _, _, reason} ->
        [failure(chunk, :counters.get(progress, 1), nil, {:exit, reason})]
    after
      250 ->
        {count, now} = {:counters.get(progress, 1), System.monotonic_time(:millisecond)}

        cond do
          count != seen ->
            watch(pid, monitor, progress, {count, now}, chunk)

          now - since < @limit ->
            watch(pid, monitor, progress, {seen, since}, chunk)

          true ->
            info = Process.info(pid, [:dictionary, :current_stacktrace])
            Process.exit(pid, :kill)
            receive do: ({:DOWN, ^monitor, _, _, _} -> :ok)
            Compute.resume()
            call = info && List.keyfind(info[:dictionary], :call, 0)
            [failure(chunk, count, call && elem(call, 1), {:hangs_in, info && info[:current_stacktrace]})]
        end
    end
  end

  defp calls(chunk, progress) do
    :rand.seed(:exsss, :erlang.phash2({@seed, chunk}))
    pool = pool()

    failures =
      for number <- 1..@chunk do
        :counters.put(progress, 1, number)
        for {call, what} <- call(pool), do: failure(chunk, number, call, what)
      end
      |> Enum.concat()

    if good_call?(), do: failures, else: failures ++ [failure(chunk, @chunk, nil, :a_good_call_fails)]
  end

  # A list with what is wrong, if something is.
  defp call(pool) do
    {module, name, kinds, returns} = pick_function()
    # Half of the calls have one wrong argument, so that they come further than those where nothing is right.
    wrong = if kinds != [] and chance(50), do: :rand.uniform(length(kinds)), else: 0

    arguments =
      for {kind, index} <- Enum.with_index(kinds, 1) do
        if index == wrong or (wrong > 0 and chance(10)), do: garbage(pool), else: argument(kind, pool)
      end

    # For whoever looks why it hangs.
    Process.put(:call, {module, name, arguments})

    what =
      try do
        result = apply(module, name, arguments)
        if returns?(returns, result, arguments), do: nil, else: {:returned, result}
      rescue
        error -> if allowed?(module, name, error), do: nil, else: {:raised, error, __STACKTRACE__}
      catch
        kind, reason -> {kind, reason, __STACKTRACE__}
      end

    afterwards(original(name))
    flush()
    if what, do: [{{module, name, arguments}, what}], else: []
  end

  # What would make every call after it wait or fail.
  defp afterwards(:suspend), do: Compute.resume()
  defp afterwards(:set_power), do: Compute.set_power(:balanced)
  defp afterwards(:report_thermal), do: Compute.report_thermal(:nominal)
  defp afterwards(_), do: :ok

  defp flush do
    receive do
      _ -> flush()
    after
      0 -> :ok
    end
  end

  defp pick_function do
    {_, name, kinds, _} = function = pick(@functions)
    if {original(name), length(kinds)} in @slow and not chance(1), do: pick_function(), else: function
  end

  defp original(name), do: Map.get(@original, name, name)

  # Only twins of the lower layer may raise.
  defp allowed?(ExCubecl, name, _) when not is_map_key(@original, name), do: false
  defp allowed?(_, _, %ArgumentError{message: message}), do: is_binary(message)
  defp allowed?(_, _, %Error{} = error), do: error?(error)
  defp allowed?(_, _, _), do: false

  ## What may be returned

  defp returns?(:buffer, %Buffer{} = buffer, _) do
    is_reference(buffer.ref) and is_integer(buffer.id) and is_tuple(buffer.shape) and
      returns?(:dtype, buffer.dtype, []) and is_integer(buffer.size)
  end

  defp returns?(:surface, result, _), do: is_pid(result)
  defp returns?(:reference, result, _), do: is_reference(result)
  defp returns?(:binary, result, _), do: is_binary(result)
  defp returns?(:string, result, _), do: is_binary(result) and String.valid?(result)
  defp returns?(:list, result, _), do: is_list(result)
  defp returns?(:maps, result, _), do: is_list(result) and Enum.all?(result, &is_map/1)
  defp returns?(:map, result, _), do: is_map(result)
  defp returns?(:boolean, result, _), do: is_boolean(result)
  defp returns?(:ok, result, _), do: result == :ok
  defp returns?(:done, :ok, _), do: true
  defp returns?(:done, result, _), do: failure?(result)
  defp returns?(:shape, result, _), do: is_tuple(result) and dims?(Tuple.to_list(result))
  defp returns?(:dims, result, _), do: is_list(result) and dims?(result)
  defp returns?(:dtype, result, _), do: result in Dala.Gpu.Compute.Codec.dtypes()
  defp returns?(:size, result, _), do: is_integer(result) and result >= 0
  defp returns?(:id, result, _), do: is_integer(result) and result >= 0
  defp returns?(:poll, result, _), do: result in [:pending, :completed] or failure?(result)
  defp returns?(:state, result, _), do: result in [:pending, :running, :completed, :failed]

  defp returns?(:status, result, _),
    do: result in [:pending, :running, :completed, :failed, :cancelled, :unknown]

  defp returns?(:pipeline, %Pipeline{ref: ref}, _), do: is_reference(ref)
  defp returns?(:transient, %Transient{id: id}, _), do: is_integer(id)

  defp returns?(:outputs, %{"y" => %Buffer{}}, _), do: true
  defp returns?(:model, %ML.Model{inputs: [_], outputs: [_]}, _), do: true

  defp returns?(:predictions, result, _) do
    is_list(result) and
      Enum.all?(
        result,
        &(&1.index in 0..2 and is_float(&1.probability) and (&1.label == nil or is_binary(&1.label)))
      )
  end

  # The functions among the garbage return nothing else.
  defp returns?(:traced, {:x, json}, _), do: is_binary(json) and String.valid?(json)

  defp returns?(:stream, %Stream{ref: ref, tag: tag}, _), do: is_reference(ref) and is_reference(tag)
  defp returns?(:tensor, result, _), do: is_struct(result, Nx.Tensor)

  defp returns?(:pushed, result, _),
    do: result in [:started, :waiting, :replaced, :dropped] or failure?(result)

  # Lists are walked through; what else may be enumerated, and how, is not this package's.
  defp returns?(:frames, result, [frames, _]) do
    enumerable? = Enumerable.impl_for(result) != nil

    if enumerable? and is_list(frames) and not List.improper?(frames),
      do: Enum.all?(Enum.take(result, 3), &is_binary/1),
      else: enumerable?
  end

  defp returns?(:anything, _, _), do: true
  defp returns?(:server, {:ok, pid}, _), do: is_pid(pid)
  defp returns?(:server, {:error, {:already_started, pid}}, _), do: is_pid(pid)
  defp returns?(:server, result, _), do: failure?(result)

  defp returns?(:answers, result, [_, inputs | _]) do
    enumerable? = Enumerable.impl_for(result) != nil

    if enumerable? and is_list(inputs) and not List.improper?(inputs),
      do: Enum.all?(Enum.take(result, 3), &(match?({:ok, _}, &1) or failure?(&1))),
      else: enumerable?
  end

  defp returns?(:inspected, result, _),
    do: is_binary(result) and not String.contains?(result, "Inspect.Error")

  defp returns?({:no_failure, kind}, result, arguments),
    do: not failure?(result) and returns?(kind, result, arguments)

  defp returns?({:tuple, kind}, {:ok, result}, arguments), do: returns?(kind, result, arguments)
  defp returns?({:tuple, _}, result, _), do: failure?(result)
  defp returns?(_, _, _), do: false

  defp failure?({:error, error}), do: error?(error)
  defp failure?(_), do: false

  defp error?(%Error{code: code, message: message, details: details} = error) do
    is_atom(code) and code != nil and is_binary(message) and String.valid?(message) and is_map(details) and
      Exception.message(error) == message
  end

  defp error?(_), do: false

  defp dims?(dims), do: Enum.all?(dims, &(is_integer(&1) and &1 >= 0))

  ## Arguments that make sense

  defp pool do
    buffers = [
      Compute.buffer([1.0, -2.0, 3.0], {3}),
      Compute.buffer_zeros({3}),
      Compute.buffer([1.0, 2.0, 3.0, 4.0], {2, 2}),
      Compute.buffer_zeros({2, 2}),
      Compute.buffer_zeros({4}, :u8),
      Compute.buffer_zeros({0}, :s32),
      Compute.buffer_zeros({}, :f64)
    ]

    freed = Compute.buffer_zeros({3})
    Compute.free(freed)
    [pipeline, freed_pipeline] = [Compute.pipeline(), Compute.pipeline()]
    Compute.free_pipeline(freed_pipeline)
    {:ok, device} = Server.device()
    dead = spawn(fn -> :ok end)
    id = Compute.submit(%{op: :barrier})

    transients = [Compute.transient(), Compute.transient({3}), Compute.transient({2, 2}, :f32)]

    %{
      buffers: buffers,
      freed: freed,
      pipelines: [pipeline, freed_pipeline],
      device: device,
      transients: transients
    }
    |> Map.merge(%{dead: dead, ids: [id, id + 1, id + 2, id + 3], port: hd(Port.list())})
    |> Map.put(:surfaces, for({width, height} <- [{2, 2}, {3, 1}], do: surface(width, height)))
    |> Map.put(:png, Picture.to_png(Compute.buffer_zeros({2, 3, 3}, :u8)))
    |> then(&Map.put(&1, :streams, for(_ <- 1..2, do: argument(:spare_stream, &1))))
  end

  defp surface(width, height) do
    {:ok, surface} = Dala.Gpu.create_surface(width, height)
    surface
  end

  defp argument(:buffer, pool) do
    buffer = if chance(5), do: pool.freed, else: pick(pool.buffers)
    if chance(30), do: buffer.ref, else: buffer
  end

  defp argument(:operand, pool), do: if(chance(15), do: pick(pool.transients), else: argument(:buffer, pool))
  defp argument(:function, _), do: fn -> :x end
  defp argument(:buffer_ref, pool), do: pick(pool.buffers).ref
  defp argument(:spare, _), do: Compute.buffer_zeros({3})
  defp argument({:list, kind}, pool), do: some(3, fn -> argument(kind, pool) end)
  defp argument(:inputs, pool), do: some(2, fn -> argument(:buffer, pool) end)
  defp argument(:values, _), do: pick([[1.0, 2.0, 3.0], [1, 2, 3, 4], [], [:nan, :infinity], [7]])
  defp argument(:shape, _), do: pick([{3}, {2, 2}, {4}, {0}, {}, {1, 3}, {2}])
  defp argument(:dims, pool), do: Tuple.to_list(argument(:shape, pool))
  defp argument(:dtype, _), do: pick(Dala.Gpu.Compute.Codec.dtypes())
  defp argument(:data, _), do: :binary.copy(<<1>>, pick([0, 1, 3, 4, 8, 12, 16]))
  defp argument(:number, _), do: pick([0, 1, -2, 0.5, -1.0e30])

  defp argument(:kernel, _) do
    pick([
      :relu,
      "relu",
      :elementwise_add,
      "scalar_mul",
      :softmax,
      "matmul",
      :copy,
      :transpose,
      :reduce_sum,
      :blur
    ])
  end

  defp argument(:params, _) do
    pick([
      %{},
      [],
      %{slope: 0.5},
      [scalar: 2],
      %{"scalar" => 2.0},
      %{radius: 1},
      %{axis: 0},
      %{border: :clamp}
    ])
  end

  defp argument(:stage, pool) do
    [from, to] = for _ <- 1..2, do: argument(:operand, pool)

    pick([
      %{op: :run_kernel, kernel: :relu, inputs: [from], output: to},
      %{
        op: :run_kernel,
        kernel: argument(:kernel, pool),
        inputs: [from],
        output: to,
        params: argument(:params, pool)
      },
      %{op: :copy_buffer, inputs: [from], output: to},
      %{op: :write_buffer, output: to, data: argument(:data, pool)},
      %{op: :barrier}
    ])
    |> spoil(pool)
  end

  defp argument(:stages, pool) do
    case :rand.uniform(20) do
      1 -> []
      2 -> List.duplicate(argument(:stage, pool), 40)
      n when n < 8 -> some(4, fn -> argument(:stage, pool) end)
      _ -> argument(:stage, pool)
    end
  end

  defp argument(:submit_options, pool) do
    some_of([
      {:lane, pick([:interactive, :default, :background])},
      {:deadline, pick([nil, 0, 1, 1.5, 1000])},
      {:when_full, pick([:wait, :refuse, :drop_oldest])},
      {:notify, make_ref()},
      {:detached, chance(50)}
    ])
    |> spoil_options(pool)
  end

  defp argument(:id, pool), do: pick(pool.ids)
  defp argument(:timeout, _), do: pick([0, 1, 5, 0xFFFFFFFF, :infinity])

  defp argument(:pipeline, pool) do
    if chance(50),
      do: pick(pool.pipelines),
      else: Enum.reduce(some(3, fn -> argument(:stage, pool) end), Compute.pipeline(), &with_stage(&2, &1))
  end

  defp argument(:pipeline_ref, pool), do: argument(:pipeline, pool).ref
  defp argument(:spare_pipeline, _), do: Compute.pipeline()
  defp argument(:spare_pipeline_ref, _), do: Compute.pipeline().ref
  defp argument(:tensor, _), do: Nx.tensor(pick([[1.0, 2.0], [1, 2, 3], [[1.0], [2.0]]]))
  defp argument(:pending, _), do: pick([:wait, :fail])
  defp argument(:power, _), do: pick([:low, :balanced, :high])
  defp argument(:heat, _), do: pick([:nominal, :fair, :serious, :critical])
  # Kernels stay for ever, so there is a handful of names.
  defp argument(:name, _), do: pick([:hostile_1, "hostile_2", :hostile_3, "hostile 4", "", "relu"])

  defp argument(:model_options, _),
    do: pick([[], [sizes: %{}], [sizes: %{width: 3}], [sizes: [{:x, -1}]], [size: 3]])

  defp argument(:model_inputs, state),
    do: pick([[argument(:buffer, state)], %{"x" => argument(:buffer, state)}, %{}, []])

  defp argument(:path, _), do: model_file() <> pick(["", ".cut", ".none"])

  defp argument(:model, pool) do
    model = %ML.Model{name: :hostile_net, inputs: [], outputs: [], parameters: 0, operators: []}
    pick([:hostile_net, "hostile_net", :relu, model, Map.put(model, pick(Map.keys(model)), garbage(pool))])
  end

  defp argument(:warmable, pool) do
    one = argument(pick([:pipeline, :model]), pool)
    pick([one, [one], [argument(:pipeline, pool), one], [], [one | 1]])
  end

  defp argument(:warm_options, pool), do: some_of(batch: pick([1, 2, 0, -1, 1 <<< 70])) |> spoil_options(pool)
  defp argument(:picture, pool), do: pick([Compute.buffer_zeros({5, 6, 3}, :u8), argument(:buffer, pool)])

  # Some are closed after a while.
  defp argument(:surface, pool), do: if(chance(5), do: pool.dead, else: pick(pool.surfaces))
  defp argument(:side, _), do: pick([1, 2, 2, 3, 64, 0, -1, 1 <<< 40])
  defp argument(:surface_options, pool), do: spoil_options([], pool)
  defp argument(:pixels, _), do: pick([<<0::128>>, <<1::96>>, List.duplicate(7, 16), [1], ""])
  defp argument(:file, pool), do: pick([pool.png, replace_byte(pool.png), binary_part(pool.png, 0, 40), "x"])

  # Headers that promise much are for `decode`.
  defp argument(:photo, pool) do
    file = pick([pool.png, binary_part(pool.png, 0, 40), "x"])
    pick([file, {:path, argument(:path, pool)}, argument(:picture, pool), {:path, garbage(pool)}])
  end

  defp argument(:recipe_options, pool), do: some_of(model: argument(:path, pool)) |> spoil_options(pool)

  defp argument(:two_paths, pool), do: {argument(:path, pool), argument(:path, pool)}

  defp argument(:read_options, pool) do
    some_of(detector: argument(:path, pool), recogniser: argument(:path, pool)) |> spoil_options(pool)
  end

  defp argument(:detect_options, pool) do
    some_of([
      {:model, argument(:path, pool)},
      {:threshold, pick([0.5, 5.0e-324, 0, 1, 1 <<< 70])},
      {:longer_side, pick([1, 64, 0, 1 <<< 32, 1 <<< 70])}
    ])
    |> spoil_options(pool)
  end

  defp argument(:decode_options, pool),
    do: some_of(max_pixels: pick([0, 5, 6, 1 <<< 63])) |> spoil_options(pool)

  defp argument(:predict_options, pool) do
    some_of([
      {:top, pick([0, 1, 2, 3, 1 <<< 70])},
      {:labels, pick([nil, :imagenet, ["a", "b", "c"], ["a"], "no/such/file", model_file()])},
      {:fit, pick([:crop, :stretch])},
      {:mean, pick([[0, 0, 0], [0.5, 1 <<< 70, 1.0e300], [1]])},
      {:std, pick([[1, 1, 1], [0, 0.0, -1], [5.0e-324, 1, 1.0e308]])},
      {:softmax, chance(50)}
    ])
    |> spoil_options(pool)
  end

  defp argument(:expression, _) do
    pick([
      "x + 1",
      "x * gain",
      "",
      "x +",
      "y",
      "x.q",
      String.duplicate("(", 5000),
      # These go deep: a dirty scheduler has a stack of 320 KiB.
      "x" <> String.duplicate(" + x", pick([240, 999])),
      "x" <> String.duplicate(".r", 10_000),
      String.duplicate("(", 40) <> "x" <> String.duplicate(String.duplicate(" + x", 900) <> ")", 40),
      "1 / 0",
      "gather(x, 1.5)",
      "x = 1"
    ])
  end

  defp argument(:define_options, pool) do
    some_of([
      {:inputs, pick([[:x], ["x", :y], [], [:x, :x]])},
      {:params, pick([[gain: 1.0], [gain: :float], %{gain: 1}, [gain: :word], [gain: 1, gain: 2], [x: 1]])}
    ])
    |> spoil_options(pool)
  end

  defp argument(:stream, pool), do: pick(pool.streams)
  defp argument(:spare_stream, _), do: Stream.new(stream_options(Compute.buffer_zeros({3}), []))

  defp argument(:stream_options, pool),
    do: hd(pool.buffers) |> stream_options(to: self()) |> spoil_options(pool)

  defp argument(:media_options, pool), do: hd(pool.buffers) |> stream_options([]) |> spoil_options(pool)
  defp argument(:frames, pool), do: some(4, fn -> argument(:data, pool) end)

  defp argument(:served, _), do: pick([:hostile_served, "hostile served", :hostile_unserved])

  defp argument(:server_options, pool) do
    what = pick(run: & &1, run: fn _ -> [] end, run: fn _ -> raise "no" end, model: argument(:model, pool))
    pipeline = {argument(:pipeline, pool), argument(:buffer, pool), argument(:buffer, pool)}
    what = if chance(20), do: {:pipeline, pipeline}, else: what

    [what, name: argument(:served, pool)]
    |> Enum.concat(some_of(batch: pick([[1, 2, 4], [3], []]), queue: pick([[], [items: 2], [slots: 2]])))
    |> spoil_options(pool)
  end

  defp argument(:run_options, pool) do
    some_of([
      {:deadline, pick([0, 1, 1.5, 1000])},
      {:lane, pick([:interactive, :default, :background])},
      {:pure, chance(50)}
    ])
    |> spoil_options(pool)
  end

  defp argument(:command, pool) do
    if chance(30), do: argument(:stages, pool), else: json(pool)
  end

  defp argument(:anything, pool), do: garbage(pool)

  defp stream_options(buffer, more) do
    stage = %{op: :run_kernel, kernel: :relu, inputs: [buffer], output: buffer}

    [input: buffer, stages: [stage], output: buffer, policy: pick([:latest, :block, {:queue, 2}])] ++
      some_of([{:in_flight, pick([1, 2, 3])}, {:lane, :background}, {:deadline, pick([0, 100])}] ++ more)
  end

  # A stage with something wrong in it, now and then.
  defp spoil(stage, pool) do
    case :rand.uniform(12) do
      1 -> Map.put(stage, pick(Map.keys(stage)), garbage(pool))
      2 -> Map.put(stage, garbage(pool), garbage(pool))
      3 -> Map.delete(stage, pick(Map.keys(stage)))
      _ -> stage
    end
  end

  defp spoil_options(options, pool) do
    case :rand.uniform(5) do
      1 when options != [] -> Keyword.put(options, pick(Keyword.keys(options)), garbage(pool))
      2 -> [{pick([:lane, :unknown, :to, :notify, :stages, :input, :params]), garbage(pool)} | options]
      _ -> options
    end
  end

  defp json(pool) do
    id = pick(pool.buffers).id
    stage = ~s({"op": "run_kernel", "kernel": "relu", "inputs": [#{id}], "output": #{id}})

    case :rand.uniform(17) do
      1 ->
        stage

      2 ->
        ~s({"op": "copy_buffer", "inputs": [#{id}], "output": #{id}})

      3 ->
        "[#{stage}, #{stage}]"

      4 ->
        ~s({"op": "barrier"})

      5 ->
        ~s({"op": "run_kernel", "kernel": "relu", "inputs": [99999999999], "output": -1})

      6 ->
        ~s({"op": "run_kernel", "kernel": "relu", "inputs": [1e400], "output": 18446744073709551616})

      7 ->
        ~s({"op": "fly", "zoom": [1, 2, {"a": null}]})

      8 ->
        String.duplicate("[", pick([10, 127, 129, 100_000]))

      9 ->
        String.duplicate(~s({"a":), 5000) <> "1" <> String.duplicate("}", 5000)

      10 ->
        ~s({"op": "run_kernel", "kernel": "#{String.duplicate("k", 200_000)}", "inputs": [], "output": #{id}})

      11 ->
        String.replace(stage, "relu", "\\ud800")

      12 ->
        pick([
          "",
          "null",
          "1",
          "\"\"",
          "[]",
          "{}",
          "[null]",
          "some_command",
          "\0",
          "{\"op\":\"barrier\",\"op\":1}"
        ])

      13 ->
        binary_part(stage, 0, :rand.uniform(byte_size(stage)) - 1)

      14 ->
        ~s({"op": "run_kernel", "kernel": "relu", "inputs": [#{id}], "output": #{id}, "params": {"slope": [[[1]]]}})

      15 ->
        "[" <> Enum.map_join(1..200, ",", fn _ -> stage end) <> "]"

      16 ->
        replace_byte(stage)

      17 ->
        ~s({"op": "write_buffer", "output": #{id}, "data": "AAAA"})
    end
  end

  defp replace_byte(text) do
    at = :rand.uniform(byte_size(text)) - 1
    {head, <<_, tail::binary>>} = :erlang.split_binary(text, at)
    <<head::binary, :rand.uniform(256) - 1, tail::binary>>
  end

  ## Arguments that do not

  defp garbage(pool, depth \\ 3) do
    deeper = fn -> if depth > 0, do: garbage(pool, depth - 1), else: pick([1, :x, "x", []]) end
    buffer = pick(pool.buffers)

    case :rand.uniform(21) do
      1 ->
        pick([nil, true, false, :x, :"", :ok, :f8, :infinity, Dala.Gpu.Compute, :"elementwise add"])

      2 ->
        pick([
          0,
          1,
          -1,
          3,
          255,
          1 <<< 31,
          1 <<< 62,
          1 <<< 63,
          1 <<< 64,
          -(1 <<< 63) - 1,
          1 <<< 200,
          1 <<< 20_000
        ])

      3 ->
        pick([0.0, -0.0, -1.5, 1.0e308, 5.0e-324, 0.1])

      4 ->
        pick(["", "x", <<0>>, <<255, 254>>, "\xC3\x28", <<0xED, 0xA0, 0x80>>, "\u{1F600}", <<0::80_000>>])

      5 ->
        pick([<<5::3>>, <<1, 2::4>>, <<0::65>>, String.duplicate("é", 5000), binary_part(<<0::800>>, 3, 7)])

      6 ->
        pick([[], [1 | 2], [[[[]]]], [buffer | :tail], ~c"chars", [0.0, :x], List.duplicate(0, 5000)])

      7 ->
        some(4, deeper)

      8 ->
        [deeper.() | deeper.()]

      9 ->
        pick([%{}, %{op: :x}, %{op: :run_kernel}, %{nil => nil}, %{1 => 2, "a" => :b}])

      10 ->
        %{deeper.() => deeper.(), op: deeper.()}

      11 ->
        pick([
          1..3,
          MapSet.new([1]),
          %Error{code: 1},
          %ArgumentError{},
          %{__struct__: :nope},
          %{__struct__: 5}
        ])

      12 ->
        pick([self(), pool.dead, pool.port, make_ref(), fn -> :x end, &String.length/1, fn _, _ -> 1 end])

      13 ->
        pick([pool.device, hd(pool.pipelines).ref, hd(pool.streams).ref, buffer.ref, pool.freed.ref])

      14 ->
        pick([
          {},
          {1 <<< 62, 4},
          {1 <<< 64},
          {-1},
          {1.5},
          {:a},
          {1 <<< 40},
          Tuple.duplicate(1, 40),
          {1 <<< 63, 2}
        ])

      15 ->
        List.to_tuple(some(3, deeper))

      16 ->
        pick([
          Tuple.duplicate(0xFFFFFFFFFFFFFFFF, 32),
          Tuple.duplicate(4, 32),
          List.duplicate(1, 40),
          {0, 1 <<< 63}
        ])

      17 ->
        struct(Buffer, [{pick([:ref, :id, :shape, :dtype, :size]), deeper.()}])

      18 ->
        Map.put(buffer, pick([:ref, :id, :shape, :dtype, :size]), deeper.())

      19 ->
        struct(Pipeline, ref: pick([deeper.(), buffer.ref, pool.device]), stages: deeper.())

      20 ->
        Map.put(pick(pool.transients), pick([:id, :shape, :dtype]), deeper.())

      21 ->
        struct(Stream, ref: pick([deeper.(), buffer.ref, pool.device]), tag: deeper.())
    end
  end

  ## Chance

  defp chance(percent), do: :rand.uniform(100) <= percent
  defp pick(list), do: Enum.at(list, :rand.uniform(length(list)) - 1)
  defp some(most, make), do: for(_ <- 1..(:rand.uniform(most + 1) - 1)//1, do: make.())
  defp some_of(options), do: Enum.filter(options, fn _ -> chance(40) end)

  ## Looking back

  defp good_call? do
    [a, b, c] = for list <- [[1.0, 2.0], [10.0, 20.0], [0.0, 0.0]], do: Compute.buffer(list, {2})
    Compute.add(a, b, c) == :ok and Compute.read_list(c) == [11.0, 22.0]
  end

  # A stage that holds a pipeline is refused.
  defp with_stage(pipeline, stage) do
    Compute.pipeline_add(pipeline, stage)
  rescue
    ArgumentError -> pipeline
  end

  # What the processes held is given back soon after they died. What there is when it is no more than what is wanted; or, where nothing is,
  # when it has stayed the same for longer than a thread that gives something back may stand still.
  defp settled_memory(wanted \\ nil, tries \\ 3_000, {seen, times} \\ {nil, 0}) do
    :erlang.garbage_collect()
    # Tables of kernels stay for the next call of the kind.
    Compute.trim()
    memory = Map.take(Compute.memory(), [:live, :buffers])
    times = if memory == seen, do: times + 1, else: 0

    if tries == 0 or below?(memory, wanted) or (wanted == nil and times == 15) do
      memory
    else
      Process.sleep(20)
      settled_memory(wanted, tries - 1, {memory, times})
    end
  end

  # Less than what is wanted is there if tests before left something after all.
  defp below?(_memory, nil), do: false
  defp below?(memory, wanted), do: memory.live <= wanted.live and memory.buffers <= wanted.buffers

  # 0 where there is no such file.
  defp rss_mb do
    case File.read("/proc/self/status") do
      {:ok, status} ->
        [_, kb] = Regex.run(~r/VmRSS:\s+(\d+) kB/, status)
        div(String.to_integer(kb), 1024)

      _ ->
        0
    end
  end

  # One of each kind: the same mistake is made many times.
  defp report(failures) do
    kinds = Enum.group_by(failures, fn {_, _, kind, _} -> kind end)

    texts =
      for {_, [{chunk, number, _, text} | _] = all} <- kinds do
        "#{length(all)} times, first in chunk #{chunk}, call #{number}:\n#{text}"
      end

    "DALA_HOSTILE_SEED=#{@seed}: #{length(failures)} calls of #{map_size(kinds)} kinds\n" <>
      Enum.join(texts, "\n\n")
  end

  # As text: what is kept must not hold on to buffers.
  defp failure(chunk, number, call, what) do
    {who, call} =
      case call do
        {module, name, arguments} ->
          show = &inspect(&1, limit: 8, printable_limit: 80, structs: false)
          {{module, name}, "#{inspect(module)}.#{name}(#{Enum.map_join(arguments, ", ", show)})"}

        nil ->
          {nil, "?"}
      end

    text = "  #{call}\n  #{inspect(what, limit: 12, printable_limit: 200, width: 120, pretty: true)}"
    {chunk, number, {who, kind(what)}, text}
  end

  defp kind({:raised, error, _}), do: {:raised, error.__struct__}
  defp kind({:returned, {:error, _}}), do: {:returned, :error}
  defp kind(what) when is_tuple(what), do: elem(what, 0)
  defp kind(what), do: what
end

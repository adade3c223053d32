defmodule Dala.ServingTest do
  # One name on one node, and on several that come and go.
  use ExUnit.Case, async: false

  import Eventually

  alias Dala.Gpu.Compute.{Error, Native}
  alias Dala.Serving
  alias Dala.Test.{Kernels, Models}

  doctest Dala.Serving

  # What is asked here is answered at once, and how long that takes on a busy machine is not the subject.
  @long [deadline: 300_000]

  defp run(name, input, options \\ []), do: Serving.run(name, input, Keyword.merge(@long, options))

  # A function that tells the test what it is given, and waits where it is given `:wait` until the test says `:go`.
  defp told(work) do
    test = self()

    fn inputs ->
      send(test, {:batch, self(), inputs})
      if :wait in inputs, do: receive(do: (:go -> :ok))
      work.(inputs)
    end
  end

  defp serve(options), do: start_supervised!({Serving, options})

  defp relay(test) do
    receive do: (message -> send(test, message))
    relay(test)
  end

  # Asks for each in a process of its own, once something runs that keeps them waiting; gives tasks and the process that runs.
  defp behind(name, inputs, options \\ []) do
    first = Task.async(fn -> run(name, :wait) end)
    assert_receive {:batch, runs, [:wait]}
    tasks = for input <- inputs, do: Task.async(fn -> run(name, input, options) end)
    assert eventually(fn -> Serving.info(name).here.queued == length(inputs) end)
    {first, tasks, runs}
  end

  defp batches(found \\ []) do
    receive do
      {:batch, _, inputs} -> batches([inputs | found])
    after
      0 -> Enum.reverse(found)
    end
  end

  describe "one node" do
    test "requests share runs, and each has its own answer" do
      serve(name: :shared, run: told(&Enum.map(&1, fn x -> {:done, x} end)))
      {first, tasks, runs} = behind(:shared, Enum.to_list(1..16))
      send(runs, :go)
      assert Task.await(first, :infinity) == {:ok, {:done, :wait}}
      assert Task.await_many(tasks, :infinity) == for(x <- 1..16, do: {:ok, {:done, x}})
      batches = batches()
      assert Enum.sort(Enum.concat(batches)) == Enum.to_list(1..16)
      assert Enum.all?(batches, &(length(&1) <= 8))
      # Two of eight would do; what the runs take is not known so soon.
      assert length(batches) <= 8
      assert %{taken: 17, done: 17, queued: 0, running: 0} = Serving.info(:shared).here
      refute_received _
    end

    test "what cannot be in time is refused at once, with when to try again" do
      test = self()

      # What a run takes is known by the first. The others end when the test says so.
      slow = fn
        [0] ->
          Process.sleep(2_000)
          [0]

        [x] ->
          send(test, {:runs, self()})
          receive do: (:go -> [x])
      end

      serve(name: :slow, batch: [1], run: slow)
      assert run(:slow, 0) == {:ok, 0}
      tasks = for x <- 1..3, do: Task.async(fn -> run(:slow, x) end)
      assert eventually(fn -> Serving.info(:slow).here.queued == 2 end)
      assert {:error, %Error{code: :refused} = error} = run(:slow, 4, deadline: 1_500)
      # Either knows: the server, and the router by what the server said.
      assert error.details.reason in [:too_late, :busy]
      assert error.details.retry_after > 0
      # At once: it has not waited for its deadline, nor for a run to end.
      assert %{taken: 4, done: 1, expired: 0, left: 0, queued: 2, running: 1} = Serving.info(:slow).here

      for _ <- tasks do
        assert_receive {:runs, runs}
        send(runs, :go)
      end

      assert Task.await_many(tasks, :infinity) == for(x <- 1..3, do: {:ok, x})
    end

    test "what waits for longer than its deadline expires, and is not run" do
      serve(name: :late, batch: [1], run: told(& &1))
      {first, [], runs} = behind(:late, [])
      assert {:error, %Error{code: :expired}} = run(:late, :too_late, deadline: 1_000)
      send(runs, :go)
      assert Task.await(first, :infinity) == {:ok, :wait}
      assert run(:late, 1) == {:ok, 1}
      refute [:too_late] in batches()
    end

    test "what a caller asked that died is not run" do
      serve(name: :left, batch: [1], run: told(& &1))
      {first, [], runs} = behind(:left, [])
      caller = spawn(fn -> run(:left, :nobody_waits) end)
      assert eventually(fn -> Serving.info(:left).here.queued == 1 end)
      assert Serving.info(:left).in_flight == 2
      Process.exit(caller, :kill)
      assert eventually(fn -> Serving.info(:left).here.left == 1 end)
      assert eventually(fn -> Serving.info(:left).in_flight == 1 end)
      send(runs, :go)
      assert Task.await(first, :infinity) == {:ok, :wait}
      assert run(:left, 1) == {:ok, 1}
      refute [:nobody_waits] in batches()
    end

    test "a poisoned input fails alone" do
      poisoned = fn inputs ->
        if :poison in inputs, do: raise("poisoned"), else: inputs
      end

      serve(name: :poisoned, run: told(poisoned))
      {first, tasks, runs} = behind(:poisoned, [1, 2, :poison, 3, 4], pure: true)
      send(runs, :go)
      assert Task.await(first, :infinity) == {:ok, :wait}
      assert [{:ok, 1}, {:ok, 2}, {:error, error}, {:ok, 3}, {:ok, 4}] = Task.await_many(tasks, :infinity)
      assert %Error{code: :run_failed, message: "the run failed: poisoned"} = error
      assert [:poison] in batches()
      assert %{failed: 1, done: 5} = Serving.info(:poisoned).here
    end

    test "what is not pure is run once, even if those that share its run make it fail" do
      half = fn inputs -> if :poison in inputs, do: raise("poisoned"), else: inputs end
      serve(name: :once, run: told(half))
      {first, pure, runs} = behind(:once, [:pure], pure: true)
      tasks = for input <- [1, :poison, 2], do: Task.async(fn -> run(:once, input) end)
      assert eventually(fn -> Serving.info(:once).here.queued == 4 end)
      send(runs, :go)
      assert Task.await(first, :infinity) == {:ok, :wait}
      assert Task.await_many(pure, :infinity) == [{:ok, :pure}]
      answers = Task.await_many(tasks, :infinity)
      ran = List.flatten(batches())
      for input <- [1, 2, :poison], do: assert(Enum.count(ran, &(&1 == input)) == 1)
      assert {:error, %Error{code: :run_failed}} = Enum.at(answers, 1)
      %{done: done, failed: failed, left: 0} = Serving.info(:once).here
      assert done + failed == 5 and failed == Enum.count(answers, &match?({:error, _}, &1))
    end

    test "a run that is killed, gives too little or throws fails" do
      wrong = fn
        [:exit] -> Process.exit(self(), :kill)
        [:few] -> []
        [:throw] -> throw(:ball)
        inputs -> inputs
      end

      serve(name: :wrong, batch: [1], run: wrong)
      assert {:error, %Error{code: :run_failed}} = run(:wrong, :exit)
      assert {:error, %Error{code: :wrong_outputs}} = run(:wrong, :few)
      assert {:error, %Error{code: :run_failed}} = run(:wrong, :throw)
      assert run(:wrong, :fine) == {:ok, :fine}
    end

    test "one that drains answers what it has, and takes nothing new" do
      serve(name: :drained, run: told(& &1))
      {first, tasks, runs} = behind(:drained, [1, 2, 3])
      drain = Task.async(fn -> Serving.drain(:drained) end)
      assert eventually(fn -> Serving.info(:drained).here.draining end)
      assert {:error, %Error{code: :refused, details: %{reason: reason}}} = run(:drained, 4)
      assert reason in [:draining, :away]
      send(runs, :go)
      assert Task.await_many([first | tasks], :infinity) == [ok: :wait, ok: 1, ok: 2, ok: 3]
      assert Task.await(drain, :infinity) == :ok
      assert Serving.info(:drained).members == []
      assert {:error, %Error{code: :refused, details: %{reason: :no_members}}} = run(:drained, 5)
    end

    test "what comes when one that drained has left is refused, and it says when it is not done in time" do
      server = serve(name: :parting, run: told(& &1))
      {first, [], runs} = behind(:parting, [])
      assert {:error, %Error{code: :timeout}} = Serving.drain(:parting, 20)
      drain = Task.async(fn -> {Serving.drain(:parting), System.monotonic_time(:millisecond)} end)
      # Both wait: the one that gave up, and this one.
      assert eventually(fn -> match?([_, _], :sys.get_state(server, :infinity).drains) end)
      start = System.monotonic_time(:millisecond)
      send(runs, :go)
      assert Task.await(first, :infinity) == {:ok, :wait}
      assert eventually(fn -> Serving.info(:parting).members == [] end)
      # One that was on its way.
      request = %{input: 1, shapes: [], items: 1, bytes: 1, lane: :default, left: nil}
      ref = :erlang.alias()
      send(server, {:ask, ref, ref, self(), self(), request})
      assert_receive {^ref, {:refused, {:draining, _, _}, _word}}
      assert {:ok, returned} = Task.await(drain, :infinity)
      assert returned - start >= 250
    end

    test "a run that does not end is ended" do
      hangs = fn
        [:hang] -> Process.sleep(:infinity)
        inputs -> inputs
      end

      serve(name: :hanging, batch: [1], longest: 2_000, run: hangs)
      assert {:error, %Error{code: :run_failed}} = run(:hanging, :hang, deadline: :infinity)
      assert run(:hanging, :fine) == {:ok, :fine}
      # As long as the limit of a run that has ended.
      Process.sleep(2_200)
      assert run(:hanging, :fine) == {:ok, :fine}
    end

    test "numbers of members are not given again" do
      serve(name: :numbered, run: & &1)
      numbers = fn -> for [number] <- :ets.match(Dala.Serving.Members, {{:member, :"$1"}, :_}), do: number end
      before = numbers.()
      monitor = Process.monitor(Dala.Serving.Members)
      Process.exit(Process.whereis(Dala.Serving.Members), :kill)
      assert_receive {:DOWN, ^monitor, _, _, :killed}
      assert eventually(fn -> match?({:ok, 1}, run(:numbered, 1)) end)
      assert before != [] and numbers.() != [] and Enum.all?(numbers.(), &(&1 > Enum.max(before)))
    end

    test "what may have run is not run again, unless it is pure" do
      server = serve(name: :lost, run: told(& &1))
      {first, [], _runs} = behind(:lost, [])
      Process.exit(server, :kill)
      assert {:error, %Error{code: :node_lost}} = Task.await(first, :infinity)
      # The supervisor has started it again.
      assert eventually(fn -> match?({:ok, 1}, run(:lost, 1)) end)
    end

    test "a server is found again when those who know it were killed" do
      serve(name: :found, run: & &1)

      for process <- [Dala.Serving.Members, Dala.Serving] do
        monitor = Process.monitor(process)
        Process.exit(Process.whereis(process), :kill)
        assert_receive {:DOWN, ^monitor, _, _, :killed}
        assert eventually(fn -> match?({:ok, 1}, run(:found, 1)) end)
        assert eventually(fn -> match?([_], :pg.get_members(Dala.Serving, {:found, :anything})) end)
      end
    end

    test "what cannot be read does not stop a server" do
      server = serve(name: :hostile, run: told(& &1))
      {first, [], runs} = behind(:hostile, [])
      request = %{input: 1, shapes: [], items: 1, bytes: 1, lane: :default, left: nil}
      {alive, dead} = {:erlang.alias(), make_ref()}

      for wrong <- [
            Map.delete(request, :lane),
            Map.delete(request, :left),
            Map.delete(request, :items),
            Map.delete(request, :input),
            %{request | lane: "default"},
            %{request | left: -1},
            %{request | left: 1.5},
            %{request | left: 0xFFFFFFFFFFFFFFFF},
            %{request | bytes: -1},
            %{request | bytes: :many},
            %{request | items: -1},
            [],
            nil
          ] do
        send(server, {:ask, alive, alive, self(), self(), wrong})
        assert_receive {^alive, {:refused, {:unknown_request, 0, _}, _word}}
      end

      send(server, {:ask, alive, alive, self(), self(), %{request | lane: :fast}})
      assert_receive {^alive, {:answer, {:error, %Error{}}, _word}}

      # Nobody can be told: neither is an answer sent, nor does it stop.
      for {ref, started, from} <- [
            {1, alive, self()},
            {:nobody, alive, self()},
            {nil, alive, self()},
            {dead, dead, self()},
            {alive, 1, self()},
            {alive, alive, :nobody}
          ],
          do: send(server, {:ask, ref, started, from, :anybody, request})

      for message <- [{:cancel, dead}, {:cancel, nil}, {dead, :done}, {:ask, alive}, :ask],
          do: send(server, message)

      send(runs, :go)
      assert Task.await(first, :infinity) == {:ok, :wait}
      assert run(:hostile, 1) == {:ok, 1}
      assert Serving.info(:hostile).here.queued == 0
    end

    test "servers of one name that take different inputs are given what they take, and leave nothing" do
      server = serve(name: :mixed, run: fn list -> Enum.map(list, &{:function, &1}) end)

      # Of this name: servers of tests before this one may still be leaving.
      rows = fn pids ->
        Enum.count(:ets.tab2list(Dala.Serving.Members), fn
          {{:member, _}, pid} -> pid in pids
          {key, _} when is_tuple(key) -> elem(key, 1) == :mixed
          _ -> false
        end)
      end

      assert rows.([server]) == 4
      # As if on another node: one that takes two numbers, and one of a version that takes nobody knows what.
      test = self()
      takes = [{"x", :f32, [:batch, 2]}]

      join = fn takes ->
        spawn(fn ->
          :pg.join(Dala.Serving, {:mixed, takes}, self())
          relay(test)
        end)
      end

      others = for takes <- [takes, {:unknown, takes}], do: join.(takes)
      assert eventually(fn -> length(Serving.info(:mixed).members) == 2 end)
      for _ <- 1..4, do: assert(run(:mixed, :text) == {:ok, {:function, :text}})
      for _ <- 1..4, do: assert({:error, %Error{}} = run(:mixed, [1.0, 2.0], deadline: 1_000))
      assert_receive {:ask, _, _, _, _, %{input: [{<<_::64>>, [1, 2]}]}}
      Enum.each(others, &Process.exit(&1, :kill))
      assert eventually(fn -> length(Serving.info(:mixed).members) == 1 end)
      assert run(:mixed, [1.0, 2.0]) == {:ok, {:function, [1.0, 2.0]}}
      assert eventually(fn -> rows.([server | others]) == 4 end)
      stop_supervised!({Serving, :mixed})
      assert eventually(fn -> rows.([server | others]) == 0 end)
    end

    test "of several that start a name at once one does, and the others are told" do
      test = self()

      for _ <- 1..8 do
        spawn_link(fn ->
          send(test, {:started, Serving.start_link(name: :at_once, run: & &1)})
          # Its server would end with it, and the name be free.
          Process.sleep(:infinity)
        end)
      end

      started =
        for _ <- 1..8 do
          assert_receive {:started, start}
          start
        end

      assert [{:ok, server}] = Enum.filter(started, &match?({:ok, _}, &1))
      assert Enum.count(started, &(&1 == {:error, {:already_started, server}})) == 7
    end

    test "streams are in order, and end early" do
      serve(name: :streamed, run: fn list -> Enum.map(list, &(&1 + 1)) end)
      assert Enum.to_list(Serving.stream(:streamed, 1..50, @long)) == for(x <- 2..51, do: {:ok, x})

      assert [ok: 2, ok: 3] =
               1..1_000 |> Stream.cycle() |> then(&Serving.stream(:streamed, &1, @long)) |> Enum.take(2)

      # What is raised for an input is raised where the stream is read.
      member(:streamed_numbers, [{"x", :f32, [:batch, 1]}])
      wrong = Serving.stream(:streamed_numbers, [{<<0::32>>, :bad, :f32}])
      assert_raise ArgumentError, fn -> Enum.to_list(wrong) end
      assert eventually(fn -> match?(%{queued: 0, running: 0}, Serving.info(:streamed).here) end)
      assert eventually(fn -> Serving.info(:streamed).in_flight == 0 end)
    end

    test "events are reported" do
      serve(name: :reported, run: & &1)
      test = self()
      events = for event <- [:queued, :batched, :ran, :answered, :refused], do: [:dala, :serving, event]
      handler = fn event, measured, about, _ -> send(test, {List.last(event), measured, about}) end
      :ok = :telemetry.attach_many(__MODULE__, events, handler, nil)
      on_exit(fn -> :telemetry.detach(__MODULE__) end)
      assert run(:reported, "x", lane: :interactive) == {:ok, "x"}

      assert_receive {:queued, %{items: 1, bytes: bytes}, %{name: :reported, lane: :interactive}}
                     when bytes > 0

      assert_receive {:batched, %{requests: 1, items: 1, size: 1}, %{name: :reported}}
      assert_receive {:ran, %{duration: ran}, %{outcome: :done}}
      assert_receive {:answered, %{duration: took, waited: waited, runs: 1}, %{end: :done}}
      assert ran > 0 and took >= waited
      assert {:error, _} = run(:nowhere_served, "x")

      assert_receive {:refused, %{},
                      %{name: :nowhere_served, lane: :default, reason: :no_members, by: :caller}}

      assert Serving.drain(:reported) == :ok
      refute_received {:refused, _, %{name: :reported}}
    end

    test "no native call takes longer than some microseconds" do
      serve(name: :measured, run: & &1)
      on_exit(fn -> Native.measure(false) end)

      round = fn ->
        Native.measure(true)
        answers = Serving.stream(:measured, 1..2_000, [max_concurrency: 200] ++ @long)
        assert Enum.all?(answers, &match?({:ok, _}, &1))
        Native.measure(false)

        calls =
          for {name, calls, _, all} <- Native.measurements(),
              name =~ ~r/^(desk|routes)_/,
              do: {name, all / calls}

        for name <- ~w(desk_offer desk_next desk_ended desk_word routes_ask),
            do: assert(List.keymember?(calls, name, 0))

        # The mean: one call may be held up by the system. A call that keeps a scheduler busy takes milliseconds.
        for {_, nanoseconds} = call <- calls, nanoseconds >= 100_000, do: call
      end

      # It may be held up for longer than all calls take together. What calls cost they cost in every round.
      assert Enum.any?(1..5, fn _ -> round.() == [] end)
    end

    test "wrong arguments say what is allowed" do
      assert_raise ArgumentError, ~r/a served name must be/, fn -> Serving.run(nil, 1) end
      assert_raise ArgumentError, ~r/:deadline must be/, fn -> Serving.run(:x, 1, deadline: -1) end
      assert_raise ArgumentError, ~r/:lane must be/, fn -> Serving.run(:x, 1, lane: :fast) end

      assert_raise ArgumentError, ~r/one of :model, :pipeline and :run/, fn ->
        Serving.start_link(name: :x)
      end

      assert_raise ArgumentError, ~r/:batch must be/, fn ->
        Serving.start_link(name: :x, run: & &1, batch: [])
      end

      assert {:error, %Error{code: :io}} = Serving.start_link(name: :x, model: "nowhere.onnx")
    end
  end

  describe "a model" do
    setup do
      # The mean of each channel.
      file = Path.join(System.tmp_dir!(), "dala-serving-#{System.pid()}.onnx")
      {inputs, outputs} = {[{"x", ["batch", 3, 2, 2]}], [{"y", ["batch", 3, 1, 1]}]}
      File.write!(file, Models.onnx([{"GlobalAveragePool", ["x"], ["y"]}], inputs, outputs))
      on_exit(fn -> File.rm!(file) end)
      serve(name: :means, model: file)
      :ok
    end

    defp means({:ok, %{"y" => {binary, shape, :f32}}}),
      do: {shape, for(<<x::float-little-32 <- binary>>, do: x)}

    test "is given what people have, and shares runs" do
      values = for x <- 1..12, do: x / 1
      binary = for x <- values, into: <<>>, do: <<x::float-little-32>>
      expected = {{1, 3, 1, 1}, [2.5, 6.5, 10.5]}
      buffer = Dala.Gpu.Compute.buffer_from_binary(binary, {1, 3, 2, 2}, :f32)

      tensor = binary |> Nx.from_binary({:f, 32}) |> Nx.reshape({3, 2, 2})

      for input <- [values, binary, buffer, tensor, {binary, {3, 2, 2}, :f32}, %{"x" => values}, %{x: binary}],
          do: assert(means(run(:means, input)) == expected)

      two = binary <> for x <- values, into: <<>>, do: <<2 * x::float-little-32>>
      assert means(run(:means, two)) == {{2, 3, 1, 1}, [2.5, 6.5, 10.5, 5.0, 13.0, 21.0]}

      ask = &{&1, run(:means, List.duplicate(&1, 12))}

      for {:ok, answer} <- Task.async_stream(1..40, ask, timeout: :infinity) do
        {number, answer} = answer
        assert means(answer) == {{1, 3, 1, 1}, List.duplicate(number / 1, 3)}
      end
    end

    test "is given a buffer of this node as it is" do
      buffer = Dala.Gpu.Compute.buffer(Enum.to_list(1..12), {1, 3, 2, 2}, :f32)
      before = Dala.Gpu.Compute.memory().live
      for _ <- 1..10, do: assert(means(run(:means, buffer)) == {{1, 3, 1, 1}, [2.5, 6.5, 10.5]})
      assert Dala.Gpu.Compute.read_list(buffer) == Enum.map(1..12, &(&1 / 1))
      assert eventually(fn -> Dala.Gpu.Compute.memory().live <= before end)
      Dala.Gpu.Compute.free(buffer)
      assert {:error, %Error{}} = run(:means, buffer)
    end

    test "is tried out before it serves" do
      kernels = Kernels.obtained()
      assert {:ok, _} = run(:means, List.duplicate(1.0, 12))
      assert {:ok, _} = run(:means, List.duplicate(1.0, 96))
      assert Kernels.obtained() == kernels
    end

    test "is loaded again where the device does not know it any more, whatever its name is then" do
      alias Dala.Serving.Work
      file = Path.join(System.tmp_dir!(), "dala-serving-#{System.pid()}.onnx")
      {:ok, work} = Work.new({:model, file}, [1])
      forgotten = %{work | model: %{work.model | name: :forgotten}}
      input = [{<<0::384>>, [1, 3, 2, 2]}]
      assert {:done, [%{"y" => {<<0::96>>, {1, 3, 1, 1}, :f32}}]} = Work.run(forgotten, 1, [input])
      # One without a file, or whose file takes something else now, is for other nodes.
      for lost <- [%{forgotten | path: nil}, put_in(forgotten.model.inputs, [])],
          do: assert({:lost, %Error{code: :unknown_model}} = Work.run(lost, 1, [input]))
    end

    test "refuses what it does not take" do
      for {input, code} <- [
            {[1.0], :size_mismatch},
            {["x"], :invalid_value},
            {{<<0::384>>, {1, 3, 4}, :f32}, :shape_mismatch},
            {{<<0::384>>, {12}, :s32}, :dtype_mismatch},
            {%{"z" => [1.0]}, :unknown_input},
            {%{}, :missing_input},
            {:photo, :invalid_value},
            {:binary.copy(<<0::384>>, 9), :too_large},
            {"", :empty}
          ] do
        assert {:error, %Error{code: ^code}} = run(:means, input)
      end

      # What it takes to make a request of it counts.
      long = List.duplicate(1.0, 600_000)
      assert {:error, %Error{code: :expired}} = run(:means, long, deadline: 1)
    end
  end

  test "a pipeline serves one request after the other" do
    alias Dala.Gpu.Compute
    [input, output] = for _ <- 1..2, do: Compute.buffer_zeros({4}, :f32)
    stage = %{op: :run_kernel, kernel: :scalar_add, inputs: [input], output: output, params: %{scalar: 9.0}}
    pipeline = Compute.pipeline_add(Compute.pipeline(), stage)
    serve(name: :nine_more, pipeline: {pipeline, input, output})

    ask = fn x -> {x, run(:nine_more, List.duplicate(x, 4))} end
    answers = Task.async_stream(1..20, ask, max_concurrency: 8, timeout: :infinity)

    for {:ok, {x, answer}} <- answers do
      assert {:ok, %{"output" => {binary, {4}, :f32}}} = answer
      assert binary == :binary.copy(<<x + 9.0::float-little-32>>, 4)
    end

    assert {:error, %Error{code: :size_mismatch}} = run(:nine_more, [1.0])
    assert Serving.report(:nine_more) =~ "20 done"

    assert_raise ArgumentError, ~r/:slots must be 1 for a pipeline/, fn ->
      Serving.start_link(name: :two_at_once, pipeline: {pipeline, input, output}, queue: [slots: 2])
    end
  end

  describe "a cluster" do
    setup do
      case distributed() do
        :ok -> {:ok, peers: 1..3 |> Enum.map(fn _ -> peer() end) |> Enum.map(&started/1)}
        {:error, reason} -> {:ok, peers: [], reason: reason}
      end
    end

    test "a node that is killed under load loses nothing, and nothing is answered twice", context do
      with_peers(context, fn [{_, victim} | _] = peers ->
        nodes = for {_, node} <- peers, do: node
        for node <- nodes, do: :ok = :erpc.call(node, Dala.Test.Serving, :start, [:squared, [1, 2, 4]])
        assert eventually(fn -> length(Serving.info(:squared).members) == 3 end)

        stopped = :atomics.new(1, [])
        ask = fn x -> {x, run(:squared, x, pure: true)} end

        callers =
          for caller <- 1..8 do
            Task.async(fn ->
              numbers = Stream.iterate(caller, &(&1 + 8))
              asked = Stream.take_while(numbers, fn _ -> :atomics.get(stopped, 1) == 0 end)
              {Enum.map(asked, ask), Process.info(self(), :message_queue_len)}
            end)
          end

        # A node whose first runs are slow is passed over for a while.
        assert eventually(fn -> Enum.all?(nodes, &(done(&1, :squared) > 10)) end, 300_000)
        :erpc.cast(victim, :erlang, :halt, [137, [flush: false]])
        assert eventually(fn -> length(Serving.info(:squared).members) == 2 end)
        others = fn -> Enum.sum(for node <- nodes, node != victim, do: done(node, :squared)) end
        before = others.()
        assert eventually(fn -> others.() > before + 200 end, 300_000)
        :atomics.put(stopped, 1, 1)
        results = Task.await_many(callers, :infinity)

        for {answers, messages} <- results do
          assert messages == {:message_queue_len, 0}

          for {x, answer} <- answers do
            assert {:ok, {_node, squared}} = answer
            assert squared == x * x
          end
        end

        asked = for {answers, _} <- results, {_, {:ok, {node, _}}} <- answers, uniq: true, do: node
        assert Enum.sort(asked) == Enum.sort(nodes)
        assert Serving.info(:squared).in_flight == 0
      end)
    end

    test "a node without a device keeps nobody from an answer", context do
      with_peers(context, fn [{_, node} | _] ->
        # As what reads the result of work that failed says it.
        none = Error.new(:device_unavailable, "none")
        serve(name: :bare, run: fn _ -> raise Error.new(:poisoned, "never written", %{cause: none}) end)
        assert {:error, %Error{code: :device_unavailable}} = run(:bare, 3, pure: true)
        :ok = :erpc.call(node, Dala.Test.Serving, :start, [:bare, [1, 2, 4]])
        assert eventually(fn -> length(Serving.info(:bare).members) == 2 end)
        for x <- 1..30, do: assert({:ok, {^node, _}} = run(:bare, x, pure: true))
      end)
    end

    test "nodes drain one after the other, and callers do not notice", context do
      with_peers(context, fn peers ->
        for {_, node} <- peers, do: :ok = :erpc.call(node, Dala.Test.Serving, :start, [:rolling, [1, 2, 4]])
        assert eventually(fn -> length(Serving.info(:rolling).members) == 3 end)
        stopped = :atomics.new(1, [])

        callers =
          for _ <- 1..4 do
            Task.async(fn ->
              numbers = Stream.iterate(1, &(&1 + 1))
              asked = Stream.take_while(numbers, fn _ -> :atomics.get(stopped, 1) == 0 end)
              Enum.map(asked, &run(:rolling, &1))
            end)
          end

        for {_, node} <- Enum.drop(peers, 1) do
          assert eventually(fn -> done(node, :rolling) > 10 end, 300_000)
          assert :erpc.call(node, Serving, :drain, [:rolling]) == :ok
        end

        :atomics.put(stopped, 1, 1)
        # They are not pure: nothing may be lost all the same.
        for answers <- Task.await_many(callers, :infinity),
            do: assert(Enum.all?(answers, &match?({:ok, _}, &1)))

        {_, left} = hd(peers)
        assert eventually(fn -> match?([%{node: ^left}], Serving.info(:rolling).members) end)
      end)
    end
  end

  # As if on another node: one that takes this, and never answers.
  defp member(name, takes) do
    {test, join} = {self(), fn -> :pg.join(Dala.Serving, {name, takes}, self()) end}
    pid = spawn(fn -> join.() && relay(test) end)
    on_exit(fn -> Process.exit(pid, :kill) end)
    assert eventually(fn -> match?([_], Serving.info(name).members) end)
  end

  ## Nodes of a cluster, on the loopback

  defp done(node, name), do: :erpc.call(node, Serving, :info, [name]).here.done

  defp with_peers(%{peers: []} = context, _test), do: IO.puts("skipped: no distribution: #{context.reason}")
  defp with_peers(%{peers: peers}, test), do: test.(peers)

  defp distributed do
    if Node.alive?() do
      :ok
    else
      # Without the program there is nothing to wait for.
      patience = if epmd(), do: 30_000, else: 500
      # Nobody else is to reach it.
      Application.put_env(:kernel, :inet_dist_use_interface, {127, 0, 0, 1})
      name = :"dala_serving_#{System.pid()}@127.0.0.1"

      case eventually(fn -> with({:error, _} <- Node.start(name, :longnames), do: false) end, patience) do
        {:ok, _} -> on_exit(fn -> Node.stop() end)
        false -> {:error, "this node could not be given a name"}
      end
    end
  end

  # Where nodes find each other. If there is one already this one ends by itself; otherwise with the test.
  defp epmd do
    with program when program != nil <- System.find_executable("epmd") do
      port = Port.open({:spawn_executable, program}, args: ["-address", "127.0.0.1"])
      {:os_pid, pid} = Port.info(port, :os_pid) || {:os_pid, nil}
      on_exit(fn -> pid && System.cmd("kill", [to_string(pid)], stderr_to_stdout: true) end)
      :ok
    end
  end

  defp peer do
    # They need not know each other, and must not break each other's connections.
    kernel = ~w(prevent_overlapping_partitions false inet_dist_use_interface {127,0,0,1})c
    apart = [~c"-connect_all", ~c"false", ~c"-kernel" | kernel]
    cookie = [~c"-setcookie", Atom.to_charlist(Node.get_cookie())]
    options = %{name: :peer.random_name(), host: ~c"127.0.0.1", longnames: true, wait_boot: 300_000}
    args = apart ++ cookie ++ [~c"-pa" | :code.get_path()]
    # All at once: each takes some seconds.
    Task.async(fn -> :peer.start(Map.put(options, :args, args)) end)
  end

  defp started(peer) do
    {:ok, pid, node} = Task.await(peer, :infinity)
    on_exit(fn -> stop(pid) end)
    {:ok, _} = :erpc.call(node, :application, :ensure_all_started, [:dala_compute])
    {pid, node}
  end

  # The one that was killed is gone.
  defp stop(peer) do
    :peer.stop(peer)
  catch
    :exit, _ -> :ok
  end
end

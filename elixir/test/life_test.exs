defmodule Dala.Gpu.Compute.LifeTest do
  # Processes that die at the wrong moment, and what they leave behind.
  #
  #   DALA_LIFE_KILLS   processes that are killed while they work; 10,000
  #   DALA_LIFE_SEED    when and at what
  use ExUnit.Case, async: false

  import Eventually

  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.{Error, Server, Stream}

  @kills String.to_integer(System.get_env("DALA_LIFE_KILLS", "10000"))
  @seed String.to_integer(System.get_env("DALA_LIFE_SEED", "20240229"))
  @wave 200
  @mb 1024 * 1024
  @lanes [:interactive, :default, :background]

  setup do
    :rand.seed(:exsss, @seed)
    on_exit(fn -> Compute.resume() end)
    # What tests before this one left is not ours.
    %{start: settled_memory()}
  end

  @tag timeout: 7_200_000
  test "#{@kills} processes are killed while they work", %{start: start} do
    waves = max(div(@kills, @wave), 1)
    time = System.monotonic_time(:millisecond)
    shared = Compute.buffer_zeros({256})
    for wave <- 1..waves, do: kill_wave(wave, shared)
    took = System.monotonic_time(:millisecond) - time
    Compute.free(shared)

    finish = wait_for(fn -> memory() end, &(&1.live <= start.live and &1.buffers <= start.buffers + 1))

    IO.puts(
      "life: #{waves * @wave} killed in #{took} ms, DALA_LIFE_SEED=#{@seed}; #{inspect(start)} -> #{inspect(finish)}"
    )

    # Less if tests before this one left something after all.
    assert finish.live <= start.live
    # `shared` is freed, but still referred to.
    assert finish.buffers <= start.buffers + 1
    assert nothing_pending?()
    assert good_call?()
    assert is_reference(shared.ref)
  end

  @tag :long
  test "a buffer outlives the process that made it" do
    values = for n <- 1..200, into: %{}, do: {n, rem(n * 7, 256)}

    for {n, byte} <- values do
      # Every other time nothing of it can have been uploaded before its maker is dead.
      suspended? = rem(n, 2) == 0
      if suspended?, do: :ok = Compute.suspend()
      parent = self()

      reader =
        spawn_link(fn ->
          receive do: ({:buffer, buffer} -> send(parent, {:read, self(), Compute.read(buffer)}))
        end)

      {maker, monitor} =
        spawn_monitor(fn ->
          data = :binary.copy(<<byte>>, @mb)
          send(reader, {:buffer, Compute.buffer_from_binary(data, {@mb}, :u8)})
          if rem(n, 3) == 0, do: Process.sleep(:rand.uniform(2) - 1)
          Process.exit(self(), :kill)
        end)

      assert_receive {:DOWN, ^monitor, _, ^maker, :killed}
      if suspended?, do: :ok = Compute.resume()
      assert_receive {:read, ^reader, data}, 120_000
      assert data == :binary.copy(<<byte>>, @mb)
    end
  end

  test "the server is killed 50 times under load" do
    {parent, before} = {self(), Compute.buffer([1.0, 2.0, 3.0], {3})}
    {stop, rounds} = {:atomics.new(1, []), :counters.new(1, [])}
    under_patient_supervisor()

    workers =
      for number <- 1..100 do
        spawn_link(fn ->
          # Also those that have to ask the server for the device.
          numbers = Elixir.Stream.iterate(0, &(&1 + 1))
          result = Enum.reduce_while(numbers, 0, &work(&1, &2, number, {stop, rounds}))
          send(parent, {:worked, self(), result})
        end)
      end

    for _ <- 1..50 do
      pid = Process.whereis(Server)
      monitor = Process.monitor(pid)
      Process.exit(pid, :kill)
      assert_receive {:DOWN, ^monitor, _, _, :killed}
      wait_for(fn -> Process.whereis(Server) end, &(is_pid(&1) and &1 != pid))
      assert {:ok, device} = Server.device()
      assert is_reference(device)
      Process.sleep(5)
    end

    # On a slow machine they may hardly have begun.
    assert eventually(fn -> :counters.get(rounds, 1) > 100 end)
    :atomics.put(stop, 1, 1)

    done =
      for worker <- workers do
        assert_receive {:worked, ^worker, count}, 120_000
        assert is_integer(count), "a worker got #{inspect(count)}"
        count
      end

    IO.puts("life: the server was killed 50 times during #{Enum.sum(done)} right answers")
    assert Enum.sum(done) > 100
    assert Process.alive?(Process.whereis(Server))
    assert GenServer.call(Server, :device, 120_000) == Server.device()
    assert Compute.read_list(before) == [1.0, 2.0, 3.0]
  end

  describe "the commands of a process that dies" do
    test "are cancelled if they have not started, unless they are detached" do
      :ok = Compute.suspend()
      # One for each command: of those that share one, the later ones fail because the earlier were cancelled.
      [json, long | buffers] = for _ <- 1..8, do: Compute.buffer_zeros({4})
      {owned, detached} = Enum.split(Enum.zip(buffers, @lanes ++ @lanes), 3)

      {owned_ids, detached_ids} =
        in_process_that_is_killed(fn ->
          text = ~s({"op": "run_kernel", "kernel": "relu", "inputs": [#{json.id}], "output": #{json.id}})
          {:ok, json_id} = ExCubecl.submit(text)
          long_id = Compute.submit(List.duplicate(relu(long), 40))
          owned_ids = for {buffer, lane} <- owned, do: Compute.submit(relu(buffer), lane: lane)

          detached_ids =
            for {buffer, lane} <- detached, do: Compute.submit(relu(buffer), lane: lane, detached: true)

          {[json_id, long_id | owned_ids], detached_ids}
        end)

      for id <- owned_ids do
        assert wait_for(fn -> Compute.status(id) end, &(&1 == :cancelled)) == :cancelled
        assert {:error, %Error{code: :cancelled}} = Compute.poll(id)
      end

      for id <- detached_ids, do: assert(Compute.status(id) == :pending)
      :ok = Compute.resume()
      for id <- detached_ids, do: assert({Compute.wait(id), Compute.status(id)} == {:ok, :completed})
      for {buffer, _} <- detached, do: assert(Compute.read_list(buffer) == [0.0, 0.0, 0.0, 0.0])
      # What they should have written cannot be read until it is written again.
      assert_raise Error, fn -> Compute.read(json) end
      assert Compute.write(json, <<0::128>>) == :ok
      assert Compute.read(json) == <<0::128>>
    end

    test "are cancelled behind long work, too" do
      size = 384
      [x, y, z] = for _ <- 1..3, do: Compute.buffer_zeros({size, size})
      matmul = %{op: :run_kernel, kernel: :matmul, inputs: [x, y], output: z}
      long = for _ <- 1..20, do: Compute.submit(matmul)
      small = Compute.buffer_zeros({4})
      # What has not begun by now does so when theirs are cancelled, however long that takes.
      :ok = Compute.suspend()

      ids =
        in_process_that_is_killed(fn ->
          # Behind the long ones, because it reads what they write.
          copy = %{op: :run_kernel, kernel: :reduce_sum, inputs: [z], output: Compute.buffer_zeros({})}
          for _ <- 1..20, do: Compute.submit([copy, relu(small)])
        end)

      for id <- ids, do: wait_for(fn -> Compute.status(id) end, &(&1 not in [:pending, :running]))
      states = Enum.map(ids, &Compute.status/1)
      assert Enum.all?(states, &(&1 in [:cancelled, :failed]))
      assert :cancelled in states
      :ok = Compute.resume()
      for id <- long, do: assert(Compute.wait(id) == :ok)
    end

    test "do not keep an upload from being made" do
      :ok = Compute.suspend()

      buffer =
        in_process_that_is_killed(fn ->
          {Compute.buffer([1.0, 2.0], {2}), Compute.buffer_zeros({2}), ExCubecl.buffer!([7], [1], :u8)}
        end)

      Process.sleep(20)
      :ok = Compute.resume()
      {a, b, c} = buffer

      assert {Compute.read_list(a), Compute.read_list(b), Compute.read_list(c)} ==
               {[1.0, 2.0], [0.0, 0.0], [7]}
    end

    # Nothing runs, so that nothing but the cancelling empties the lanes.
    test "are all gone, at whatever moment it died" do
      buffer = Compute.buffer([1.0, 2.0, 3.0, 4.0], {4})
      {write, read} = {%{op: :write_buffer, output: buffer, data: <<0::128>>}, Compute.read(buffer)}
      assert byte_size(read) == 16
      # Named as text: this goes another way into the native code.
      json =
        ~s({"op": "run_kernel", "kernel": "fill", "inputs": [], "output": #{buffer.id}, "params": {"value": 1}})

      :ok = Compute.suspend()

      for _ <- 1..10 do
        victims =
          for _ <- 1..100 do
            spawn(fn ->
              Enum.each(Elixir.Stream.cycle([1]), fn _ ->
                case :rand.uniform(4) do
                  1 -> Compute.submit(write, lane: Enum.random(@lanes))
                  2 -> {:ok, _} = ExCubecl.submit(json)
                  3 -> Compute.submit(List.duplicate(write, 40), lane: :background)
                  4 -> if :rand.uniform(5) == 1, do: Compute.write(buffer, <<0::128>>)
                end

                Process.sleep(:rand.uniform(2) - 1)
              end)
            end)
          end

        kill_all(Enum.map(victims, &{&1, :rand.uniform(6) - 1}))
      end

      left = wait_for(&pending/0, &(&1 == 0))
      assert left == 0, "#{left} commands of dead processes wait for ever"
    end
  end

  test "a wait that times out leaves nothing in the mailbox" do
    size = 160
    [x, y, z] = for _ <- 1..3, do: Compute.buffer_zeros({size, size})
    matmul = %{op: :run_kernel, kernel: :matmul, inputs: [x, y], output: z}
    # How long one takes, so that timeouts come about when it ends.
    Compute.wait(Compute.submit(matmul))
    timed = for _ <- 1..5, do: :timer.tc(fn -> Compute.wait(Compute.submit(matmul)) end)
    {micros, :ok} = Enum.min(timed)
    most = div(2 * micros, 1000) + 1

    results =
      for n <- 1..2_000 do
        id = Compute.submit(matmul)
        # Part of a millisecond, which no timeout can say.
        spin(:rand.uniform(1000))
        result = Compute.wait(id, :rand.uniform(most + 1) - 1)
        assert result == :ok or match?({:error, %Error{code: :wait_timeout}}, result)
        # Answers come in order: after this one, none can be on its way.
        if result != :ok, do: Compute.wait(id)
        if rem(n, 10) == 0, do: assert(good_call?())
        assert Process.info(self(), :message_queue_len) == {:message_queue_len, 0}
        result == :ok
      end

    good_call?()
    assert Process.info(self(), :messages) == {:messages, []}
    in_time = Enum.count(results, & &1)
    IO.puts("life: of 2000 waits of 0..#{most} ms for #{micros} µs, #{in_time} were long enough")
    assert in_time in 1..1_999
  end

  describe "400 buffers of 1 MB that are dropped hold at most 80 MB" do
    test "if they are only made" do
      assert_below_80_mb("made", """
      for _ <- 1..400, do: ok(Compute.buffer_from_binary(data, {1_048_576}, :u8))
      """)
    end

    test "if they are only made, of zeros" do
      assert_below_80_mb("made of zeros", """
      for _ <- 1..400, do: ok(Compute.buffer_zeros({1_048_576}, :u8))
      """)
    end

    test "if each is read" do
      assert_below_80_mb("made and read", """
      for _ <- 1..400, do: ^data = Compute.read(Compute.buffer_from_binary(data, {1_048_576}, :u8))
      """)
    end

    # In a process with much else, whose collections are minor ones, and which keeps each buffer for some of them.
    test "if they grow old first" do
      assert_below_80_mb("made, read and kept a while", """
      ballast = Enum.to_list(1..500_000)

      Enum.reduce(1..400, [], fn n, kept ->
        buffer = Compute.buffer_from_binary(data, {1_048_576}, :u8)
        ^data = Compute.read(buffer)
        Enum.sum(Enum.map(1..20_000, &(&1 + n)))
        Enum.take([buffer | kept], 10)
      end)

      length(ballast)
      """)
    end
  end

  test "a deadline counts also while the lane is full" do
    buffer = Compute.buffer_zeros({4})
    write = %{op: :write_buffer, output: buffer, data: <<0::128>>}
    :ok = Compute.suspend()
    for _ <- 1..4_096, do: Compute.submit(write)
    submit = Task.async(fn -> catch_error(Compute.submit(write, deadline: 20)) end)
    assert {:ok, %Error{code: :deadline_exceeded}} = Task.yield(submit, 120_000) || Task.shutdown(submit)
  end

  test "each command with notify is answered exactly once" do
    [a, b] = for _ <- 1..2, do: Compute.buffer_zeros({64})

    refs =
      for n <- 1..2_000, into: %{} do
        ref = make_ref()
        if rem(n, 500) == 0, do: :ok = Compute.suspend()
        options = [notify: ref, lane: Enum.random(@lanes)] ++ if(rem(n, 7) == 0, do: [deadline: 0], else: [])

        stage =
          if rem(n, 3) == 0,
            do: %{relu(a) | output: b},
            else: %{op: :write_buffer, output: a, data: <<0::2048>>}

        id = submit_unless_poisoned(stage, options)
        if rem(n, 5) == 0 and id != nil, do: Compute.cancel(id)
        if rem(n, 500) == 50, do: :ok = Compute.resume()
        {ref, id}
      end

    :ok = Compute.resume()
    for {_, id} when id != nil <- refs, do: Compute.wait(id)
    good_call?()

    expected = Enum.count(refs, fn {_, id} -> id != nil end)
    # All that there are to be, however long they take, and then what there is not to be.
    answers = all_messages(for(_ <- 1..expected, do: assert_receive({_, _})))
    counts = Enum.frequencies_by(answers, &elem(&1, 0))
    for {ref, id} when id != nil <- refs, do: assert({id, Map.get(counts, ref, 0)} == {id, 1})
    assert length(answers) == expected

    for {ref, result} <- answers do
      assert result == :ok or match?({:error, %Error{}}, result)
      # And it is the same that everybody else is told.
      assert result == if(Compute.poll(refs[ref]) == :completed, do: :ok, else: Compute.poll(refs[ref]))
    end

    assert :ok in Enum.map(answers, &elem(&1, 1))
    assert Enum.any?(answers, &match?({_, {:error, %Error{code: :cancelled}}}, &1))
  end

  ## Work to be killed at

  defp kill_wave(wave, shared) do
    for number <- 1..@wave do
      seed = :erlang.phash2({@seed, wave, number})

      pid =
        spawn(fn ->
          :rand.seed(:exsss, seed)
          Enum.each(Elixir.Stream.cycle([1]), fn _ -> try_job(:rand.uniform(10), shared) end)
        end)

      {pid, rem(seed, 6)}
    end
    |> kill_all()
  end

  # `{pid, milliseconds until it is killed}`.
  defp kill_all(victims) do
    for {ms, group} <- Enum.sort(Enum.group_by(victims, &elem(&1, 1), &elem(&1, 0))) do
      if ms > 0, do: Process.sleep(1)
      Enum.each(group, &Process.exit(&1, :kill))
    end

    for {pid, _} <- victims do
      monitor = Process.monitor(pid)
      receive do: ({:DOWN, ^monitor, _, _, _} -> :ok)
    end
  end

  # Two hundred at once may fill a lane.
  defp try_job(number, shared) do
    job(number, shared)
  rescue
    error in Error -> assert error.code == :overloaded
  end

  defp job(1, _),
    do: Process.put(:held, [Compute.buffer_zeros({1024}) | Enum.take(Process.get(:held, []), 5)])

  defp job(2, _), do: Compute.read(Compute.buffer_from_binary(<<0::4096>>, {512}, :u8))
  defp job(3, shared), do: Compute.wait(Compute.submit(copy(shared), lane: Enum.random(@lanes)))
  defp job(4, shared), do: Compute.wait(Compute.submit(copy(shared)), :rand.uniform(3) - 1)
  defp job(5, _), do: make(:binary.copy(<<1>>, 100_000))

  defp job(6, shared) do
    options = [
      lane: Enum.random(@lanes),
      detached: :rand.uniform(2) == 1,
      notify: make_ref(),
      when_full: :drop_oldest
    ]

    for _ <- 1..5, do: Compute.submit(copy(shared), options)
  end

  defp job(7, shared) do
    pipeline = Compute.pipeline()
    for _ <- 1..3, do: Compute.pipeline_add(pipeline, copy(shared))
    Compute.pipeline_run(pipeline)
  end

  defp job(8, _) do
    buffer = Compute.buffer_zeros({64})
    policy = Enum.random([:latest, :block, {:queue, 3}])
    stream = Stream.new(input: buffer, stages: [relu(buffer)], output: buffer, policy: policy)
    for _ <- 1..6, do: Stream.push(stream, <<0::2048>>)
    if :rand.uniform(2) == 1, do: Stream.stop(stream)
  end

  defp job(9, _) do
    buffer = Compute.buffer_zeros({64})
    frames = Dala.Media.frame_stream(List.duplicate(<<0::2048>>, 10), input: buffer, output: buffer)
    Enum.take(frames, :rand.uniform(10))
  end

  defp job(10, shared) do
    {:ok, id} = ExCubecl.id(shared)
    ExCubecl.submit(~s({"op": "copy_buffer", "inputs": [#{id}], "output": #{id}}))
    Compute.free(Compute.buffer_zeros({256}))
  end

  # From and to itself: whatever happens to it, nobody else's values depend on it.
  defp copy(buffer) do
    %{
      op: :run_kernel,
      kernel: :scalar_mul,
      inputs: [Compute.buffer_zeros({256})],
      output: buffer,
      params: %{scalar: 2}
    }
  end

  defp relu(buffer), do: %{op: :run_kernel, kernel: :relu, inputs: [buffer], output: buffer}

  defp work(round, _, number, {stop, rounds}) do
    [a, b, c] = for list <- [[number * 1.0], [round * 1.0], [0.0]], do: Compute.buffer(list, {1})
    expected = [number + round * 1.0]

    with :ok <- Compute.add(a, b, c),
         ^expected <- Compute.read_list(c),
         {:ok, _} <- Server.device() do
      :counters.add(rounds, 1, 1)
      if :atomics.get(stop, 1) == 1, do: {:halt, round + 1}, else: {:cont, round + 1}
    else
      other -> {:halt, {:wrong, other, expected}}
    end
  end

  # The server, for this test: the application's own supervisor would take so many kills for a loop of crashes.
  defp under_patient_supervisor do
    options = [strategy: :one_for_one, max_restarts: 1000, max_seconds: 5]
    :ok = Supervisor.terminate_child(Dala.Gpu.Compute.Supervisor, Server)
    on_exit(fn -> {:ok, _} = Supervisor.restart_child(Dala.Gpu.Compute.Supervisor, Server) end)

    start_supervised!(%{
      id: :patient,
      type: :supervisor,
      start: {Supervisor, :start_link, [[Server], options]}
    })
  end

  # What the function returns, once the process that called it is dead.
  defp in_process_that_is_killed(function) do
    parent = self()

    {pid, monitor} =
      spawn_monitor(fn ->
        send(parent, {self(), function.()})
        Process.sleep(:infinity)
      end)

    assert_receive {^pid, result}, 120_000
    Process.exit(pid, :kill)
    assert_receive {:DOWN, ^monitor, _, _, :killed}
    result
  end

  # A buffer whose last writer was cancelled cannot be read: nothing is submitted then.
  defp submit_unless_poisoned(stage, options) do
    Compute.submit(stage, options)
  rescue
    error in Error ->
      assert error.code in [:poisoned, :dependency_failed, :deadline_exceeded]
      nil
  end

  defp make(data) do
    Compute.buffer_from_binary(data, {byte_size(data)}, :u8)
    :ok
  end

  defp spin(micros) do
    until = System.monotonic_time(:microsecond) + micros
    spin_until(until)
  end

  defp spin_until(until) do
    if System.monotonic_time(:microsecond) < until, do: spin_until(until)
  end

  ## Looking

  defp memory, do: Map.take(Compute.memory(), [:live, :buffers])
  defp pending, do: Enum.sum(for {_, lane} <- Compute.stats().lanes, do: lane.pending)
  defp nothing_pending?, do: wait_for(&pending/0, &(&1 == 0)) == 0

  defp good_call? do
    [a, b, c] = for list <- [[1.0, 2.0], [10.0, 20.0], [0.0, 0.0]], do: Compute.buffer(list, {2})
    Compute.add(a, b, c) == :ok and Compute.read_list(c) == [11.0, 22.0]
  end

  # Asks until the answer is right; after two minutes, whatever it is then.
  defp wait_for(ask, right?) do
    answer = fn ->
      answer = ask.()
      right?.(answer) && {:right, answer}
    end

    case eventually(answer, 120_000) do
      {:right, answer} -> answer
      false -> ask.()
    end
  end

  # Asking for what is live waits for what is queued and so sees little. The peak sees everything, but never falls: a VM of
  # its own has one of its own.
  defp assert_below_80_mb(what, work) do
    options = %{connection: :standard_io, args: [~c"-pa" | :code.get_path()], wait_boot: 300_000}
    {:ok, peer, _} = :peer.start_link(options)
    {:ok, _} = :peer.call(peer, :application, :ensure_all_started, [:dala_compute], :infinity)

    module = """
    defmodule Garbage do
      alias Dala.Gpu.Compute

      def run do
        start = Compute.memory()
        {_, monitor} = spawn_monitor(&work/0)
        receive do: ({:DOWN, ^monitor, _, _, reason} -> {reason, start, Compute.memory().peak, finish(6_000)})
      end

      # What the process dropped is given back soon after it.
      defp finish(tries) do
        memory = Compute.memory()
        if memory.buffers == 0 or tries == 0, do: memory, else: again(tries)
      end

      defp again(tries) do
        Process.sleep(20)
        finish(tries - 1)
      end

      def work do
        data = :binary.copy(<<1>>, 1_048_576)
        _ = data
        #{work}
      end

      def ok(_), do: :ok
    end
    """

    :peer.call(peer, Code, :eval_string, [module], :infinity)
    {reason, start, peak, finish} = :peer.call(peer, Garbage, :run, [], :infinity)
    :peer.stop(peer)
    above = div(peak - start.live, @mb)
    IO.puts("life: 400 MB #{what}: at most #{above} MB at once")
    assert reason == :normal
    assert {finish.live, finish.buffers} == {0, 0}
    # Half of it: how soon garbage is collected depends on what else the machine does.
    assert above < 200
  end

  defp all_messages(done) do
    receive do
      message -> all_messages([message | done])
    after
      100 -> done
    end
  end
end

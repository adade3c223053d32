defmodule Dala.Gpu.Compute.StreamTest do
  use ExUnit.Case, async: false

  import Eventually
  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.{Error, Stream}

  setup do
    on_exit(fn -> Compute.resume() end)
    [input, output] = for _ <- 1..2, do: Compute.buffer_zeros({4}, :u8)
    stage = %{op: :run_kernel, kernel: :scalar_add, inputs: [input], output: output, params: %{scalar: 100}}
    %{options: [input: input, stages: [stage], output: output], stage: stage}
  end

  # Four bytes that say which frame it is, and what the stage makes of them.
  defp frame(n), do: <<rem(n, 100), rem(div(n, 100), 100), 7, 155>>
  defp result(n), do: <<rem(n, 100) + 100, rem(div(n, 100), 100) + 100, 107, 255>>

  defp answers(%{tag: tag}, count) do
    for _ <- 1..count//1 do
      assert_receive {^tag, number, answer}, 120_000
      {number, answer}
    end
  end

  defp refute_more(%{tag: tag}) do
    settle()
    refute_received {^tag, _, _}
  end

  # Answers come in order: after this one, none can be on its way.
  defp settle do
    buffer = Compute.buffer_zeros({1})
    :ok = Compute.write(buffer, <<0::32>>)
    Process.sleep(5)
  end

  defp mailbox, do: elem(Process.info(self(), :messages), 1)

  describe "policies" do
    test ":latest keeps the newest and counts the stale ones", %{options: options} do
      :ok = Compute.suspend()
      stream = Stream.new([policy: :latest, in_flight: 2] ++ options)
      pushed = for n <- 0..9, do: Stream.push(stream, frame(n))
      assert pushed == [:started, :started, :waiting] ++ List.duplicate(:replaced, 7)

      assert %{frames_in: 10, in_flight: 2, waiting: 1, dropped_stale: 7, frames_out: 0} =
               Stream.stats(stream)

      :ok = Compute.resume()
      # The two that had started, and the newest.
      assert answers(stream, 3) == for(n <- [0, 1, 9], do: {n, {:ok, result(n)}})
      refute_more(stream)

      assert %{frames_in: 10, frames_out: 3, dropped_stale: 7, in_flight: 0, waiting: 0} =
               Stream.stats(stream)

      assert Stream.stop(stream) == :ok
    end

    test "{:queue, n} lets so many wait and drops the others", %{options: options} do
      :ok = Compute.suspend()
      stream = Stream.new([policy: {:queue, 3}, in_flight: 1] ++ options)
      pushed = for n <- 0..9, do: Stream.push(stream, frame(n))
      assert pushed == [:started, :waiting, :waiting, :waiting] ++ List.duplicate(:dropped, 6)
      assert %{frames_in: 10, in_flight: 1, waiting: 3, dropped_full: 6} = Stream.stats(stream)
      :ok = Compute.resume()
      assert answers(stream, 4) == for(n <- 0..3, do: {n, {:ok, result(n)}})
      # Numbers count the dropped ones, too.
      assert Stream.push(stream, frame(10)) == :started
      assert answers(stream, 1) == [{10, {:ok, result(10)}}]
      refute_more(stream)
      assert %{frames_out: 5, dropped_full: 6, failed: 0} = Stream.stats(stream)
    end

    test "{:queue, 0} takes only what can start", %{options: options} do
      :ok = Compute.suspend()
      stream = Stream.new([policy: {:queue, 0}, in_flight: 3] ++ options)

      assert for(n <- 0..4, do: Stream.push(stream, frame(n))) == [
               :started,
               :started,
               :started,
               :dropped,
               :dropped
             ]

      :ok = Compute.resume()
      assert length(answers(stream, 3)) == 3
      assert Stream.stop(stream) == :ok
    end

    test ":block makes push wait, and loses nothing", %{options: options} do
      :ok = Compute.suspend()
      stream = Stream.new([policy: :block, in_flight: 2] ++ options)
      assert for(n <- 0..1, do: Stream.push(stream, frame(n))) == [:started, :started]
      pusher = Task.async(fn -> for n <- 2..199, do: Stream.push(stream, frame(n)) end)
      assert Task.yield(pusher, 100) == nil
      assert %{frames_in: 2, in_flight: 2} = Stream.stats(stream)
      :ok = Compute.resume()
      assert Enum.all?(Task.await(pusher, :infinity), &(&1 == :started))
      assert answers(stream, 200) == for(n <- 0..199, do: {n, {:ok, result(n)}})
      refute_more(stream)
      assert %{frames_in: 200, frames_out: 200, dropped_stale: 0, dropped_full: 0} = Stream.stats(stream)
    end

    test ":block with many who push loses nothing and leaves nothing in their mailboxes", %{options: options} do
      stream = Stream.new([policy: :block, in_flight: 2] ++ options)

      pushers =
        for _ <- 1..20 do
          Task.async(fn ->
            for n <- 1..200, do: :started = Stream.push(stream, frame(n))
            settle()
            mailbox()
          end)
        end

      left = Task.await_many(pushers, :infinity)
      numbers = for {number, {:ok, _}} <- answers(stream, 4_000), do: number
      assert numbers == Enum.to_list(0..3_999)
      assert Enum.concat(left) == []
      refute_more(stream)
      assert Stream.stop(stream) == :ok
    end

    test ":block leaves nothing in the mailbox of one who pushes fast", %{options: options} do
      sink = spawn_link(fn -> Enum.each(Elixir.Stream.cycle([1]), fn _ -> receive(do: (_ -> :ok)) end) end)
      stream = Stream.new([policy: :block, to: sink] ++ options)
      for n <- 1..20_000, do: :started = Stream.push(stream, frame(n))
      settle()
      left = mailbox()
      assert Stream.stop(stream) == :ok
      assert left == [], "#{length(left)} messages of 20000 pushes are left"
      Process.unlink(sink)
      Process.exit(sink, :kill)
    end

    test ":block wakes the next if the first that waits was killed", %{options: options} do
      parent = self()
      :ok = Compute.suspend()
      stream = Stream.new([policy: :block, in_flight: 1] ++ options)
      assert Stream.push(stream, frame(0)) == :started
      # Each is in its wait before the next begins.
      [{first, killed}, {second, done}] =
        for n <- 1..2 do
          pushes = spawn_monitor(fn -> send(parent, {:pushed, n, Stream.push(stream, frame(n))}) end)
          assert eventually(fn -> Process.info(elem(pushes, 0), :status) == {:status, :waiting} end)
          pushes
        end

      Process.exit(first, :kill)
      assert_receive {:DOWN, ^killed, :process, ^first, :killed}
      # The second looks again from time to time: then it is behind the one that was killed.
      Process.sleep(100)
      :ok = Compute.resume()
      assert answers(stream, 1) == [{0, {:ok, result(0)}}]
      assert_receive {:pushed, 2, :started}, 120_000, "whoever pushed next waits for ever"
      assert answers(stream, 1) == [{1, {:ok, result(2)}}]
      assert Stream.stop(stream) == :ok
      assert_receive {:DOWN, ^done, :process, ^second, :normal}
    end

    test ":block waits also if the lane is full of others' commands", %{options: options} do
      other = Compute.buffer_zeros({4}, :u8)
      :ok = Compute.suspend()
      write = %{op: :write_buffer, output: other, data: <<0, 0, 0, 0>>}
      fill_lane(write)
      stream = Stream.new([policy: :block] ++ options)
      pusher = Task.async(fn -> Stream.push(stream, frame(0)) end)
      Process.sleep(50)
      :ok = Compute.resume()
      pushed = Task.await(pusher, :infinity)
      assert pushed == :started, "nothing is to be lost, but push said #{inspect(pushed)}"
      assert answers(stream, 1) == [{0, {:ok, result(0)}}]
      assert Stream.stop(stream) == :ok
    end
  end

  test "numbers and answers are in order, without anybody waiting", %{options: options} do
    for policy <- [:block, {:queue, 1000}], lane <- [:interactive, :default, :background] do
      stream = Stream.new([policy: policy, in_flight: 4, lane: lane] ++ options)
      for n <- 0..299, do: assert(Stream.push(stream, frame(n)) in [:started, :waiting])
      assert answers(stream, 300) == for(n <- 0..299, do: {n, {:ok, result(n)}})
      assert Stream.stop(stream) == :ok
    end
  end

  test "with :latest, what is answered rises, and the last is the newest", %{options: options} do
    stream = Stream.new([policy: :latest] ++ options)
    pushed = for n <- 0..999, do: Stream.push(stream, frame(n))
    replaced = Enum.count(pushed, &(&1 == :replaced))
    assert Enum.all?(pushed, &(&1 in [:started, :waiting, :replaced]))
    answers = answers(stream, 1000 - replaced)
    numbers = for {number, {:ok, bytes}} <- answers, bytes == result(number), do: number
    assert length(numbers) == 1000 - replaced
    assert numbers == Enum.sort(numbers)
    assert List.last(numbers) == 999
    refute_more(stream)
    assert Stream.stats(stream).dropped_stale == replaced
  end

  test "a frame that does not start before its deadline is answered so", %{options: options} do
    :ok = Compute.suspend()
    stream = Stream.new([policy: {:queue, 10}, in_flight: 1, deadline: 1_000] ++ options)
    # The second waits, but where the first is late by then.
    for n <- 0..1, do: assert(Stream.push(stream, frame(n)) in [:started, :waiting])
    # Also without anything that runs.
    assert [{0, {:error, %Error{code: :deadline_exceeded}}}] = answers(stream, 1)
    assert [{1, {:error, %Error{code: :deadline_exceeded}}}] = answers(stream, 1)
    :ok = Compute.resume()

    # Where others have the processors, more may be late.
    in_time =
      Enum.find(2..60, fn n ->
        assert Stream.push(stream, frame(n)) == :started

        case answers(stream, 1) do
          [{^n, {:ok, bytes}}] -> assert bytes == result(n)
          [{^n, {:error, %Error{code: :deadline_exceeded}}}] -> false
        end
      end)

    assert %{dropped_late: ^in_time, frames_out: 1} = Stream.stats(stream)
  end

  describe "stop" do
    test "answers every frame that started or waits", %{options: options} do
      :ok = Compute.suspend()
      stream = Stream.new([policy: {:queue, 5}, in_flight: 2] ++ options)
      for n <- 0..5, do: assert(Stream.push(stream, frame(n)) in [:started, :waiting])
      assert Stream.stop(stream) == :ok
      answers = Enum.sort(answers(stream, 6))
      assert for({n, {:error, %Error{}}} <- answers, do: n) == Enum.to_list(0..5)
      # Two were on the device's queue, the others have never been.
      assert for({n, {:error, %Error{code: :cancelled}}} <- answers, n < 2, do: n) == [0, 1]
      :ok = Compute.resume()
      refute_more(stream)
      assert Stream.stop(stream) == :ok
      assert {:error, %Error{code: :stopped}} = Stream.push(stream, frame(0))
      assert Stream.stats(stream) == %{}
    end

    test "lets whoever waits to push know", %{options: options} do
      :ok = Compute.suspend()
      stream = Stream.new([policy: :block, in_flight: 1] ++ options)
      assert Stream.push(stream, frame(0)) == :started
      pushers = for _ <- 1..5, do: Task.async(fn -> {Stream.push(stream, frame(1)), mailbox()} end)
      Process.sleep(30)
      assert Stream.stop(stream) == :ok

      for pusher <- pushers do
        assert {{:error, %Error{code: :stopped}}, []} = Task.await(pusher, :infinity)
      end

      assert [{0, {:error, %Error{code: :cancelled}}}] = answers(stream, 1)
    end

    test "of a stream that is done is silent", %{options: options} do
      stream = Stream.new(options)
      assert Stream.push(stream, frame(1)) == :started
      assert answers(stream, 1) == [{0, {:ok, result(1)}}]
      assert Stream.stop(stream) == :ok
      refute_more(stream)
    end
  end

  test "another process may get the answers", %{options: options} do
    receiver =
      Task.async(fn ->
        receive do: ({:stream, stream} -> answers(stream, 5))
      end)

    stream = Stream.new([policy: :block, to: receiver.pid] ++ options)
    send(receiver.pid, {:stream, stream})
    for n <- 0..4, do: Stream.push(stream, frame(n))
    assert Task.await(receiver, :infinity) == for(n <- 0..4, do: {n, {:ok, result(n)}})
    assert Stream.stop(stream) == :ok
    settle()
    assert mailbox() == []
  end

  test "a stream ends with the process that gets its answers", %{options: options} do
    receiver = spawn(fn -> Process.sleep(:infinity) end)
    stream = Stream.new([policy: :block, to: receiver] ++ options)
    for n <- 0..9, do: assert(Stream.push(stream, frame(n)) == :started)
    Process.exit(receiver, :kill)
    assert {:error, %Error{code: :stopped}} = push_until_error(stream)
    # Also if it was gone before.
    gone = Stream.new([policy: :block, to: receiver] ++ options)
    assert {:error, %Error{code: :stopped}} = push_until_error(gone)
    settle()
    assert mailbox() == []
  end

  defp push_until_error(stream),
    do: eventually(fn -> with(:started <- Stream.push(stream, frame(0)), do: false) end)

  test "a stream needs neither input nor output", %{stage: stage} do
    stream = Stream.new(stages: [stage], policy: :block)
    for n <- 0..9, do: assert(Stream.push(stream, <<>>) == :started, "frame #{n}")
    assert answers(stream, 10) == for(n <- 0..9, do: {n, {:ok, <<>>}})
    assert Stream.stop(stream) == :ok
  end

  # When garbage is collected must not decide what becomes of a frame.
  test "frames are answered even if nobody refers to the stream any more", %{options: options} do
    :ok = Compute.suspend()
    tag = push_and_forget(options)
    for _ <- 1..3, do: :erlang.garbage_collect()
    Process.sleep(20)
    :ok = Compute.resume()
    assert answers(%{tag: tag}, 3) == for(n <- 0..2, do: {n, {:ok, result(n)}})
  end

  defp push_and_forget(options) do
    stream = Stream.new([policy: {:queue, 1}, in_flight: 2] ++ options)
    for n <- 0..2, do: assert(Stream.push(stream, frame(n)) in [:started, :waiting])
    stream.tag
  end

  test "what is wrong is said at once", %{options: options, stage: stage} do
    assert_raise Error, ~r/rleu/, fn ->
      Stream.new(Keyword.put(options, :stages, [%{stage | kernel: :rleu}]))
    end

    assert_raise ArgumentError, fn -> Stream.new([policy: :newest] ++ options) end
    assert_raise ArgumentError, fn -> Stream.new([in_flight: 0] ++ options) end
    stream = Stream.new([policy: :block] ++ options)
    # Of another size than the input buffer; the stream goes on.
    assert {:error, %Error{code: :size_mismatch}} = Stream.push(stream, <<1, 2, 3>>)
    assert Stream.push(stream, frame(5)) == :started
    assert answers(stream, 1) == [{1, {:ok, result(5)}}]
    refute_more(stream)
    assert Stream.stop(stream) == :ok
  end

  describe "Dala.Media.frame_stream/2" do
    test "gives 200 frames back, in order", %{options: options} do
      frames = Dala.Media.frame_stream(Elixir.Stream.map(0..199, &frame/1), options)
      assert Enum.to_list(frames) == Enum.map(0..199, &result/1)
      # As often as one likes.
      assert Enum.to_list(frames) == Enum.map(0..199, &result/1)
      settle()
      assert mailbox() == []
    end

    test "with a queue that is long enough", %{options: options} do
      frames = Dala.Media.frame_stream(Enum.map(0..199, &frame/1), [policy: {:queue, 200}] ++ options)
      assert Enum.to_list(frames) == Enum.map(0..199, &result/1)
    end

    test "with :latest gives some of them, the newest last", %{options: options} do
      found = Enum.to_list(Dala.Media.frame_stream(Enum.map(0..199, &frame/1), [policy: :latest] ++ options))
      all = Enum.map(0..199, &result/1)
      assert found != [] and found == Enum.filter(all, &(&1 in found))
      assert List.last(found) == result(199)
      settle()
      assert mailbox() == []
    end

    test "leaves nothing in the mailbox if it is halted early", %{options: options} do
      for round <- 1..100 do
        policy = Enum.at([:block, :latest, {:queue, 5}], rem(round, 3))
        count = rem(round, 7)
        frames = Dala.Media.frame_stream(Elixir.Stream.map(0..199, &frame/1), [policy: policy] ++ options)
        found = length(Enum.take(frames, count))
        # With :latest there may be fewer.
        assert found == count or (policy == :latest and found < count)
      end

      settle()
      left = mailbox()
      assert left == [], "#{length(left)} messages of 100 streams are left"
    end

    test "leaves nothing in the mailbox if whoever enumerates it raises", %{options: options} do
      for _ <- 1..50 do
        frames = Dala.Media.frame_stream(Elixir.Stream.map(0..199, &frame/1), options)
        assert_raise RuntimeError, fn -> Enum.each(frames, fn _ -> raise "enough" end) end
      end

      settle()
      left = mailbox()
      assert left == [], "#{length(left)} messages of 50 streams are left"
    end

    test "raises what is wrong with a frame", %{options: options} do
      assert_raise Error, fn -> Enum.to_list(Dala.Media.frame_stream([frame(0), <<1>>], options)) end
      assert_raise ArgumentError, fn -> Enum.to_list(Dala.Media.frame_stream([:x], options)) end
      assert_raise ArgumentError, fn -> Dala.Media.frame_stream([], [to: self()] ++ options) end
      assert Enum.to_list(Dala.Media.frame_stream([], options)) == []
      settle()
      assert mailbox() == []
    end
  end

  # As many commands as a lane takes.
  defp fill_lane(stage) do
    Compute.submit(stage, lane: :interactive, when_full: :refuse)
    fill_lane(stage)
  rescue
    error in Error -> assert error.code == :overloaded
  end
end

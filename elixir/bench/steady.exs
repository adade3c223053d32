# How long the same work takes again and again, for scripts/steady to compare: one line of JSON for each figure.
#
#     mix run bench/steady.exs [DEVICE] [FIGURE]... [--samples N] [--pushes N] [--limit SECONDS]
#     mix run bench/steady.exs [DEVICE] idle SECONDS
#
# The lines are those of crates/dala-model/examples/steady.rs, which says what is in them. While idle, the device "none" is
# none at all: the VM alone.

defmodule Steady do
  alias Dala.Gpu.Compute

  @figures ~w(small_run stages_100 stream_pushes mobilenet)

  def main(words) do
    options =
      options(words, %{device: "cpu", figures: [], samples: 20, pushes: 20_000, limit: 60.0, idle: nil})

    # It is opened when it is first used.
    System.put_env("DALA_DEVICE", options.device)

    if options.idle do
      idle(options)
    else
      for name <- @figures, options.figures == [] or name in options.figures do
        print([name: name, from: "elixir", device: options.device] ++ figure(name, options))
      end
    end
  end

  defp options(["--samples", n | rest], options),
    do: options(rest, %{options | samples: String.to_integer(n)})

  defp options(["--pushes", n | rest], options), do: options(rest, %{options | pushes: String.to_integer(n)})
  defp options(["--limit", seconds | rest], options), do: options(rest, %{options | limit: number(seconds)})
  defp options(["idle", seconds | rest], options), do: options(rest, %{options | idle: number(seconds)})
  defp options(["-" <> _ = option | _], _options), do: raise(ArgumentError, "there is no option #{option}")

  defp options([name | rest], options) when name in @figures,
    do: options(rest, %{options | figures: [name | options.figures]})

  defp options([device | rest], options), do: options(rest, %{options | device: device})
  defp options([], options), do: options

  defp number(text) do
    {number, ""} = Float.parse(text)
    number
  end

  # A small kernel, run and waited for; a sample is the mean of 200.
  defp figure("small_run", options) do
    measure(options, %{steps: 200, of: 1, warm_ups: 200}, small())
  end

  # The pipeline of `dala bench overhead`: a hundred stages over 1,024 elements, every fourth a stencil or a reduction.
  defp figure("stages_100", options) do
    x = Compute.buffer(List.duplicate(0.5, 1024), {32, 32})
    y = Compute.buffer_zeros({32, 32})
    pipeline = Compute.pipeline()

    Enum.reduce(0..99, x, fn index, from ->
      to = if index == 99, do: y, else: Compute.transient()

      {kernel, params} =
        case {rem(index, 4), rem(div(index, 4), 2)} do
          {0, _} -> {:scalar_mul, %{scalar: 1.01}}
          {1, _} -> {:scalar_add, %{scalar: 0.01}}
          {2, _} -> {:relu, %{}}
          {_, 0} -> {:box_blur, %{radius: 1}}
          _ -> {:softmax, %{}}
        end

      Compute.pipeline_add(pipeline, stage(kernel, [from], to, params))
      to
    end)

    pipeline(pipeline, 12, options)
  end

  # Frames of four bytes, each written, changed by one kernel and read; whoever pushes waits for room.
  defp figure("stream_pushes", options) do
    [input, output] = for _ <- 1..2, do: Compute.buffer_zeros({4}, :u8)
    stages = [stage(:scalar_add, [input], output, %{scalar: 100})]
    # Answers go to another process: in the mailbox of the one that pushes they would be in its way.
    counter = spawn_link(fn -> count(0, nil) end)
    stream = Compute.Stream.new(input: input, stages: stages, output: output, policy: :block, to: counter)
    pushed = :counters.new(1, [])

    push = fn ->
      :counters.add(pushed, 1, 1)
      :started = Compute.Stream.push(stream, <<:counters.get(pushed, 1)::32>>)
    end

    finish = fn ->
      send(counter, {:tell, self(), :counters.get(pushed, 1)})
      receive(do: (:all -> :ok))
    end

    sample = %{steps: options.pushes, of: options.pushes, warm_ups: 200}
    line = measure(options, sample, push, finish)
    :ok = Compute.Stream.stop(stream)
    [pushes: options.pushes] ++ line
  end

  # MobileNetV2 for one picture.
  defp figure("mobilenet", options) do
    models = System.get_env("DALA_MODELS") || Path.expand("~/.cache/dala-compute/models")
    file = Path.join(models, "mobilenet_v2.onnx")

    if File.exists?(file) do
      {:ok, _} = Compute.load_model(:mobilenet, file)
      pixels = for n <- 0..(3 * 224 * 224 - 1), do: rem(n * 7919, 1000) / 500 - 1
      x = Compute.buffer(pixels, {1, 3, 224, 224})
      y = Compute.buffer_zeros({1, 1000})
      pipeline = Compute.pipeline()
      Compute.pipeline_add(pipeline, stage(:mobilenet, [x], y, %{}))
      pipeline(pipeline, 4, options)
    else
      [skipped: "the model is not there; scripts/get-models fetches it"]
    end
  end

  defp small do
    [a, b] = for value <- [1.5, 2.5], do: Compute.buffer(List.duplicate(value, 1024), {1024})
    out = Compute.buffer_zeros({1024})
    fn -> :ok = Compute.run_kernel(:elementwise_add, [a, b], out) end
  end

  defp stage(kernel, inputs, output, params) do
    %{op: :run_kernel, kernel: kernel, inputs: inputs, output: output, params: params}
  end

  defp pipeline(pipeline, warm_ups, options) do
    run = fn -> :ok = Compute.pipeline_run(pipeline) end
    measure(options, %{steps: 1, of: 1, warm_ups: warm_ups}, run)
  end

  # Counts answers, and tells when all of them came.
  defp count(got, {pid, got}) do
    send(pid, :all)
    count(got, nil)
  end

  defp count(got, waiting) do
    receive do
      {:tell, pid, all} -> count(got, {pid, all})
      {_tag, _number, {:ok, _bytes}} -> count(got + 1, waiting)
    end
  end

  # Takes samples of a step that is done again and again, and ends when `finish` does.
  defp measure(options, sample, step, finish \\ fn -> :ok end) do
    # The first runs build kernels, and learn how long each launch takes.
    steps(0, sample.warm_ups, now() + options.limit, step)
    finish.()
    sample = Map.put(sample, :clock, clock())
    until = now() + options.limit
    {samples, scaled?} = samples(options.samples, until, sample, step, finish, [])
    {wall, cpu} = Enum.unzip(samples)
    stopped? = length(wall) < options.samples
    [samples: options.samples, stopped: stopped?, scaled: scaled?, wall: wall, cpu: cpu]
  end

  defp samples(0, _until, _sample, _step, _finish, taken), do: {Enum.reverse(taken), false}

  defp samples(left, until, sample, step, finish, taken) do
    {start_cpu, start} = {read(sample.clock), now()}
    done = steps(0, sample.steps, until, step)
    finish.()
    time = now() - start
    cpu = used(sample.clock, start_cpu, read(sample.clock))
    share = sample.of / done
    new = {time * share, cpu && cpu * share}

    cond do
      done < sample.steps and taken == [] -> {[new], true}
      done < sample.steps -> {Enum.reverse(taken), false}
      now() >= until -> {Enum.reverse([new | taken]), false}
      true -> samples(left - 1, until, sample, step, finish, [new | taken])
    end
  end

  # Does steps until there are enough or time is up; at least one. Says how many.
  defp steps(done, enough, _until, _step) when done == enough, do: done

  defp steps(done, enough, until, step) do
    if done > 0 and now() >= until do
      done
    else
      step.()
      steps(done + 1, enough, until, step)
    end
  end

  # What an open device takes of the processor while nothing is asked of it.
  defp idle(options) do
    if options.device != "none", do: small().()
    clock = clock()
    start = read(clock)
    # What a run leaves to do after it is not idleness; it is shown apart.
    Process.sleep(1_000)
    from = read(clock)
    Process.sleep(round(options.idle * 1_000))
    to = read(clock)

    print(
      name: "idle",
      from: "elixir",
      device: options.device,
      seconds: options.idle,
      cpu: used(clock, from, to),
      settling: used(clock, start, from),
      threads: by_name(clock, from, to)
    )
  end

  # A clock of the processor time of each thread that there is now; the VM's own leaves out what the system does for it. The
  # files stay open: to find and open them for each reading would take longer than much of what is measured.
  defp clock do
    tasks =
      case :file.list_dir("/proc/self/task") do
        {:ok, tasks} -> Enum.map(tasks, &"/proc/self/task/#{&1}")
        {:error, _} -> []
      end

    threads =
      for task <- tasks, {:ok, name} <- [File.read("#{task}/comm")] do
        {:ok, file} = :file.open("#{task}/schedstat", [:read, :raw, :binary])
        {String.trim(name), file}
      end

    clock = %{threads: threads, cost: 0.0}
    costs = for _ <- 1..20, do: used(clock, read(clock), read(clock))
    %{clock | cost: Enum.min(costs) || 0.0}
  end

  # Nanoseconds of each thread; nothing of one that has ended.
  defp read(clock) do
    for {_, file} <- clock.threads do
      with {:ok, text} <- :file.pread(file, 0, 64),
           {nanos, _} <- Integer.parse(text),
           do: nanos,
           else: (_ -> 0)
    end
  end

  # Seconds of all threads between two readings, without the reading; nil where there is no such clock.
  defp used(%{threads: []}, _from, _to), do: nil
  defp used(clock, from, to), do: max((Enum.sum(to) - Enum.sum(from)) / 1.0e9 - clock.cost, 0.0)

  defp by_name(clock, from, to) do
    for {{name, _}, from, to} <- Enum.zip([clock.threads, from, to]), to > from, reduce: %{} do
      times -> Map.update(times, name, (to - from) / 1.0e9, &(&1 + (to - from) / 1.0e9))
    end
  end

  defp now, do: System.monotonic_time(:nanosecond) / 1.0e9

  defp print(line), do: IO.puts(json(line))

  defp json([{key, _} | _] = fields) when is_atom(key) or is_binary(key) do
    "{" <> Enum.map_join(fields, ",", fn {key, value} -> "#{json(to_string(key))}:#{json(value)}" end) <> "}"
  end

  defp json(map) when map == %{}, do: "{}"
  defp json(map) when is_map(map), do: map |> Map.to_list() |> json()
  defp json(list) when is_list(list), do: "[" <> Enum.map_join(list, ",", &json/1) <> "]"
  defp json(nil), do: "null"
  defp json(float) when is_float(float), do: :erlang.float_to_binary(float, decimals: 9)
  defp json(text) when is_binary(text), do: inspect(text, printable_limit: :infinity)
  defp json(other), do: to_string(other)
end

Steady.main(System.argv())

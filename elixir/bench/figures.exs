# What calls cost, seen from Elixir: medians of several rounds in one run.
#
#     mix run bench/figures.exs
#
#   DALA_BENCH_ROUNDS   rounds of each; 7

defmodule Figures do
  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.{Native, Runtime}

  @rounds String.to_integer(System.get_env("DALA_BENCH_ROUNDS", "7"))
  @mb 1024 * 1024
  @large 64 * @mb

  def run do
    info = Compute.device_info()
    IO.puts("#{info.name} (#{info.backend}), #{System.schedulers_online()} schedulers, #{@rounds} rounds\n")
    row("what", "median", "least", "most", "")
    round_trip()
    transfers()
    submits()
  end

  # One small kernel, from the call to its `:ok`.
  defp round_trip do
    [a, b, c] = for _ <- 1..3, do: Compute.buffer([1.0, 2.0, 3.0], {3})
    call = fn -> :ok = Compute.run_kernel(:elementwise_add, [a, b], c) end
    for _ <- 1..500, do: call.()

    # Both in each round, so that they see the same machine.
    all =
      rounds(fn ->
        native = &Native.time_runs(&1, {"elementwise_add", [a.ref, b.ref], c.ref}, 1_000, &2)
        {:ok, nanos} = Runtime.ask(native)

        %{
          elixir: median(for(_ <- 1..1_000, do: elem(:timer.tc(call), 0))) / 1,
          rust: median(nanos) / 1_000
        }
      end)

    rust = Enum.map(all, & &1.rust)
    elixir = Enum.map(all, & &1.elixir)
    report("small run from Rust, in a thread of this VM", rust, "µs")

    report(
      "run_kernel of 3 f32, round trip",
      elixir,
      "µs",
      "#{decimals(median(elixir) / median(rust), 2)} × Rust"
    )
  end

  # Against the least that could be done: copying the bytes once.
  defp transfers do
    data = :crypto.strong_rand_bytes(@large)
    buffer = Compute.buffer_from_binary(data, {@large}, :u8)
    :ok = Compute.write(buffer, data)
    true = Compute.read_binary(buffer) == data

    # One after the other in each round, so that all see the same machine.
    all =
      rounds(fn ->
        %{
          copy: millis(fn -> :binary.copy(data) end),
          write: millis(fn -> :ok = Compute.write(buffer, data) end),
          # Making the buffer waits for nothing; writing it again waits for both.
          upload:
            millis(fn ->
              new = Compute.buffer_from_binary(data, {@large}, :u8)
              :ok = Compute.write(new, data)
              Compute.free(new)
            end) / 2,
          read: millis(fn -> Compute.read_binary(buffer) end)
        }
      end)

    copy = median(Enum.map(all, & &1.copy))

    for {what, name} <- [
          copy: ":binary.copy/1 of 64 MB",
          write: "write of 64 MB",
          upload: "new buffer of 64 MB and write, half of both",
          read: "read_binary of 64 MB"
        ] do
      times = Enum.map(all, & &1[what])
      report(name, times, "ms", "#{decimals(median(times) / copy, 2)} × copy")
    end
  end

  # Commands that are queued one after the other, then all waited for. A lane takes 4,096: 3,000 find room at once, and of
  # 20,000 most wait until the device gets on.
  defp submits do
    for processes <- [1, 100], count <- [3_000, 20_000] do
      each = div(count, processes)

      rates =
        rounds(fn ->
          times = for _ <- 1..processes, do: Task.async(fn -> submit_and_wait(each) end)
          results = Enum.map(times, &Task.await(&1, :infinity))
          {start, submitted, ended} = Enum.reduce(results, &widest/2)
          %{submit: rate(processes * each, submitted - start), all: rate(processes * each, ended - start)}
        end)

      from = if processes == 1, do: "1 process", else: "#{processes} processes"

      if count < 4_096,
        do: report("submit #{count}, from #{from}", Enum.map(rates, & &1.submit), "/s"),
        else: report("submit #{count} and wait, from #{from}", Enum.map(rates, & &1.all), "/s")
    end
  end

  defp submit_and_wait(count) do
    buffer = Compute.buffer([1.0, 2.0, 3.0], {3})
    stage = %{op: :run_kernel, kernel: :relu, inputs: [buffer], output: buffer}
    :ok = Compute.wait(Compute.submit(stage))
    start = System.monotonic_time(:microsecond)
    ids = for _ <- 1..count, do: Compute.submit(stage)
    submitted = System.monotonic_time(:microsecond)
    for id <- ids, do: :ok = Compute.wait(id)
    {start, submitted, System.monotonic_time(:microsecond)}
  end

  defp widest({start, submitted, ended}, {other_start, other_submitted, other_ended}) do
    {min(start, other_start), max(submitted, other_submitted), max(ended, other_ended)}
  end

  defp rate(count, micros), do: count / (micros / 1_000_000)

  defp rounds(function) do
    # One that does not count: memory is fresh and kernels are not built.
    function.()
    for _ <- 1..@rounds, do: function.()
  end

  defp micros(function) do
    :erlang.garbage_collect()
    elem(:timer.tc(function), 0)
  end

  defp millis(function), do: micros(function) / 1000
  defp median(list), do: Enum.at(Enum.sort(list), div(length(list), 2))

  defp report(name, numbers, unit, note \\ "") do
    [middle, low, high] =
      for number <- [median(numbers), Enum.min(numbers), Enum.max(numbers)], do: show(number)

    row(name, "#{middle} #{unit}", low, high, note)
  end

  defp show(number) when number >= 1000, do: Integer.to_string(round(number))
  defp show(number), do: decimals(number, 1)
  defp decimals(number, count), do: :erlang.float_to_binary(number / 1, decimals: count)

  defp row(name, middle, low, high, note) do
    columns = Enum.map_join([middle, low, high], " ", &String.pad_leading(&1, 12))
    IO.puts(String.trim_trailing("#{String.pad_trailing(name, 46)}#{columns}   #{note}"))
  end
end

Figures.run()

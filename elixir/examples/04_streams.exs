# Frames flow through the same stages, as from a camera.
#
#   mix run examples/04_streams.exs

alias Dala.Gpu.Compute

[input, output] = for _ <- 1..2, do: Compute.buffer_zeros({2, 2}, :u8)
stage = %{op: :run_kernel, kernel: :scalar_add, inputs: [input], output: output, params: %{scalar: 100}}
options = [input: input, stages: [stage], output: output]

# An enumerable of frames becomes one of results, in order. No frame is lost.
frames = for n <- 1..4, do: <<n, n, 0, 200>>
results = frames |> Dala.Media.frame_stream(options) |> Enum.to_list()
IO.inspect(results, label: "results")

# A camera does not wait. With `:latest` a frame that cannot start yet waits for its turn, and gives way to a newer one.
stream = Compute.Stream.new(options ++ [policy: :latest, in_flight: 1])
Compute.suspend()
pushed = for n <- 1..5, do: Compute.Stream.push(stream, <<n, n, n, n>>)
Compute.resume()
IO.inspect(pushed, label: "pushed")

answers =
  for _ <- 1..2 do
    receive do
      {tag, number, {:ok, <<first, _::binary>>}} when tag == stream.tag -> {number, first}
    end
  end

IO.inspect(answers, label: "answers")
stats = Compute.Stream.stats(stream)
IO.puts("in #{stats.frames_in}, out #{stats.frames_out}, dropped as stale #{stats.dropped_stale}")
Compute.Stream.stop(stream)

# Output:
#   results: [
#     <<101, 101, 100, 255>>,
#     <<102, 102, 100, 255>>,
#     <<103, 103, 100, 255>>,
#     <<104, 104, 100, 255>>
#   ]
#   pushed: [:started, :waiting, :replaced, :replaced, :replaced]
#   answers: [{0, 101}, {4, 105}]
#   in 5, out 2, dropped as stale 3

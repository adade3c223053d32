# Kernels of your own: an expression, in Elixir's syntax or as text, compiled for the device you have.
#
#   mix run examples/05_custom_expression.exs

defmodule Shading do
  use Dala.Gpu.Compute.Kernel

  # Computed at each element. Brightness falls towards the corners.
  kernel :corner_shade, params: [strength: 0.5] do
    dx = f32(coord(1)) / f32(dim(1) - 1) - 0.5
    dy = f32(coord(0)) / f32(dim(0) - 1) - 0.5
    x * (1 - strength * (dx * dx + dy * dy))
  end
end

alias Dala.Gpu.Compute

image = Compute.buffer(List.duplicate(1.0, 9), {3, 3})
output = Compute.buffer_zeros({3, 3})
:ok = Shading.corner_shade([image], output, %{strength: 1.0})
output |> Compute.read_list() |> Enum.chunk_every(3) |> Enum.each(&IO.inspect/1)

# Text, when the program is running already.
:ok = Compute.Kernel.define(:mix_two, "a + (b - a) * part", inputs: [:a, :b], params: [part: 0.5])
[a, b] = for list <- [[0.0, 10.0], [1.0, 20.0]], do: Compute.buffer(list, {2})
:ok = Compute.run_kernel(:mix_two, [a, b], b, %{part: 0.25})
IO.inspect(Compute.read_list(b), label: "mixed")

# Another value of a param compiles nothing.
before = Compute.stats().compilations
:ok = Compute.run_kernel(:mix_two, [a, b], b, %{part: 0.75})
IO.puts("compiled for another value: #{Compute.stats().compilations - before}")

# Mistakes are found before anything runs.
{:error, error} = Compute.Kernel.define(:wrong, "clamp(x * gian, 0, 1)", params: [gain: 1.0])
IO.puts(error.message)

# Output:
#   [0.5, 0.75, 0.5]
#   [0.75, 1.0, 0.75]
#   [0.5, 0.75, 0.5]
#   mixed: [0.25, 12.5]
#   compiled for another value: 0
#   unknown name `gian`, did you mean `gain`?
#     clamp(x * gian, 0, 1)
#               ^^^^

# Pictures that move: a kernel computes each frame, and a surface shows it. Nothing is read back on the way.
#
#   mix run examples/07_surface.exs              off-screen
#   mix run examples/07_surface.exs --window     in a window, where there is a display

defmodule Clouds do
  use Dala.Gpu.Compute.Kernel

  # Red grows to the right and moves with time, green grows downwards.
  kernel :clouds, inputs: [], params: [time: 0] do
    level = if channel == 0, do: coord(1) * 2 + time * 4, else: coord(0) * 4
    if channel == 3, do: 255, else: rem(level, 256)
  end
end

alias Dala.Gpu
alias Dala.Gpu.Compute

options = if "--window" in System.argv(), do: [title: "Clouds"], else: []
{:ok, surface} = Gpu.create_surface(128, 64, options)
frame = Compute.buffer_zeros({64, 128, 4}, :u8)
:ok = Clouds.define_kernels()

for time <- 1..60 do
  :ok = Compute.run_to_surface(:clouds, [], frame, surface, %{time: time})
  :ok = Gpu.present(surface)
end

{:ok, info} = Gpu.surface_info(surface)
IO.puts("#{info.presented} frames of #{info.width} x #{info.height}")

# Only now something leaves the device.
{:ok, png} = Gpu.snapshot(surface)
{:ok, picture} = Dala.Media.decode(png)
IO.inspect(Enum.take(Compute.read_list(picture), 8), label: "first pixels")
IO.puts("as computed: #{Compute.read(picture) == Compute.read(frame)}")

# Half a picture is none.
{:error, error} = Gpu.set_pixels(surface, <<0, 0, 0>>)
IO.puts("#{error.code}: #{error.message}")

:ok = Gpu.close_surface(surface)
{:error, error} = Gpu.present(surface)
IO.puts(error.code)

# Output:
#   60 frames of 128 x 64
#   first pixels: [240, 0, 0, 255, 242, 0, 0, 255]
#   as computed: true
#   size_mismatch: 3 bytes of pixels: a surface of 128 x 64 takes 32768 (four for each pixel, RGBA)
#   surface_closed

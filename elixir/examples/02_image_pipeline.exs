# A picture is blurred, sharpened and made gray: three stages, compiled to one plan.
#
#   mix run examples/02_image_pipeline.exs

alias Dala.Gpu.Compute
alias Dala.Gpu.Compute.Picture

{:ok, photo} = Path.join(__DIR__, "../../docs/images/source.png") |> File.read!() |> Dala.Media.decode()
{height, width, channels} = photo.shape
IO.puts("photo: #{width} x #{height}, #{channels} channels")

# What only the stages need is a transient: it exists while they run, or not at all.
[soft, sharp] = for _ <- 1..2, do: Compute.transient()
gray = Compute.buffer_zeros({height, width}, :u8)

pipeline =
  Compute.pipeline()
  |> Compute.pipeline_add(%{
    op: :run_kernel,
    kernel: :blur,
    inputs: [photo],
    output: soft,
    params: %{radius: 2}
  })
  |> Compute.pipeline_add(%{op: :run_kernel, kernel: :sharpen, inputs: [soft], output: sharp})
  |> Compute.pipeline_add(%{op: :run_kernel, kernel: :grayscale, inputs: [sharp], output: gray})

# The plan says what is launched, what was fused, and why the rest was not. How many launches there are depends on the device.
[plan, _] = String.split(Compute.explain(pipeline), " in ", parts: 2)
IO.puts(plan)

:ok = Compute.pipeline_run(pipeline)
levels = Compute.read_list(gray)
IO.puts("darkest #{Enum.min(levels)}, brightest #{Enum.max(levels)}")

file = Path.join(System.tmp_dir!(), "dala_02_image_pipeline.png")
File.write!(file, Picture.to_png(gray))
{:ok, again} = file |> File.read!() |> Dala.Media.decode()
IO.puts("written and read again: #{Compute.read(again) == Compute.read(gray)}")

# The second run replays the plan: nothing is compiled.
before = Compute.stats().compilations
:ok = Compute.pipeline_run(pipeline)
IO.puts("compiled for the second run: #{Compute.stats().compilations - before}")

# Output:
#   photo: 192 x 128, 3 channels
#   plan: 3 stages
#   darkest 4, brightest 188
#   written and read again: true
#   compiled for the second run: 0

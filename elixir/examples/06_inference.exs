# What a photo shows: a network as one kernel among others. `scripts/get-models` fetches it.
#
#   mix run examples/06_inference.exs

alias Dala.Gpu.Compute

models = System.get_env("DALA_MODELS") || Path.expand("~/.cache/dala-compute/models")

# A model is loaded once, and stays until the program ends.
case Compute.load_model(:mobilenet_v2, Path.join(models, "mobilenet_v2.onnx")) do
  {:ok, _model} -> :ok
  {:error, %{code: :duplicate_kernel}} -> :ok
  {:error, error} -> raise error
end

data = Path.join(__DIR__, "../../crates/dala-model/tests/data")

for name <- ["cat_chelsea.jpg", "espresso_coffee.jpg", "tripod_camera.png"] do
  {:ok, photo} = data |> Path.join(name) |> File.read!() |> Dala.Media.decode()
  {:ok, [best | _]} = Dala.ML.predict(:mobilenet_v2, photo)
  IO.puts("#{name}: #{best.label}")
end

# Several photos at once are one batch: {3, 3, 224, 224} in, {3, 1000} out, in a pipeline of your own.
crops = ["cat_chelsea.crop224.png", "espresso_coffee.crop224.png", "tripod_camera.crop224.png"]
[input, logits] = [Compute.transient({3, 3, 224, 224}, :f32), Compute.transient()]

[classes, parts] = [
  Compute.buffer_zeros({3}, :s32),
  for(_ <- crops, do: Compute.transient({1, 3, 224, 224}, :f32))
]

pipeline = Compute.pipeline()

stage = fn kernel, inputs, output, params ->
  %{op: :run_kernel, kernel: kernel, inputs: inputs, output: output, params: params}
end

for {name, part} <- Enum.zip(crops, parts) do
  {:ok, photo} = data |> Path.join(name) |> File.read!() |> Dala.Media.decode()
  Compute.pipeline_add(pipeline, stage.(:preprocess, [photo], part, %{}))
end

Compute.pipeline_add(pipeline, stage.(:concat, parts, input, %{axis: 0}))
Compute.pipeline_add(pipeline, stage.(:mobilenet_v2, [input], logits, %{}))
Compute.pipeline_add(pipeline, stage.(:argmax, [logits], classes, %{axes: 1}))
:ok = Compute.pipeline_run(pipeline)
IO.inspect(Compute.read_list(classes), label: "classes of the batch")

# Output:
#   cat_chelsea.jpg: Egyptian cat
#   espresso_coffee.jpg: espresso
#   tripod_camera.png: tripod
#   classes of the batch: [285, 967, 872]

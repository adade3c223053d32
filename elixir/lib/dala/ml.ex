defmodule Dala.ML do
  @moduledoc """
  Networks on pictures.

      {:ok, model} = Dala.Gpu.Compute.load_model(:mobilenet_v2, "mobilenet_v2.onnx")
      photo = Dala.Gpu.Compute.buffer_from_binary(pixels, {300, 451, 3}, :u8)

      {:ok, [best | _]} = Dala.ML.predict(:mobilenet_v2, photo)
      best
      #=> %{label: "Egyptian cat", index: 285, probability: 0.73}

  A model that is loaded is a kernel, and needs none of this: `Dala.Gpu.Compute.load_model/3` loads it, and it runs by its name
  in commands and pipelines. `predict/3` is the way from a picture to words, and `run/2` runs any model by itself:

      {:ok, _} = Dala.Gpu.Compute.load_model(:detector, "detector.onnx")
      {:ok, %{"boxes" => boxes, "scores" => scores}} = Dala.ML.run(:detector, %{"image" => image})

  What people ask most has a function of its own, which knows how to prepare a photo for its model and what the answer means:
  `detect/2` finds faces, `read/2` text, `upscale/2` makes a photo larger, `listen/2` finds speech, and `describe_type/2` says what
  a file is. Each runs on the application's device, and its model stays open between calls.

      {:ok, faces} = Dala.ML.detect({:path, "friends.jpg"})
      Enum.map(faces, & &1.score)
      #=> [0.93, 0.88]

  `scripts/get-models` in the repository fetches MobileNetV2, and `scripts/get-models people` the models of these. Pictures are buffers of pixels: `Dala.Media.decode/2`
  reads JPEG, PNG, WebP and other files; camera frames that are not RGB are for other packages to decode.
  """

  use Dala.Gpu.Compute.Twins

  import Dala.Gpu.Compute.Argument, only: [must!: 4, options!: 2]

  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.{Buffer, Buffers, Error, Native, Pipeline, Runtime}
  alias Dala.ML.{Given, Model, Plans}

  @type prediction() :: %{label: String.t() | nil, index: non_neg_integer(), probability: float()}

  @typedoc """
  A photo: the content of a picture's file as a binary, `{:path, path}` for a file, or a buffer of pixels as `Dala.Media.decode/2`
  gives them. A binary is never taken for a path: whoever sends a photo must not choose which file is read. Files of more than 50
  million pixels are refused; `Dala.Media.decode/2` has an option for that.
  """
  @type photo() :: binary() | {:path, Path.t()} | Buffer.t() | reference()

  @typedoc "Across and down, in pixels from the upper left corner."
  @type point() :: {float(), float()}

  @type face() :: %{
          score: float(),
          left: float(),
          top: float(),
          right: float(),
          bottom: float(),
          landmarks: [point()]
        }

  @type text_line() :: %{text: String.t(), score: float(), corners: [point()]}

  @type heard() :: %{
          seconds: float(),
          spans: [%{start_seconds: float(), end_seconds: float()}],
          window_seconds: float(),
          probabilities: [float()]
        }

  @type file_type() :: %{
          label: String.t(),
          description: String.t() | nil,
          mime_type: String.t() | nil,
          score: float()
        }

  @options [top: 5, labels: nil, fit: :crop, mean: nil, std: nil, softmax: true]

  @doc """
  What a picture shows, the likeliest first.

  `model` is what `Dala.Gpu.Compute.load_model/3` gave, or its name: a network that takes one `:f32` input of shape `{batch, 3,
  height, width}` and gives a number for each class. `image` is a buffer of shape `{height, width}` (gray), `{height, width, 3}`
  (RGB) or `{height, width, 4}` (alpha is ignored), of type `:u8`, or `:f32` from 0 to 1.

    * `:top` - how many to give: 5
    * `:labels` - the names of the classes: `:imagenet`, a list, or the path of a file with one on each line, which is read each
      time. If nothing is said a network of 1000 classes has ImageNet's, and others have none: `label: nil`
    * `:fit` - `:crop`, the middle of the picture in its proportions, after its shorter side was made 8/7 of what the network
      takes (256 for 224); or `:stretch`, all of it
    * `:mean`, `:std` - lists of three numbers, for networks that were trained with others than ImageNet's
    * `:softmax` - `false` for networks that give probabilities themselves

  Preprocessing, network and softmax are one pipeline: nothing is read back but the probabilities, and nothing between them is
  kept. It is compiled for the first picture of a size, and kept for the next ones; those of the last four sizes are. Processes
  may predict at once.

      iex> image = Dala.Gpu.Compute.buffer_zeros({32, 32, 3}, :u8)
      iex> {:error, error} = Dala.ML.predict(:never_loaded, image)
      iex> {error.code, error.message}
      {:unknown_model, "no model is called `never_loaded`: Dala.Gpu.Compute.load_model/3 loads one"}
  """
  @spec predict(Model.t() | atom() | String.t(), Buffer.t() | reference(), keyword()) ::
          {:ok, [prediction()]} | {:error, Error.t()}
  def predict(model, image, options \\ []) do
    options = predict_options!(options)
    image = Buffers.info(image)

    with {:ok, model} <- Model.fetch(model),
         {:ok, size, classes} <- classifier(model),
         {:ok, labels} <- labels(options[:labels], classes),
         {:ok, probabilities} <- probabilities(model, image, size, options) do
      top(probabilities, labels, options[:top])
    end
  rescue
    error in Error -> {:error, error}
  end

  @doc """
  Runs a model; gives its outputs by their names in the file, as new buffers.

  `inputs` is a map of buffers by the names of the model's inputs, a list in their order, or a buffer if there is one input.
  Sizes are those of the buffers. Each set of sizes is planned once and remembered, as long as there are not too many. Where values decide what
  runs (a branch, the rounds of a loop), the model runs in parts, and the host looks at the values between them.

      iex> {:error, error} = Dala.ML.run(:never_loaded, [])
      iex> error.code
      :unknown_model
  """
  @spec run(
          Model.t() | atom() | String.t(),
          %{optional(String.t() | atom()) => Buffer.t()} | [Buffer.t()] | Buffer.t()
        ) ::
          {:ok, %{String.t() => Buffer.t()}} | {:error, Error.t()}
  def run(model, inputs) do
    Model.run(model, inputs)
  rescue
    error in Error -> {:error, error}
  end

  @doc """
  The faces in a photo, the surest first: `:score`, the sides of a box, and `:landmarks` (eyes, nose, corners of the mouth).

    * `:threshold` - how sure the model is at least, between 0 and 1: 0.5
    * `:longer_side` - to how many pixels the longer side of a photo is shrunk at most: 1024. More find smaller faces
    * `:model` - the model's file; otherwise `faces.onnx` in the folder of models, `$DALA_MODELS` or
      `~/.cache/dala-compute/models`, into which `scripts/get-models faces` brings it

  The first photo of a size takes longer than the next ones. The last file that was named stays open.

      iex> {:error, error} = Dala.ML.detect("no picture")
      iex> error.code
      :unknown_format
      iex> {:error, error} = Dala.ML.detect({:path, "nowhere.jpg"})
      iex> error.code
      :io
  """
  @spec detect(photo(), keyword()) :: {:ok, [face()]} | {:error, Error.t()}
  def detect(photo, options \\ []) do
    options = options!(options, threshold: 0.5, longer_side: 1024, model: nil)
    {threshold, side} = {options[:threshold], options[:longer_side]}
    must!(is_number(threshold) and threshold > 0 and threshold < 1, :threshold, "between 0 and 1", threshold)
    must!(is_integer(side) and side in 1..0xFFFFFFFF, :longer_side, "a number of pixels", side)
    model = Given.model!(options, :model)

    with {:ok, photo} <- Given.photo(photo),
         do: Runtime.ask(&Native.detect(&1, photo, model, {threshold / 1, side}, &2))
  end

  @doc """
  As `detect/2`, by a model's file, which comes first as that of `predict/3` does.

      iex> {:error, error} = Dala.ML.detect("nowhere.onnx", {:path, "nowhere.jpg"}, [])
      iex> error.code
      :io
  """
  @spec detect(Path.t(), photo(), keyword()) :: {:ok, [face()]} | {:error, Error.t()}
  def detect(model, photo, options), do: detect(photo, by(options, model: model))

  @doc """
  The lines of text in a photo, in reading order: `:text`, `:score`, and `:corners` (upper left, upper right, lower right and lower
  left as it is read).

    * `:detector`, `:recogniser` - the files of both models; otherwise `text_detector.onnx` and `text_recogniser.onnx` in the folder
      of models, into which `scripts/get-models text` brings them

      iex> {:error, error} = Dala.ML.read({:path, "nowhere.png"})
      iex> error.message
      "cannot read nowhere.png: No such file or directory (os error 2)"
  """
  @spec read(photo(), keyword()) :: {:ok, [text_line()]} | {:error, Error.t()}
  def read(photo, options \\ []) do
    options = options!(options, detector: nil, recogniser: nil)
    models = {Given.model!(options, :detector), Given.model!(options, :recogniser)}
    with {:ok, photo} <- Given.photo(photo), do: Runtime.ask(&Native.read_text(&1, photo, models, &2))
  end

  @doc """
  As `read/2`, by the files of a detector and a recogniser.

      iex> {:error, error} = Dala.ML.read({"nowhere.onnx", "nowhere.onnx"}, {:path, "nowhere.jpg"}, [])
      iex> error.code
      :io
  """
  @spec read({Path.t(), Path.t()}, photo(), keyword()) :: {:ok, [text_line()]} | {:error, Error.t()}
  def read(models, photo, options) do
    must!(match?({_, _}, models), :models, "a detector and a recogniser", models)
    {detector, recogniser} = models
    read(photo, by(options, detector: detector, recogniser: recogniser))
  end

  @doc """
  A photo twice as large, as a `:u8` buffer of shape `{height, width, 3}`. Photos of any size are done in tiles.

    * `:model` - the model's file; otherwise `upscale.onnx` in the folder of models, into which `scripts/get-models upscale` brings it.
      One that makes photos three times as large will do, too

      iex> {:error, error} = Dala.ML.upscale(<<0x89, 0x50, 0x4E, 0x47, 13, 10, 26, 10>>)
      iex> error.code
      :truncated
  """
  @spec upscale(photo(), keyword()) :: {:ok, Buffer.t()} | {:error, Error.t()}
  def upscale(photo, options \\ []) do
    model = options |> options!(model: nil) |> Given.model!(:model)

    with {:ok, photo} <- Given.photo(photo),
         {:ok, {shape, pixels}} <- Runtime.ask(&Native.upscale(&1, photo, model, &2)),
         do: {:ok, Compute.buffer_from_binary(pixels, List.to_tuple(shape), :u8)}
  rescue
    error in Error -> {:error, error}
  end

  @doc """
  As `upscale/2`, by a model's file.

      iex> {:error, error} = Dala.ML.upscale("nowhere.onnx", {:path, "nowhere.jpg"}, [])
      iex> error.code
      :io
  """
  @spec upscale(Path.t(), photo(), keyword()) :: {:ok, Buffer.t()} | {:error, Error.t()}
  def upscale(model, photo, options), do: upscale(photo, by(options, model: model))

  @doc """
  When somebody speaks in a recording: `:spans`, each from `:start_seconds` to `:end_seconds`. Beside them is how long the recording is,
  and how likely speech is in each window of it.

  A recording is `{:path, path}` of a WAV file, which may be hours long, or the content of one as a binary.

    * `:model` - the model's file; otherwise `speech.onnx` in the folder of models, into which `scripts/get-models speech` brings it

      iex> {:error, error} = Dala.ML.listen("no recording")
      iex> error.message
      "it is no WAV file: it does not start with RIFF and WAVE"
  """
  @spec listen(binary() | {:path, Path.t()}, keyword()) :: {:ok, heard()} | {:error, Error.t()}
  def listen(recording, options \\ []) do
    model = options |> options!(model: nil) |> Given.model!(:model)
    recording = Given.file!(recording, "a recording")
    Runtime.ask(&Native.listen(&1, recording, model, &2))
  end

  @doc """
  As `listen/2`, by a model's file.

      iex> {:error, error} = Dala.ML.listen("nowhere.onnx", {:path, "nowhere.wav"}, [])
      iex> error.code
      :io
  """
  @spec listen(Path.t(), binary() | {:path, Path.t()}, keyword()) :: {:ok, heard()} | {:error, Error.t()}
  def listen(model, recording, options), do: listen(recording, by(options, model: model))

  @doc """
  What kind of file something is, by its content: a `:label` such as `"png"`, a `:description`, a `:mime_type`, and a `:score`.

  A file is `{:path, path}`, of which a few kilobytes are read, or its content as a binary.

    * `:model` - the model's file, with its labels beside it, called `.json`; otherwise `file_type.onnx` in the folder of models, into
      which `scripts/get-models file-types` brings both

      iex> {:error, error} = Dala.ML.describe_type("some text", model: "nowhere.onnx")
      iex> error.code
      :io
  """
  @spec describe_type(binary() | {:path, Path.t()}, keyword()) :: {:ok, file_type()} | {:error, Error.t()}
  def describe_type(file, options \\ []) do
    model = options |> options!(model: nil) |> Given.model!(:model)
    file = Given.file!(file, "a file")
    Runtime.ask(&Native.describe_type(&1, file, model, &2))
  end

  @doc """
  The names of ImageNet's 1000 classes, in the order of a network's outputs.

      iex> labels = Dala.ML.imagenet_labels()
      iex> {length(labels), Enum.at(labels, 285)}
      {1000, "Egyptian cat"}
  """
  @spec imagenet_labels() :: [String.t()]
  def imagenet_labels do
    key = {__MODULE__, :imagenet}

    case :persistent_term.get(key, nil) do
      nil ->
        labels = Native.imagenet_classes()
        :persistent_term.put(key, labels)
        labels

      labels ->
        labels
    end
  end

  ## Arguments

  # What is no list of options is refused as ever.
  defp by(options, models) when is_list(options), do: models ++ options
  defp by(options, _models), do: options

  defp predict_options!(options) do
    options = options!(options, @options)
    {top, fit, labels, softmax} = {options[:top], options[:fit], options[:labels], options[:softmax]}
    must!(is_integer(top) and top >= 0, :top, "a number of classes", top)
    must!(fit in [:crop, :stretch], :fit, ":crop or :stretch", fit)
    must!(is_boolean(softmax), :softmax, "a boolean", softmax)

    for name <- [:mean, :std],
        do: must!(three?(options[name]), name, "a list of three numbers", options[name])

    must!(labels?(labels), :labels, ":imagenet, a list of strings or a path", labels)
    options
  end

  defp three?([a, b, c]), do: is_number(a) and is_number(b) and is_number(c)
  defp three?(other), do: other == nil

  defp labels?(list) when is_list(list), do: not List.improper?(list) and Enum.all?(list, &is_binary/1)
  defp labels?(path) when is_binary(path), do: String.valid?(path)
  defp labels?(other), do: other in [nil, :imagenet]

  # The size of the pictures it takes, and the number of classes it knows.
  defp classifier(%Model{inputs: [input], outputs: [output]} = model) do
    with %{dtype: :f32, shape: {batch, 3, height, width}} when batch in [1, :batch] <- input,
         %{dtype: :f32, shape: shape} <- output,
         [batch, classes | rest] when batch in [1, :batch] and is_integer(classes) <- Tuple.to_list(shape),
         true <- Enum.all?(rest, &(&1 == 1)) do
      {:ok, {height, width}, classes}
    else
      _ -> no_classifier(model)
    end
  end

  defp classifier(%Model{} = model), do: no_classifier(model)

  defp no_classifier(%{name: name, inputs: inputs, outputs: outputs}) do
    show = fn ports -> Enum.map_join(ports, ", ", &"#{&1.dtype} #{inspect(&1.shape)}") end

    message =
      "#{inspect(name)} is no classifier of pictures: it takes #{show.(inputs)} and gives #{show.(outputs)}; " <>
        "needed is one f32 {:batch, 3, height, width}, and f32 {:batch, classes} of it"

    {:error, Error.new(:no_classifier, message)}
  end

  defp labels(nil, 1000), do: {:ok, imagenet_labels()}
  defp labels(nil, _classes), do: {:ok, nil}
  defp labels(:imagenet, classes), do: counted(imagenet_labels(), classes)
  defp labels(labels, classes) when is_list(labels), do: counted(labels, classes)

  defp labels(path, classes) do
    case File.read(path) do
      {:ok, text} ->
        text |> String.trim_trailing() |> String.split(["\r\n", "\n"]) |> counted(classes)

      {:error, reason} ->
        {:error, Error.new(:io, "cannot read `#{path}`: #{:file.format_error(reason)}", %{path: path})}
    end
  end

  defp counted(labels, classes) do
    case length(labels) do
      ^classes ->
        {:ok, labels}

      count ->
        message = "there are #{count} labels, and the model has #{classes} classes"
        {:error, Error.new(:labels_mismatch, message, %{expected: classes, actual: count})}
    end
  end

  ## Computing

  defp probabilities(model, image, size, options) do
    preprocess = preprocess(size, options)
    key = {to_string(model.name), image.shape, image.dtype, preprocess, options[:softmax]}
    make = fn -> plan(model, image, size, preprocess, options[:softmax]) end

    with {:ok, plan} <- Plans.get(key, make) do
      output = Compute.buffer_zeros(plan.shape, :f32)
      result = Pipeline.run_on(plan.pipeline, [{plan.image, image.ref}, {plan.output, output.ref}])
      read = with :ok <- result, do: {:ok, Compute.read_list(output)}
      Compute.free(output)
      read
    end
  end

  defp preprocess({height, width}, options) do
    # What networks for 224 were evaluated with is 256.
    resize = round(max(height, width) * 256 / 224)
    params = %{fit: options[:fit], size: {height, width}, resize: resize}
    for name <- [:mean, :std], value = options[name], into: params, do: {name, value}
  end

  # Compiled on buffers that stand for those of a call, and are freed: the plan needs only to know which they were.
  defp plan(model, image, {height, width}, preprocess, softmax) do
    [%{shape: shape}] = model.outputs
    shape = put_elem(shape, 0, 1)
    {image, output} = {Compute.buffer_zeros(image.shape, image.dtype), Compute.buffer_zeros(shape, :f32)}
    input = Compute.transient({1, 3, height, width}, :f32)
    logits = if softmax, do: Compute.transient(shape, :f32), else: output
    pipeline = Compute.pipeline()
    stage = fn kernel, from, to, params -> Pipeline.add(pipeline, stage(kernel, from, to, params)) end
    stage.(:preprocess, image, input, preprocess)
    stage.(model.name, input, logits, %{})
    if softmax, do: stage.(:softmax, logits, output, %{axis: 1})
    compiled = Pipeline.compile(pipeline)
    Compute.free_many([image, output])

    with :ok <- compiled,
         do: {:ok, %{pipeline: pipeline, image: image.ref, output: output.ref, shape: shape}}
  rescue
    error in Error -> {:error, error}
  end

  defp stage(kernel, input, output, params),
    do: %{op: :run_kernel, kernel: kernel, inputs: [input], output: output, params: params}

  defp top(probabilities, labels, count) do
    if Enum.all?(probabilities, &is_float/1) do
      best = probabilities |> Enum.with_index() |> Enum.sort_by(fn {value, index} -> {-value, index} end)
      labels = labels && List.to_tuple(labels)
      label = fn index -> labels && elem(labels, index) end

      {:ok,
       for {value, index} <- Enum.take(best, count) do
         %{label: label.(index), index: index, probability: value}
       end}
    else
      message = "the model gave numbers that are not finite: is the picture what it was trained on?"
      {:error, Error.new(:not_finite, message)}
    end
  end
end

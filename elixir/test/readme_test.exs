defmodule ReadmeTest do
  # The Elixir of the documents is evaluated, block after block of a page with the same variables. What a page takes for granted,
  # such as a photo, is said here.
  use ExUnit.Case

  import ExUnit.CaptureIO, only: [with_io: 1, with_io: 2]

  alias Dala.Gpu.Compute
  alias Dala.Test.Models

  @root Path.expand("../..", __DIR__)
  @pages ["README.md", "elixir/README.md"] ++
           for(path <- Path.wildcard(Path.join(@root, "docs/**/*.md")), do: Path.relative_to(path, @root))

  defp blocks(page) do
    Regex.scan(~r/^```elixir\n(.*?)^```/ms, File.read!(Path.join(@root, page)), capture: :all_but_first)
    |> List.flatten()
  end

  setup do
    folder = Path.join(System.tmp_dir!(), "dala-readme-#{System.unique_integer([:positive])}-#{System.pid()}")
    File.mkdir_p!(folder)
    File.ln_s!(Models.file("mobilenet_v2.onnx"), Path.join(folder, "mobilenet_v2.onnx"))
    before = File.cwd!()
    File.cd!(folder)

    on_exit(fn ->
      File.cd!(before)
      File.rm_rf!(folder)
    end)
  end

  # What the recipes' page shows.
  @recipes %{
    "astronaut.png" => "dala-model/zoo/pictures/astronaut.png",
    "cat_chelsea.jpg" => "dala-model/tests/data/cat_chelsea.jpg",
    "slanted.png" => "dala-recipes/tests/data/slanted.png",
    "speech.wav" => "dala-recipes/tests/data/speech.wav"
  }

  for page <- @pages -- ["docs/RECIPES.md"] do
    test "the Elixir of #{page} runs" do
      run(unquote(page))
    end
  end

  test "the Elixir of docs/RECIPES.md runs" do
    models = ~w(faces text_detector text_recogniser upscale speech file_type)

    if Models.fetched?(Enum.map(models, &(&1 <> ".onnx"))) do
      for {name, file} <- @recipes, do: File.cp!(Path.join([@root, "crates", file]), name)
      run("docs/RECIPES.md")
    end
  end

  defp run(page) do
    Enum.reduce(blocks(page), {given(page), __ENV__}, fn block, state ->
      try do
        evaluate(block, page, state)
      rescue
        error -> flunk("#{page}: #{Exception.message(error)} in\n#{block}")
      end
    end)
  end

  test "there are blocks to run" do
    counts = for page <- @pages, do: length(blocks(page))
    assert Enum.sum(counts) >= 15
    assert Enum.count(counts, &(&1 > 0)) >= 6
  end

  # What goes into mix.exs.
  defp evaluate("def deps" <> _ = block, _page, state) do
    name = "Elixir.ReadmeTest.Deps#{System.unique_integer([:positive])}"
    {{:module, module, _, _}, _} = Code.eval_string("defmodule :\"#{name}\" do\n#{block}\nend")
    assert [{:dala_compute, [path: _]}] = module.deps()
    state
  end

  defp evaluate(block, page, {binding, env}) do
    # A model's name is taken once, and every page loads it.
    name = ":mobilenet_v2_" <> String.replace(String.downcase(page), ~r/[^a-z]/, "_")
    # How soon an answer comes on a busy machine is not what a page says.
    patient = Regex.replace(~r/\b(deadline: |wait\(id, )\d[\d_]*/, block, "\\g{1}300_000")
    quoted = patient |> String.replace(":mobilenet_v2", name) |> Code.string_to_quoted!(file: page)
    evaluate = fn -> Code.eval_quoted_with_env(quoted, binding, env) end
    # What a block prints is of no interest; what the compiler has to say of it is.
    {{{_value, binding, env}, _printed}, warnings} = with_io(:stderr, fn -> with_io(evaluate) end)
    assert warnings == ""
    {binding, env}
  end

  defp given("README.md"), do: [pixels: :binary.copy(<<200, 120, 40, 255>>, 400 * 600)]
  defp given("docs/PIPELINES.md"), do: [pixels: :binary.copy(<<200, 120, 40, 255>>, 480 * 640)]
  defp given("docs/MODELS.md"), do: [image: Models.photo!("cat_chelsea.crop224.png")]

  defp given("elixir/README.md") do
    [image, output, blurred] = for _ <- 1..3, do: Compute.buffer_zeros({224, 224}, :f32)
    gray = Compute.buffer_zeros({224, 224}, :u8)

    [
      image: image,
      output: output,
      blurred: blurred,
      gray: gray,
      photo: Models.photo!("cat_chelsea.crop224.png"),
      stages: [%{op: :run_kernel, kernel: :cast, inputs: [image], output: gray}],
      camera: for(_ <- 1..3, do: :binary.copy(<<0>>, Compute.size(image))),
      input: Compute.buffer_zeros({8, 3, 224, 224}, :f32),
      logits: Compute.buffer_zeros({8, 1000}, :f32)
    ]
  end

  defp given(_page), do: []
end

defmodule NotebooksTest do
  # The cells of the notebooks are run in order, and what is noted as their output is compared.
  use ExUnit.Case

  alias Dala.Gpu.Compute.Buffer
  alias Dala.Test.{Livemd, Models}

  @folder Path.expand("../notebooks", __DIR__)

  # How many outputs each has, and what it shows: a test that compares nothing could not fail.
  @notebooks %{
    "first_kernel.livemd" => {6, [{120, 200, 1}, {120, 200, 4}]},
    "photo_pipeline.livemd" => {5, [{300, 451, 3}, {300, 451, 3}]},
    "classify_photo.livemd" => {4, [{300, 451, 3}, {224, 224, 3}]}
  }

  for {name, {outputs, pictures}} <- @notebooks do
    @tag outputs: outputs, pictures: pictures
    test name, %{outputs: outputs, pictures: pictures} do
      path = Path.join(@folder, unquote(name))
      {setup, cells} = Livemd.read!(path)
      assert setup.code =~ "Mix.install" and setup.code =~ "{:dala_compute, path:"
      results = Livemd.run(cells, path)

      for {%{output: output, line: line}, result} <- Enum.zip(cells, results), output != nil do
        found = inspect(result, pretty: true, width: 100)
        assert found == output, "#{unquote(name)}:#{line} gives #{found} instead of #{output}"
      end

      assert Enum.count(cells, & &1.output) == outputs

      shown =
        for %Buffer{shape: shape} = buffer <- results do
          assert %{type: :image, content: png} = Kino.Render.to_livebook(buffer)
          {pixels, {height, width, _}} = Models.png(png)
          assert {height, width} == {elem(shape, 0), elem(shape, 1)}
          # A picture of one colour would mean that nothing was computed.
          assert length(Enum.uniq(:binary.bin_to_list(pixels))) > 30
          shape
        end

      assert shown == pictures
    end
  end

  test "all notebooks are run" do
    assert Enum.sort(File.ls!(@folder)) == Enum.sort(Map.keys(@notebooks))
  end

  test "an output that differs is found" do
    path = Path.join(System.tmp_dir!(), "dala-#{System.unique_integer([:positive])}.livemd")
    on_exit(fn -> File.rm(path) end)
    mark = ~s(<!-- livebook:{"output":true} -->)

    File.write!(
      path,
      "# A\n\n```elixir\n1\n```\n\n```elixir\nx = 1\n```\n\n#{mark}\n\n```\n2\n```\n\n```elixir\nx + 1\n```\n"
    )

    assert {%{code: "1"}, [%{output: "2", line: 8}, %{output: nil}] = cells} = Livemd.read!(path)
    assert Livemd.run(cells, path) == [1, 2]
  end
end

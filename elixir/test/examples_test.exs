defmodule ExamplesTest do
  # The examples are run, and what they print is compared with what the comment at their end says.
  use ExUnit.Case
  import ExUnit.CaptureIO

  @folder Path.expand("../examples", __DIR__)
  @examples ~w(01_hello 02_image_pipeline 03_async_commands 04_streams 05_custom_expression 06_inference 07_surface)

  # The lines after `# Output:`, which are the last ones.
  defp expected(path) do
    [_, block] = String.split(File.read!(path), "\n# Output:\n")
    lines = String.split(block, "\n", trim: true)
    assert lines != [], "#{path} says nothing about its output"
    for "#   " <> line <- lines, do: line <> "\n"
  end

  for name <- @examples do
    test name do
      path = Path.join(@folder, unquote(name) <> ".exs")
      printed = capture_io(fn -> Code.eval_file(path) end)
      assert printed == Enum.join(expected(path))
    end
  end

  test "all examples are run" do
    assert Enum.sort(File.ls!(@folder)) == for(name <- @examples, do: name <> ".exs")
  end
end

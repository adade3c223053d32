defmodule Dala.ML.Given do
  @moduledoc false
  # What recipes are given, as the native side takes it: `{:path, path}`, `{:file, binary}`, or `{:pixels, shape, floats, binary}`.

  import Dala.Gpu.Compute.Argument, only: [must!: 4, text?: 1]

  alias Dala.Gpu.Compute.{Buffer, Buffers, Error, Picture}

  @doc false
  def photo(%Buffer{} = buffer), do: pixels(buffer)
  def photo(buffer) when is_reference(buffer), do: pixels(buffer)
  def photo(other), do: {:ok, file!(other, "a photo")}

  @doc false
  def file!({:path, path}, what) do
    must!(text?(path), what, "a binary or {:path, path}", path)
    {:path, path}
  end

  def file!(file, what) do
    must!(is_binary(file), what, "a binary or {:path, path}", file)
    {:file, file}
  end

  @doc false
  # The file of an option or nil, and the folder of models or nil: the native side does not see what `System.put_env/2` did.
  def model!(options, name) do
    path = options[name]
    must!(path == nil or text?(path), name, "a path", path)
    folder = System.get_env("DALA_MODELS")
    {path, if(folder not in [nil, ""], do: folder)}
  end

  defp pixels(buffer) do
    buffer = Buffers.info(buffer)

    with {:ok, shape} <- Picture.layout(buffer),
         do: {:ok, {:pixels, shape, buffer.dtype == :f32, Buffers.read(buffer)}}
  rescue
    error in Error -> {:error, error}
  end
end

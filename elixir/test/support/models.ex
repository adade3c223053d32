defmodule Dala.Test.Models do
  @moduledoc false
  # MobileNetV2, photos, and small models that are written here.

  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.Error

  @photos Path.expand("../../../crates/dala-model/tests/data", __DIR__)

  # A file that `scripts/get-models` made. Tests that need it fail without it.
  def file(name) do
    file = path(name)
    if not File.exists?(file), do: raise("#{file} is missing: run scripts/get-models first")
    file
  end

  # Whether files are there that are fetched only where somebody asks for them; says so if they are not.
  def fetched?(names) do
    missing = Enum.reject(Enum.map(names, &path/1), &File.exists?/1)
    for file <- missing, do: IO.puts("skipped: #{file} is missing; `scripts/get-models people` fetches it")
    missing == []
  end

  defp path(name) do
    folder = System.get_env("DALA_MODELS") || Path.expand("~/.cache/dala-compute/models")
    Path.join(folder, name)
  end

  # Loads it as `:mobilenet_v2`, which tests share: a name is taken once.
  def mobilenet! do
    case Compute.load_model(:mobilenet_v2, file("mobilenet_v2.onnx")) do
      {:ok, _model} -> :ok
      {:error, %Error{code: :duplicate_kernel}} -> :ok
      {:error, error} -> raise error
    end
  end

  # A picture of the Rust tests, as a buffer.
  def photo!(name) do
    {pixels, shape} = png(File.read!(Path.join(@photos, name)))
    Compute.buffer_from_binary(pixels, shape, :u8)
  end

  @doc false
  # The pixels of a PNG file of 8 bits, gray, RGB or RGBA, not interlaced; and their shape.
  def png(<<0x89, "PNG\r\n", 26, 10, chunks::binary>>) do
    chunks = chunks(chunks)
    {"IHDR", <<width::32, height::32, 8, colour, 0, 0, 0>>} = hd(chunks)
    channels = %{0 => 1, 2 => 3, 6 => 4}[colour]
    rows = :zlib.uncompress(for {"IDAT", data} <- chunks, do: data)
    {unfilter(rows, width * channels, channels), {height, width, channels}}
  end

  defp chunks(""), do: []

  defp chunks(<<size::32, type::binary-4, data::binary-size(size), _crc::32, rest::binary>>),
    do: [{type, data} | chunks(rest)]

  # Each row says how it was filtered: by what is to the left, above, and above to the left.
  defp unfilter(rows, size, channels) do
    none = List.duplicate(0, size)

    {rows, _} =
      Enum.map_reduce(rows(rows, size), none, fn {how, row}, above ->
        row = row(how, :binary.bin_to_list(row), above, channels)
        {row, row}
      end)

    IO.iodata_to_binary(rows)
  end

  defp rows("", _size), do: []

  defp rows(<<how, rows::binary>>, size) do
    {row, rest} = :erlang.split_binary(rows, size)
    [{how, row} | rows(rest, size)]
  end

  # The queue has what is to the left and above to the left of the next ones.
  defp row(how, row, above, channels) do
    queue = :queue.from_list(List.duplicate({0, 0}, channels))

    {row, _} =
      Enum.zip(row, above)
      |> Enum.map_reduce(queue, fn {x, up}, queue ->
        {{:value, {left, corner}}, queue} = :queue.out(queue)
        value = rem(x + predicted(how, left, up, corner), 256)
        {value, :queue.in({value, up}, queue)}
      end)

    row
  end

  defp predicted(0, _left, _up, _corner), do: 0
  defp predicted(1, left, _up, _corner), do: left
  defp predicted(2, _left, up, _corner), do: up
  defp predicted(3, left, up, _corner), do: div(left + up, 2)

  defp predicted(4, left, up, corner) do
    guess = left + up - corner
    Enum.min_by([left, up, corner], &abs(guess - &1))
  end

  @doc false
  # An ONNX file: nodes are `{operator, inputs, outputs}`, ports `{name, [dimension]}`, with a string where any will do.
  def onnx(nodes, inputs, outputs) do
    nodes =
      for {{operator, from, to}, number} <- Enum.with_index(nodes) do
        names = for(name <- from, do: field(1, name)) ++ for name <- to, do: field(2, name)
        field(1, [names, field(3, "node#{number}"), field(4, operator)])
      end

    ports = fn number, ports -> for port <- ports, do: field(number, port(port)) end
    graph = [nodes, field(2, "graph"), ports.(11, inputs), ports.(12, outputs)]
    IO.iodata_to_binary([field(1, 8), field(7, graph), field(8, field(2, 17))])
  end

  defp port({name, dims}) do
    dims = for dim <- dims, do: field(1, if(is_binary(dim), do: field(2, dim), else: field(1, dim)))
    [field(1, name), field(2, field(1, [field(1, 1), field(2, dims)]))]
  end

  # A field of a message: numbers, and everything else with its length.
  defp field(number, value) when is_integer(value), do: [varint(number * 8), varint(value)]

  defp field(number, value),
    do: [varint(number * 8 + 2), varint(IO.iodata_length(value)), value]

  defp varint(number) when number < 128, do: <<number>>
  defp varint(number), do: [<<1::1, number::7>>, varint(div(number, 128))]
end

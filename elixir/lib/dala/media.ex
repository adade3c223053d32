defmodule Dala.Media do
  @moduledoc """
  Picture files, and frames of cameras and videos through kernels.

      {:ok, photo} = "photo.jpg" |> File.read!() |> Dala.Media.decode()
      {:ok, [best | _]} = Dala.ML.predict(:mobilenet_v2, photo)

  `Dala.Gpu.Compute.Picture.to_png/1` is the way back.
  """

  use Dala.Gpu.Compute.Twins

  import Dala.Gpu.Compute.Argument, only: [must!: 4, options!: 2, unsigned?: 1]

  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.{Buffer, Error, Native}

  @most_pixels 50_000_000

  @doc """
  The pixels of a JPEG, PNG, WebP, TIFF, BMP, PNM or NumPy (`.npy`) file as a `:u8` buffer of shape `{height, width, channels}`:
  1 channel (gray), 3 (RGB) or 4 (RGBA). Photos are turned as their camera says. 16 bits, and floats from 0 to 1, become the
  nearest levels of 8 bits. Colour profiles are left out; of an animation the first picture is read.

    * `:max_pixels` - larger pictures are refused before they are decoded: 50 million

  Errors are `:unknown_format` (none of these), `:truncated`, `:malformed`, `:unsupported_picture`, `:too_large`, and
  those of a buffer that cannot be made. It is done in native code, on a dirty scheduler.

      iex> png = Dala.Gpu.Compute.Picture.to_png(Dala.Gpu.Compute.buffer([0, 128, 255], {1, 3}, :u8))
      iex> {:ok, picture} = Dala.Media.decode(png)
      iex> {picture.shape, Dala.Gpu.Compute.read(picture)}
      {{1, 3, 1}, <<0, 128, 255>>}
      iex> {:error, error} = Dala.Media.decode("no picture")
      iex> {error.code, error.message}
      {:unknown_format, "it is no JPEG, PNG, WebP, TIFF, BMP, PNM or NPY picture: convert it to one first"}
  """
  @spec decode(binary(), keyword()) :: {:ok, Buffer.t()} | {:error, Error.t()}
  def decode(file, options \\ []) do
    must!(is_binary(file), "a picture's file", "a binary", file)
    most = options!(options, max_pixels: @most_pixels)[:max_pixels]
    must!(unsigned?(most), :max_pixels, "a number of pixels", most)

    with {:ok, {shape, pixels}} <- Native.decode_picture(file, most),
         do: {:ok, Compute.buffer_from_binary(pixels, List.to_tuple(shape), :u8)}
  rescue
    error in Error -> {:error, error}
  end

  @doc """
  Sends frames through the stages of a `Dala.Gpu.Compute.Stream`: an enumerable of binaries becomes a lazy one of results, in
  order. The options are those of `Dala.Gpu.Compute.Stream.new/1`; the policy is `:block` unless told otherwise, so that no
  frame is lost. With `:latest` frames that come too fast are dropped, and so are missing from the results.

      iex> [input, output] = for _ <- 1..2, do: Dala.Gpu.Compute.buffer_zeros({2}, :u8)
      iex> stage = %{op: :run_kernel, kernel: :scalar_add, inputs: [input], output: output, params: %{scalar: 9}}
      iex> frames = [<<0, 1>>, <<2, 3>>, <<4, 5>>]
      iex> Enum.to_list(Dala.Media.frame_stream(frames, input: input, stages: [stage], output: output))
      [<<9, 10>>, <<11, 12>>, <<13, 14>>]

  A frame that fails raises its error.
  """
  @spec frame_stream(Enumerable.t(), keyword()) :: Enumerable.t()
  def frame_stream(frames, options) do
    must!(Keyword.keyword?(options), "options", "a keyword list", options)
    options = Keyword.put_new(options, :policy, :block)

    if Keyword.has_key?(options, :to),
      do: raise(ArgumentError, "the results go to whoever enumerates them: :to makes no sense here")

    Stream.transform(
      frames,
      fn -> {Compute.Stream.new(options), 0} end,
      fn frame, {stream, open} ->
        open = if pushed?(Compute.Stream.push(stream, frame)), do: open + 1, else: open
        results = collect(stream, 0)
        {results, {stream, open - length(results)}}
      end,
      fn {stream, open} -> {rest(stream, open), {stream, 0}} end,
      fn {stream, _open} -> close(stream) end
    )
  end

  defp pushed?(result) when result in [:started, :waiting], do: true
  # One that waited was dropped for it.
  defp pushed?(result) when result in [:replaced, :dropped], do: false
  defp pushed?({:error, error}), do: raise(error)

  # What has arrived.
  defp collect(%{tag: tag} = stream, timeout) do
    receive do
      {^tag, _number, {:ok, frame}} -> [frame | collect(stream, 0)]
      {^tag, _number, {:error, error}} -> raise error
    after
      timeout -> []
    end
  end

  defp rest(_stream, 0), do: []

  defp rest(stream, open) do
    results = collect(stream, :infinity)
    results ++ rest(stream, open - length(results))
  end

  # Frames that nobody wants any more must not fill the mailbox.
  defp close(%{tag: tag} = stream) do
    Compute.Stream.stop_silently(stream)
    flush(tag)
  end

  defp flush(tag) do
    receive do
      {^tag, _number, _result} -> flush(tag)
    after
      0 -> :ok
    end
  end
end

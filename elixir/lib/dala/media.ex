defmodule Dala.Media do
  @moduledoc """
  Frames of cameras and videos through kernels.
  """

  alias Dala.Gpu.Compute

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
    if not Keyword.keyword?(options),
      do: raise(ArgumentError, "options must be a keyword list, found #{inspect(options, limit: 5)}")

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

defmodule Documents.Pictures do
  @moduledoc false
  # What the filters of the documents should give, in plain Elixir and double precision. A picture is a flat list and its
  # shape, `{height, width, channels}`. Outside lies the nearest pixel; each filter rounds once, when it stores.

  # A picture without any pattern that a wrong filter would keep.
  def picture({height, width, channels}, dtype) do
    for y <- 0..(height - 1), x <- 0..(width - 1), channel <- 0..(channels - 1) do
      level = rem(y * y * 53 + x * 97 + x * y * 29 + channel * 71 + 11, 256)
      # Floats below zero too: some stages treat them in their own way.
      if dtype == :u8, do: level, else: level / 128 - 1
    end
  end

  def blur(picture, shape, dtype, radius, sigma) do
    weights = for at <- -radius..radius, do: :math.exp(-at * at / (2 * sigma * sigma))
    sum = Enum.sum(weights)
    filter(picture, shape, Enum.map(weights, &(&1 / sum)), fn _x, blurred -> store(blurred, dtype) end)
  end

  def sharpen(picture, shape, dtype, amount) do
    filter(picture, shape, [0.25, 0.5, 0.25], fn x, blurred -> store(x + amount * (x - blurred), dtype) end)
  end

  # One channel of three or four.
  def grayscale(picture, {_, _, channels}, dtype) do
    for [r, g, b | _] <- Enum.chunk_every(picture, channels),
        do: store(0.299 * r + 0.587 * g + 0.114 * b, dtype)
  end

  def relu(picture, slope \\ 0.0), do: Enum.map(picture, &if(&1 > 0, do: &1, else: &1 * slope))

  # Red grows to the right, green downwards, blue is half, alpha full.
  def gradient({height, width, 4}) do
    for y <- 0..(height - 1), x <- 0..(width - 1), value <- [x / (width - 1), y / (height - 1), 0.5, 1.0] do
      store(value * 255, :u8)
    end
  end

  # The same weights down and across; `combine` gets an element and what the filter made of it.
  defp filter(picture, {height, width, channels}, weights, combine) do
    elements = List.to_tuple(picture)
    radius = div(length(weights), 2)
    taps = Enum.zip(-radius..radius, weights)
    at = fn y, x, channel -> elem(elements, (y * width + x) * channels + channel) end

    for y <- 0..(height - 1), x <- 0..(width - 1), channel <- 0..(channels - 1) do
      sums =
        for {dy, down} <- taps, {dx, across} <- taps do
          down * across * at.(inside(y + dy, height), inside(x + dx, width), channel)
        end

      combine.(at.(y, x, channel), Enum.sum(sums))
    end
  end

  defp inside(at, size), do: at |> max(0) |> min(size - 1)

  defp store(value, :f32), do: value
  defp store(value, :u8), do: value |> round_to_even() |> max(0) |> min(255)

  defp round_to_even(value) do
    below = floor(value)

    case value - below do
      part when part < 0.5 -> below
      part when part > 0.5 -> below + 1
      _half -> below + rem(abs(below), 2)
    end
  end
end

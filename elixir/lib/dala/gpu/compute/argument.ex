defmodule Dala.Gpu.Compute.Argument do
  @moduledoc false
  # Arguments of the wrong kind are the caller's mistake: they raise `ArgumentError`, which says what was found.

  alias Dala.Gpu.Compute.{Codec, Error}

  @max_rank 32

  @doc false
  # `what` is the argument, or the option if it is an atom.
  def must!(true, _what, _be, _found), do: :ok

  def must!(false, what, be, found) when is_atom(what), do: must!(false, inspect(what), be, found)
  def must!(false, what, be, found), do: raise(ArgumentError, "#{what} must be #{be}, found #{short(found)}")

  @doc false
  # With their defaults. Most calls have none, and those of small commands are many.
  def options!([], defaults), do: defaults

  def options!(options, defaults) do
    must!(Keyword.keyword?(options), "options", "a keyword list", options)
    Keyword.validate!(options, defaults)
  end

  @doc false
  # What a `receive` waits at most.
  def timeout!(:infinity), do: :infinity
  def timeout!(timeout) when is_integer(timeout) and timeout in 0..0xFFFFFFFF, do: timeout

  def timeout!(other),
    do: raise(ArgumentError, "a timeout is a number of milliseconds or :infinity, found #{short(other)}")

  @doc false
  def dims!(shape) do
    if shape?(shape),
      do: Tuple.to_list(shape),
      else:
        raise(
          ArgumentError,
          "a shape is a tuple of at most #{@max_rank} dimensions, each 0 or more, found #{short(shape)}"
        )
  end

  @doc false
  def shape?(shape),
    do: is_tuple(shape) and tuple_size(shape) <= @max_rank and Enum.all?(Tuple.to_list(shape), &unsigned?/1)

  @doc false
  # What the native side takes for a number of 64 bits.
  def unsigned?(term), do: is_integer(term) and term in 0..0xFFFFFFFFFFFFFFFF

  @doc false
  def dtype!(dtype) do
    if Codec.dtype?(dtype),
      do: dtype,
      else:
        raise(ArgumentError, "an element type is one of #{inspect(Codec.dtypes())}, found #{short(dtype)}")
  end

  @doc false
  # Text that systems take: a title, a path.
  def text?(term), do: is_binary(term) and String.valid?(term) and not String.contains?(term, <<0>>)

  @doc false
  # What is no buffer at all is not the device's mistake either.
  def checked!({:error, %Error{code: :invalid_argument, message: message}}), do: raise(ArgumentError, message)
  def checked!(result), do: result

  @doc false
  def unwrap!(result), do: result |> checked!() |> Error.unwrap!()

  @doc false
  # What was given, without filling the screen.
  def short(term), do: inspect(term, limit: 5, printable_limit: 60)
end

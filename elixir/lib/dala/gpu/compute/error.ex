defmodule Dala.Gpu.Compute.Error do
  @moduledoc """
  Why something failed: an exception, and the reason in `{:error, reason}`.

    * `:code` - a stable name to match on, such as `:freed`, `:unknown_kernel`, `:out_of_memory`, `:cancelled`
    * `:message` - the same in words
    * `:details` - what programs may want to know: `%{wanted: 800, budget: 600, live: 0}`

      iex> {:error, error} = Dala.Gpu.Compute.run_kernel(:rleu, [], Dala.Gpu.Compute.buffer_zeros({2}, :f32))
      iex> error.code
      :unknown_kernel
      iex> Exception.message(error)
      "no kernel is called `rleu`, did you mean `relu`?"
      iex> error.details.suggestion
      "relu"
  """

  @type t() :: %__MODULE__{code: atom(), message: String.t(), details: map()}

  defexception code: :unknown, message: "", details: %{}

  @doc false
  def new(code, message, details \\ %{}), do: %__MODULE__{code: code, message: message, details: details}

  @doc false
  # From results that are returned to errors that are raised.
  def unwrap!({:ok, value}), do: value
  def unwrap!({:error, error}), do: raise(error)
  def unwrap!(other), do: other

  @doc false
  # And back.
  def attempt(function) do
    case function.() do
      :ok -> :ok
      value -> {:ok, value}
    end
  rescue
    error in __MODULE__ -> {:error, error}
  end
end

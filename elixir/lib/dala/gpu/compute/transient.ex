defmodule Dala.Gpu.Compute.Transient do
  @moduledoc """
  A buffer that exists only while its pipeline runs: what one stage writes and the next reads, and nobody else.

      iex> alias Dala.Gpu.Compute
      iex> [input, output] = for list <- [[1.0, -2.0], [0.0, 0.0]], do: Compute.buffer(list, {2})
      iex> between = Compute.transient()
      iex> Compute.pipeline()
      ...> |> Compute.pipeline_add(%{op: :run_kernel, kernel: :relu, inputs: [input], output: between})
      ...> |> Compute.pipeline_add(%{op: :run_kernel, kernel: :scale, inputs: [between], output: output, params: %{scalar: 3.0}})
      ...> |> Compute.pipeline_run()
      :ok
      iex> Compute.read_list(output)
      [3.0, 0.0]

  Since nobody can look at it, it need not be in memory at all: the two stages above are one kernel, and those that must be
  in memory share it. In a buffer the same stages would have to leave their results.

    * `:id` - two of the same id are the same buffer
    * `:shape` - a tuple of dimensions, or nil: it then follows from the stage that writes it first
    * `:dtype` - its element type, or nil likewise

  `Dala.Gpu.Compute.transient/2` makes one. It belongs to no pipeline: in two of them it is two buffers.
  """

  alias Dala.Gpu.Compute.Argument

  @enforce_keys [:id]
  defstruct [:id, :shape, :dtype]

  @type t() :: %__MODULE__{
          id: pos_integer(),
          shape: tuple() | nil,
          dtype: Dala.Gpu.Compute.Buffer.dtype() | nil
        }

  @doc false
  def new(shape, dtype) do
    if shape != nil, do: Argument.dims!(shape)
    if dtype != nil, do: Argument.dtype!(dtype)
    %__MODULE__{id: System.unique_integer([:positive]), shape: shape, dtype: dtype}
  end

  defimpl Inspect do
    import Inspect.Algebra

    def inspect(transient, opts) do
      fields = for field <- [transient.id, transient.dtype, transient.shape], field != nil, do: field
      fields = fields |> Enum.map(&to_doc(&1, opts)) |> Enum.intersperse(" ")
      concat(["#Dala.Gpu.Compute.Transient<"] ++ fields ++ [">"])
    end
  end
end

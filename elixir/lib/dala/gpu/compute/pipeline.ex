defmodule Dala.Gpu.Compute.Pipeline do
  @moduledoc """
  Several stages that are executed as one command.

      iex> alias Dala.Gpu.Compute
      iex> input = Compute.buffer([1.0, -2.0, 3.0], {3}, :f32)
      iex> [middle, output] = for _ <- 1..2, do: Compute.buffer_zeros({3}, :f32)
      iex> pipeline = Compute.pipeline()
      iex> pipeline
      ...> |> Compute.pipeline_add(%{op: :run_kernel, kernel: :relu, inputs: [input], output: middle, params: %{}})
      ...> |> Compute.pipeline_add(%{op: :run_kernel, kernel: :scale, inputs: [middle], output: output, params: %{scalar: 10.0}})
      iex> Compute.pipeline_run(pipeline)
      :ok
      iex> Compute.read_list(output)
      [10.0, 0.0, 30.0]

  A pipeline is a list that only grows: `add/2` appends to it in place and returns it, so that it does not matter whether the
  result is used. It may run as often as you like, and keeps the buffers of its stages alive.

  A stage is a map with `:op`, one of

    * `:run_kernel` - with `:kernel`, `:inputs`, `:output` and `:params`
    * `:copy_buffer` - with one buffer in `:inputs` and `:output`, of the same size
    * `:write_buffer` - with `:output` and `:data`, a binary
    * `:barrier` - orders everything before it before everything after it
  """

  alias Dala.Gpu.Compute.{Error, Native, Runtime, Stage, Telemetry}

  defstruct ref: nil, stages: []

  @typedoc "One stage. Buffers are structs, or their references."
  @type stage() :: %{
          :op => atom(),
          optional(:kernel) => atom() | String.t() | nil,
          optional(:inputs) => [Dala.Gpu.Compute.Buffer.t() | reference()],
          optional(:output) => Dala.Gpu.Compute.Buffer.t() | reference(),
          optional(:params) => map(),
          optional(:data) => binary()
        }

  @typedoc "A pipeline. Its stages are kept behind `ref`: ask `stages/1` for them."
  @type t() :: %__MODULE__{ref: reference() | nil, stages: [stage()]}

  @doc """
  A pipeline without stages.

      iex> Dala.Gpu.Compute.Pipeline.stage_count(Dala.Gpu.Compute.Pipeline.new())
      0
  """
  @spec new() :: t()
  def new, do: %__MODULE__{ref: Native.pipeline()}

  @doc """
  Appends a stage and returns the pipeline. What is wrong with a stage is said when the pipeline runs.

      iex> pipeline = Dala.Gpu.Compute.Pipeline.new()
      iex> Dala.Gpu.Compute.Pipeline.add(pipeline, %{op: :barrier})
      iex> Dala.Gpu.Compute.Pipeline.stages(pipeline)
      [%{op: :barrier}]
  """
  @spec add(t(), map()) :: t()
  def add(pipeline, stage) when is_map(stage) do
    # The native side copies the stage, which takes long if it is large.
    add = if weigh(stage, 0) > 2_000, do: &Native.pipeline_add_large/2, else: &Native.pipeline_add/2
    if not native(pipeline, &add.(&1, stage)), do: raise(freed())
    pipeline
  end

  def add(_pipeline, other), do: raise(ArgumentError, "a stage must be a map, found #{Stage.short(other)}")

  # How many terms there are in a term. A pipeline that is held by itself would live for ever, and so would two that hold each
  # other.
  defp weigh([head | tail], sum), do: weigh(tail, weigh(head, sum + 1))
  defp weigh(map, sum) when is_map(map), do: weigh(:maps.to_list(map), sum)
  defp weigh(tuple, sum) when is_tuple(tuple), do: weigh(Tuple.to_list(tuple), sum)

  defp weigh(ref, sum) when is_reference(ref) do
    if Native.is_pipeline(ref), do: raise(ArgumentError, "a stage cannot hold a pipeline"), else: sum + 1
  end

  defp weigh(function, sum) when is_function(function) do
    {:env, values} = :erlang.fun_info(function, :env)
    weigh(values, sum)
  end

  defp weigh(_other, sum), do: sum + 1

  @doc """
  Executes the stages in order and waits for the end. If stages are wrong nothing is executed, and the error's
  `details.problems` lists all of them.

      iex> pipeline = Dala.Gpu.Compute.Pipeline.new()
      iex> Dala.Gpu.Compute.Pipeline.add(pipeline, %{op: :run_kernel, kernel: :relu})
      iex> Dala.Gpu.Compute.Pipeline.add(pipeline, %{op: :fly})
      iex> {:error, error} = Dala.Gpu.Compute.Pipeline.run(pipeline)
      iex> length(error.details.problems)
      2
  """
  @spec run(t()) :: :ok | {:error, Error.t()}
  def run(pipeline) do
    case native_stages(pipeline) do
      {:ok, stages} ->
        Telemetry.span(:pipeline, %{stages: length(stages)}, fn ->
          with {:error, _} = error <- Runtime.run(stages), do: all_problems(error, stages)
        end)

      error ->
        error
    end
  end

  @doc """
  The stages, as they were added; none if the pipeline was freed.

      iex> Dala.Gpu.Compute.Pipeline.stages(Dala.Gpu.Compute.Pipeline.new())
      []
  """
  @spec stages(t()) :: [stage()]
  def stages(pipeline), do: native(pipeline, &Native.pipeline_stages/1) || []

  @doc """
  The number of stages.

      iex> pipeline = Dala.Gpu.Compute.Pipeline.new()
      iex> Dala.Gpu.Compute.Pipeline.add(pipeline, %{op: :barrier})
      iex> Dala.Gpu.Compute.Pipeline.stage_count(pipeline)
      1
  """
  @spec stage_count(t()) :: non_neg_integer()
  def stage_count(pipeline), do: native(pipeline, &Native.pipeline_count/1)

  @doc false
  def free(pipeline), do: native(pipeline, &Native.pipeline_free/1)

  @doc false
  # The stages for the native side, or every problem with them.
  def native_stages(pipeline) do
    case native(pipeline, &Native.pipeline_stages/1) do
      nil ->
        {:error, freed()}

      stages ->
        case Stage.problems(stages) do
          {native, []} -> {:ok, native}
          # What else is wrong cannot be said: numbers of stages would be off if some are missing.
          {_native, problems} -> several(problems)
        end
    end
  end

  # A pipeline with one problem may have more.
  defp all_problems({:error, error}, stages) do
    case Runtime.call(&Native.check(&1, stages)) do
      {:ok, [_ | _] = problems} -> several(problems)
      _ -> {:error, error}
    end
  end

  defp several([problem]), do: {:error, %{problem | details: Map.put(problem.details, :problems, [problem])}}

  defp several([first | _] = problems) do
    messages = Enum.map_join(problems, "\n", &("  " <> &1.message))
    message = "the pipeline has #{length(problems)} problems:\n#{messages}"
    {:error, Error.new(first.code, message, %{problems: problems})}
  end

  @doc false
  def freed, do: Error.new(:freed_pipeline, "the pipeline was freed")

  defp native(%__MODULE__{ref: ref}, function) when is_reference(ref) do
    function.(ref)
  rescue
    # Another kind of reference.
    ArgumentError -> raise ArgumentError, "this is no pipeline: #{inspect(ref)}"
  end

  defp native(other, _function), do: raise(ArgumentError, "this is no pipeline: #{Stage.short(other)}")

  defimpl Inspect do
    def inspect(%{ref: ref}, _opts) do
      "#Dala.Gpu.Compute.Pipeline<#{stages(ref)}>"
    end

    # Whatever the struct holds, looking at it must not raise.
    defp stages(ref) do
      case Dala.Gpu.Compute.Native.pipeline_count(ref) do
        1 -> "1 stage"
        count -> "#{count} stages"
      end
    rescue
      _ -> "no pipeline"
    end
  end
end

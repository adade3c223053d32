defmodule Dala.Gpu.Compute.Pipeline do
  @moduledoc """
  Several stages that are compiled to as few kernels as possible, and executed as one command.

      iex> alias Dala.Gpu.Compute
      iex> input = Compute.buffer([1.0, -2.0, 3.0], {3}, :f32)
      iex> output = Compute.buffer_zeros({3}, :f32)
      iex> middle = Compute.transient()
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

    * `:run_kernel` - with `:kernel`, `:inputs`, `:output` (a list of them for a model of several outputs) and `:params`
    * `:copy_buffer` - with one buffer in `:inputs` and `:output`, of the same size
    * `:write_buffer` - with `:output` and `:data`, a binary
    * `:barrier` - orders everything before it before everything after it

  What `:inputs` and `:output` name are buffers, or transients (`Dala.Gpu.Compute.transient/2`) for what only the stages
  themselves need: buffers must hold their results when the pipeline has run, transients need not exist at all.

  ## Compiling

  The first run compiles the stages: they are checked, fused where that changes no result, and given memory for what must be
  kept between them. Later runs replay that, whichever process they come from: nothing is checked or planned again. A stage
  that is added is compiled by the next run. What was compiled lives as long as the pipeline, and its memory with it;
  `Dala.Gpu.Compute.explain/1` and `Dala.Gpu.Compute.to_svg/1` show it.

  Stages with `:write_buffer` carry data, and are executed one by one, as by `Dala.Gpu.Compute.submit/2`: a pipeline that has
  one is not compiled and cannot have transients. Writing before the run, by `Dala.Gpu.Compute.write/2`, is the faster way.
  """

  use Dala.Gpu.Compute.Twins

  alias Dala.Gpu.Compute.{Argument, Buffer, Error, Native, Runtime, Stage, Telemetry, Transient}

  defstruct ref: nil, stages: []

  @typedoc "One stage. Buffers are structs, or their references; or transients."
  @type stage() :: %{
          :op => atom(),
          optional(:kernel) => atom() | String.t() | nil,
          optional(:inputs) => [Buffer.t() | reference() | Transient.t()],
          optional(:output) =>
            Buffer.t() | reference() | Transient.t() | [Buffer.t() | reference() | Transient.t()],
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

  def add(_pipeline, other), do: raise(ArgumentError, "a stage must be a map, found #{Argument.short(other)}")

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
  Executes the stages and waits for the end; the results are those of one stage after the other. If stages are wrong nothing
  is executed, and the error's `details.problems` lists all of them.

      iex> pipeline = Dala.Gpu.Compute.Pipeline.new()
      iex> Dala.Gpu.Compute.Pipeline.add(pipeline, %{op: :run_kernel, kernel: :relu})
      iex> Dala.Gpu.Compute.Pipeline.add(pipeline, %{op: :fly})
      iex> {:error, error} = Dala.Gpu.Compute.Pipeline.run(pipeline)
      iex> length(error.details.problems)
      2
  """
  @spec run(t()) :: :ok | {:error, Error.t()}
  def run(pipeline) do
    Telemetry.span(:pipeline, %{stages: stage_count(pipeline)}, fn ->
      tag = make_ref()

      with {:ok, _} <- submit(pipeline, tag), do: Runtime.answer(tag)
    end)
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
  # Queues a run: `{:ok, {id, stages}}`. `tag` is nil, or tags the message that tells of the end.
  def submit(pipeline, tag \\ nil), do: native(pipeline, &submit_plan(&1, nil, tag))

  defp submit_plan(ref, at_least, tag) do
    case Runtime.submit_plan(ref, at_least, tag) do
      :unplanned ->
        with {:ok, stages} <- native_stages(ref) do
          if plannable?(stages),
            do: with({:ok, count} <- compile(ref, stages), do: submit_plan(ref, count, tag)),
            else: submit_stages(stages, tag)
        end

      :freed ->
        {:error, freed()}

      # A plan does not know whose buffer that was, nor what else is wrong by now.
      {:error, %Error{code: :freed} = error} ->
        with {:ok, stages} <- native_stages(ref), {:ok, _} <- compile(ref, stages), do: {:error, error}

      result ->
        result
    end
  end

  @doc false
  # Compiles the stages, without running them.
  def compile(pipeline) do
    native(pipeline, fn ref ->
      with {:ok, stages} <- native_stages(ref), {:ok, _} <- compile(ref, stages), do: :ok
    end)
  end

  @doc false
  # Runs what was compiled on other buffers, in place of those that the stages name: pairs of references. Processes that do
  # so at once do not get in each other's way.
  def run_on(pipeline, buffers) do
    Telemetry.span(:pipeline, %{stages: stage_count(pipeline)}, fn ->
      tag = make_ref()

      case native(pipeline, &Runtime.submit_plan_on(&1, nil, buffers, tag)) do
        {:ok, _} -> Runtime.answer(tag)
        :freed -> {:error, freed()}
        error -> error
      end
    end)
  end

  # Data of the host cannot be part of a plan. Without transients the stages can be submitted as they are.
  defp plannable?(stages), do: not Enum.any?(stages, &writes?/1) or Stage.transients?(stages)

  defp writes?({:write_buffer, _output, _data}), do: true
  defp writes?(_stage), do: false

  defp submit_stages(stages, tag) do
    case Runtime.submit(stages, {:default, nil, :wait}, true, tag) do
      {:ok, id} -> {:ok, {id, length(stages)}}
      error -> all_problems(error, stages)
    end
  end

  @doc false
  def explain(pipeline), do: show(pipeline, &Native.pipeline_explain/3)

  @doc false
  def to_svg(pipeline), do: show(pipeline, &Native.pipeline_svg/3)

  defp show(pipeline, text), do: Argument.unwrap!(native(pipeline, &show(&1, nil, text)))

  defp show(ref, at_least, text) do
    case Runtime.call(&text.(&1, ref, at_least)) do
      :unplanned ->
        with {:ok, stages} <- native_stages(ref),
             {:ok, count} <- compile(ref, stages),
             do: show(ref, count, text)

      :freed ->
        {:error, freed()}

      result ->
        result
    end
  end

  @doc false
  # Builds every kernel that a run needs, and runs nothing: `{:ok, built}`.
  def warm(pipeline) do
    native(pipeline, fn ref ->
      with {:ok, stages} <- native_stages(ref), {:ok, count} <- compile(ref, stages) do
        case Runtime.ask(&Native.pipeline_warm(&1, ref, count, &2)) do
          :freed -> {:error, freed()}
          result -> result
        end
      end
    end)
  end

  # Compiles stages, which are kept that way: how many they are, or every problem with them. More may be added meanwhile.
  defp compile(ref, stages) do
    case Runtime.call(&Native.pipeline_compile(&1, ref, stages)) do
      :ok -> {:ok, length(stages)}
      {:error, problems} when is_list(problems) -> several(problems)
      error -> error
    end
  end

  # The stages for the native side, or every problem with them.
  defp native_stages(ref) do
    case Native.pipeline_stages(ref) do
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

  # A command with one problem may have more.
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

  defp native(other, _function), do: raise(ArgumentError, "this is no pipeline: #{Argument.short(other)}")

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

defmodule Dala.Gpu.Compute do
  @moduledoc """
  GPU compute: typed buffers, named kernels, commands, pipelines.

      iex> alias Dala.Gpu.Compute
      iex> a = Compute.buffer([1.0, 2.0, 3.0], {3}, :f32)
      iex> b = Compute.buffer([4.0, 5.0, 6.0], {3}, :f32)
      iex> c = Compute.buffer_zeros({3}, :f32)
      iex> Compute.run_kernel(:elementwise_add, [a, b], c, %{})
      :ok
      iex> Compute.read_list(c)
      [5.0, 7.0, 9.0]

  Everything happens on one device, which is opened when it is first needed: see `Dala.Gpu.Compute.Server` for which.

  ## What can be relied on

    * **Nothing waits in native code.** Calls queue their work and wait by `receive`; the VM's schedulers stay free.
    * **`:ok` means done.** A command has succeeded only when the device said so about its output. A buffer whose work failed
      gives that failure when it is read, until something is written to it again.
    * **Order.** Commands that touch the same buffer are executed in the order in which they were submitted, by whichever
      process and in whichever lane.
    * **Processes may die.** Commands of theirs that have not started are cancelled (unless submitted with `detached: true`);
      buffers that others refer to live on.
    * **Memory is bounded.** Buffers are collected like any term; `free/1` gives memory back at once; see `memory/0`.

  ## Errors

  Functions that return `:ok` or a tuple give `{:error, %Dala.Gpu.Compute.Error{}}`; functions that return a value raise it. Their
  twins do the other: `write!/2` raises what `write/2` returns, and `try_read/1` returns what `read/1` raises.

      iex> alias Dala.Gpu.Compute
      iex> buffer = Compute.buffer([1.0, -2.0], {2})
      iex> Compute.relu!(buffer, buffer)
      :ok
      iex> Compute.try_read_list(buffer)
      {:ok, [1.0, 0.0]}

  An argument of the wrong kind (no buffer, no list, an unknown option) raises `ArgumentError`; what is wrong in a stage is an
  error of code `:invalid_stage`, also for `run_kernel/4`, which is one stage.

  ## Element types

  `:f32`, `:f64`, `:s32`, `:s64`, `:u32`, `:u8`, `:f16`, `:bf16`, `:s8`, `:s16`, `:u16`, `:u64`. Every device stores all of them;
  what it computes with is in `device_info/0` under `:dtypes`, and a kernel that cannot run is refused before anything is
  launched. Integers of 8 and 16 bits compute in 32 bits and saturate when they are stored; 16-bit floats compute in `:f32` and
  are rounded when they are stored.

      iex> alias Dala.Gpu.Compute
      iex> halves = Compute.buffer([1.5, 2.0, 1.0e4], {3}, :f16)
      iex> Compute.run_kernel("scalar_mul", [halves], halves, %{scalar: 2})
      :ok
      iex> {Compute.read_list(halves), byte_size(Compute.read(halves))}
      {[3.0, 4.0, 2.0e4], 6}
  """

  # What is said of each function is here, what it does is in the module that it is delegated to.

  use Dala.Gpu.Compute.Twins,
    raising:
      ~w(buffer buffer_from_binary buffer_zeros read read_list from_nx to_nx kernels submit cancel explain to_svg)a ++
        ~w(device_info memory stats resume set_power report_thermal)a,
    except: [:run_kernel_async]

  alias Dala.Gpu.Compute.{Buffer, Error, Native, NxBridge, Pipeline, Transient}
  alias Dala.Gpu.Compute.{Buffers, Commands, Device, Kernels, Warm}
  alias Dala.ML.Model

  ## Buffers

  @doc """
  A buffer with the numbers of a list. `:nan`, `:infinity` and `:neg_infinity` stand for the floats that Elixir has no
  literals for.

      iex> Dala.Gpu.Compute.read_list(Dala.Gpu.Compute.buffer([1, 2, 3, 4], {2, 2}, :s32))
      [1, 2, 3, 4]
      iex> Dala.Gpu.Compute.buffer([300], {1}, :u8)
      ** (Dala.Gpu.Compute.Error) element 0 is 300, which is no u8 (0..255)
  """
  @doc type: :buffer
  @spec buffer(list(), tuple(), Buffer.dtype()) :: Buffer.t()
  defdelegate buffer(values, shape, dtype \\ :f32), to: Buffers, as: :new

  @doc """
  A buffer with the bytes of a binary, little-endian. A large binary is not copied by the call: the device reads it where it
  lies.

      iex> buffer = Dala.Gpu.Compute.buffer_from_binary(<<1, 2, 3, 4>>, {2, 2}, :u8)
      iex> Dala.Gpu.Compute.read(buffer)
      <<1, 2, 3, 4>>
  """
  @doc type: :buffer
  @spec buffer_from_binary(binary(), tuple(), Buffer.dtype()) :: Buffer.t()
  defdelegate buffer_from_binary(binary, shape, dtype), to: Buffers, as: :from_binary

  @doc """
  A buffer of zeros.

      iex> Dala.Gpu.Compute.read_list(Dala.Gpu.Compute.buffer_zeros({2, 2}, :u8))
      [0, 0, 0, 0]
  """
  @doc type: :buffer
  @spec buffer_zeros(tuple(), Buffer.dtype()) :: Buffer.t()
  defdelegate buffer_zeros(shape, dtype \\ :f32), to: Buffers, as: :zeros

  @doc """
  The bytes of a buffer, little-endian, after every command before it that writes it. Nothing is copied more than it must be: data of
  4 KiB and more arrives in memory that the binary then owns. A part of such a binary keeps all of it alive; `:binary.copy/1` is the
  way out.

      iex> Dala.Gpu.Compute.read(Dala.Gpu.Compute.buffer([1.0], {1}, :f32))
      <<0, 0, 128, 63>>
  """
  @doc type: :buffer
  @spec read(Buffer.t()) :: binary()
  defdelegate read(buffer), to: Buffers

  @doc """
  The same as `read/1`.

      iex> Dala.Gpu.Compute.read_binary(Dala.Gpu.Compute.buffer([7], {1}, :s32))
      <<7, 0, 0, 0>>
  """
  @doc type: :buffer, deprecated: "Use read/1"
  @spec read_binary(Buffer.t()) :: binary()
  defdelegate read_binary(buffer), to: Buffers, as: :read

  @doc """
  The elements of a buffer as numbers, in one flat list.

      iex> Dala.Gpu.Compute.read_list(Dala.Gpu.Compute.buffer([1.5, :infinity], {2}, :f32))
      [1.5, :infinity]
  """
  @doc type: :buffer
  @spec read_list(Buffer.t()) :: list()
  defdelegate read_list(buffer), to: Buffers

  @doc """
  Replaces the elements of a buffer by the bytes of a binary, after every command before it that uses the buffer.

      iex> buffer = Dala.Gpu.Compute.buffer_zeros({3}, :u8)
      iex> Dala.Gpu.Compute.write(buffer, <<1, 2, 3>>)
      :ok
      iex> Dala.Gpu.Compute.read(buffer)
      <<1, 2, 3>>
  """
  @doc type: :buffer
  @spec write(Buffer.t(), binary()) :: :ok | {:error, Error.t()}
  defdelegate write(buffer, binary), to: Buffers

  @doc """
  Gives the memory of a buffer back: at once, or when the commands that use it have ended. Any other use of it is an error from
  then on. Freeing twice is harmless.

      iex> buffer = Dala.Gpu.Compute.buffer([1.0], {1})
      iex> Dala.Gpu.Compute.free(buffer)
      :ok
      iex> Dala.Gpu.Compute.free(buffer)
      :ok
      iex> {:error, error} = Dala.Gpu.Compute.relu(buffer, buffer)
      iex> error.code
      :freed
  """
  @doc type: :buffer
  @spec free(Buffer.t()) :: :ok
  defdelegate free(buffer), to: Buffers

  @doc """
  Frees several buffers.

      iex> Dala.Gpu.Compute.free_many([Dala.Gpu.Compute.buffer([1.0], {1}), Dala.Gpu.Compute.buffer([2.0], {1})])
      :ok
  """
  @doc type: :buffer
  @spec free_many([Buffer.t()]) :: :ok
  defdelegate free_many(buffers), to: Buffers

  @doc """
  The shape of a buffer.

      iex> Dala.Gpu.Compute.shape(Dala.Gpu.Compute.buffer_zeros({2, 3}, :f32))
      {2, 3}
  """
  @doc type: :buffer
  @spec shape(Buffer.t()) :: tuple()
  defdelegate shape(buffer), to: Buffers

  @doc """
  The element type of a buffer.

      iex> Dala.Gpu.Compute.dtype(Dala.Gpu.Compute.buffer_zeros({2, 3}, :u8))
      :u8
  """
  @doc type: :buffer
  @spec dtype(Buffer.t()) :: Buffer.dtype()
  defdelegate dtype(buffer), to: Buffers

  @doc """
  The size of a buffer in bytes.

      iex> Dala.Gpu.Compute.size(Dala.Gpu.Compute.buffer_zeros({2, 3}, :f64))
      48
  """
  @doc type: :buffer
  @spec size(Buffer.t()) :: non_neg_integer()
  defdelegate size(buffer), to: Buffers

  ## Kernels

  @doc """
  Runs a kernel and waits for its end. The output may be one of the inputs.

      iex> alias Dala.Gpu.Compute
      iex> a = Compute.buffer([1.0, -2.0], {2})
      iex> b = Compute.buffer_zeros({2})
      iex> Compute.run_kernel(:relu, [a], b, %{slope: 0.1})
      :ok
      iex> [one, small] = Compute.read_list(b)
      iex> {one, Float.round(small, 6)}
      {1.0, -0.2}
  """
  @doc type: :kernel
  @spec run_kernel(atom() | String.t(), [Buffer.t()], Buffer.t(), map() | keyword()) ::
          :ok | {:error, Error.t()}
  defdelegate run_kernel(kernel, inputs, output, params \\ %{}), to: Kernels, as: :run

  @doc """
  Submits a kernel and waits for its end. Since no call blocks a scheduler, this is `run_kernel/4`.

      iex> a = Dala.Gpu.Compute.buffer([1.0, -2.0], {2})
      iex> Dala.Gpu.Compute.run_kernel_async(:relu, [a], a, %{})
      :ok
      iex> Dala.Gpu.Compute.read_list(a)
      [1.0, 0.0]
  """
  @doc type: :kernel, deprecated: "Use run_kernel/4, or submit/2 if nobody waits"
  @spec run_kernel_async(atom() | String.t(), [Buffer.t()], Buffer.t(), map() | keyword()) ::
          :ok | {:error, Error.t()}
  defdelegate run_kernel_async(kernel, inputs, output, params \\ %{}), to: Kernels, as: :run

  @doc """
  Runs a kernel, and makes its output the next picture of a surface, on the device: nothing is read back.
  `Dala.Gpu.present/1` shows it.

  The output is a picture of the surface's size: `{height, width}`, or `{height, width, channels}` with 1, 3 or 4 channels, of
  type `:u8`, or `:f32` from 0 to 1. It is written as by `run_kernel/4`. If the kernel or the surface fails, the surface keeps
  the picture that it has.

      iex> {:ok, surface} = Dala.Gpu.create_surface(64, 48)
      iex> output = Dala.Gpu.Compute.buffer_zeros({48, 64, 4}, :u8)
      iex> Dala.Gpu.Compute.run_to_surface(:generate_gradient, [], output, surface)
      :ok
      iex> Dala.Gpu.present(surface)
      :ok
      iex> Dala.Gpu.close_surface(surface)
      :ok
  """
  @doc type: :kernel
  @spec run_to_surface(atom() | String.t(), [Buffer.t()], Buffer.t(), pid(), map() | keyword()) ::
          :ok | {:error, Error.t()}
  defdelegate run_to_surface(kernel, inputs, output, surface, params \\ %{}), to: Kernels

  @doc """
  `output = a + b`, element by element.

      iex> [a, b, c] = for list <- [[1, 2], [10, 20], [0, 0]], do: Dala.Gpu.Compute.buffer(list, {2}, :s32)
      iex> Dala.Gpu.Compute.add(a, b, c)
      :ok
      iex> Dala.Gpu.Compute.read_list(c)
      [11, 22]
  """
  @doc type: :kernel
  @spec add(Buffer.t(), Buffer.t(), Buffer.t()) :: :ok | {:error, Error.t()}
  defdelegate add(a, b, output), to: Kernels

  @doc """
  `output = a * b`, element by element.

      iex> [a, b] = for list <- [[1, 2], [10, 20]], do: Dala.Gpu.Compute.buffer(list, {2}, :s32)
      iex> Dala.Gpu.Compute.multiply(a, b, b)
      :ok
      iex> Dala.Gpu.Compute.read_list(b)
      [10, 40]
  """
  @doc type: :kernel
  @spec multiply(Buffer.t(), Buffer.t(), Buffer.t()) :: :ok | {:error, Error.t()}
  defdelegate multiply(a, b, output), to: Kernels

  @doc """
  `output = input * scalar`.

      iex> a = Dala.Gpu.Compute.buffer([1.0, 2.0], {2})
      iex> Dala.Gpu.Compute.scale(a, 2.5, a)
      :ok
      iex> Dala.Gpu.Compute.read_list(a)
      [2.5, 5.0]
  """
  @doc type: :kernel
  @spec scale(Buffer.t(), number(), Buffer.t()) :: :ok | {:error, Error.t()}
  defdelegate scale(input, scalar, output), to: Kernels

  @doc """
  `output = max(0, input)`.

      iex> a = Dala.Gpu.Compute.buffer([-1.0, 2.0], {2})
      iex> Dala.Gpu.Compute.relu(a, a)
      :ok
      iex> Dala.Gpu.Compute.read_list(a)
      [0.0, 2.0]
  """
  @doc type: :kernel
  @spec relu(Buffer.t(), Buffer.t()) :: :ok | {:error, Error.t()}
  defdelegate relu(input, output), to: Kernels

  @doc """
  The product of two matrices, or of two batches of them.

      iex> [a, b] = for list <- [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]], do: Dala.Gpu.Compute.buffer(list, {2, 2})
      iex> c = Dala.Gpu.Compute.buffer_zeros({2, 2})
      iex> Dala.Gpu.Compute.matmul(a, b, c)
      :ok
      iex> Dala.Gpu.Compute.read_list(c)
      [19.0, 22.0, 43.0, 50.0]
  """
  @doc type: :kernel
  @spec matmul(Buffer.t(), Buffer.t(), Buffer.t()) :: :ok | {:error, Error.t()}
  defdelegate matmul(a, b, output), to: Kernels

  @doc """
  Every kernel that can be called: its name, aliases, inputs, params and what it does.

      iex> softmax = Enum.find(Dala.Gpu.Compute.kernels(), &(&1.name == "softmax"))
      iex> softmax.inputs
      ["x"]
  """
  @doc type: :kernel
  @spec kernels() :: [map()]
  defdelegate kernels, to: Kernels, as: :list

  @doc """
  Reads a network from an ONNX file and adds it as a kernel: `:mobilenet_v2` is then a name like `:blur`, for `run_kernel/4`,
  `submit/2` and pipelines, in every process.

      {:ok, model} = Dala.Gpu.Compute.load_model(:mobilenet_v2, "mobilenet_v2.onnx")
      model.inputs
      #=> [%{name: "input", dtype: :f32, shape: {:batch, 3, 224, 224}}]

  Sizes that the file leaves open are those of a call. They may be given beforehand, by the file's names: `sizes: %{height: 320,
  width: 320}`. Models whose values decide what runs are loaded too, but are no kernels: `Dala.ML.run/2` runs them, and any other.

  What is in the file is checked now, so that a model that was loaded can run. Nothing of a file that is refused stays. Some
  errors:

    * `:io` - the file cannot be read
    * `:not_onnx`, `:truncated`, `:malformed` - it is something else, cut off or damaged
    * `:unsupported_operator` - with all nodes that cannot be computed in `details.operators`, each with its `:operator`,
      `:node` and `:why`
    * `:unknown_size` - it has no size of a name in `:sizes`
    * `:duplicate_kernel` - the name is taken, by another model, by this one, or by a kernel. A model that is loaded stays
      until the program ends: load each once, where the program starts

          iex> {:error, error} = Dala.Gpu.Compute.load_model(:net, "no/such/file.onnx")
          iex> error.code
          :io
          iex> {:error, error} = Dala.Gpu.Compute.load_model(:blur, "whatever.onnx")
          iex> {error.code, error.message}
          {:duplicate_kernel, "a kernel called `blur` exists already"}
  """
  @doc type: :kernel
  @spec load_model(atom() | String.t(), String.t(), keyword()) :: {:ok, Model.t()} | {:error, Error.t()}
  defdelegate load_model(name, path, options \\ []), to: Model, as: :load

  ## Commands

  @doc """
  Queues a stage, or a list of stages to be executed in order, and returns the command's id at once.

      iex> alias Dala.Gpu.Compute
      iex> a = Compute.buffer([1.0, -2.0], {2})
      iex> id = Compute.submit(%{op: :run_kernel, kernel: "relu", inputs: [a.ref], output: a.ref, params: %{}})
      iex> Compute.wait(id)
      :ok
      iex> Compute.poll(id)
      :completed

  Raises if the command is wrong: no id is returned for one that cannot run. Stages are described in
  `Dala.Gpu.Compute.Pipeline`.

    * `:lane` - `:interactive`, `:default` or `:background`
    * `:deadline` - milliseconds: if it has not started by then, it fails with `:deadline_exceeded` and costs no device time
    * `:when_full` - if the lane is full: `:wait` for room, `:refuse` (raises `:overloaded`) or `:drop_oldest`
    * `:notify` - a reference: `{reference, :ok | {:error, error}}` is sent to the caller when the command has ended
    * `:detached` - `true` if the command is to be executed even if the calling process dies before it starts

          iex> alias Dala.Gpu.Compute
          iex> a = Compute.buffer([1.0, -2.0], {2})
          iex> ref = make_ref()
          iex> Compute.submit(%{op: :run_kernel, kernel: :relu, inputs: [a], output: a}, notify: ref, lane: :background)
          iex> receive do
          ...>   {^ref, result} -> result
          ...> end
          :ok
  """
  @doc type: :command
  @spec submit(map() | [map()], keyword()) :: non_neg_integer()
  defdelegate submit(stages, options \\ []), to: Commands

  @doc """
  How a command stands: `:pending` until it has ended, then `:completed` or `{:error, error}`.

      iex> {:error, error} = Dala.Gpu.Compute.poll(123_456_789_012)
      iex> error.code
      :unknown_command
  """
  @doc type: :command
  @spec poll(non_neg_integer()) :: :pending | :completed | {:error, Error.t()}
  defdelegate poll(id), to: Commands

  @doc """
  How a command stands, in one word: `:pending`, `:running`, `:completed`, `:failed`, `:cancelled`, or `:unknown` if there is
  none. The last 65,536 that ended are remembered.

      iex> Dala.Gpu.Compute.status(123_456_789_012)
      :unknown
  """
  @doc type: :command
  @spec status(non_neg_integer()) :: :pending | :running | :completed | :failed | :cancelled | :unknown
  defdelegate status(id), to: Commands

  @doc """
  Waits until a command has ended; at most `timeout` milliseconds. Any process may wait for any command.

      iex> a = Dala.Gpu.Compute.buffer([1.0], {1})
      iex> id = Dala.Gpu.Compute.submit(%{op: :copy_buffer, inputs: [a], output: a})
      iex> Dala.Gpu.Compute.wait(id, 5_000)
      :ok
  """
  @doc type: :command
  @spec wait(non_neg_integer(), timeout()) :: :ok | {:error, Error.t()}
  defdelegate wait(id, timeout \\ :infinity), to: Commands

  @doc """
  Cancels a command: it does not start, or stops between two stages, and what it should have written cannot be read until it
  is written again. Says whether it will not complete; one whose last stage is launched will.

      iex> a = Dala.Gpu.Compute.buffer([1.0], {1})
      iex> id = Dala.Gpu.Compute.submit(%{op: :copy_buffer, inputs: [a], output: a})
      iex> Dala.Gpu.Compute.wait(id)
      iex> Dala.Gpu.Compute.cancel(id)
      false
  """
  @doc type: :command
  @spec cancel(non_neg_integer()) :: boolean()
  defdelegate cancel(id), to: Commands

  ## Pipelines

  @doc """
  A pipeline without stages: see `Dala.Gpu.Compute.Pipeline`.

      iex> Dala.Gpu.Compute.pipeline()
      #Dala.Gpu.Compute.Pipeline<0 stages>
  """
  @doc type: :pipeline
  @spec pipeline() :: Pipeline.t()
  defdelegate pipeline, to: Pipeline, as: :new

  @doc """
  Appends a stage to a pipeline and returns the pipeline.

      iex> Dala.Gpu.Compute.pipeline_add(Dala.Gpu.Compute.pipeline(), %{op: :barrier})
      #Dala.Gpu.Compute.Pipeline<1 stage>
  """
  @doc type: :pipeline
  @spec pipeline_add(Pipeline.t(), map()) :: Pipeline.t()
  defdelegate pipeline_add(pipeline, stage), to: Pipeline, as: :add

  @doc """
  A buffer that exists only while a pipeline runs, for what one stage writes and a later one reads: see
  `Dala.Gpu.Compute.Transient`. Shape and element type may be left out where they follow from the stage that writes it first;
  an error says where they do not.

      iex> alias Dala.Gpu.Compute
      iex> picture = Compute.buffer_zeros({4, 6, 3}, :u8)
      iex> gray = Compute.buffer_zeros({2, 3}, :u8)
      iex> small = Compute.transient({2, 3, 3})
      iex> pipeline =
      ...>   Compute.pipeline()
      ...>   |> Compute.pipeline_add(%{op: :run_kernel, kernel: :resize, inputs: [picture], output: small})
      ...>   |> Compute.pipeline_add(%{op: :run_kernel, kernel: :grayscale, inputs: [small], output: gray})
      iex> Compute.pipeline_run(pipeline)
      :ok
      iex> {:error, error} = Compute.run_kernel(:resize, [picture], small)
      iex> error.code
      :transient_outside
  """
  @doc type: :pipeline
  @spec transient(tuple() | nil, Buffer.dtype() | nil) :: Transient.t()
  defdelegate transient(shape \\ nil, dtype \\ nil), to: Transient, as: :new

  @doc """
  Executes the stages of a pipeline, as one command, and waits for the end. The first run compiles them; later ones replay
  that.

      iex> Dala.Gpu.Compute.pipeline_run(Dala.Gpu.Compute.pipeline())
      :ok
  """
  @doc type: :pipeline
  @spec pipeline_run(Pipeline.t()) :: :ok | {:error, Error.t()}
  defdelegate pipeline_run(pipeline), to: Pipeline, as: :run

  @doc """
  Frees a pipeline: it lets go of its stages and their buffers, and cannot run again. Freeing twice is harmless.

      iex> pipeline = Dala.Gpu.Compute.pipeline()
      iex> Dala.Gpu.Compute.free_pipeline(pipeline)
      :ok
      iex> {:error, error} = Dala.Gpu.Compute.pipeline_run(pipeline)
      iex> error.code
      :freed_pipeline
  """
  @doc type: :pipeline
  @spec free_pipeline(Pipeline.t()) :: :ok
  defdelegate free_pipeline(pipeline), to: Pipeline, as: :free

  @doc """
  What a pipeline is compiled to, as text: its launches in order, what was fused, what was not and why, bytes and memory.
  Nothing is executed. Raises if the pipeline is wrong.

      iex> alias Dala.Gpu.Compute
      iex> [x, y] = for list <- [[1.0, -2.0], [0.0, 0.0]], do: Compute.buffer(list, {2})
      iex> between = Compute.transient()
      iex> pipeline = Compute.pipeline()
      iex> Compute.pipeline_add(pipeline, %{op: :run_kernel, kernel: :relu, inputs: [x], output: between})
      iex> Compute.pipeline_add(pipeline, %{op: :run_kernel, kernel: :sigmoid, inputs: [between], output: y})
      iex> Compute.explain(pipeline) =~ "plan: 2 stages in 1 launch, 16 B moved"
      true
  """
  @doc type: :pipeline
  @spec explain(Pipeline.t()) :: String.t()
  defdelegate explain(pipeline), to: Pipeline

  @doc """
  What a pipeline is compiled to, as a picture: the text of an SVG file. Raises if the pipeline is wrong.

      iex> pipeline = Dala.Gpu.Compute.pipeline_add(Dala.Gpu.Compute.pipeline(), %{op: :barrier})
      iex> Dala.Gpu.Compute.to_svg(pipeline) =~ "<svg"
      true
  """
  @doc type: :pipeline
  @spec to_svg(Pipeline.t()) :: String.t()
  defdelegate to_svg(pipeline), to: Pipeline

  @typedoc "A pipeline, or a model as `load_model/3` gave it or by its name."
  @type warmable() :: Pipeline.t() | Model.t() | atom() | String.t()

  @doc """
  Builds every kernel that a pipeline, a model or several of them need, side by side and without running anything, and says how
  many were built: none, if they were built before. The first run is then as quick as the next.

      iex> alias Dala.Gpu.Compute
      iex> x = Compute.buffer([1.0, -1.0], {2})
      iex> pipeline = Compute.pipeline_add(Compute.pipeline(), %{op: :run_kernel, kernel: :relu, inputs: [x], output: x})
      iex> {:ok, _built} = Compute.warm(pipeline)
      iex> Compute.warm(pipeline)
      {:ok, 0}

  Options: `batch: 8`, how many pictures or rows a model is to be built for; one if nothing is said.

  Kernels are kept for the next start of the program (see `kernel_cache/0`), so that an image of a release can be made with all of
  them: warm them where the image is built, and put that folder into it.
  """
  @doc type: :pipeline
  @spec warm(warmable() | [warmable()], batch: pos_integer()) ::
          {:ok, non_neg_integer()} | {:error, Error.t()}
  defdelegate warm(what, options \\ []), to: Warm, as: :build

  ## Nx

  @doc """
  A buffer with the data of an Nx tensor, if Nx is there. Types without an equal here are refused by name.
  """
  @doc type: :nx
  @spec from_nx(struct()) :: Buffer.t()
  defdelegate from_nx(tensor), to: NxBridge

  @doc """
  An Nx tensor with the data of a buffer, if Nx is there; in another shape if it has as many elements.
  """
  @doc type: :nx
  @spec to_nx(Buffer.t(), tuple() | nil, Buffer.dtype() | nil) :: struct()
  defdelegate to_nx(buffer, shape \\ nil, dtype \\ nil), to: NxBridge

  ## Devices

  @doc """
  What the device is: always `:name`, `:gpu` (whether kernels run on a GPU: false for software drivers and the CPU runtime)
  and `:version`; and `:backend`, `:kind`, `:driver`, `:memory_bytes`, and `:dtypes`, how it computes with each element type.

      iex> info = Dala.Gpu.Compute.device_info()
      iex> is_binary(info.name) and is_boolean(info.gpu) and info.version == Dala.Gpu.Compute.version()
      true
  """
  @doc type: :device
  @spec device_info() :: map()
  defdelegate device_info, to: Device, as: :info

  @doc """
  Whether kernels run on a real GPU. False if there is no device at all.

      iex> Dala.Gpu.Compute.gpu?() == Dala.Gpu.Compute.device_info().gpu
      true
  """
  @doc type: :device
  @spec gpu?() :: boolean()
  defdelegate gpu?, to: Device

  @doc """
  The version of the native library.

      iex> Dala.Gpu.Compute.version() =~ ~r/^\\d+\\.\\d+\\.\\d+/
      true
  """
  @doc type: :device
  @spec version() :: String.t()
  defdelegate version, to: Native

  @doc """
  The device's memory in bytes: `:budget`, `:live`, `:peak`, `:cached`; and `:buffers`, how many somebody refers to.

      iex> buffer = Dala.Gpu.Compute.buffer_zeros({1024}, :f32)
      iex> Dala.Gpu.Compute.memory().live >= buffer.size
      true
  """
  @doc type: :device
  @spec memory() :: map()
  defdelegate memory, to: Device

  @doc """
  Where compiled kernels are kept for the next start of the program: the `:folder`, how many `:kernels` and `:bytes` there are,
  and the `:limit` of bytes. If the folder is not used, `:refused` says why; if kernels are not to be kept, `:folder` is nil.

  The folder is the one that the environment variable `DALA_CACHE` names (`off` for none), or `config :dala_compute, cache:
  "path"` (`:off` for none), or one in the user's cache directory. It is made if it is not there, and must be the user's alone: what
  is in it is executed.

      iex> Dala.Gpu.Compute.kernel_cache().limit
      536_870_912
  """
  @doc type: :device
  @spec kernel_cache() :: %{
          folder: String.t() | nil,
          refused: String.t() | nil,
          kernels: non_neg_integer(),
          bytes: non_neg_integer(),
          limit: pos_integer()
        }
  defdelegate kernel_cache, to: Native

  @doc """
  Gives memory that no buffer uses back to the system.

      iex> Dala.Gpu.Compute.trim()
      :ok
  """
  @doc type: :device
  @spec trim() :: :ok | {:error, Error.t()}
  defdelegate trim, to: Device

  @doc """
  What the device did so far: commands by how they ended, kernels launched, built (`compilations`) and found where an earlier
  start kept them (`kernels_found`), bytes moved, lanes, power and heat. Times are microseconds.

      iex> Dala.Gpu.Compute.stats().launches >= 0
      true
  """
  @doc type: :device
  @spec stats() :: map()
  defdelegate stats, to: Device

  @doc """
  Calls a function, and records what the device did meanwhile, for whomever: `{result, json}`. The text is that of a file
  for [ui.perfetto.dev](https://ui.perfetto.dev) or `chrome://tracing`, with the commands that waited in each lane, what the
  device worked on, and its memory.

      iex> alias Dala.Gpu.Compute
      iex> x = Compute.buffer([1.0, -2.0], {2})
      iex> {:ok, json} = Compute.trace(fn -> Compute.relu(x, x) end)
      iex> json =~ ~s("name":"relu")
      true

  Traces are large: this is for a few seconds. There is one at a time, and another raises an error of code `:tracing`. It
  ends when the function does, however that is; and with the calling process.
  """
  @doc type: :device
  @spec trace((() -> result)) :: {result, String.t()} when result: term()
  defdelegate trace(function), to: Device

  @doc """
  Stops using the device, as an app must that goes into the background. Pending commands wait for `resume/0`, or fail if
  `:fail` is given. When this returns, nothing is in flight.

      iex> Dala.Gpu.Compute.suspend()
      :ok
      iex> Dala.Gpu.Compute.stats().suspended
      true
      iex> Dala.Gpu.Compute.resume()
      :ok
  """
  @doc type: :device
  @spec suspend(:wait | :fail) :: :ok | {:error, Error.t()}
  defdelegate suspend(pending \\ :wait), to: Device

  @doc """
  Uses the device again.

      iex> Dala.Gpu.Compute.resume()
      :ok
  """
  @doc type: :device
  @spec resume() :: :ok
  defdelegate resume, to: Device

  @doc """
  How much energy may be spent: `:low`, `:balanced` or `:high`.

      iex> Dala.Gpu.Compute.set_power(:balanced)
      :ok
  """
  @doc type: :device
  @spec set_power(:low | :balanced | :high) :: :ok
  defdelegate set_power(level), to: Device

  @doc """
  Says how hot the device is, so that it is given time to cool: `:nominal`, `:fair`, `:serious` or `:critical`.

      iex> Dala.Gpu.Compute.report_thermal(:nominal)
      :ok
  """
  @doc type: :device
  @spec report_thermal(:nominal | :fair | :serious | :critical) :: :ok
  defdelegate report_thermal(level), to: Device

  @doc """
  The system is short of memory: gives back what no buffer uses.

      iex> Dala.Gpu.Compute.memory_pressure()
      :ok
  """
  @doc type: :device
  @spec memory_pressure() :: :ok | {:error, Error.t()}
  defdelegate memory_pressure, to: Device
end

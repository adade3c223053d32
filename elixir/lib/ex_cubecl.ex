defmodule ExCubecl do
  @moduledoc """
  The lower layer: buffers are bare references, shapes are lists, and results are tuples. Nothing here raises, but the twins with
  a `!`: an argument of the wrong kind is an `{:error, error}` too.

      iex> {:ok, a} = ExCubecl.buffer([1.0, 2.0], [2], :f32)
      iex> {:ok, b} = ExCubecl.buffer([10.0, 20.0], [2], :f32)
      iex> :ok = ExCubecl.run_kernel("elementwise_add", [a, b], b)
      iex> {:ok, binary} = ExCubecl.read(b)
      iex> for <<x::float-32-little <- binary>>, do: x
      [11.0, 22.0]

  `Dala.Gpu.Compute` is the layer for programs; both share their buffers and commands.
  """

  use Dala.Gpu.Compute.Twins

  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.{Argument, Buffers, Codec, Error, Native, Pipeline, Runtime, Stage}

  @typedoc "A buffer. A `Dala.Gpu.Compute.Buffer` is taken too."
  @type buffer_ref() :: reference()
  @type error() :: {:error, Error.t()}

  @doc """
  Whether there is a device to work on.

      iex> ExCubecl.available?()
      true
  """
  @spec available?() :: boolean()
  def available?, do: match?({:ok, _}, Runtime.device())

  @doc """
  What the device is.

      iex> {:ok, info} = ExCubecl.device_info()
      iex> is_boolean(info.gpu)
      true
  """
  @spec device_info() :: {:ok, map()} | error()
  def device_info, do: tuple(fn -> {:ok, Compute.device_info()} end)

  @doc """
  How many devices this machine has that this build can use.

      iex> {:ok, count} = ExCubecl.device_count()
      iex> count >= 1
      true
  """
  @spec device_count() :: {:ok, non_neg_integer()} | error()
  def device_count do
    tuple(fn ->
      with {:ok, devices} <- devices(), do: {:ok, length(devices)}
    end)
  end

  @doc false
  def devices do
    tag = make_ref()
    :ok = Native.devices(tag)
    Runtime.answer(tag)
  end

  @doc """
  A buffer with the numbers of a list.

      iex> {:ok, buffer} = ExCubecl.buffer([1, 2, 3], [3], :u8)
      iex> ExCubecl.read(buffer)
      {:ok, <<1, 2, 3>>}
  """
  @spec buffer(list(), [non_neg_integer()], atom()) :: {:ok, buffer_ref()} | error()
  def buffer(values, shape, dtype \\ :f32) do
    tuple(fn -> {:ok, Compute.buffer(values, tuple_of(shape), dtype).ref} end)
  end

  @doc """
  The bytes of a buffer.

      iex> {:ok, buffer} = ExCubecl.buffer([258], [1], :s32)
      iex> ExCubecl.read(buffer)
      {:ok, <<2, 1, 0, 0>>}
  """
  @spec read(buffer_ref()) :: {:ok, binary()} | error()
  def read(buffer), do: tuple(fn -> {:ok, Compute.read(buffer)} end)

  @doc """
  The shape of a buffer.

      iex> {:ok, buffer} = ExCubecl.buffer([1, 2, 3, 4], [2, 2], :u8)
      iex> ExCubecl.shape(buffer)
      {:ok, [2, 2]}
  """
  @spec shape(buffer_ref()) :: {:ok, [non_neg_integer()]} | error()
  def shape(buffer), do: tuple(fn -> {:ok, Tuple.to_list(Compute.shape(buffer))} end)

  @doc """
  The element type of a buffer.

      iex> {:ok, buffer} = ExCubecl.buffer([1], [1], :u32)
      iex> ExCubecl.dtype(buffer)
      {:ok, :u32}
  """
  @spec dtype(buffer_ref()) :: {:ok, atom()} | error()
  def dtype(buffer), do: tuple(fn -> {:ok, Compute.dtype(buffer)} end)

  @doc """
  The size of a buffer in bytes.

      iex> {:ok, buffer} = ExCubecl.buffer([1.0, 2.0], [2], :f64)
      iex> ExCubecl.size(buffer)
      {:ok, 16}
  """
  @spec size(buffer_ref()) :: {:ok, non_neg_integer()} | error()
  def size(buffer), do: tuple(fn -> {:ok, Compute.size(buffer)} end)

  @doc """
  The number of a buffer, by which commands that are written as JSON name it.

      iex> {:ok, buffer} = ExCubecl.buffer([1.0], [1], :f32)
      iex> {:ok, id} = ExCubecl.id(buffer)
      iex> is_integer(id)
      true
  """
  @spec id(buffer_ref()) :: {:ok, non_neg_integer()} | error()
  def id(buffer), do: tuple(fn -> {:ok, Buffers.info(buffer).id} end)

  @doc """
  The names of all kernels.

      iex> {:ok, names} = ExCubecl.kernels()
      iex> "elementwise_add" in names
      true
  """
  @spec kernels() :: {:ok, [String.t()]} | error()
  def kernels, do: tuple(fn -> {:ok, Enum.map(Compute.kernels(), & &1.name)} end)

  @doc """
  Runs a kernel and waits for its end.

      iex> {:ok, buffer} = ExCubecl.buffer([-1.0, 2.0], [2], :f32)
      iex> ExCubecl.run_kernel("relu", [buffer], buffer)
      :ok
  """
  @spec run_kernel(String.t() | atom(), [buffer_ref()], buffer_ref(), map()) :: :ok | error()
  def run_kernel(name, inputs, output, params \\ %{}) do
    tuple(fn -> Compute.run_kernel(name, inputs, output, params) end)
  end

  @doc """
  Queues a command and returns its id at once. A command is a map, a list of maps (see `Dala.Gpu.Compute.Pipeline`), or the
  same as JSON, where buffers are named by `id/1`. What is no command is an error. An id keeps no buffer alive: hold on to the
  buffer until the command is submitted.

      iex> {:ok, buffer} = ExCubecl.buffer([-1.0, 2.0], [2], :f32)
      iex> {:ok, id} = ExCubecl.id(buffer)
      iex> {:ok, command} = ExCubecl.submit(~s({"op": "run_kernel", "kernel": "relu", "inputs": [\#{id}], "output": \#{id}}))
      iex> ExCubecl.wait(command)
      :ok
      iex> {:ok, data} = ExCubecl.read(buffer)
      iex> data == <<0.0::float-32-little, 2.0::float-32-little>>
      true
      iex> {:error, error} = ExCubecl.submit("some_command")
      iex> error.code
      :invalid_command
  """
  @spec submit(map() | [map()] | String.t()) :: {:ok, non_neg_integer()} | error()
  def submit(json) when is_binary(json) do
    tuple(fn ->
      if String.valid?(json),
        do: Runtime.submit_json(json),
        else: {:error, Error.new(:invalid_command, "this is no command: it is no text")}
    end)
  end

  def submit(stages), do: tuple(fn -> {:ok, Compute.submit(stages)} end)

  @doc """
  How a command stands. Cancelled ones, and those that were too late, are `:failed`.

      iex> {:error, error} = ExCubecl.poll(123_456_789_012)
      iex> error.code
      :unknown_command
  """
  @spec poll(non_neg_integer()) :: {:ok, :pending | :running | :completed | :failed} | error()
  def poll(id) do
    tuple(fn ->
      case Compute.status(id) do
        :unknown -> {:error, Error.new(:unknown_command, "there is no command #{id}, or it ended long ago")}
        :cancelled -> {:ok, :failed}
        state -> {:ok, state}
      end
    end)
  end

  @doc """
  Waits until a command has ended; at most `timeout` milliseconds.

      iex> {:ok, id} = ExCubecl.submit(%{op: :barrier})
      iex> ExCubecl.wait(id, 5_000)
      :ok
  """
  @spec wait(non_neg_integer(), timeout()) :: :ok | error()
  def wait(id, timeout \\ :infinity), do: tuple(fn -> Compute.wait(id, timeout) end)

  @doc """
  A pipeline without stages.

      iex> {:ok, pipeline} = ExCubecl.pipeline()
      iex> ExCubecl.pipeline_run(pipeline)
      {:ok, []}
  """
  @spec pipeline() :: {:ok, reference()} | error()
  def pipeline, do: tuple(fn -> {:ok, Native.pipeline()} end)

  @doc """
  Appends a kernel to a pipeline.

      iex> {:ok, buffer} = ExCubecl.buffer([-1.0, 2.0], [2], :f32)
      iex> {:ok, pipeline} = ExCubecl.pipeline()
      iex> ExCubecl.pipeline_add(pipeline, "relu", [buffer], buffer)
      :ok
  """
  @spec pipeline_add(reference(), String.t() | atom(), [buffer_ref()], buffer_ref(), map()) :: :ok | error()
  def pipeline_add(pipeline, kernel, inputs, output, params \\ %{}) do
    tuple(fn ->
      stage = %{op: :run_kernel, kernel: kernel, inputs: inputs, output: output, params: params}

      with {:ok, _} <- Stage.native(stage) do
        Pipeline.add(%Pipeline{ref: pipeline}, stage)
        :ok
      end
    end)
  end

  @doc """
  Executes a pipeline and waits for its end: one id per stage. The stages are one command, so that the ids are equal.

      iex> {:ok, buffer} = ExCubecl.buffer([-1.0, 2.0], [2], :f32)
      iex> {:ok, pipeline} = ExCubecl.pipeline()
      iex> ExCubecl.pipeline_add(pipeline, "relu", [buffer], buffer)
      iex> {:ok, [id]} = ExCubecl.pipeline_run(pipeline)
      iex> ExCubecl.poll(id)
      {:ok, :completed}
  """
  @spec pipeline_run(reference()) :: {:ok, [non_neg_integer()]} | error()
  def pipeline_run(pipeline) do
    tuple(fn ->
      with {:ok, {id, stages}} <- Pipeline.submit(%Pipeline{ref: pipeline}),
           :ok <- Runtime.wait(id, :infinity) do
        {:ok, List.duplicate(id, stages)}
      end
    end)
  end

  @doc """
  Frees a pipeline.

      iex> {:ok, pipeline} = ExCubecl.pipeline()
      iex> ExCubecl.pipeline_free(pipeline)
      :ok
  """
  @spec pipeline_free(reference()) :: :ok | error()
  def pipeline_free(pipeline), do: tuple(fn -> Pipeline.free(%Pipeline{ref: pipeline}) end)

  @doc """
  The element types.

      iex> ExCubecl.supported_dtypes()
      [:f32, :f64, :s32, :s64, :u32, :u8, :f16, :bf16, :s8, :s16, :u16, :u64]
  """
  @spec supported_dtypes() :: [atom()]
  def supported_dtypes, do: Codec.dtypes()

  @doc """
  The version of the native library.

      iex> ExCubecl.version() == Dala.Gpu.Compute.version()
      true
  """
  @spec version() :: String.t()
  def version, do: Native.version()

  defp tuple_of(shape) when is_list(shape) do
    if List.improper?(shape) or length(shape) > 32,
      do: raise(ArgumentError, "a shape is a list of at most 32 dimensions"),
      else: List.to_tuple(shape)
  end

  defp tuple_of(other),
    do: raise(ArgumentError, "a shape is a list of dimensions, found #{Argument.short(other)}")

  # What raises in the layer above is an error here.
  defp tuple(function) do
    function.()
  rescue
    error in Error -> {:error, error}
    error in ArgumentError -> {:error, Error.new(:invalid_argument, Exception.message(error))}
  end
end

defmodule Dala.Serving.Work do
  @moduledoc false
  # What a server runs: a function of a list of inputs, a model, or a pipeline. Each is given the inputs of a batch, and gives as many
  # outputs.

  alias Dala.Gpu.Compute.{Argument, Buffer, Buffers, Codec, Error, Pipeline, Runtime, Server}
  alias Dala.ML.Model
  alias Dala.Serving.Tensors

  # Another node may well have a device, or the model.
  @of_this_node [:device_lost, :device_unavailable, :unknown_model, :nif_not_loaded]

  # `tried` is what runs of zeros took: `{size, microseconds}`.
  defstruct [:run, :model, :path, takes: :anything, shares: true, tried: []]

  # `sizes` are those of runs that are planned.
  def new({:run, run}, _sizes), do: {:ok, %__MODULE__{run: run}}

  # Its buffers hold one request at a time.
  def new({:pipeline, {pipeline, inputs, outputs}}, _sizes) do
    {inputs, outputs} = {named(inputs, "input"), named(outputs, "output")}
    takes = for {name, buffer} <- inputs, do: {name, buffer.dtype, Tuple.to_list(buffer.shape)}
    {:ok, %__MODULE__{run: &run_pipeline(pipeline, inputs, outputs, &1), takes: takes, shares: false}}
  end

  def new({:model, given}, sizes) do
    with {:ok, model} <- model(given) do
      ports = model.inputs ++ model.outputs
      shares = model.decided_by_values == nil and Enum.all?(ports, &match?([:batch | _], dims(&1)))
      takes = for port <- model.inputs, do: {port.name, port.dtype, dims(port)}
      path = if is_binary(given), do: given

      work = %__MODULE__{model: model, path: path, takes: takes, shares: shares}
      try_out(work, if(shares, do: sizes, else: [1]))
    end
  end

  # Runs zeros, so that nobody waits for kernels to be built, and so that it is known what runs take. Where requests decide about sizes
  # or by values, nothing can be tried.
  defp try_out(%{model: model, takes: takes} = work, sizes) do
    known? =
      model.decided_by_values == nil and
        Enum.all?(takes, fn {_, _, dims} -> Enum.all?(dims, &(is_integer(&1) or &1 == :batch)) end)

    Enum.reduce_while(if(known?, do: Enum.sort(sizes), else: []), {:ok, work}, fn size, {:ok, work} ->
      zeros = Enum.map(takes, &zeros(&1, size))
      tries = for _ <- 1..3, do: :timer.tc(fn -> run(work, size, [zeros]) end)

      case Enum.min_by(tries, &elem(&1, 0)) do
        {micros, {:done, _}} -> {:cont, {:ok, %{work | tried: [{size, micros} | work.tried]}}}
        {_, {_, error}} -> {:halt, {:error, error}}
      end
    end)
  end

  defp zeros({_, dtype, dims}, size) do
    dims = Enum.map(dims, &if(&1 == :batch, do: size, else: &1))
    {:binary.copy(<<0>>, Enum.product(dims) * Codec.element_size(dtype)), dims}
  end

  defp dims(port), do: Tuple.to_list(port.shape)

  defp named(buffers, _name) when is_map(buffers) and not is_struct(buffers),
    do: Enum.sort(for {name, buffer} <- buffers, do: {to_string(name), Buffers.info(buffer)})

  defp named(buffer, name), do: [{name, Buffers.info(buffer)}]

  # By which requests are known that are like what was tried.
  def tried_shapes(%{tried: []}), do: nil
  def tried_shapes(%{takes: takes}), do: for({_, _, [_ | dims]} <- takes, do: dims)

  # A file is loaded once: a server that is started again finds it, unless it has changed.
  defp model(path) when is_binary(path) do
    stamp = with {:ok, stat} <- File.stat(path), do: {stat.mtime, stat.size}

    name =
      "served_" <>
        Base.encode16(:erlang.md5(:erlang.term_to_binary({Path.expand(path), stamp})), case: :lower)

    case Model.load(name, path) do
      {:error, %Error{code: :duplicate_kernel}} -> Model.fetch(name)
      loaded -> loaded
    end
  end

  defp model(model), do: Model.fetch(model)

  # `{:done, outputs}` in the order of the inputs, `{:failed, error}`, or `{:lost, error}` if this node has no device now, or not its model.
  def run(work, size, inputs) do
    device = Server.current()

    with {:lost, %Error{code: :device_lost}} = lost <- attempt(work, size, inputs) do
      if device, do: Server.reopen(device)
      lost
    end
  end

  defp attempt(%__MODULE__{run: run} = work, size, inputs) do
    outputs = if run, do: run.(inputs), else: run_model(work, size, inputs)

    if is_list(outputs) and length(outputs) == length(inputs) do
      {:done, outputs}
    else
      message = "#{length(inputs)} outputs were expected in a list, found #{Argument.short(outputs)}"
      {:failed, Error.new(:wrong_outputs, message)}
    end
  rescue
    error in Error ->
      first = first_cause(error)
      if first.code in @of_this_node, do: {:lost, first}, else: {:failed, error}

    error ->
      {:failed, failed(Exception.message(error))}
  catch
    kind, reason -> {:failed, failed("#{kind}: #{Argument.short(reason)}")}
  end

  # What reads the result of something that failed says so; why that failed is in there.
  defp first_cause(%Error{details: %{cause: %Error{} = cause}}), do: first_cause(cause)
  defp first_cause(error), do: error

  def failed(message), do: Error.new(:run_failed, "the run failed: #{message}")

  defp run_pipeline(pipeline, inputs, outputs, [given]) do
    for {{_, buffer}, {data, _dims}} <- Enum.zip(inputs, Tensors.here(given)), do: Buffers.write(buffer, data)
    Error.unwrap!(Pipeline.run(pipeline))
    [Map.new(outputs, fn {name, buffer} -> {name, {Buffers.read(buffer), buffer.shape, buffer.dtype}} end)]
  end

  defp run_model(%{model: model, takes: takes, shares: shares} = work, size, inputs) do
    rows = for [{_, dims} | _] <- inputs, do: List.first(dims, 1)
    size = if shares, do: max(size, Enum.sum(rows)), else: nil
    columns = Enum.zip_with(inputs, & &1)

    given =
      for {{_, dtype, _}, column} <- Enum.zip(takes, columns) do
        case together(column, size, Codec.element_size(dtype)) do
          {%Buffer{} = buffer, _dims} -> {Tensors.live!(buffer).ref, false}
          {data, dims} -> {Error.unwrap!(Runtime.buffer(dims, dtype, data)), true}
        end
      end

    refs = for {ref, _} <- given, do: ref
    made = Runtime.run_model(to_string(model.name), refs) || run_again(work, refs)
    for {ref, true} <- given, do: Runtime.free(ref)
    made = Error.unwrap!(made || {:error, Error.new(:unknown_model, "`#{model.name}` is not loaded")})

    outputs =
      for {port, ref} <- Enum.zip(model.outputs, made) do
        %{shape: shape, dtype: dtype} = Buffer.from_ref(ref)
        read = Runtime.read(ref)
        Runtime.free(ref)
        {port.name, Error.unwrap!(read), Tuple.to_list(shape), dtype}
      end

    if shares, do: apart(outputs, rows, size), else: [Map.new(outputs, &whole/1)]
  end

  # A device that was opened again knows no model. What is in the file now has another name if it is not what it was.
  defp run_again(%{path: nil}, _refs), do: nil

  defp run_again(%{path: path, model: was}, refs) do
    with {:ok, model} <- model(path) do
      if {model.inputs, model.outputs} == {was.inputs, was.outputs},
        do: Runtime.run_model(to_string(model.name), refs)
    end
  end

  # The rows of all, and as many of zeros as are missing.
  defp together([{data, dims}], nil, _element), do: {data, dims}
  defp together([{data, [size | _] = dims}], size, _element), do: {data, dims}

  defp together([{_, [_ | rest]} | _] = column, size, element) do
    data = for {binary, _} <- Tensors.here(column), do: binary
    missing = size * Enum.product(rest) * element - IO.iodata_length(data)
    {IO.iodata_to_binary([data, <<0::size(missing)-unit(8)>>]), [size | rest]}
  end

  defp apart(outputs, [size], size), do: [Map.new(outputs, &whole/1)]

  defp apart(outputs, rows, size) do
    {shares, _} =
      Enum.map_reduce(rows, 0, fn count, from ->
        share =
          Map.new(outputs, fn {name, binary, [_ | rest], dtype} ->
            row = div(byte_size(binary), size)
            # Its own bytes: a part would keep the whole alive.
            part = :binary.copy(binary_part(binary, from * row, count * row))
            {name, {part, List.to_tuple([count | rest]), dtype}}
          end)

        {share, from + count}
      end)

    shares
  end

  defp whole({name, binary, dims, dtype}), do: {name, {binary, List.to_tuple(dims), dtype}}
end

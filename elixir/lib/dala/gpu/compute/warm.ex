defmodule Dala.Gpu.Compute.Warm do
  @moduledoc false
  # Building kernels before they are needed.

  import Dala.Gpu.Compute.Argument

  alias Dala.Gpu.Compute.{Buffers, Error, Pipeline}
  alias Dala.ML.Model

  def build(what, options) do
    batch = options!(options, batch: 1)[:batch]
    must!(is_integer(batch) and batch > 0, :batch, "a positive integer", batch)
    all(what, batch)
  rescue
    error in Error -> {:error, error}
  end

  defp all([], _batch), do: {:ok, 0}

  defp all([one | others], batch) do
    with {:ok, built} <- one(one, batch), {:ok, more} <- all(others, batch), do: {:ok, built + more}
  end

  defp all(one, batch), do: one(one, batch)

  defp one(%Pipeline{} = pipeline, _batch), do: Pipeline.warm(pipeline)

  defp one(model, batch) when is_atom(model) or is_binary(model) or is_struct(model, Model) do
    with {:ok, model} <- Model.fetch(model), :ok <- closed(model) do
      sized = fn shape -> for dim <- Tuple.to_list(shape), do: if(dim == :batch, do: batch, else: dim) end
      buffer = fn port -> Buffers.zeros(List.to_tuple(sized.(port.shape)), port.dtype) end
      {inputs, outputs} = {Enum.map(model.inputs, buffer), Enum.map(model.outputs, buffer)}
      stage = %{op: :run_kernel, kernel: model.name, inputs: inputs, output: outputs}
      pipeline = Pipeline.add(Pipeline.new(), stage)

      try do
        Pipeline.warm(pipeline)
      after
        Pipeline.free(pipeline)
        Buffers.free_many(outputs ++ inputs)
      end
    end
  end

  defp one(other, _batch),
    do: raise(ArgumentError, "this is neither a pipeline nor a model: #{short(other)}")

  # What is to be built depends on every size.
  defp closed(model) do
    open =
      for port <- model.inputs ++ model.outputs, size <- Tuple.to_list(port.shape), is_binary(size), do: size

    if open == [],
      do: :ok,
      else:
        {:error,
         Error.new(
           :open_sizes,
           "#{inspect(model.name)} has sizes that a call says: #{Enum.join(Enum.uniq(open), ", ")}"
         )}
  end
end

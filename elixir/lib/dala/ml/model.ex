defmodule Dala.ML.Model do
  @moduledoc """
  A network that `Dala.Gpu.Compute.load_model/2` has loaded: what goes in, what comes out, and what it is made of.

    * `:name` - what it was loaded as, and the name of its kernel
    * `:inputs`, `:outputs` - each with its `:name` in the file, its `:dtype` and its `:shape`, such as `{:batch, 3, 224, 224}`;
      where it says `:batch` any number will do
    * `:parameters` - how many weights it has
    * `:operators` - what the file's nodes compute and how many there are of each, the most frequent first: `[{"Conv", 52}, ...]`

  It is plain data, and may be sent anywhere: the weights are in the kernel.
  """

  alias Dala.Gpu.Compute.{Argument, Buffer, Error, Native, Runtime, Stage}

  @enforce_keys [:name, :inputs, :outputs, :parameters, :operators]
  defstruct [:name, :inputs, :outputs, :parameters, :operators]

  @type port_info() :: %{name: String.t(), dtype: Buffer.dtype(), shape: tuple()}

  @type t() :: %__MODULE__{
          name: atom() | String.t(),
          inputs: [port_info()],
          outputs: [port_info()],
          parameters: non_neg_integer(),
          operators: [{String.t(), pos_integer()}]
        }

  @doc false
  def load(name, path) do
    text = name!(name)
    Argument.must!(Argument.text?(path), "a path", "a string", path)
    path = Path.expand(path)
    with {:ok, fields} <- Runtime.ask(&Native.load_model(&1, text, path, &2)), do: {:ok, new(name, fields)}
  end

  @doc false
  # What was loaded under the name counts, whatever the struct says by now.
  def fetch(%__MODULE__{name: name}), do: fetch(name)

  def fetch(name) do
    text = name!(name)

    case Runtime.call(&{:ok, Native.model(&1, text)}) do
      {:ok, nil} ->
        message = "no model is called `#{text}`: Dala.Gpu.Compute.load_model/2 loads one"
        {:error, Error.new(:unknown_model, message)}

      {:ok, fields} ->
        {:ok, new(name, fields)}

      error ->
        error
    end
  end

  defp new(name, fields), do: struct!(__MODULE__, Map.put(fields, :name, name))

  defp name!(name) do
    case Stage.name(name, "a model") do
      {:ok, text} -> text
      {:error, message} -> raise ArgumentError, message
    end
  end
end

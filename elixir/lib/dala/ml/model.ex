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

  alias Dala.Gpu.Compute.Buffer

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
end

defmodule Dala.Gpu.Compute.Kernel do
  @moduledoc """
  Kernels of your own, from expressions.

      iex> alias Dala.Gpu.Compute
      iex> Compute.Kernel.define(:brighten, "clamp(x * gain + bias, 0, 1)", params: [gain: 1.0, bias: 0.0])
      :ok
      iex> image = Compute.buffer([0.25, 0.5], {2})
      iex> Compute.run_kernel(:brighten, [image], image, %{gain: 3.0})
      :ok
      iex> Compute.read_list(image)
      [0.75, 1.0]

  Or in a module, in the syntax of Elixir:

      defmodule Filters do
        use Dala.Gpu.Compute.Kernel

        kernel :vignette, params: [strength: 0.5] do
          dx = f32(coord(1)) / f32(dim(1)) - 0.5
          dy = f32(coord(0)) / f32(dim(0)) - 0.5
          x * (1 - strength * (dx * dx + dy * dy))
        end
      end

      Filters.vignette([image], output, %{strength: 0.8})

  A kernel is computed at every element of its output, on every back end. What expressions may
  contain is in `docs/EXPRESSIONS.md`.
  """

  use Dala.Gpu.Compute.Twins

  alias Dala.Gpu.Compute.Kernel.Syntax
  alias Dala.Gpu.Compute.{Argument, Error, Kernels, Native, Runtime, Stage}

  @options [:inputs, :params]

  @doc """
  Defines a kernel. It is then used by name like any other.

    * `:inputs` - the names of its inputs, in order; `[:x]` if nothing is said
    * `:params` - its params with their defaults: `[gain: 1.0]`; or with their kind if they have none: `[gain: :float]`, one of
      `:float`, `:int`, `:number` (takes the type of the data it meets) and `:bool`

  Defining the same again is harmless; another kernel of the same name is an error.

      iex> Dala.Gpu.Compute.Kernel.define(:twice, "2 * x")
      :ok
      iex> {:error, error} = Dala.Gpu.Compute.Kernel.define(:thrice, "3 * y")
      iex> error.code
      :bad_expression
  """
  @spec define(atom() | String.t(), String.t(), keyword()) :: :ok | {:error, Error.t()}
  def define(name, expression, options \\ []) do
    with {:ok, definition} <- definition(name, expression, options), do: ensure(definition)
  end

  @doc """
  Every kernel that can be called, with what it takes: `Dala.Gpu.Compute.kernels/0`.

      iex> blur = Enum.find(Dala.Gpu.Compute.Kernel.list(), &(&1.name == "blur"))
      iex> Enum.map(blur.params, & &1.name)
      ["radius", "sigma", "border"]
      iex> blur.aliases
      ["gaussian_blur"]
  """
  @doc deprecated: "Use Dala.Gpu.Compute.kernels/0"
  @spec list() :: [map()]
  defdelegate list, to: Kernels

  @doc false
  def ensure({name, expression, inputs, params} = definition) do
    # The definitions of the default device, which is never opened twice.
    key = {__MODULE__, name}

    if :persistent_term.get(key, nil) == definition do
      :ok
    else
      with :ok <- Runtime.call(&Native.define(&1, name, expression, inputs, params)) do
        :persistent_term.put(key, definition)
      end
    end
  end

  @doc false
  def definition(name, expression, options) do
    with {:ok, options} <- options(options),
         {:ok, name} <- Stage.name(name, "a kernel"),
         :ok <- text(expression),
         {:ok, inputs} <- names(Keyword.get(options, :inputs, [:x])),
         {:ok, params} <- Stage.params(Keyword.get(options, :params, [])) do
      # In the order of the names: the order in which they are given does not matter.
      {:ok, {name, expression, inputs, Enum.sort(Enum.map(params, &kind/1))}}
    else
      {:error, %Error{}} = error -> error
      {:error, message} -> {:error, Error.new(:invalid_argument, message)}
    end
  end

  defp options(options) do
    if Keyword.keyword?(options) and Keyword.keys(options) -- @options == [],
      do: {:ok, options},
      else: {:error, "options must be #{inspect(@options)}, found #{Argument.short(options)}"}
  end

  defp text(expression) do
    if is_binary(expression) and String.valid?(expression),
      do: :ok,
      else: {:error, "an expression must be a string, found #{Argument.short(expression)}"}
  end

  defp names(names) do
    if is_list(names) and not List.improper?(names),
      do: Stage.map_ok(names, &Stage.name(&1, "an input")),
      else: {:error, "inputs must be a list of names, found #{Argument.short(names)}"}
  end

  # Kinds are atoms to the native side, which words are not.
  @kinds %{"float" => :float, "int" => :int, "number" => :number, "bool" => :bool}
  defp kind({name, word}) when is_binary(word), do: {name, Map.get(@kinds, word, word)}
  defp kind(param), do: param

  @doc false
  defmacro __using__(_options) do
    quote do
      import Dala.Gpu.Compute.Kernel, only: [kernel: 2, kernel: 3]
      Module.register_attribute(__MODULE__, :dala_kernels, accumulate: true)
      @before_compile Dala.Gpu.Compute.Kernel
    end
  end

  @doc """
  Defines a kernel and a function of its name that runs it: `name(inputs, output, params \\\\ %{})`. The options are those of
  `define/3`, with which the kernel is defined when it first runs.
  """
  defmacro kernel(name, options \\ [], do: body) do
    if not is_atom(name), do: raise(ArgumentError, "the name of a kernel must be an atom")
    expression = Syntax.to_expression(body, __CALLER__.file)

    quote do
      @dala_kernels {unquote(name), unquote(expression), unquote(options)}

      @doc "Runs the kernel `#{unquote(expression)}`."
      @spec unquote(name)([Dala.Gpu.Compute.Buffer.t()], Dala.Gpu.Compute.Buffer.t(), map()) ::
              :ok | {:error, Dala.Gpu.Compute.Error.t()}
      def unquote(name)(inputs, output, params \\ %{}) do
        with :ok <- Dala.Gpu.Compute.Kernel.define(unquote(name), unquote(expression), unquote(options)) do
          Dala.Gpu.Compute.run_kernel(unquote(name), inputs, output, params)
        end
      end
    end
  end

  @doc false
  defmacro __before_compile__(_env) do
    quote do
      @doc "The kernels of this module: `{name, expression, options}`."
      def __kernels__, do: Enum.reverse(@dala_kernels)

      @doc "Defines the kernels of this module, so that they can be used by name before they were ever run."
      def define_kernels do
        Enum.reduce_while(__kernels__(), :ok, fn {name, expression, options}, :ok ->
          case Dala.Gpu.Compute.Kernel.define(name, expression, options) do
            :ok -> {:cont, :ok}
            error -> {:halt, error}
          end
        end)
      end
    end
  end
end

defmodule Dala.Gpu.Compute.Server do
  @moduledoc """
  Opens the default device when it is first asked for, and starts whether there is one or not.

  Which device that is:

    * the environment variable `DALA_DEVICE`, or
    * `config :dala_compute, device: "vulkan"`, or
    * `"auto"`: a real GPU if there is one, then the CPU runtime, then a software driver.

  `config :dala_compute, memory_budget: bytes` bounds what buffers may use. `config :dala_compute, cache: "folder"` says where
  compiled kernels are kept, see `Dala.Gpu.Compute.kernel_cache/0`.

  The device itself belongs to nobody: it is counted by reference. If this process is killed it is started again, and
  buffers, commands and waiting processes go on as if nothing had happened.
  """
  use GenServer
  use Dala.Gpu.Compute.Twins
  require Logger

  alias Dala.Gpu.Compute.{Error, Native}

  @device {__MODULE__, :device}
  # A driver that takes longer than this to open hangs.
  @timeout 120_000

  @doc false
  def start_link(_options), do: GenServer.start_link(__MODULE__, nil, name: __MODULE__)

  @doc """
  The default device, opened if it is not yet.

      iex> {:ok, device} = Dala.Gpu.Compute.Server.device()
      iex> is_reference(device)
      true
  """
  @spec device() :: {:ok, reference()} | {:error, Error.t()}
  def device do
    case current() do
      nil -> if Native.not_loaded(), do: {:error, not_loaded()}, else: ask(__MODULE__, :device, @timeout)
      device -> {:ok, device}
    end
  end

  @doc false
  # The default device if it is open, otherwise nil.
  def current, do: :persistent_term.get(@device, nil)

  @doc false
  # A device that is lost is opened anew, once for all who found out. What was on it is gone.
  def reopen(lost), do: ask(__MODULE__, {:reopen, lost}, @timeout)

  defp not_loaded, do: Error.new(:nif_not_loaded, Native.not_loaded())

  @doc false
  # Calls a process of the application, which may be about to be started again.
  def ask(server, request, timeout, tries \\ 100) do
    GenServer.call(server, request, timeout)
  catch
    :exit, {reason, _} when reason in [:noproc, :killed, :shutdown] and tries > 0 ->
      Process.sleep(10)
      ask(server, request, timeout, tries - 1)

    :exit, reason ->
      {:error, not_started(reason)}
  end

  @doc false
  def not_started(reason) do
    message =
      "the default device is not there (is the application :dala_compute started?): #{inspect(reason)}"

    Error.new(:device_unavailable, message)
  end

  @impl true
  def init(nil), do: {:ok, %{tag: nil, asking: []}}

  @impl true
  def handle_call(:device, from, state) do
    case current() do
      nil -> {:noreply, open(%{state | asking: [from | state.asking]})}
      device -> {:reply, {:ok, device}, state}
    end
  end

  def handle_call({:reopen, lost}, from, state) do
    if current() == lost, do: :persistent_term.erase(@device)
    handle_call(:device, from, state)
  end

  @impl true
  def handle_info({tag, answer}, %{tag: tag} = state) when is_reference(tag) do
    with {:ok, device} <- answer do
      with %{refused: why} when is_binary(why) <- Native.kernel_cache(),
           do: Logger.warning("compiled kernels are not kept for the next start: #{why}")

      :persistent_term.put(@device, device)
    end

    Enum.each(state.asking, &GenServer.reply(&1, answer))
    {:noreply, %{state | tag: nil, asking: []}}
  end

  def handle_info(_other, state), do: {:noreply, state}

  defp open(%{tag: nil} = state) do
    tag = make_ref()
    choose_cache(System.get_env("DALA_CACHE"), Application.get_env(:dala_compute, :cache))
    name = System.get_env("DALA_DEVICE") || Application.get_env(:dala_compute, :device, "auto")
    :ok = Native.open(to_string(name), Application.get_env(:dala_compute, :memory_budget), tag)
    %{state | tag: tag}
  rescue
    error in Error ->
      refuse(state, error)

    ArgumentError ->
      setting = inspect(Application.get_env(:dala_compute, :memory_budget))

      refuse(
        state,
        Error.new(:invalid_argument, "config :dala_compute, memory_budget: #{setting} is no number of bytes")
      )
  end

  defp open(state), do: state

  # The environment is read by the native side. A device that is opened again finds the folder that it had.
  defp choose_cache(nil, :off), do: Native.keep_kernels_in(nil)
  defp choose_cache(nil, folder) when is_binary(folder), do: Native.keep_kernels_in(folder)

  defp choose_cache(_variable, setting) when is_nil(setting) or setting == :off or is_binary(setting),
    do: false

  defp choose_cache(_variable, setting) do
    message = "config :dala_compute, cache: #{inspect(setting)} is neither a folder nor :off"
    raise Error, code: :invalid_argument, message: message
  end

  defp refuse(state, error) do
    Enum.each(state.asking, &GenServer.reply(&1, {:error, error}))
    %{state | asking: []}
  end
end

defmodule Dala.Gpu.Surface do
  @moduledoc false
  # The process behind a surface. It holds the native surface, which is gone when the process is, however it ended.
  use GenServer, restart: :temporary

  alias Dala.Gpu.Compute.{Argument, Error, Native, Runtime, Server}

  @registry Dala.Gpu.Surface.Registry
  @supervisor Dala.Gpu.Surface.Supervisor

  def start_link(owner), do: GenServer.start_link(__MODULE__, owner)

  # Opened in its own process, not in the supervisor's: a window takes its time.
  def create(width, height, title) do
    with {:ok, size} <- size(width, height),
         {:ok, device} <- Runtime.device(),
         {:ok, pid} <- start(),
         :ok <- call(pid, {:open, device, size, title}),
         do: {:ok, pid}
  end

  defp start do
    DynamicSupervisor.start_child(@supervisor, {__MODULE__, self()})
  catch
    :exit, reason -> {:error, Server.not_started(reason)}
  end

  # Whether it is one. Other processes must not get our messages.
  def open(pid) when is_pid(pid) and node(pid) != node(), do: :ok

  def open(pid) when is_pid(pid) do
    # The registry forgets those that ended a moment later.
    case Process.alive?(pid) and Registry.lookup(@registry, pid) do
      [{^pid, _}] -> :ok
      _ -> {:error, closed(pid)}
    end
  rescue
    # The application is not running, and neither is any surface.
    ArgumentError -> {:error, closed(pid)}
  end

  def open(other),
    do: raise(ArgumentError, "a surface is a pid that create_surface gave, found #{Argument.short(other)}")

  def call(pid, request) do
    with :ok <- open(pid), do: GenServer.call(pid, request, :infinity)
  catch
    # It ended before it answered.
    :exit, _reason -> {:error, closed(pid)}
  end

  def close(pid) do
    with :ok <- open(pid), do: GenServer.stop(pid, :normal, :infinity)
    :ok
  catch
    :exit, _reason -> :ok
  end

  defp closed(pid), do: Error.new(:surface_closed, "no surface is open at #{inspect(pid)}")

  defp size(width, height) do
    if width in 0..0xFFFFFFFF and height in 0..0xFFFFFFFF,
      do: {:ok, {width, height}},
      else: {:error, Error.new(:invalid_size, "no surface has #{width} x #{height} pixels")}
  end

  @impl true
  def init(owner) do
    {:ok, _} = Registry.register(@registry, self(), nil)
    {:ok, %{owner: Process.monitor(owner), surface: nil}}
  end

  @impl true
  def handle_call({:open, device, {width, height}, title}, _from, %{surface: nil} = state) do
    case Native.surface(device, width, height, title) do
      {:ok, surface} -> {:reply, :ok, %{state | surface: surface}}
      error -> {:stop, :normal, error, state}
    end
  end

  def handle_call({:set_pixels, pixels}, _from, state) do
    # What was shown before is no longer needed, and large binaries are only given up when garbage is collected.
    {:reply, Native.surface_set_pixels(state.surface, pixels), state, :hibernate}
  end

  def handle_call({:set_buffer, buffer}, _from, state) do
    {:reply, set_buffer(state.surface, buffer), state, :hibernate}
  end

  def handle_call(:present, _from, state), do: {:reply, Native.surface_present(state.surface), state}

  def handle_call({:resize, width, height}, _from, state) do
    result = with {:ok, _} <- size(width, height), do: Native.surface_resize(state.surface, width, height)
    {:reply, result, state}
  end

  def handle_call(:snapshot, _from, state), do: {:reply, Native.surface_snapshot(state.surface), state}

  def handle_call(:info, _from, state) do
    {width, height, presented, on_device} = Native.surface_info(state.surface)
    info = %{width: width, height: height, presented: presented, on_device: on_device}
    {:reply, {:ok, info}, state}
  end

  @impl true
  def handle_info({:DOWN, monitor, :process, _pid, _reason}, %{owner: monitor} = state),
    do: {:stop, :normal, state}

  def handle_info(_other, state), do: {:noreply, state}

  defp set_buffer(surface, buffer) do
    Native.surface_set_buffer(surface, buffer)
  rescue
    # Another kind of reference.
    ArgumentError -> {:error, Runtime.not_a_buffer(buffer)}
  end
end

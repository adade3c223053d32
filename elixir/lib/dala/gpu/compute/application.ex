defmodule Dala.Gpu.Compute.Application do
  @moduledoc false
  use Application

  alias Dala.Gpu.Compute.Native

  @impl true
  def start(_type, _args) do
    Dala.Gpu.Compute.Telemetry.init()
    attend_exit()

    children = [
      Dala.Gpu.Compute.Server,
      Dala.ML.Plans,
      %{id: Registry, start: {__MODULE__, :start_registry, []}, type: :supervisor},
      {DynamicSupervisor, name: Dala.Gpu.Surface.Supervisor},
      Dala.Serving.Members.scope_spec(),
      Dala.Serving.Members
    ]

    # None of them ends by itself. What ends them from outside, such as somebody who kills them, takes each once; twice within
    # five seconds is bad luck. More is a loop, which must end the application: nobody would see it otherwise.
    Supervisor.start_link(children,
      strategy: :one_for_one,
      max_restarts: 2 * length(children),
      max_seconds: 5,
      name: Dala.Gpu.Compute.Supervisor
    )
  end

  @doc false
  # One that was killed leaves processes behind that end a moment later and have their names until then. Failing meanwhile
  # would count as so many restarts.
  def start_registry do
    case Registry.start_link(keys: :unique, name: Dala.Gpu.Surface.Registry) do
      {:error, {:shutdown, {:failed_to_start_child, _, {:already_started, pid}}}} ->
        monitor = Process.monitor(pid)
        receive do: ({:DOWN, ^monitor, :process, ^pid, _} -> start_registry())

      other ->
        other
    end
  end

  # Whichever scheduler ends the VM knows then what to do about kernels that are being compiled. A process of a scheduler
  # that is not online would never run, and whoever asks all processes for something would wait for it.
  defp attend_exit do
    if Native.not_loaded() == nil do
      for id <- 1..:erlang.system_info(:schedulers_online),
          do: :erlang.spawn_opt(&Native.attend_exit/0, scheduler: id)
    end
  end
end

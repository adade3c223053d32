defmodule Dala.Gpu.Compute.Application do
  @moduledoc false
  use Application

  alias Dala.Gpu.Compute.Native

  @impl true
  def start(_type, _args) do
    Dala.Gpu.Compute.Telemetry.init()
    attend_exit()
    # Restarting the server is cheap and loses nothing, so it may happen often.
    options = [strategy: :one_for_one, max_restarts: 1000, max_seconds: 5, name: Dala.Gpu.Compute.Supervisor]

    children = [
      Dala.Gpu.Compute.Server,
      Dala.ML.Plans,
      {Registry, keys: :unique, name: Dala.Gpu.Surface.Registry},
      {DynamicSupervisor, name: Dala.Gpu.Surface.Supervisor}
    ]

    Supervisor.start_link(children, options)
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

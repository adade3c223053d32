defmodule Dala.Gpu.Compute.Application do
  @moduledoc false
  use Application

  @impl true
  def start(_type, _args) do
    Dala.Gpu.Compute.Telemetry.init()
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
end

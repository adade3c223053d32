defmodule Dala.Gpu.Compute.Application do
  @moduledoc false
  use Application

  @impl true
  def start(_type, _args) do
    Dala.Gpu.Compute.Telemetry.init()
    # Restarting the server is cheap and loses nothing, so it may happen often.
    options = [strategy: :one_for_one, max_restarts: 1000, max_seconds: 5, name: Dala.Gpu.Compute.Supervisor]
    Supervisor.start_link([Dala.Gpu.Compute.Server, Dala.ML.Plans], options)
  end
end

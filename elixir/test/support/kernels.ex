defmodule Dala.Test.Kernels do
  @moduledoc false

  @doc "How many kernels the device got so far: those that were built, and those that an earlier start kept."
  def obtained, do: Map.take(Dala.Gpu.Compute.stats(), [:compilations, :kernels_found])
end

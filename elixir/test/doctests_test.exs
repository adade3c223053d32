defmodule DoctestsTest do
  use ExUnit.Case

  doctest Dala.Gpu.Compute
  doctest Dala.Gpu.Compute.Buffer
  doctest Dala.Gpu.Compute.Error
  doctest Dala.Gpu.Compute.Kernel
  doctest Dala.Gpu.Compute.Pipeline
  doctest Dala.Gpu.Compute.Server
  doctest Dala.Gpu.Compute.Stream
  doctest Dala.Gpu.Compute.Transient
  doctest Dala.Media
  doctest ExCubecl
end

ExUnit.start(timeout: 120_000)
IO.puts("device: #{inspect(Dala.Gpu.Compute.device_info())}")

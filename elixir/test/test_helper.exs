# Both are nets: nothing that is tested takes so long, whatever else the machine does.
ExUnit.start(timeout: 1_800_000, assert_receive_timeout: 30_000)
IO.puts("device: #{inspect(Dala.Gpu.Compute.device_info())}")

# Commands are queued at once; waiting is a `receive`.
#
#   mix run examples/03_async_commands.exs

alias Dala.Gpu.Compute

x = Compute.buffer([1.0, 2.0, 3.0], {3})

add = fn number ->
  %{op: :run_kernel, kernel: :scalar_add, inputs: [x], output: x, params: %{scalar: number}}
end

double = %{op: :run_kernel, kernel: :scalar_mul, inputs: [x], output: x, params: %{scalar: 2}}

# Both use the same buffer, so that they run in this order, though the second lane goes first otherwise.
Compute.submit(add.(1), lane: :background)
id = Compute.submit(double, lane: :interactive)
:ok = Compute.wait(id, 5_000)
IO.inspect(Compute.poll(id), label: "state")
IO.inspect(Compute.read_list(x), label: "(x + 1) * 2")

# A message instead of waiting.
done = make_ref()
Compute.submit([add.(10), double], notify: done)

receive do
  {^done, result} -> IO.inspect(result, label: "message")
end

IO.inspect(Compute.read_list(x), label: "(x + 10) * 2")

# What has not started can be cancelled. Here it cannot start, because the device is suspended, as in an app that is not seen.
Compute.suspend()
id = Compute.submit(add.(1000))
IO.inspect(Compute.cancel(id), label: "cancelled")
Compute.resume()
{:error, error} = Compute.wait(id)
IO.inspect(error.code, label: "outcome")

# What it should have written is marked: nobody takes old numbers for new ones.
error =
  try do
    Compute.read(x)
  rescue
    error in Compute.Error -> error
  end

IO.inspect({error.code, error.details.cause.code}, label: "reading it")
:ok = Compute.write(x, <<0::96>>)
IO.inspect(Compute.read_list(x), label: "written again")

# Output:
#   state: :completed
#   (x + 1) * 2: [4.0, 6.0, 8.0]
#   message: :ok
#   (x + 10) * 2: [28.0, 32.0, 36.0]
#   cancelled: true
#   outcome: :cancelled
#   reading it: {:poisoned, :cancelled}
#   written again: [0.0, 0.0, 0.0]

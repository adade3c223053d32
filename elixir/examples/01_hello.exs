# Two lists are added on the device.
#
#   mix run examples/01_hello.exs

alias Dala.Gpu.Compute

a = Compute.buffer([1.0, 2.0, 3.0], {3}, :f32)
b = Compute.buffer([4.0, 5.0, 6.0], {3}, :f32)
c = Compute.buffer_zeros({3}, :f32)

# It has succeeded when the device says so: `:ok`, or `{:error, error}`.
:ok = Compute.run_kernel(:elementwise_add, [a, b], c)
IO.inspect(Compute.read_list(c), label: "sum")

# Params have names, defaults and limits. One that does not exist is refused, with a suggestion.
:ok = Compute.run_kernel(:relu, [Compute.buffer([-2.0, 0.0, 2.0], {3})], c, %{slope: 0.5})
IO.inspect(Compute.read_list(c), label: "leaky relu")

{:error, error} = Compute.run_kernel(:relu, [a], c, %{slop: 0.5})
IO.puts("#{error.code}: did you mean `#{error.details.suggestion}`?")

# Buffers are collected like any term; this gives the memory back now.
Compute.free_many([a, b, c])

# Output:
#   sum: [5.0, 7.0, 9.0]
#   leaky relu: [-1.0, 0.0, 2.0]
#   unknown_param: did you mean `slope`?

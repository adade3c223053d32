defmodule Dala.Gpu.Compute.PanicTest do
  # A panic where the native side does its work is an answer to whoever waits for one.
  use ExUnit.Case, async: true

  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.{Error, Native, Runtime}

  @message "internal error: a panic: as asked"

  for {place, what} <- [
        thread: "a call's own thread",
        later: "the thread of what is late",
        answer: "the answer"
      ] do
    @tag place: to_string(place)
    test "in #{what}", %{place: place} do
      call = Task.async(fn -> Runtime.ask(fn _device, tag -> Native.panic_in(place, tag) end) end)
      assert {:ok, result} = Task.yield(call, 120_000) || Task.shutdown(call)
      assert {:error, %Error{code: :internal, message: @message}} = result
      # The next call finds everything in order.
      assert %{live: _} = Compute.memory()
    end
  end

  test "in a frame's answer" do
    tag = make_ref()
    :ok = Native.panic_in("frame", tag)
    assert_receive {^tag, 7, {:error, %Error{code: :internal, message: @message}}}, 120_000
  end
end

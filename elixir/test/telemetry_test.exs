defmodule Dala.Gpu.Compute.TelemetryTest do
  # Some tests pretend that there is no :telemetry.
  use ExUnit.Case, async: false

  alias Dala.Gpu.Compute.Telemetry

  doctest Telemetry

  setup do
    assert Telemetry.init()
    id = make_ref()
    test = self()

    events =
      [[:dala_gpu, :memory]] ++
        for span <- [:kernel, :transfer, :pipeline],
            point <- [:start, :stop, :exception],
            do: [:dala_gpu, span, point]

    for event <- events do
      # The device of this package may be at work for another test's leftovers: only marked events count.
      handler = fn event, measurements, metadata, _config ->
        if metadata[:test] == test, do: send(test, {event, measurements, metadata})
      end

      :ok = :telemetry.attach({id, event}, event, handler, nil)
    end

    on_exit(fn ->
      for event <- events, do: :telemetry.detach({id, event})
      Telemetry.init()
    end)

    {:ok, metadata: %{test: test, kernel: "relu"}}
  end

  test "a span reports start and stop and returns the result", %{metadata: metadata} do
    assert Telemetry.span(:kernel, metadata, fn -> {:ok, 42} end) == {:ok, 42}

    assert_received {[:dala_gpu, :kernel, :start], %{monotonic_time: started, system_time: system_time},
                     start}

    assert is_integer(started) and is_integer(system_time)
    assert start.kernel == "relu"

    assert_received {[:dala_gpu, :kernel, :stop], %{duration: duration}, stop}
    assert is_integer(duration) and duration >= 0
    assert stop.kernel == "relu"
    refute Map.has_key?(stop, :error)
    refute_received {[:dala_gpu | _], _, _}
  end

  test "the duration is that of the function", %{metadata: metadata} do
    start = System.monotonic_time()
    Telemetry.span(:transfer, metadata, fn -> Process.sleep(20) end)
    all = System.monotonic_time() - start
    assert_received {[:dala_gpu, :transfer, :stop], %{duration: duration}, _}
    assert duration <= all
    assert System.convert_time_unit(duration, :native, :millisecond) >= 19
  end

  test "start and stop of one span have the same context", %{metadata: metadata} do
    Telemetry.span(:pipeline, metadata, fn -> :ok end)
    assert_received {[:dala_gpu, :pipeline, :start], _, %{telemetry_span_context: context}}
    assert_received {[:dala_gpu, :pipeline, :stop], _, %{telemetry_span_context: ^context}}
  end

  test "an error as a result goes into the metadata of stop", %{metadata: metadata} do
    assert Telemetry.span(:kernel, metadata, fn -> {:error, :freed} end) == {:error, :freed}
    assert_received {[:dala_gpu, :kernel, :stop], _, %{error: :freed, kernel: "relu"}}
    refute_received {[:dala_gpu, :kernel, :exception], _, _}
  end

  test "what is raised is reported and goes on", %{metadata: metadata} do
    assert_raise ArgumentError, "no", fn ->
      Telemetry.span(:kernel, metadata, fn -> raise ArgumentError, "no" end)
    end

    assert_received {[:dala_gpu, :kernel, :exception], %{duration: _}, details}

    assert %{kind: :error, reason: %ArgumentError{message: "no"}, stacktrace: [_ | _], kernel: "relu"} =
             details

    refute_received {[:dala_gpu, :kernel, :stop], _, _}

    assert catch_throw(Telemetry.span(:kernel, metadata, fn -> throw(:ball) end)) == :ball
    assert_received {[:dala_gpu, :kernel, :exception], _, %{kind: :throw, reason: :ball}}
  end

  test "memory is one event", %{metadata: metadata} do
    assert Telemetry.execute(:memory, %{live: 12}, metadata) == :ok
    assert_received {[:dala_gpu, :memory], %{live: 12}, %{kernel: "relu"}}
    assert Telemetry.execute(:memory, %{live: 12}) == :ok
  end

  test "a handler that fails does not reach the caller", %{metadata: metadata} do
    id = make_ref()

    ExUnit.CaptureLog.capture_log(fn ->
      :ok = :telemetry.attach(id, [:dala_gpu, :kernel, :start], fn _, _, _, _ -> raise "broken" end, nil)
      assert Telemetry.span(:kernel, metadata, fn -> :fine end) == :fine
    end)

    assert :telemetry.detach(id) == {:error, :not_found}
  end

  test "without :telemetry the function just runs", %{metadata: metadata} do
    :persistent_term.put(Telemetry, false)
    assert Telemetry.span(:kernel, metadata, fn -> {:error, :freed} end) == {:error, :freed}
    assert Telemetry.execute(:memory, %{live: 1}, metadata) == :ok
    refute_received {[:dala_gpu | _], _, _}

    assert Telemetry.init()
    Telemetry.span(:kernel, metadata, fn -> :ok end)
    assert_received {[:dala_gpu, :kernel, :stop], _, _}
  end

  test "it looks for itself if nobody did", %{metadata: metadata} do
    :persistent_term.erase(Telemetry)
    Telemetry.span(:kernel, metadata, fn -> :ok end)
    assert_received {[:dala_gpu, :kernel, :stop], _, _}
  end

  test "wrong arguments say what is allowed" do
    assert_raise ArgumentError,
                 "unknown event :kernal, expected one of [:kernel, :transfer, :pipeline]",
                 fn ->
                   Telemetry.span(:kernal, %{}, fn -> :ok end)
                 end

    assert_raise ArgumentError, ~r/expected a map and a function/, fn ->
      Telemetry.span(:kernel, [], fn -> :ok end)
    end

    assert_raise ArgumentError, ~r/expected a map and a function/, fn ->
      Telemetry.span(:kernel, %{}, fn _ -> :ok end)
    end

    assert_raise ArgumentError, ~r/unknown event :kernel/, fn -> Telemetry.execute(:kernel, %{}, %{}) end
    assert_raise ArgumentError, ~r/expected two maps/, fn -> Telemetry.execute(:memory, 12, %{}) end
  end
end

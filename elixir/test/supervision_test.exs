defmodule Dala.Gpu.Compute.SupervisionTest do
  # Which processes of the application are started again, and when that has to end. In VMs of their own, where the
  # application may end.
  use ExUnit.Case, async: false

  @supervisor Dala.Gpu.Compute.Supervisor

  # What both VMs know. What they would say of crashes is of no interest here.
  @prelude """
  Logger.configure(level: :none)
  alias Dala.Gpu
  alias Dala.Gpu.Compute

  kill = fn pid ->
    monitor = Process.monitor(pid)
    Process.exit(pid, :kill)
    receive do: ({:DOWN, ^monitor, :process, ^pid, _} -> :ok)
  end

  whole? = fn -> Enum.all?(Supervisor.which_children(#{@supervisor}), &is_pid(elem(&1, 1))) end
  wait = fn done? -> Enum.find(1..12_000, fn _ -> done?.() || (Process.sleep(10) && false) end) != nil end
  """

  test "each of its processes may be killed, and again" do
    results =
      in_new_vm("""
      before = Process.whereis(#{@supervisor})
      names = Enum.map(Supervisor.which_children(#{@supervisor}), &elem(&1, 0))

      for _ <- 1..2 do
        pids = for {_, pid, _, _} <- Supervisor.which_children(#{@supervisor}), do: pid
        Enum.each(pids, kill)
        gone? = fn -> Enum.all?(Supervisor.which_children(#{@supervisor}), &(elem(&1, 1) not in pids)) end
        true = wait.(fn -> gone?.() and whole?.() end)
      end

      {:ok, surface} = Gpu.create_surface(8, 8)

      [
        names: length(names),
        same: Process.whereis(#{@supervisor}) == before,
        presented: Gpu.present(surface),
        computed: Compute.read_list(Compute.buffer([1.0, 2.0], {2}))
      ]
      """)

    assert results == [names: 6, same: true, presented: :ok, computed: [1.0, 2.0]]
  end

  test "a loop of crashes ends the application, and calls say so" do
    results =
      in_new_vm("""
      before = Process.whereis(#{@supervisor})
      monitor = Process.monitor(before)

      now = fn -> System.monotonic_time(:millisecond) end
      until = now.() + 120_000

      # When each was. A slow machine may take more of them until enough are in one window of the supervisor.
      kills =
        Enum.reduce_while(Stream.cycle([nil]), [], fn _, kills ->
          case {Process.whereis(#{@supervisor}), Process.whereis(Dala.Gpu.Compute.Server), now.()} do
            {nil, _, _} -> {:halt, kills}
            {_, _, time} when time > until -> {:halt, kills}
            {_, nil, _} -> Process.sleep(1) && {:cont, kills}
            {_, pid, time} -> kill.(pid) && {:cont, [time | kills]}
          end
        end)

      reason = receive do: ({:DOWN, ^monitor, :process, _, reason} -> reason), after: (60_000 -> :alive)
      runs? = fn -> List.keymember?(Application.started_applications(), :dala_compute, 0) end
      ended = wait.(fn -> not runs?.() end)
      {:error, error} = Dala.Gpu.Compute.Server.device()
      {:error, no_surface} = Gpu.create_surface(8, 8)
      took = hd(kills) - List.last(kills)
      [kills: length(kills), took: took, reason: reason, ended: ended, errors: [error, no_surface]]
      """)

    assert [kills: kills, took: took, reason: :shutdown, ended: true, errors: errors] = results
    # Two for each of the six processes are forgiven within five seconds.
    assert kills == 13 or (kills > 13 and took > 4_000)

    for error <- errors do
      assert error.code == :device_unavailable
      assert error.message =~ "is the application :dala_compute started?"
    end
  end

  # What the code gives there, where the application was just started and the device is not open yet.
  defp in_new_vm(code) do
    options = %{connection: :standard_io, args: [~c"-pa" | :code.get_path()], wait_boot: 300_000}
    {:ok, peer, _} = :peer.start_link(options)
    {:ok, _} = :peer.call(peer, :application, :ensure_all_started, [:dala_compute], :infinity)
    {results, _} = :peer.call(peer, Code, :eval_string, [@prelude <> code], :infinity)
    :peer.stop(peer)
    results
  end
end

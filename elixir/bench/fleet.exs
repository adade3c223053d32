# Dala.Serving on real nodes, each on a host of its own (`scripts/fleet`), while things go wrong.
#
#   scripts/fleet-elixir [--short] [TRIAL...]      all trials, or those that are named; see the end of this file
#
# What nodes serve takes the times of MobileNetV2 without the processor's work (`Fleet.Host`), so that many nodes fit on one machine.
# The exit code is 1 if anything was lost, answered twice or answered wrongly, or failed that should not.

defmodule Fleet.Trials do
  alias Fleet.{Host, Load}

  @fleet Path.expand("../../scripts/fleet", __DIR__)
  # Whatever has to come does so before this; it only ends what never would.
  @patience 600

  ## Hosts

  def up(count, options \\ []) do
    fleet(["up", count])
    folder = Path.join(System.tmp_dir!(), "dala-fleet-#{System.pid()}")
    File.mkdir_p!(folder)
    models = for {name, op} <- [same: "Relu", other: "Neg"], do: {name, model(folder, name, op)}
    fleet = %{folder: folder, models: Map.new(models), nodes: %{}, options: options}
    hosts = Enum.to_list(1..count)
    started = hosts |> Enum.map(&begin(fleet, &1, :same)) |> Enum.map(&ready/1)
    fleet = %{fleet | nodes: Map.new(Enum.zip(hosts, started))}
    meet(fleet)
    fleet
  end

  def down(fleet) do
    fleet(["down"])
    for host <- Map.keys(fleet.nodes), do: Node.disconnect(name(host))
    File.rm_rf!(fleet.folder)
    true = eventually(fn -> Node.list() == [] end)
  end

  defp model(folder, name, op) do
    shape = ["batch", Host.width()]
    file = Path.join(folder, "#{name}.onnx")
    File.write!(file, Dala.Test.Models.onnx([{op, ["x"], ["y"]}], [{"x", shape}], [{"y", shape}]))
    file
  end

  # A VM on a host, which says when it serves.
  defp begin(fleet, host, model) do
    paths = Enum.flat_map(:code.get_path(), &["-pa", to_string(&1)])
    sources = Enum.flat_map(["host.ex", "load.ex"], &["-r", Path.expand("fleet/#{&1}", __DIR__)])
    name = ["--name", to_string(name(host)), "--cookie", to_string(Node.get_cookie())]
    args = ["on", host, System.find_executable("elixir")] ++ name ++ ["--erl", erl()] ++ paths ++ sources
    File.write!(faults(fleet, host), Host.pace())

    env = [
      {"FLEET_MODEL", fleet.models[model]},
      {"FLEET_DONE", done(fleet, host)},
      {"DALA_FAULTS", faults(fleet, host)},
      {"DALA_DEVICE", "cpu"},
      {"DALA_THREADS", "1"},
      {"DALA_CACHE", Path.join(fleet.folder, "cache")}
    ]

    env = for {name, value} <- env ++ (fleet.options[:env] || []), do: {to_charlist(name), to_charlist(value)}
    options = [args: Enum.map(args ++ ["-e", "Fleet.Host.main()"], &to_string/1), env: env, line: 4096]
    port = Port.open({:spawn_executable, @fleet}, [:stderr_to_stdout, :exit_status | options])
    {:os_pid, pid} = Port.info(port, :os_pid)
    %{host: host, port: port, pid: pid, model: model}
  end

  defp erl,
    do:
      "-kernel net_ticktime 8 -kernel prevent_overlapping_partitions false +sbwt none +sbwtdcpu none +sbwtdio none"

  defp ready(%{port: port} = node) do
    receive do
      {^port, {:data, {_, ~c"serves"}}} -> node
      {^port, {:data, {_, line}}} -> IO.puts("  host #{node.host}: #{line}") && ready(node)
      {^port, {:exit_status, status}} -> raise "host #{node.host} ended with #{status} before it served"
    after
      @patience * 1_000 -> raise "host #{node.host} does not serve after #{@patience} s"
    end
  end

  # As libcluster does it: nodes that are not connected are, sooner or later.
  defp meet(fleet) do
    count = map_size(fleet.nodes)
    met = fn -> Enum.all?(Map.keys(fleet.nodes), &(Node.connect(name(&1)) == true)) end
    true = eventually(met)
    true = eventually(fn -> length(Dala.Serving.info(:model).members) == count end)
    true = eventually(fn -> length(Dala.Serving.info(:function).members) == count end)
  end

  defp again(fleet, host, model \\ nil) do
    old = fleet.nodes[host]
    node = ready(begin(fleet, host, model || old.model))
    Node.connect(name(host))
    put_in(fleet.nodes[host], node)
  end

  defp signal(fleet, host, signal),
    do: {_, 0} = System.cmd("kill", [signal, to_string(fleet.nodes[host].pid)])

  # Its name is free afterwards.
  defp kill(fleet, host) do
    signal(fleet, host, "-KILL")
    port = fleet.nodes[host].port
    receive(do: ({^port, {:exit_status, _}} -> :ok))
    true = eventually(fn -> "fleet" not in names(host) end)
  end

  defp names(host) do
    case :erl_epmd.names({10, 77, 0, host}) do
      {:ok, names} -> for {name, _port} <- names, do: to_string(name)
      {:error, _} -> []
    end
  end

  defp name(host), do: :"fleet@10.77.0.#{host}"
  defp faults(fleet, host), do: Path.join(fleet.folder, "faults-#{host}")
  # A line for each piece of work that a host did.
  defp done(fleet, host), do: Path.join(fleet.folder, "done-#{host}")

  defp fault(fleet, host, line), do: File.write!(faults(fleet, host), Host.pace() <> line)

  defp fleet(args) do
    case System.cmd(@fleet, Enum.map(args, &to_string/1), stderr_to_stdout: true) do
      {_, 0} -> :ok
      {said, code} -> raise "scripts/fleet #{Enum.join(args, " ")}: #{code}: #{said}"
    end
  end

  defp eventually(is_so, seconds \\ @patience, since \\ Load.now()) do
    cond do
      is_so.() -> true
      Load.now() - since > seconds * 1_000_000 -> false
      true -> Process.sleep(20) && eventually(is_so, seconds, since)
    end
  end

  ## Trials: what happens while requests come

  # Requests at a part of what the nodes can do, `what` of `Load.asks/2`.
  defp load(fleet, what, seconds, options \\ []) do
    {part, options} = Keyword.pop(options, :part, 0.6)
    rate = part * Host.most() * map_size(fleet.nodes)
    deadline = options[:deadline] || 1_000

    Task.async(fn ->
      Load.run(
        Load.asks(what, Keyword.merge([deadline: deadline, pure: true], options)),
        [rate: rate, seconds: seconds],
        deadline: deadline
      )
    end)
  end

  defp ended(load, before) do
    result = Map.put(Task.await(load, :infinity), :repeated, repeated() - before)
    # Nothing is held for anybody any more.
    quiet = eventually(fn -> Enum.all?([:model, :function], &(Dala.Serving.info(&1).in_flight == 0)) end)
    Map.put(result, :held, if(quiet, do: 0, else: Dala.Serving.info(:model).in_flight))
  end

  def trial("killed", short?) do
    seconds = if short?, do: 6, else: 120
    fleet = up(5)
    before = repeated()
    load = load(fleet, :model, seconds)

    fleet =
      for number <- 1..div(seconds, 5), reduce: fleet do
        fleet ->
          start = Load.now()
          host = rem(number, 5) + 1
          kill(fleet, host)
          fleet = again(fleet, host)
          Process.sleep(max(0, 5_000 - div(Load.now() - start, 1_000)))
          fleet
      end

    {fleet, ended(load, before)}
  end

  # What may be done once is not done twice, whatever becomes of it.
  def trial("killed, done at most once", short?) do
    seconds = if short?, do: 4, else: 20
    fleet = up(5)
    before = repeated()
    load = load(fleet, :once, seconds, pure: false)
    Process.sleep(1_000)
    fleet(["cut", 2])
    Process.sleep(1_500)
    fleet(["heal"])
    kill(fleet, 1)
    result = ended(load, before)
    done = for host <- 1..5, file = done(fleet, host), File.exists?(file), id <- File.stream!(file), do: id
    twice = length(done) - length(Enum.uniq(done))
    # What was answered was done, and somebody looked.
    undone = max(0, result.answered - length(done))
    {%{fleet | nodes: Map.delete(fleet.nodes, 1)}, Map.merge(result, %{done_twice: twice, undone: undone})}
  end

  def trial("frozen", short?) do
    fleet = up(5)
    before = repeated()
    load = load(fleet, :model, if(short?, do: 5, else: 20))
    Process.sleep(2_000)
    signal(fleet, 2, "-STOP")
    Process.sleep(if short?, do: 2_000, else: 10_000)
    signal(fleet, 2, "-CONT")
    {fleet, ended(load, before)}
  end

  def trial("link cut for 3 s", short?) do
    fleet = up(5)
    before = repeated()
    load = load(fleet, :model, if(short?, do: 5, else: 15))
    Process.sleep(1_000)
    fleet(["cut", 3])
    Process.sleep(if short?, do: 1_000, else: 3_000)
    fleet(["heal"])
    {fleet, ended(load, before)}
  end

  def trial("200 ms away", short?) do
    fleet = up(5)
    fleet(["slow", 4, 200])
    before = repeated()
    {fleet, ended(load(fleet, :model, if(short?, do: 4, else: 20)), before)}
  end

  # Callers on both sides.
  def trial("cut in halves", short?) do
    {seconds, cut} = if short?, do: {6, 3}, else: {40, 15}
    fleet = up(5)
    before = repeated()
    load = load(fleet, :model, seconds, part: 0.2)
    there = [:model, [rate: 0.15 * 5 * Host.most(), seconds: seconds], [deadline: 1_000, pure: true]]
    :erpc.cast(name(4), Load, :run_and_keep, there)
    Process.sleep(1_500)
    fleet(["split", 4, 5])
    Process.sleep(cut * 1_000)
    fleet(["heal"])
    meet(fleet)
    here = ended(load, before)
    found = fn -> :erpc.call(name(4), Load, :kept, []) end
    true = eventually(fn -> found.() != nil end)
    {fleet, Map.merge(here, found.(), fn _, a, b -> if is_float(a), do: max(a, b), else: a + b end)}
  end

  def trial("device lost", short?) do
    seconds = if short?, do: 4, else: 60
    fleet = up(5)
    before = repeated()
    load = load(fleet, :model, seconds)

    for number <- 1..(seconds - 1) do
      fault(fleet, rem(number, 5) + 1, "lost\n# #{number}\n")
      Process.sleep(1_000)
    end

    result = ended(load, before)
    losses = for host <- 1..5, do: :erpc.call(name(host), Dala.Serving, :info, [:model]).here.device_losses
    {fleet, Map.merge(result, %{devices_lost: Enum.sum(losses), to_lose: seconds - 1})}
  end

  # Nodes whose device cannot be opened again for a while.
  def trial("device gone", short?) do
    seconds = if short?, do: 6, else: 30
    fleet = up(5)
    before = repeated()
    load = load(fleet, :model, seconds, part: 0.4)

    for host <- [1, 2] do
      fault(fleet, host, "gone\n")
      Process.sleep(div(seconds * 1_000, 4))
      fault(fleet, host, "")
    end

    {fleet, ended(load, before)}
  end

  def trial("1,000 callers killed", short?) do
    callers = if short?, do: 200, else: 1_000
    fleet = up(5)
    before = repeated()
    load = load(fleet, :model, 12, part: 0.4)

    for number <- 1..callers do
      caller = spawn(fn -> Dala.Serving.run(:model, Host.floats(number), deadline: 5_000) end)
      Process.sleep(:rand.uniform(10))
      Process.exit(caller, :kill)
    end

    result = ended(load, before)
    # Whatever a node took has ended, and it knows how.
    unaccounted = fn ->
      for host <- 1..5, reduce: 0 do
        sum ->
          here = :erpc.call(name(host), Dala.Serving, :info, [:model]).here
          sum + here.taken - Enum.sum(for how <- [:done, :failed, :lost, :expired, :left], do: here[how])
      end
    end

    # Of what nobody waits for, some may be under way.
    eventually(fn -> unaccounted.() == 0 end, 60)
    {fleet, Map.put(result, :unaccounted, unaccounted.())}
  end

  def trial("every 50th poisoned", short?) do
    fleet = up(5)
    before = repeated()
    {fleet, ended(load(fleet, :poisoned, if(short?, do: 4, else: 30), part: 0.4), before)}
  end

  def trial("all restarted with another model", short?) do
    fleet = up(5)
    before = repeated()
    load = load(fleet, :model, if(short?, do: 12, else: 30), part: 0.4)

    fleet =
      for host <- if(short?, do: 1..2, else: 1..5), reduce: fleet do
        fleet ->
          for served <- [:model, :function], do: :ok = :erpc.call(name(host), Dala.Serving, :drain, [served])
          :erpc.cast(name(host), :init, :stop, [])
          port = fleet.nodes[host].port
          receive(do: ({^port, {:exit_status, _}} -> :ok))
          again(fleet, host, :other)
      end

    {fleet, ended(load, before)}
  end

  # Every request is answered or refused in time, memory does not grow, and as much is done as can be.
  def trial("120 %", short?) do
    {seconds, tries} = if short?, do: {5, 3}, else: {600, 20}
    fleet = up(5)
    full = Load.run(Load.asks(:model, pure: true), callers: 5 * 16, seconds: tries)
    before = repeated()
    part = 1.2 * full.per_second / (5 * Host.most())
    load = load(fleet, :model, seconds, part: part, deadline: 500)

    memory =
      for _ <- 1..max(2, div(seconds, 10)),
          do: Process.sleep(min(10, div(seconds, 2)) * 1_000) && memory(fleet)

    result = ended(load, before)
    part = div(length(memory), 5)
    {first, last} = {Enum.at(memory, part), List.last(memory)}
    grown = Enum.max(for {a, b} <- Enum.zip(first, last), do: b / a)
    goodput = result.per_second / full.per_second
    IO.puts("  memory of each node in MB, after a fifth and at the end: #{inspect(first)}, #{inspect(last)}")
    {fleet, Map.merge(result, %{saturation: full.per_second, goodput: goodput, memory_grown: grown})}
  end

  defp memory(fleet) do
    for {_, node} <- Enum.sort(fleet.nodes) do
      [_, kilobytes] = Regex.run(~r/VmRSS:\s+(\d+)/, File.read!("/proc/#{node.pid}/status"))
      div(String.to_integer(kilobytes), 1024)
    end
  end

  ## Throughput and waits by the number of nodes, as `cargo run -p dala-route --example fleet agree` simulates them

  def scaling(short?) do
    seconds = if short?, do: 3, else: 20
    table(if(short?, do: [1, 2], else: [1, 2, 4, 8]), [:model], [0.5, 0.8, 1.2], seconds)
  end

  # Ours and Nx.Serving with the same function; and what callers see when one of four nodes is killed.
  def beside_nx(short?) do
    seconds = if short?, do: 3, else: 20
    whats = [:function | if(Code.ensure_loaded?(Nx.Serving), do: [:nx], else: [])]
    table(if(short?, do: [2], else: [1, 2, 4, 8]), whats, [0.8], seconds)

    for what <- whats do
      fleet = up(4)
      before = repeated()
      load = load(fleet, what, if(short?, do: 4, else: 15), part: 0.7)
      Process.sleep(2_000)
      kill(fleet, 2)
      Process.sleep(2_000)
      result = ended(load, before)
      IO.puts("# #{what}, one of four nodes killed: #{inspect(Map.drop(result, [:held]))}")
      down(fleet)
    end
  end

  defp table(counts, whats, parts, seconds) do
    IO.puts("what,nodes,load,asked,answered,refused,p50_ms,p99_ms,per_second")

    for count <- counts do
      fleet = up(count)

      for what <- whats do
        ask = Load.asks(what, pure: true, deadline: 1_000)
        row(what, count, "alone", Load.run(ask, callers: 1, seconds: 3))
        row(what, count, "closed", Load.run(ask, callers: 16 * count, seconds: seconds))

        for part <- parts do
          rate = part * Host.most() * count
          row(what, count, part, Load.run(ask, rate: rate, seconds: seconds))
        end
      end

      times = :erpc.call(name(1), Host, :times, [])
      runs = Enum.map_join(times, ",", fn {size, ms} -> "#{size}:#{ms}" end)
      if runs != "", do: IO.puts("# what runs took, as the simulation is told it: --runs #{runs}")
      down(fleet)
    end
  end

  defp row(what, nodes, load, result) do
    refused = result.asked - result.answered - result.lost
    figures = [result.asked, result.answered, refused, Float.round(result.p50, 2), Float.round(result.p99, 2)]
    IO.puts(Enum.join([what, nodes, load | figures] ++ [Float.round(result.per_second, 1)], ","))
  end

  ## What is counted, and what is said of it

  def count_repeats do
    :persistent_term.put(:repeats, :counters.new(1, []))
    :telemetry.attach(:repeats, [:dala, :serving, :repeated], &__MODULE__.repeats/4, nil)
    Dala.Gpu.Compute.Telemetry.init()
  end

  def repeats(_event, _measurements, _about, _config), do: :counters.add(:persistent_term.get(:repeats), 1, 1)

  defp repeated, do: :counters.get(:persistent_term.get(:repeats), 1)

  @columns [:asked, :answered, :refused, :expired, :repeated, :lost, :doubled]

  def heading do
    IO.puts(
      "| what happens | asked | answered | refused | expired | repeated | lost | doubled | p50 ms | p99 ms | more |"
    )

    IO.puts("|---|---|---|---|---|---|---|---|---|---|---|")
  end

  # Whether all is as it must be.
  def tell(trial, result) do
    result = Map.update(result, :answered, 0, & &1)
    counts = for column <- @columns, do: Map.get(result, column, 0)
    times = for column <- [:p50, :p99], do: round(result[column])
    known = @columns ++ [:p50, :p99, :per_second]
    more = for {name, value} <- Map.drop(result, known), value not in [0, 0.0], do: "#{name} #{short(value)}"
    IO.puts("| #{Enum.join([trial | counts] ++ times ++ [Enum.join(more, ", ")], " | ")} |")
    wrong = [:lost, :doubled, :wrong, :held, :done_twice, :undone, :unaccounted]
    wrong = wrong ++ [:device_lost, :device_unavailable, :unknown_model, :run_failed, :internal]
    Enum.all?(wrong, &(Map.get(result, &1, 0) == 0)) and right?(trial, result)
  end

  # Each 50th of them, beginning with the first.
  defp right?("every 50th poisoned", result),
    do:
      result[:failed_as_it_should] in (div(result.asked + 49, 50) - Map.get(result, :refused, 0))..div(
        result.asked + 49,
        50
      )

  defp right?("device lost", result), do: result.devices_lost == result.to_lose

  defp right?("120 %", result),
    do: result.after_deadline < 100 and result.memory_grown < 1.1 and result.goodput >= 0.9

  defp right?(_, _), do: true

  defp short(value) when is_float(value), do: Float.round(value, 2)
  defp short(value), do: value
end

{short?, wanted} = Enum.split_with(System.argv(), &(&1 == "--short"))
short? = short? != []
alias Fleet.Trials

all = [
  "killed",
  "killed, done at most once",
  "frozen",
  "link cut for 3 s",
  "200 ms away",
  "cut in halves",
  "device lost",
  "device gone",
  "1,000 callers killed",
  "every 50th poisoned",
  "all restarted with another model",
  "120 %"
]

# They need a device that fails on purpose, or that is as slow as it is told.
faults = ["device lost", "device gone", "every 50th poisoned", "120 %"]

trials =
  cond do
    wanted != [] -> Enum.filter(all, &(&1 in wanted))
    short? -> all -- faults
    true -> all
  end

for name <- wanted,
    name not in ["scaling", "beside nx" | all],
    do: raise("there is no trial #{inspect(name)}")

{:ok, _} = Application.ensure_all_started(:dala_compute)
Trials.count_repeats()
if trials != [], do: Trials.heading()

right =
  for trial <- trials do
    {fleet, result} = Trials.trial(trial, short?)
    right? = Trials.tell(trial, result)
    if not right?, do: IO.puts("  this must not be")
    Trials.down(fleet)
    right?
  end

if "scaling" in wanted, do: Trials.scaling(short?)
if "beside nx" in wanted, do: Trials.beside_nx(short?)
System.halt(if Enum.all?(right), do: 0, else: 1)

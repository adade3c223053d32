defmodule Dala.Serving do
  @moduledoc """
  A model or a function under one name, served by every node of a cluster that starts it.

      children = [{Dala.Serving, name: :classifier, model: "mobilenet_v2.onnx", batch: [1, 2, 4, 8]}]

      {:ok, %{"output" => {binary, {1, 1000}, :f32}}} = Dala.Serving.run(:classifier, tensor, deadline: 300)

  Requests that come while others run share the next run. Whoever calls asks one of the nodes that serve the name, by their turns and
  by what each says of how long it would take; a request that is lost with its node goes to another if it may be run twice, and one
  that cannot be answered in time is refused at once. The rules are those of `dala serve`, in the same native code: `dala-batch` and
  `dala-route`.

      iex> {:ok, _server} = Dala.Serving.start_link(name: :doubled, run: fn list -> Enum.map(list, &(2 * &1)) end)
      iex> Dala.Serving.run(:doubled, 21)
      {:ok, 42}

  Nodes find each other by `:pg`; nothing is to be configured but the cluster itself, and one node alone will do. A caller needs this
  application and no server of its own.

  ## Errors

  `{:error, error}` with a `Dala.Gpu.Compute.Error`, whose `:code` is

    * `:refused` - nothing was run. `error.details` has the `:reason`, such as `:full`, `:too_late`, `:draining`, `:busy`, `:away` or
      `:no_members`, and after how many milliseconds another try may do better: `:retry_after`
    * `:expired` - there was no answer before the deadline
    * `:node_lost` - the node that had it is gone, and it may not be run again
    * `:buffer_elsewhere` - its buffers live on a node that does not serve it, or on several
    * `:run_failed`, or what the model's run said - the request is the cause: those that shared its run and are pure were run again without
      it, and those that are not say the same
    * `:device_lost` - the device was lost with it, more than once if it is pure, and no other node may or can run it. Nor where a node has no device
      (`:device_unavailable`) or no longer has the model (`:unknown_model`)
    * `:too_large` - it has more items than the largest batch
  """

  use Dala.Gpu.Compute.Twins

  import Dala.Gpu.Compute.Argument, only: [must!: 4, options!: 2, text?: 1, timeout!: 1]

  alias Dala.Gpu.Compute.{Error, Native, Pipeline, Telemetry}
  alias Dala.ML.Model
  alias Dala.Serving.{Members, Server, Tensors, Work}

  @typedoc "What is served, everywhere in the cluster."
  @type name() :: atom() | String.t()

  @lanes [:interactive, :default, :background]
  @queue [items: 4096, bytes: 1_073_741_824, slots: 1]
  @run [deadline: 5_000, lane: :default, pure: nil]
  # What a `receive` waits at most.
  @longest 0xFFFFFFFF

  @doc false
  def child_spec(options) do
    name = if Keyword.keyword?(options), do: options[:name]
    %{id: {__MODULE__, name}, start: {__MODULE__, :start_link, [options]}}
  end

  @doc """
  Serves a name on this node, as `{Dala.Serving, options}` does under a supervisor.

    * `:name` - an atom or a string
    * `:model` - the path of an ONNX file, which is loaded, or a model that was: what `Dala.Gpu.Compute.load_model/3` gave, or its name
    * `:pipeline` - instead of a model `{pipeline, input, output}`, a pipeline with the buffers that it reads and writes, or maps of several
      by name: each request is written to the one and answered from the other
    * `:run` - or a function: it is given the inputs of a batch in a list, and gives their outputs in a list, in order
    * `:batch` - the sizes of runs: `[1, 2, 4, 8]`. Inputs that are missing to one of them are zeros for a model; a function is given as
      many as there are
    * `:queue` - how much may wait: `[items: 4096, bytes: 1_073_741_824]`, and how many batches run at a time, `slots: 1`
    * `:longest` - after how many milliseconds a run is ended and has failed; `:infinity`

  A model is run with zeros of all these sizes first, so that nobody waits for kernels to be built; and is loaded again, if it was from a file,
  when its device was lost and is opened anew. A model shares runs if its inputs and outputs have an open batch; a pipeline runs for one request at a time. A name is served once on each
  node.

      iex> {:ok, server} = Dala.Serving.start_link(name: "lengths", run: &Enum.map(&1, fn text -> String.length(text) end))
      iex> Dala.Serving.start_link(name: "lengths", run: & &1)
      {:error, {:already_started, server}}
  """
  @spec start_link(keyword()) :: GenServer.on_start()
  def start_link(options) do
    options =
      options!(options,
        name: nil,
        model: nil,
        pipeline: nil,
        run: nil,
        batch: [1, 2, 4, 8],
        queue: [],
        longest: :infinity
      )

    name = name!(options[:name])
    given = for what <- [:model, :pipeline, :run], options[what] != nil, do: {what, options[what]}
    must!(length(given) == 1, "a server", "given one of :model, :pipeline and :run", given)
    [served] = given
    served!(served)
    {sizes, queue} = {sizes!(options[:batch]), queue!(options[:queue])}
    longest = timeout!(options[:longest])
    alone? = not match?({:pipeline, _}, served) or elem(queue, 2) == 1
    must!(alone?, :slots, "1 for a pipeline, whose buffers hold one request", elem(queue, 2))

    # What fails does so here, and not in a process that others are linked to.
    with {:ok, _ways} <- Members.find(name),
         nil <- Members.local(name),
         {:ok, work} <- Work.new(served, sizes) do
      Server.start_link(name, work, sizes, queue, longest)
    else
      pid when is_pid(pid) -> {:error, {:already_started, pid}}
      {:error, error} -> {:error, error}
    end
  end

  @doc """
  Asks for an answer, from whichever node.

  To a function the input goes as it is. The input of a model or a pipeline is a buffer, an Nx tensor, `{binary, shape, dtype}`, or a binary or
  flat list of as many numbers as it takes; where there are several, a map of these by name. One item may come without a batch around it. Data
  travels once, as binaries; a buffer is served on the node that it lives on, if that serves. Outputs are a map of `{binary, shape, dtype}`
  by name, as `Dala.Gpu.Compute.buffer_from_binary/3` takes them.

    * `:deadline` - after how many milliseconds the answer is worth nothing: 5000; or `:infinity`
    * `:lane` - `:interactive`, `:default` or `:background`
    * `:pure` - whether it may be run twice: by another node if one is lost, and again if its run fails with others in it. Models are,
      functions are only if you say so

      iex> {:error, error} = Dala.Serving.run(:never_served, 1)
      iex> {error.code, error.details.reason}
      {:refused, :no_members}
  """
  @spec run(name(), term(), keyword()) :: {:ok, term()} | {:error, Error.t()}
  def run(name, input, options \\ []), do: call(name!(name), input, run_options!(options), self())

  @doc """
  The answers to many inputs, lazily and in order, each as `run/3` gives it. Options are those of `run/3`, and

    * `:max_concurrency` - how many are asked at a time: 16. What is answered before its turn is kept until then: one that waits without
      an end, with `deadline: :infinity`, lets any number gather behind it

      iex> {:ok, _server} = Dala.Serving.start_link(name: :squares, run: fn list -> Enum.map(list, &(&1 * &1)) end)
      iex> Enum.to_list(Dala.Serving.stream(:squares, 1..3))
      [ok: 1, ok: 4, ok: 9]
  """
  @spec stream(name(), Enumerable.t(), keyword()) :: Enumerable.t()
  def stream(name, inputs, options \\ []) do
    must!(Keyword.keyword?(options), "options", "a keyword list", options)
    {most, options} = Keyword.pop(options, :max_concurrency, 16)
    must!(is_integer(most) and most in 1..10_000, :max_concurrency, "a positive integer", most)
    {name, options} = {name!(name), run_options!(options)}

    # All count for whoever enumerates them, and what is raised for an input is raised there.
    ask = fn input ->
      try do
        call(name, input, options, hd(Process.get(:"$callers", [self()])))
      rescue
        error -> {:raised, error, __STACKTRACE__}
      end
    end

    inputs
    |> Task.async_stream(ask, max_concurrency: most, timeout: :infinity)
    |> Stream.map(fn
      {:ok, {:raised, error, trace}} -> reraise(error, trace)
      {:ok, answer} -> answer
    end)
  end

  @doc """
  Stops serving a name on this node, without losing anything: nothing new is taken, callers are told, and what waits is run. Returns when
  nothing is left, and what was on its way here has had a quarter of a second to arrive and be sent elsewhere; the process is for its supervisor to
  stop. After `timeout` milliseconds it returns an error with the code `:timeout`, and goes on by itself.

      iex> {:ok, _server} = Dala.Serving.start_link(name: :short_lived, run: & &1)
      iex> Dala.Serving.drain(:short_lived)
      :ok
      iex> {:error, error} = Dala.Serving.drain(:short_lived)
      iex> error.code
      :not_served
  """
  @spec drain(name(), timeout()) :: :ok | {:error, Error.t()}
  def drain(name, timeout \\ :infinity) do
    message = "#{inspect(name!(name))} is not served on this node"
    ask_local(name, :drain, timeout!(timeout)) || {:error, Error.new(:not_served, message)}
  end

  @doc """
  What is known of a name on this node.

    * `:members` - the nodes that serve it: `:node`, `:standing` (`:open`; `:rests` if it drains or was lost, `:tried` if one request finds
      out whether it is back), and in how many milliseconds it would answer, `:expected_wait`
    * `:in_flight` - requests of this node that are with them; `:repeats_left` - how many may be sent again now
    * `:here` - nil, or what this node does as a server: requests and items that wait and run, room and expected waits (in microseconds) by
      lane, whether it is `:draining`, and how many requests were `:taken`, `:refused`, `:done`, `:failed`, `:expired`, ...; and runs
      in which the device was lost, `:device_losses`

      iex> {:ok, _server} = Dala.Serving.start_link(name: :known, run: & &1)
      iex> {:ok, 1} = Dala.Serving.run(:known, 1)
      iex> %{members: [%{standing: :open}], in_flight: 0, here: %{done: 1, queued: 0}} = Dala.Serving.info(:known)
      iex> Dala.Serving.info(:never_served).members
      []
  """
  @spec info(name()) :: map()
  def info(name) do
    here = ask_local(name!(name), :info)

    ways = with {:error, _} <- Members.find(name), do: {:ok, []}
    known = for {routes, _takes} <- elem(ways, 1), do: Native.routes_info(routes)
    sum = fn what -> known |> Enum.map(& &1[what]) |> Enum.sum() end

    %{name: name, here: here, members: Enum.flat_map(known, &members(&1.members))}
    |> Map.merge(%{in_flight: sum.(:in_flight), repeats_left: sum.(:repeats_left)})
  end

  @doc """
  What `info/1` knows, as text for people.

      iex> {:ok, _server} = Dala.Serving.start_link(name: :reported, run: & &1)
      iex> IO.puts(Dala.Serving.report(:reported))
      :ok
  """
  @spec report(name()) :: String.t()
  def report(name) do
    %{members: members, here: here} = info = info(name)
    wide = Enum.max([4 | for(member <- members, do: String.length(to_string(member.node)))])

    rows =
      for %{node: node, standing: standing, expected_wait: wait} <- members,
          do:
            "  #{String.pad_trailing(to_string(node), wide)}  #{String.pad_trailing(to_string(standing), 5)}  #{wait} ms\n"

    counts =
      for what <- [:taken, :refused, :done, :failed, :lost, :expired, :left], do: "#{here[what]} #{what}"

    this =
      if here,
        do: "this node: #{here.queued} wait, #{here.running} run; #{Enum.join(counts, ", ")}\n",
        else: "this node does not serve it\n"

    asked = "#{info.in_flight} requests of this node with them, #{info.repeats_left} may be sent again"
    IO.iodata_to_binary(["#{inspect(name)}: #{length(members)} nodes, #{asked}\n", rows, this])
  end

  defp members(members) do
    for {number, standing, wait} <- members, pid = Members.pid(number) do
      %{node: node(pid), standing: standing, expected_wait: millis(wait)}
    end
  end

  # Nil if it is not served here, or no more.
  defp ask_local(name, what, timeout \\ :infinity) do
    pid = Members.local(name)
    pid && GenServer.call(pid, what, timeout)
  catch
    :exit, {:timeout, _} ->
      {:error, Error.new(:timeout, "#{inspect(name)} was not done after #{timeout} ms")}

    :exit, _ ->
      nil
  end

  ## Asking

  defp call(name, input, options, caller) do
    deadline = options[:deadline]
    until = if deadline != :infinity, do: now() + round(deadline * 1000)

    with {:ok, ways} <- Members.find(name) do
      {routes, takes, request} = request(ways, input)
      {only, request} = place(name, takes, request)
      pure = if options[:pure] == nil, do: takes != :anything, else: options[:pure]
      request = request |> Map.delete(:nodes) |> Map.merge(%{lane: options[:lane], pure: pure})
      {started, suspended} = {:erlang.alias(), Members.never_suspended()}
      call = %{name: name, routes: routes, request: request}
      call = Map.merge(call, %{caller: caller, until: until, started: started, last: nil})

      try do
        routes |> Native.routes_ask({options[:lane], left(call), pure, only}) |> follow(call)
      after
        Members.never_suspended(suspended)
        :erlang.unalias(started)
        flush(started)
      end
    end
  rescue
    error in Error -> {:error, error}
  end

  # By the first way that takes it.
  defp request([{routes, takes} | others], input) do
    {routes, takes, Tensors.request(takes, input)}
  rescue
    error in Error -> if others == [], do: reraise(error, __STACKTRACE__), else: request(others, input)
  end

  # The member that has the buffers of a request, or none: anybody may have what they hold.
  defp place(name, takes, %{nodes: [node]} = request) do
    case Members.on(name, takes, node) do
      nil -> {nil, Tensors.read(request)}
      member -> {member, request}
    end
  end

  defp place(_name, _takes, request), do: {nil, Tensors.read(request)}

  # Goes where the router says, until there is an answer or nobody left to ask.
  defp follow({:ok, {ticket, member, wait}}, call) do
    case Members.pid(member) do
      nil ->
        again(Native.routes_lost(call.routes, ticket, false), :node_lost, call)

      pid ->
        # The alias takes one answer, and none after this process has stopped to wait.
        ref = :erlang.monitor(:process, pid, alias: :reply_demonitor)
        request = Map.put(call.request, :left, left(call))
        send(pid, {:ask, ref, call.started, self(), call.caller, request})
        await(%{ref: ref, pid: pid, ticket: ticket, until: wait && now() + wait, ran: false}, call)
    end
  end

  defp follow({:error, %Error{} = error}, _call), do: {:error, error}
  defp follow({:error, refused}, call), do: {:error, refusal(refused, call)}

  # The same after something happened to it on its way, `last`.
  defp again(route, last, call) do
    why =
      case last do
        {code, _, _} -> code
        %Error{code: code} -> code
        why -> why
      end

    if match?({:ok, _}, route), do: Telemetry.serving(:repeated, %{}, %{name: call.name, why: why})
    follow(route, %{call | last: last})
  end

  defp await(%{ref: ref, ticket: ticket} = trip, %{started: started, routes: routes} = call) do
    receive do
      {^ref, reply} ->
        answered(reply, trip, call)

      {^started, :started, ^ref} ->
        await(%{trip | ran: true}, call)

      # With a connection the word that it has begun may be lost. From a process that ends, it comes before.
      {:DOWN, ^ref, :process, _, reason} ->
        perhaps = trip.ran or reason == :noconnection
        again(Native.routes_lost(routes, ticket, perhaps), :node_lost, call)
    after
      timeout(trip.until) -> late(trip, call)
    end
  end

  defp answered({:answer, result, word}, trip, call) do
    Native.routes_answered(call.routes, trip.ticket, word)
    result
  end

  defp answered({:refused, why, word}, trip, call),
    do: again(Native.routes_refused(call.routes, trip.ticket, word), why, call)

  defp answered({:lost, error, _word}, trip, call),
    do: again(Native.routes_lost(call.routes, trip.ticket, true), error, call)

  # What another version says, and nobody here knows.
  defp answered(_unknown, trip, call),
    do: again(Native.routes_lost(call.routes, trip.ticket, true), :node_lost, call)

  # The answer may have come in this moment.
  defp late(%{ref: ref} = trip, call) do
    Process.demonitor(ref, [:flush])

    receive do
      {^ref, reply} -> answered(reply, trip, call)
    after
      0 ->
        send(trip.pid, {:cancel, ref})
        again(Native.routes_late(call.routes, trip.ticket), :late, call)
    end
  end

  defp flush(started) do
    receive do
      {^started, :started, _} -> flush(started)
    after
      0 -> :ok
    end
  end

  # What the router says of a request that ends without an answer, and what happened to it last.
  defp refusal({:too_late, _, text}, _call), do: Error.new(:expired, text)

  defp refusal(_refused, %{last: %Error{} = error}), do: error

  defp refusal({_, _, text}, %{last: :late}),
    do: Error.new(:expired, "there was no answer in time, and #{text}")

  defp refusal({code, retry_after, text}, %{last: :node_lost}) do
    details = %{reason: code, retry_after: millis(retry_after)}
    Error.new(:node_lost, "the node that had it is gone, and #{text}", details)
  end

  defp refusal(refused, %{last: nil} = call), do: refused(refused, call)
  defp refusal(_refused, %{last: {:expired, _, text}}), do: Error.new(:expired, text)
  defp refusal(_refused, %{last: last} = call), do: refused(last, call)

  defp refused({reason, retry_after, text}, call) do
    Telemetry.serving(:refused, %{}, %{name: call.name, lane: call.request.lane, reason: reason, by: :caller})
    details = %{reason: reason, retry_after: millis(retry_after)}
    Error.new(:refused, "#{inspect(call.name)} refused a request: #{text}", details)
  end

  defp now, do: System.monotonic_time(:microsecond)
  defp left(%{until: nil}), do: nil
  defp left(%{until: until}), do: max(until - now(), 0)
  defp timeout(nil), do: :infinity
  defp timeout(until), do: millis(max(until - now(), 0))
  defp millis(micros), do: div(micros + 999, 1000)

  ## Arguments

  defp name!(name) do
    atom? = is_atom(name) and name not in [nil, true, false]
    must!(atom? or text?(name), "a served name", "an atom or a string", name)
    name
  end

  defp served!({:run, run}), do: must!(is_function(run, 1), :run, "a function of a list", run)
  defp served!({:model, model}), do: must!(model?(model), :model, "a path or a model", model)

  defp served!({:pipeline, pipeline}),
    do: must!(match?({%Pipeline{}, _, _}, pipeline), :pipeline, "{pipeline, input, output}", pipeline)

  defp model?(%Model{}), do: true
  defp model?(model), do: (is_atom(model) and not is_boolean(model)) or text?(model)

  defp sizes!(sizes) do
    list? = is_list(sizes) and sizes != [] and not List.improper?(sizes)
    size? = &(is_integer(&1) and &1 in 1..65_536)
    must!(list? and Enum.all?(sizes, size?), :batch, "a list of sizes", sizes)
    sizes
  end

  defp queue!(queue) do
    queue = options!(queue, @queue)
    {items, bytes, slots} = {queue[:items], queue[:bytes], queue[:slots]}
    must!(is_integer(items) and items in 1..@longest, :items, "a number of items", items)
    must!(is_integer(bytes) and bytes in 1..0xFFFFFFFFFFFF, :bytes, "a number of bytes", bytes)
    must!(is_integer(slots) and slots in 1..1024, :slots, "a number of batches", slots)
    {items, bytes, slots}
  end

  defp run_options!(options) do
    options = options!(options, @run)
    {deadline, lane, pure} = {options[:deadline], options[:lane], options[:pure]}
    time? = is_number(deadline) and deadline >= 0 and deadline <= @longest
    must!(time? or deadline == :infinity, :deadline, "a number of milliseconds or :infinity", deadline)
    must!(lane in @lanes, :lane, "one of #{inspect(@lanes)}", lane)
    must!(pure == nil or is_boolean(pure), :pure, "a boolean", pure)
    options
  end
end

# A small stand-in for the `:telemetry` library, so that events are tested where it cannot be had.
unless Code.ensure_loaded?(:telemetry) do
  defmodule :telemetry do
    @moduledoc false

    def attach(id, event, function, config), do: attach_many(id, [event], function, config)

    def attach_many(id, events, function, config) do
      update(fn handlers ->
        if Map.has_key?(handlers, id) do
          {{:error, :already_exists}, handlers}
        else
          {:ok, Map.put(handlers, id, {events, function, config})}
        end
      end)
    end

    def detach(id) do
      update(fn handlers ->
        if Map.has_key?(handlers, id),
          do: {:ok, Map.delete(handlers, id)},
          else: {{:error, :not_found}, handlers}
      end)
    end

    def execute(event, measurements, metadata \\ %{}) when is_map(measurements) and is_map(metadata) do
      for {id, {events, function, config}} <- handlers(), event in events do
        try do
          function.(event, measurements, metadata, config)
        catch
          # A handler that fails is removed, and its caller never notices.
          _kind, _reason -> detach(id)
        end
      end

      :ok
    end

    def span(prefix, metadata, function) do
      start = System.monotonic_time()
      context = %{telemetry_span_context: make_ref()}
      start_measurements = %{monotonic_time: start, system_time: System.system_time()}
      execute(prefix ++ [:start], start_measurements, Map.merge(context, metadata))

      try do
        function.()
      catch
        kind, reason ->
          details = %{kind: kind, reason: reason, stacktrace: __STACKTRACE__}
          execute(prefix ++ [:exception], ending(start), context |> Map.merge(metadata) |> Map.merge(details))
          :erlang.raise(kind, reason, __STACKTRACE__)
      else
        {result, %{} = stop_metadata} ->
          execute(prefix ++ [:stop], ending(start), Map.merge(context, stop_metadata))
          result
      end
    end

    defp ending(start) do
      now = System.monotonic_time()
      %{duration: now - start, monotonic_time: now}
    end

    defp handlers, do: :persistent_term.get(__MODULE__, %{})

    # One at a time, so that tests that attach at once do not lose each other's handlers.
    defp update(change) do
      :global.trans({__MODULE__, self()}, fn ->
        {answer, handlers} = change.(handlers())
        :persistent_term.put(__MODULE__, handlers)
        answer
      end)
    end
  end
end

defmodule Dala.Gpu.Compute.Commands do
  @moduledoc false
  # Queuing commands, and asking what became of them.

  import Dala.Gpu.Compute.Argument

  alias Dala.Gpu.Compute.{Error, Native, Runtime, Stage}

  @lanes [:interactive, :default, :background]
  @when_full [:wait, :refuse, :drop_oldest]
  # Written when this is compiled, not for each command.
  @a_lane "one of #{inspect(@lanes)}"
  @a_rule "one of #{inspect(@when_full)}"
  @options [notify: nil, detached: false, lane: :default, deadline: nil, when_full: :wait]

  def submit(stages, options) do
    options = options!(options, @options)
    {tag, detached} = {options[:notify], options[:detached]}
    must!(is_boolean(detached), :detached, "a boolean", detached)
    must!(is_nil(tag) or is_reference(tag), :notify, "a reference", tag)
    queue_options = queue_options!(options)

    unwrap!(
      with {:ok, stages} <- Stage.native(stages),
           do: Runtime.submit(stages, queue_options, not detached, tag)
    )
  end

  # `{lane, deadline in microseconds, when_full}`.
  def queue_options!(options) do
    {lane, deadline} = {options[:lane], options[:deadline]}
    # Streams have a rule of their own.
    when_full = Keyword.get(options, :when_full, :wait)
    must!(lane in @lanes, :lane, @a_lane, lane)
    must!(when_full in @when_full, :when_full, @a_rule, when_full)

    must!(
      is_nil(deadline) or (is_number(deadline) and deadline >= 0 and deadline < 1.0e12),
      :deadline,
      "a number of milliseconds",
      deadline
    )

    {lane, deadline && round(deadline * 1000), when_full}
  end

  def poll(id) do
    with {:ok, state} <- by_id(id, &Native.outcome/2), do: state
  end

  def status(id) do
    case by_id(id, &Native.state/2) do
      {:error, %Error{code: :unknown_command}} -> :unknown
      result -> Error.unwrap!(result)
    end
  end

  def wait(id, timeout) do
    timeout!(timeout)
    with {:ok, id} <- id(id), do: Runtime.wait(id, timeout)
  end

  def cancel(id), do: unwrap!(with {:ok, id} <- id(id), do: Runtime.ask(&Native.cancel(&1, id, &2)))

  defp by_id(id, function) do
    with {:ok, id} <- id(id), do: Runtime.call(&function.(&1, id))
  end

  defp id(id) do
    cond do
      unsigned?(id) -> {:ok, id}
      is_integer(id) -> {:error, Error.new(:unknown_command, "there is no command #{id}")}
      true -> raise ArgumentError, "the id of a command is an integer, found #{short(id)}"
    end
  end
end

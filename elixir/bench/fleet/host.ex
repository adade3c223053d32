defmodule Fleet.Host do
  @moduledoc false
  # A node of the fleet: serves `:model` and `:function`, each batch in the time that MobileNetV2 takes for as many pictures on two cores,
  # without the processor's work: the one by a device with that pace (`DALA_FAULTS`), the other asleep. Beside them Nx.Serving, if it is there.

  # Milliseconds of a run, and of each item in it.
  @run 1.1
  @item 7.85
  # Floats of an item.
  @width 256

  def width, do: @width
  def sizes, do: [1, 2, 4, 8]
  def millis(items), do: @run + @item * items

  # What a device says that is as fast as that. It is told bytes that are written.
  def pace, do: "slow #{@run}ms\npace #{Float.round(@width * 4 / @item, 2)}KB/s\n"

  # Items in a second, if all runs are of the largest size.
  def most, do: 8 * 1000 / millis(8)

  # The first of a VM: what it serves is in its environment.
  def main do
    {:ok, _} = Application.ensure_all_started(:dala_compute)
    model = System.get_env("FLEET_MODEL")
    ours = if model, do: [{Dala.Serving, name: :model, model: model, batch: sizes()}], else: []
    function = {Dala.Serving, name: :function, run: &__MODULE__.work/1, batch: sizes()}

    # What runs took.
    :ets.new(:times, [:named_table, :public, :duplicate_bag])
    :telemetry.attach(:times, [:dala, :serving, :ran], &__MODULE__.note/4, nil)
    Dala.Gpu.Compute.Telemetry.init()
    {:ok, _} = Supervisor.start_link([function | ours] ++ nx(), strategy: :one_for_one, name: __MODULE__)
    IO.puts("serves")
    Process.sleep(:infinity)
  end

  def work(inputs) do
    Process.sleep(round(millis(length(inputs))))

    # Whoever asks for work that must not be done twice can look there how often it was, also when this node is gone.
    for {:once, id} <- inputs, do: File.write!(System.fetch_env!("FLEET_DONE"), "#{id}\n", [:append])
    inputs
  end

  def note(_event, %{duration: duration, items: items}, %{name: :model}, _config),
    do: :ets.insert(:times, {items, System.convert_time_unit(duration, :native, :microsecond)})

  def note(_event, _measurements, _about, _config), do: :ok

  # What runs of the planned sizes took since the last call, in milliseconds: the median of each.
  def times do
    rows = :ets.tab2list(:times)
    :ets.delete_all_objects(:times)

    for size <- sizes(), times = Enum.sort(for({^size, time} <- rows, do: time)), times != [] do
      {size, Enum.at(times, div(length(times), 2)) / 1000}
    end
  end

  if Code.ensure_loaded?(Nx.Serving) do
    defp nx do
      {:ok, _} = Application.ensure_all_started(:nx)
      timeout = String.to_integer(System.get_env("FLEET_NX_TIMEOUT", "10"))
      serving = Nx.Serving.new(fn _options -> &__MODULE__.nx_work/1 end)
      [{Nx.Serving, serving: serving, name: :nx, batch_size: 8, batch_timeout: timeout}]
    end

    def nx_work(batch) do
      Process.sleep(round(millis(batch.size)))
      Nx.Defn.jit_apply(&Function.identity/1, [batch])
    end
  else
    defp nx, do: []
  end

  # What a model is given: numbers that say which request it is.
  def floats(id), do: :binary.copy(<<id + 1.0::float-little-32>>, @width)

  # What the model makes of it, by the file's name: `same.onnx` gives it back, `other.onnx` its negative.
  def answer(id),
    do: {floats(id), for(<<x::float-little-32 <- floats(id)>>, into: <<>>, do: <<-x::float-little-32>>)}
end

defmodule Dala.Gpu.Compute.Native do
  @moduledoc false
  # The native functions, and nothing else: a module with a native library cannot be replaced in a running system, so that
  # this one must not change when others do.
  #
  # No function waits for a device. Those with a `tag` answer later, by a message `{tag, answer}`.

  alias Dala.Gpu.Compute.Error

  @on_load :load

  @doc false
  def load do
    path = System.get_env("DALA_GPU_NIF_PATH") || Path.join(priv(), "native/dala_gpu")

    case :erlang.load_nif(String.to_charlist(path), 0) do
      :ok ->
        :ok

      # The module is being replaced: the old one goes on.
      {:error, {reason, text}} when reason in [:reload, :upgrade] ->
        {:error, {reason, List.to_string(text)}}

      # The program starts all the same, and every call says what is missing.
      {:error, {reason, text}} ->
        :persistent_term.put(__MODULE__, not_loaded(path, reason, List.to_string(text)))
        :ok
    end
  end

  @doc false
  def not_loaded, do: :persistent_term.get(__MODULE__, nil)

  defp not_loaded(path, reason, text) do
    """
    the native library could not be loaded (#{reason}): #{text}
      path:   #{path}
      target: #{:erlang.system_info(:system_architecture)}
      build:  DALA_GPU_BUILD=1 mix compile --force   (needs cargo), or name another library by DALA_GPU_NIF_PATH\
    """
  end

  # A statically linked library is found by the name of this module, whatever the path.
  defp priv do
    case :code.priv_dir(:dala_compute) do
      {:error, _} -> "priv"
      path -> List.to_string(path)
    end
  end

  def attend_exit, do: nif()
  def keep_kernels_in(_folder), do: nif()
  def kernel_cache, do: nif()
  def open(_name, _budget, _tag), do: nif()
  def devices(_tag), do: nif()
  def info(_device), do: nif()
  def stats(_device), do: nif()
  def memory(_device, _tag), do: nif()
  def live_bytes(_device), do: nif()
  def is_suspended(_device), do: nif()
  def trim(_device, _tag), do: nif()
  def memory_pressure(_device, _tag), do: nif()
  def suspend(_device, _fail, _tag), do: nif()
  def resume(_device), do: nif()
  def set_power(_device, _level), do: nif()
  def report_thermal(_device, _level), do: nif()
  def kernels(_device), do: nif()
  def define(_device, _name, _expression, _inputs, _params), do: nif()

  def load_model(_device, _name, _path, _sizes, _tag), do: nif()
  def run_model(_device, _name, _inputs, _tag), do: nif()
  def model(_device, _name), do: nif()
  def imagenet_classes, do: nif()

  def detect(_device, _photo, _model, _options, _tag), do: nif()
  def read_text(_device, _photo, _models, _tag), do: nif()
  def upscale(_device, _photo, _model, _tag), do: nif()
  def listen(_device, _recording, _model, _tag), do: nif()
  def describe_type(_device, _file, _model, _tag), do: nif()

  def decode_picture(_file, _max_pixels), do: nif()
  def encode_png(_shape, _floats, _pixels), do: nif()

  def buffer(_device, _shape, _dtype, _data), do: nif()
  def buffer_large(_device, _shape, _dtype, _data), do: nif()
  def zeros(_device, _shape, _dtype), do: nif()
  def buffer_info(_buffer), do: nif()
  def free(_buffer), do: nif()
  def read(_device, _buffer, _tag), do: nif()

  def submit(_device, _stages, _options, _owned, _tag), do: nif()
  def submit_many(_device, _stages, _options, _owned, _tag), do: nif()
  def submit_json(_device, _json, _options), do: nif()
  def check(_device, _stages), do: nif()
  def state(_device, _id), do: nif()
  def outcome(_device, _id), do: nif()
  def wait(_device, _id, _tag), do: nif()
  def stop_waiting(_wait), do: nif()
  def cancel(_device, _id, _tag), do: nif()

  def pipeline, do: nif()
  def pipeline_add(_pipeline, _stage), do: nif()
  def pipeline_add_large(_pipeline, _stage), do: nif()
  def is_pipeline(_term), do: nif()
  def pipeline_stages(_pipeline), do: nif()
  def pipeline_count(_pipeline), do: nif()
  def pipeline_free(_pipeline), do: nif()
  def pipeline_submit(_device, _pipeline, _at_least, _options, _owned, _tag), do: nif()
  def pipeline_submit_large(_device, _pipeline, _at_least, _options, _owned, _tag), do: nif()
  def pipeline_submit_on(_device, _pipeline, _at_least, _buffers, _call), do: nif()
  def pipeline_compile(_device, _pipeline, _stages), do: nif()
  def pipeline_explain(_device, _pipeline, _at_least), do: nif()
  def pipeline_svg(_device, _pipeline, _at_least), do: nif()
  def pipeline_warm(_device, _pipeline, _at_least, _tag), do: nif()

  def trace_start(_device), do: nif()
  def trace_stop(_tracing), do: nif()

  def stream(_device, _buffers, _stages, _options, _to), do: nif()
  def stream_push(_stream, _frame, _tag), do: nif()
  def stream_stats(_stream), do: nif()
  def stream_stop(_stream, _mute), do: nif()

  def surface(_device, _width, _height, _title), do: nif()
  def surface_set_pixels(_surface, _pixels), do: nif()
  def surface_set_buffer(_surface, _buffer), do: nif()
  def surface_present(_surface), do: nif()
  def surface_resize(_surface, _width, _height), do: nif()
  def surface_snapshot(_surface), do: nif()
  def surface_info(_surface), do: nif()

  def desk(_items, _bytes, _slots), do: nif()
  def desk_key(_desk, _sizes, _tried), do: nif()
  def desk_offer(_desk, _request), do: nif()
  def desk_next(_desk), do: nif()
  def desk_finished(_desk, _batch, _how), do: nif()
  def desk_gone(_desk, _ticket), do: nif()
  def desk_caller_gone(_desk, _caller), do: nif()
  def desk_drain(_desk), do: nif()
  def desk_ended(_desk), do: nif()
  def desk_load(_desk), do: nif()
  def desk_word(_desk, _key), do: nif()

  def routes, do: nif()
  def routes_join(_routes, _member), do: nif()
  def routes_leave(_routes, _member), do: nif()
  def routes_heard(_routes, _member, _word), do: nif()
  def routes_ask(_routes, _ask), do: nif()
  def routes_refused(_routes, _ticket, _word), do: nif()
  def routes_lost(_routes, _ticket, _perhaps), do: nif()
  def routes_late(_routes, _ticket), do: nif()
  def routes_answered(_routes, _ticket, _word), do: nif()
  def routes_info(_routes), do: nif()

  def nop, do: nif()
  def version, do: nif()
  def measure(_on), do: nif()
  def measurements, do: nif()
  def time_runs(_device, _call, _times, _tag), do: nif()
  def panic_in(_place, _tag), do: nif()

  # Not `raise`, of which compilers know that it never returns: they would say so of every native function.
  defp nif, do: :erlang.nif_error(Error.new(:nif_not_loaded, not_loaded() || "not loaded"))
end

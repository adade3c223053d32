# A small stand-in for Kino, so that what Livebook shows is tested where Kino cannot be had. It knows only what the library
# and the notebooks use; outputs are plain maps here as they are in Kino 0.13.
unless Code.ensure_loaded?(Kino) do
  defmodule Kino.Image do
    @moduledoc false
    @enforce_keys [:content, :mime_type]
    defstruct [:content, :mime_type]

    def new(content, :png) when is_binary(content), do: %__MODULE__{content: content, mime_type: "image/png"}

    def new(content, :svg) when is_binary(content),
      do: %__MODULE__{content: content, mime_type: "image/svg+xml"}
  end

  defmodule Kino.Text do
    @moduledoc false
    @enforce_keys [:text]
    defstruct [:text, terminal: false]

    def new(text) when is_binary(text), do: %__MODULE__{text: text}
  end

  defprotocol Kino.Render do
    @moduledoc false
    @fallback_to_any true
    def to_livebook(value)
  end

  defimpl Kino.Render, for: Any do
    def to_livebook(term), do: %{type: :terminal_text, text: inspect(term, pretty: true), chunk: false}
  end

  defimpl Kino.Render, for: Kino.Image do
    def to_livebook(image), do: %{type: :image, content: image.content, mime_type: image.mime_type}
  end

  defimpl Kino.Render, for: Kino.Text do
    def to_livebook(text), do: %{type: :plain_text, text: text.text, chunk: false}
  end

  defmodule Kino do
    @moduledoc false
    def render(term), do: term
  end
end

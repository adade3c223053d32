defmodule Dala.Test.Docs do
  @moduledoc false
  # What the documentation knows of this application.

  @doc "Its modules, without those that are hidden or only for tests."
  def modules do
    for module <- Enum.sort(Application.spec(:dala_compute, :modules)),
        {:docs_v1, _, _, _, %{}, _, _} <- [Code.fetch_docs(module)],
        do: module
  end

  @doc "Functions and macros of those that are not hidden, each with its text or nil."
  def functions do
    for module <- modules(),
        {:docs_v1, _, _, _, _, _, entries} = Code.fetch_docs(module),
        {{kind, name, arity}, _, signature, doc, meta} when kind in [:function, :macro] and doc != :hidden <-
          entries do
      text = if is_map(doc), do: doc["en"]
      %{id: {module, name, arity}, kind: kind, signature: Enum.join(signature), doc: text, meta: meta}
    end
  end
end

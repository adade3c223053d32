defmodule Eventually do
  @moduledoc false
  # Waits for what other processes and threads do in their own time.

  @doc "Whether the check holds within so many tries, 10 ms apart."
  def eventually(check, tries \\ 200)
  def eventually(check, 0), do: check.()
  def eventually(check, tries), do: check.() || (Process.sleep(10) && eventually(check, tries - 1))
end

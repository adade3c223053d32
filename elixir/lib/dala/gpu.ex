defmodule Dala.Gpu do
  @moduledoc """
  Surfaces: places where pictures are shown.

      iex> {:ok, surface} = Dala.Gpu.create_surface(2, 1)
      iex> Dala.Gpu.set_pixels(surface, <<255, 0, 0, 255, 0, 0, 255, 255>>)
      :ok
      iex> Dala.Gpu.present(surface)
      :ok
      iex> {:ok, <<0x89, "PNG", _::binary>>} = Dala.Gpu.snapshot(surface)
      iex> Dala.Gpu.close_surface(surface)
      :ok

  A surface has a picture that is shown and one that comes next: pixels are set, and then presented. It begins black. What
  kernels compute gets there without leaving the device: `Dala.Gpu.Compute.run_to_surface/5`.

  It is a process, and belongs to the one that created it: if that one ends, the surface is closed. Others may use it as well. A
  surface that is closed answers `{:error, %Dala.Gpu.Compute.Error{code: :surface_closed}}`; no call exits.

  Surfaces are off-screen unless they have a title: then they are windows (of X11 so far; written for Linux desktops and not for
  phones).
  """

  use Dala.Gpu.Compute.Twins

  import Dala.Gpu.Compute.Argument, only: [must!: 4, options!: 2, text?: 1]

  alias Dala.Gpu.Compute.Error
  alias Dala.Gpu.Surface

  @doc """
  A surface of a width and a height in pixels.

    * `:title` - opens a window with this title. Where there is no display, that is an error of code `:no_window`

          iex> {:ok, surface} = Dala.Gpu.create_surface(640, 480)
          iex> is_pid(surface)
          true
          iex> {:error, error} = Dala.Gpu.create_surface(0, 480)
          iex> error.code
          :invalid_size
  """
  @spec create_surface(integer(), integer(), keyword()) :: {:ok, pid()} | {:error, Error.t()}
  def create_surface(width, height, options \\ []) do
    sides!(width, height)

    title = options!(options, title: nil)[:title]
    must!(title == nil or text?(title), :title, "a string", title)
    Surface.create(width, height, title)
  end

  @doc """
  The next picture is this one: four bytes for each pixel, red, green, blue, alpha, row by row; a binary, as
  `Dala.Gpu.Compute.read/1` gives, or a list of bytes. Another number of bytes is an error of code `:size_mismatch`.

      iex> {:ok, surface} = Dala.Gpu.create_surface(2, 2)
      iex> Dala.Gpu.set_pixels(surface, List.duplicate(128, 16))
      :ok
      iex> {:error, error} = Dala.Gpu.set_pixels(surface, <<0, 0, 0>>)
      iex> {error.code, error.details}
      {:size_mismatch, %{actual: 3, expected: 16}}
  """
  @spec set_pixels(pid(), binary() | [byte()]) :: :ok | {:error, Error.t()}
  def set_pixels(surface, pixels) do
    bytes = bytes(pixels)
    must!(bytes != nil, "pixels", "a binary or a list of bytes", pixels)
    Surface.call(surface, {:set_pixels, bytes})
  end

  @doc """
  Shows the picture that was set last.

      iex> {:ok, surface} = Dala.Gpu.create_surface(2, 2)
      iex> Dala.Gpu.present(surface)
      :ok
      iex> Dala.Gpu.close_surface(surface)
      iex> {:error, error} = Dala.Gpu.present(surface)
      iex> error.code
      :surface_closed
  """
  @spec present(pid()) :: :ok | {:error, Error.t()}
  def present(surface), do: Surface.call(surface, :present)

  @doc """
  Changes the size of a surface, which becomes black.

      iex> {:ok, surface} = Dala.Gpu.create_surface(2, 2)
      iex> Dala.Gpu.resize(surface, 4, 1)
      :ok
      iex> {:ok, info} = Dala.Gpu.surface_info(surface)
      iex> {info.width, info.height}
      {4, 1}
  """
  @spec resize(pid(), integer(), integer()) :: :ok | {:error, Error.t()}
  def resize(surface, width, height) do
    sides!(width, height)
    Surface.call(surface, {:resize, width, height})
  end

  @doc """
  What is shown, as a PNG file. This is what leaves the device.

      iex> {:ok, surface} = Dala.Gpu.create_surface(3, 2)
      iex> {:ok, png} = Dala.Gpu.snapshot(surface)
      iex> {:ok, picture} = Dala.Media.decode(png)
      iex> {picture.shape, Enum.take(Dala.Gpu.Compute.read_list(picture), 4)}
      {{2, 3, 4}, [0, 0, 0, 255]}
  """
  @spec snapshot(pid()) :: {:ok, binary()} | {:error, Error.t()}
  def snapshot(surface), do: Surface.call(surface, :snapshot)

  @doc """
  The width and height of a surface, how often it was presented, and whether its pictures stay on the device on their way.

      iex> {:ok, surface} = Dala.Gpu.create_surface(3, 2)
      iex> Dala.Gpu.present(surface)
      iex> {:ok, %{width: 3, height: 2, presented: 1, on_device: on_device}} = Dala.Gpu.surface_info(surface)
      iex> is_boolean(on_device)
      true
  """
  @spec surface_info(pid()) ::
          {:ok,
           %{width: pos_integer(), height: pos_integer(), presented: non_neg_integer(), on_device: boolean()}}
          | {:error, Error.t()}
  def surface_info(surface), do: Surface.call(surface, :info)

  @doc """
  Closes a surface. Closing twice is harmless.

      iex> {:ok, surface} = Dala.Gpu.create_surface(2, 2)
      iex> Dala.Gpu.close_surface(surface)
      :ok
      iex> Dala.Gpu.close_surface(surface)
      :ok
  """
  @spec close_surface(pid()) :: :ok
  def close_surface(surface), do: Surface.close(surface)

  defp sides!(width, height) do
    for {name, side} <- [width: width, height: height],
        do: must!(is_integer(side), "the #{name}", "a number of pixels", side)
  end

  defp bytes(pixels) when is_binary(pixels), do: pixels

  defp bytes(pixels) when is_list(pixels) do
    :erlang.list_to_binary(pixels)
  rescue
    ArgumentError -> nil
  end

  defp bytes(_other), do: nil
end

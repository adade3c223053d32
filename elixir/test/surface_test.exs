defmodule SurfaceTest do
  use ExUnit.Case

  import Eventually
  doctest Dala.Gpu

  alias Dala.{Gpu, Media}
  alias Dala.Gpu.Compute
  alias Dala.Gpu.Compute.Error

  @size {24, 40}

  setup_all do
    # Moves with each frame, and differs in each channel.
    wave = "u8((coord(1) * 3 + coord(0) * 5 + channel * 60 + frame * 7) % 256)"
    :ok = Compute.Kernel.define(:surface_wave, wave, inputs: [], params: [frame: 0])
    :ok
  end

  # What the kernel computes, by plain arithmetic.
  defp wave(frame, {height, width}, channels) do
    for y <- 0..(height - 1), x <- 0..(width - 1), channel <- 0..(channels - 1), into: <<>> do
      <<rem(x * 3 + y * 5 + channel * 60 + frame * 7, 256)>>
    end
  end

  defp surface(options \\ []) do
    {height, width} = @size
    {:ok, surface} = Gpu.create_surface(width, height, options)
    on_exit(fn -> Gpu.close_surface(surface) end)
    surface
  end

  # The pixels that are shown, as RGBA.
  defp shown(surface) do
    assert {:ok, png} = Gpu.snapshot(surface)
    assert {:ok, %{shape: {height, width, 4}} = picture} = Media.decode(png)
    assert {:ok, %{width: ^width, height: ^height}} = Gpu.surface_info(surface)
    Compute.read(picture)
  end

  defp black({height, width}), do: :binary.copy(<<0, 0, 0, 255>>, height * width)

  defp error(code, result) do
    assert {:error, %Error{code: ^code, message: message}} = result
    assert is_binary(message) and message != ""
  end

  describe "frames" do
    test "60 of them get to the surface, and nothing is read back before the snapshot" do
      surface = surface()
      {height, width} = @size
      output = Compute.buffer_zeros({height, width, 4}, :u8)
      {:ok, %{on_device: on_device}} = Gpu.surface_info(surface)
      before = Compute.stats().downloaded_bytes

      for frame <- 1..60 do
        assert :ok = Compute.run_to_surface(:surface_wave, [], output, surface, %{frame: frame})
        assert :ok = Gpu.present(surface)
      end

      # Where the device draws nothing, each frame is handed over by the host, and that is counted.
      frames = if on_device, do: 0, else: 60 * height * width * 4
      assert Compute.stats().downloaded_bytes - before == frames
      assert {:ok, %{presented: 60}} = Gpu.surface_info(surface)
      assert shown(surface) == wave(60, @size, 4)
      if on_device, do: assert(Compute.stats().downloaded_bytes > before)
    end

    test "on Vulkan and OpenGL they stay on the device" do
      {:ok, %{on_device: on_device}} = Gpu.surface_info(surface())
      assert on_device == Compute.device_info().backend in ["vulkan", "gl", "metal"]
    end

    test "are pictures of every kind" do
      {height, width} = @size
      surface = surface()
      opaque = fn gray -> for(<<level <- gray>>, into: <<>>, do: <<level, level, level, 255>>) end
      rgb = for(<<pixel::binary-3 <- wave(9, @size, 3)>>, into: <<>>, do: pixel <> <<255>>)

      for {shape, expected} <- [
            {{height, width, 4}, wave(9, @size, 4)},
            {{height, width, 3}, rgb},
            {{height, width, 1}, opaque.(wave(9, @size, 1))},
            {{height, width}, opaque.(wave(9, @size, 1))}
          ] do
        bytes = Compute.buffer_zeros(shape, :u8)
        assert :ok = Compute.run_to_surface(:surface_wave, [], bytes, surface, %{frame: 9})
        assert :ok = Gpu.present(surface)
        assert shown(surface) == expected
        floats = Compute.buffer(for(<<level <- Compute.read(bytes)>>, do: level / 255), shape, :f32)
        assert :ok = Gpu.set_pixels(surface, black(@size)) && Gpu.present(surface)
        assert :ok = Compute.run_to_surface(:copy, [floats], floats, surface)
        assert :ok = Gpu.present(surface)
        assert shown(surface) == expected
      end
    end

    test "are shown when they are presented, not before" do
      surface = surface()
      assert shown(surface) == black(@size)
      assert :ok = Gpu.set_pixels(surface, wave(1, @size, 4))
      assert shown(surface) == black(@size)
      assert :ok = Gpu.present(surface)
      assert shown(surface) == wave(1, @size, 4)
      # Nothing new was set.
      assert :ok = Gpu.present(surface)
      assert shown(surface) == wave(1, @size, 4)
    end

    test "are taken as binaries and as lists" do
      surface = surface()
      pixels = wave(3, @size, 4)

      for given <- [pixels, :binary.bin_to_list(pixels), binary_part("x" <> pixels, 1, byte_size(pixels))] do
        assert :ok = Gpu.set_pixels(surface, black(@size)) && Gpu.present(surface)
        assert :ok = Gpu.set_pixels(surface, given)
        assert :ok = Gpu.present(surface)
        assert shown(surface) == pixels
      end
    end

    test "come from other processes too" do
      surface = surface()

      Task.await(
        Task.async(fn -> :ok = Gpu.set_pixels(surface, wave(4, @size, 4)) && Gpu.present(surface) end),
        :infinity
      )

      assert shown(surface) == wave(4, @size, 4)
    end
  end

  describe "sizes" do
    test "that no surface has" do
      for {width, height} <- [{0, 1}, {1, 0}, {-1, 5}, {1_000_000, 1}, {1, 0x100000000}, {2 ** 70, 2 ** 70}] do
        error(:invalid_size, Gpu.create_surface(width, height))
      end

      for bad <- [nil, 1.0, "1", {1, 2}] do
        assert_raise ArgumentError, fn -> Gpu.create_surface(bad, 1) end
        assert_raise ArgumentError, fn -> Gpu.create_surface(1, bad) end
      end

      for options <- [[titel: "x"], [title: 1], [title: <<255>>], [title: "a\0b"], :title],
          do: assert_raise(ArgumentError, fn -> Gpu.create_surface(1, 1, options) end)
    end

    test "of pixels that are not the surface's" do
      surface = surface()
      pixels = wave(5, @size, 4)
      assert :ok = Gpu.set_pixels(surface, pixels) && Gpu.present(surface)
      more = pixels <> <<0>>

      for bad <- ["", binary_part(pixels, 0, byte_size(pixels) - 1), more, wave(5, @size, 3), []] do
        error(:size_mismatch, Gpu.set_pixels(surface, bad))
      end

      for bad <- [nil, :pixels, [256], [-1], [0.5], <<1::3>>],
          do: assert_raise(ArgumentError, fn -> Gpu.set_pixels(surface, bad) end)

      assert :ok = Gpu.present(surface)
      assert shown(surface) == pixels
    end

    test "of buffers that are not the surface's" do
      {height, width} = @size
      surface = surface()
      assert :ok = Gpu.set_pixels(surface, wave(6, @size, 4)) && Gpu.present(surface)

      for {shape, dtype, code} <- [
            {{width, height, 4}, :u8, :size_mismatch},
            {{height, width + 1, 4}, :u8, :size_mismatch},
            {{height, width, 2}, :u8, :not_a_picture},
            {{height * width * 4}, :u8, :not_a_picture},
            {{height, width, 4}, :s32, :not_a_picture},
            {{0, 0}, :u8, :size_mismatch}
          ] do
        error(
          code,
          Compute.run_to_surface(:fill, [], Compute.buffer_zeros(shape, dtype), surface, %{value: 1})
        )
      end

      # Those of the kernel come first.
      output = Compute.buffer_zeros({height, width, 4}, :u8)
      error(:unknown_kernel, Compute.run_to_surface(:no_such_kernel, [], output, surface))
      error(:unknown_param, Compute.run_to_surface(:fill, [], output, surface, %{volue: 1}))
      Compute.free(output)
      error(:freed, Compute.run_to_surface(:fill, [], output, surface, %{value: 1}))
      assert :ok = Gpu.present(surface)
      assert shown(surface) == wave(6, @size, 4)
    end

    test "change" do
      surface = surface()
      assert :ok = Gpu.set_pixels(surface, wave(7, @size, 4)) && Gpu.present(surface)
      assert :ok = Gpu.resize(surface, 7, 5)
      assert shown(surface) == black({5, 7})
      assert :ok = Gpu.set_pixels(surface, wave(7, {5, 7}, 4)) && Gpu.present(surface)
      assert shown(surface) == wave(7, {5, 7}, 4)

      for {width, height} <- [{0, 1}, {-1, 1}, {1, 2 ** 40}, {1_000_000, 1}],
          do: error(:invalid_size, Gpu.resize(surface, width, height))

      assert_raise ArgumentError, fn -> Gpu.resize(surface, nil, 1) end
      # Nothing has changed.
      assert shown(surface) == wave(7, {5, 7}, 4)
    end
  end

  describe "life" do
    defp all_closed(surface) do
      output = Compute.buffer_zeros({24, 40, 4}, :u8)
      error(:surface_closed, Gpu.set_pixels(surface, "x"))
      error(:surface_closed, Gpu.present(surface))
      error(:surface_closed, Gpu.resize(surface, 1, 1))
      error(:surface_closed, Gpu.snapshot(surface))
      error(:surface_closed, Gpu.surface_info(surface))
      error(:surface_closed, Compute.run_to_surface(:fill, [], output, surface, %{value: 9}))
      # Nothing was computed for it.
      assert Compute.read(output) == :binary.copy(<<0>>, 24 * 40 * 4)
      assert :ok = Gpu.close_surface(surface)
    end

    test "a surface that was closed says so" do
      surface = surface()
      assert :ok = Gpu.close_surface(surface)
      all_closed(surface)
    end

    test "a surface that was killed says so" do
      surface = surface()
      Process.exit(surface, :kill)
      assert eventually(fn -> not Process.alive?(surface) end)
      all_closed(surface)
    end

    test "a process that is no surface is left alone" do
      all_closed(self())
      all_closed(Process.whereis(Dala.Gpu.Compute.Server))
      all_closed(spawn(fn -> :ok end))
      refute_received _
      for bad <- [nil, :name, make_ref(), "pid"], do: assert_raise(ArgumentError, fn -> Gpu.present(bad) end)
      for bad <- [nil, make_ref()], do: assert_raise(ArgumentError, fn -> Gpu.close_surface(bad) end)
    end

    test "it ends with its owner, however that ends" do
      for reason <- [:normal, :kill, :crash] do
        test = self()

        owner =
          spawn(fn ->
            send(test, Gpu.create_surface(8, 8))

            receive do
              :end -> :ok
            end
          end)

        assert_receive {:ok, surface}, 120_000
        monitor = Process.monitor(surface)
        assert :ok = Gpu.present(surface)
        if reason == :normal, do: send(owner, :end), else: Process.exit(owner, reason)
        assert_receive {:DOWN, ^monitor, :process, ^surface, :normal}, 120_000
        error(:surface_closed, Gpu.present(surface))
      end
    end

    test "it outlives others that use it, and messages that are not for it" do
      surface = surface()
      {pid, monitor} = spawn_monitor(fn -> Gpu.present(surface) && exit(:kill) end)
      assert_receive {:DOWN, ^monitor, :process, ^pid, :kill}, 120_000
      send(surface, {:DOWN, make_ref(), :process, self(), :kill})
      send(surface, "hello")
      assert :ok = Gpu.present(surface)
    end

    @tag :long
    test "100 that were opened and killed give their memory back" do
      open = fn ->
        {:ok, surface} = Gpu.create_surface(1024, 1024)
        :ok = Gpu.set_pixels(surface, :binary.copy(<<1>>, 1024 * 1024 * 4))
        :ok = Gpu.present(surface)
        surface
      end

      # Pools fill up first.
      for _ <- 1..4, do: Process.exit(open.(), :kill)
      Process.sleep(200)
      before = resident()

      # Each has two pictures of 4 MB, so that 100 of them would be 800 MB. A thread gives them back, in its own time.
      for _ <- 1..100 do
        surface = open.()
        monitor = Process.monitor(surface)
        Process.exit(surface, :kill)
        assert_receive {:DOWN, ^monitor, :process, ^surface, :killed}, 120_000
        few? = eventually(fn -> resident() - before < 200_000_000 end)
        assert few?, "#{div(resident() - before, 1_000_000)} MB more"
      end

      assert eventually(fn -> resident() - before < 100_000_000 end)
      assert eventually(fn -> Registry.count(Dala.Gpu.Surface.Registry) <= 1 end)
    end

    test "many at once, from many processes" do
      results =
        1..20
        |> Task.async_stream(
          fn n ->
            {:ok, surface} = Gpu.create_surface(40, 24)
            output = Compute.buffer_zeros({24, 40, 4}, :u8)

            for frame <- [1, n],
                do: :ok = Compute.run_to_surface(:surface_wave, [], output, surface, %{frame: frame})

            :ok = Gpu.present(surface)
            {n, shown(surface)}
          end,
          max_concurrency: 20,
          timeout: :infinity
        )
        |> Enum.to_list()

      for {:ok, {n, pixels}} <- results, do: assert(pixels == wave(n, @size, 4))
      assert length(results) == 20
    end
  end

  # Bytes of memory that this program has.
  defp resident do
    [_, pages | _] = String.split(File.read!("/proc/self/statm"))
    String.to_integer(pages) * 4096
  end

  describe "windows" do
    test "are errors where there is no display" do
      if System.get_env("DISPLAY") in [nil, ""] do
        error(:no_window, Gpu.create_surface(8, 8, title: "Dala"))
        # Nothing is left of it.
        assert eventually(fn -> DynamicSupervisor.count_children(Dala.Gpu.Surface.Supervisor).active == 0 end)
      else
        surface = surface(title: "Dala")
        assert :ok = Gpu.set_pixels(surface, wave(8, @size, 4)) && Gpu.present(surface)
        assert shown(surface) == wave(8, @size, 4)
      end
    end
  end
end

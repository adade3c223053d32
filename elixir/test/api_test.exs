defmodule ApiTest do
  # The functions and types that the documents name, and whether the public modules say what they do.
  use ExUnit.Case

  alias Dala.Test.Docs

  @functions [
    {Dala.Gpu.Compute,
     add: 3,
     buffer: 3,
     buffer_from_binary: 3,
     buffer_zeros: 2,
     device_info: 0,
     dtype: 1,
     free: 1,
     free_many: 1,
     free_pipeline: 1,
     from_nx: 1,
     gpu?: 0,
     matmul: 3,
     multiply: 3,
     pipeline: 0,
     pipeline_add: 2,
     pipeline_run: 1,
     poll: 1,
     read: 1,
     read_binary: 1,
     read_list: 1,
     relu: 2,
     run_kernel: 4,
     run_kernel_async: 4,
     run_to_surface: 5,
     scale: 3,
     shape: 1,
     size: 1,
     submit: 1,
     to_nx: 3,
     version: 0,
     wait: 1},
    {Dala.Gpu.Compute.Pipeline, add: 2, new: 0, run: 1, stage_count: 1, stages: 1},
    # As the guide calls them.
    {ExCubecl,
     buffer: 3,
     pipeline: 0,
     pipeline_add: 4,
     pipeline_free: 1,
     pipeline_run: 1,
     poll: 1,
     read: 1,
     submit: 1,
     wait: 1},
    {Dala.Gpu, create_surface: 2, present: 1, set_pixels: 2}
  ]

  @types [{Dala.Gpu.Compute.Pipeline, stage: 0, t: 0}]

  # What is public and has no doctest of its own.
  @in_moduledoc "in the doctest of the moduledoc"
  @without_doctest %{
    {Dala.Gpu.Compute, :from_nx, 1} => "Nx is optional; see nx_bridge_test.exs",
    {Dala.Gpu.Compute, :to_nx, 3} => "Nx is optional; see nx_bridge_test.exs",
    {Dala.Gpu.Compute.Kernel, :kernel, 3} => "a macro for the bodies of modules; shown in the moduledoc",
    {Dala.Gpu.Compute.Stream, :new, 1} => @in_moduledoc,
    {Dala.Gpu.Compute.Stream, :push, 2} => @in_moduledoc,
    {Dala.Gpu.Compute.Stream, :stats, 1} => @in_moduledoc,
    {Dala.Gpu.Compute.Stream, :stop, 1} => @in_moduledoc,
    {Dala.Gpu.Compute.Server, :child_spec, 1} => "written by `use GenServer`",
    {Dala.Gpu.Compute.Telemetry, :init, 0} => "the answer depends on whether :telemetry is there"
  }

  # A macro's spec would be about syntax trees; the other is written by `use GenServer`.
  @without_spec [{Dala.Gpu.Compute.Kernel, :kernel, 3}, {Dala.Gpu.Compute.Server, :child_spec, 1}]

  describe "the documents' API" do
    test "has 50 entries" do
      counts = for {module, list} <- @functions, do: {module, length(list)}
      types = for {_, list} <- @types, type <- list, do: type
      assert counts[Dala.Gpu.Compute] == 31
      assert counts[Dala.Gpu.Compute.Pipeline] + length(types) == 7
      assert counts[ExCubecl] == 9
      assert counts[Dala.Gpu] == 3
      assert Enum.sum(Keyword.values(counts)) + length(types) == 50
    end

    test "is there" do
      for {module, list} <- @functions, {name, arity} <- list do
        there? = Code.ensure_loaded?(module) and function_exported?(module, name, arity)
        assert there?, "#{show({module, name, arity})} is missing"
      end
    end

    test "has its types" do
      for {module, list} <- @types, {name, arity} <- list do
        {:ok, types} = Code.Typespec.fetch_types(module)
        there = for {:type, {type, _, args}} <- types, do: {type, length(args)}
        assert {name, arity} in there, "the type #{show({module, name, arity})} is missing"
      end
    end

    test "has the fields that the documents show" do
      assert %{ref: _, stages: _} = %Dala.Gpu.Compute.Pipeline{}
      assert %{ref: _} = Dala.Gpu.Compute.buffer([1.0], {1}, :f32)
      # Named in the text, while the guide passes four arguments.
      assert Code.ensure_loaded?(ExCubecl) and function_exported?(ExCubecl, :pipeline_add, 5)
    end
  end

  describe "public modules" do
    test "are those that were meant to be" do
      assert Docs.modules() == [
               Dala.Gpu,
               Dala.Gpu.Compute,
               Dala.Gpu.Compute.Buffer,
               Dala.Gpu.Compute.Error,
               Dala.Gpu.Compute.Kernel,
               Dala.Gpu.Compute.Picture,
               Dala.Gpu.Compute.Pipeline,
               Dala.Gpu.Compute.Server,
               Dala.Gpu.Compute.Stream,
               Dala.Gpu.Compute.Telemetry,
               Dala.Gpu.Compute.Transient,
               Dala.ML,
               Dala.ML.Model,
               Dala.Media,
               Dala.Serving,
               ExCubecl,
               Mix.Tasks.Dala.Info
             ]
    end

    test "document every function" do
      without = for %{id: function, doc: doc} <- Docs.functions(), not is_binary(doc), do: show(function)
      assert without == []
    end

    test "specify every function" do
      without = for %{id: function} <- Docs.functions(), not spec?(function), do: function
      assert without == @without_spec
    end

    test "have a doctest for every function" do
      # Twins are written by a macro, and tested in twins_test.exs.
      without =
        for %{id: function, doc: doc, meta: meta} <- Docs.functions(),
            not is_map_key(meta, :twin_of) and not (is_binary(doc) and doc =~ "iex>"),
            do: function

      assert Enum.map(Enum.sort(without), &show/1) == Enum.map(Enum.sort(Map.keys(@without_doctest)), &show/1)
    end

    test "use in the moduledoc's doctest what has none of its own" do
      for {{module, name, _}, @in_moduledoc} <- @without_doctest do
        {:docs_v1, _, _, _, %{"en" => moduledoc}, _, _} = Code.fetch_docs(module)
        lines = for line <- String.split(moduledoc, "\n"), line =~ ~r/^\s*iex>/, do: line
        called = Enum.join([List.last(Module.split(module)), name], ".") <> "("
        assert Enum.any?(lines, &String.contains?(&1, called)), "#{called}...) is not in the doctest"
      end
    end

    test "have their doctests run" do
      sources = for file <- Path.wildcard(Path.join(__DIR__, "*_test.exs")), do: File.read!(file)
      run = Regex.scan(~r/^\s*doctest\s+([\w.]+)/m, Enum.join(sources))
      run = for [_, name] <- run, do: name

      for module <- Docs.modules(), Enum.any?(docs(module), &(&1 =~ "iex>")) do
        # A test may have an alias for the module.
        names = [inspect(module), List.last(Module.split(module))]
        assert Enum.any?(names, &(&1 in run)), "the doctests of #{inspect(module)} are not run"
      end
    end
  end

  defp docs(module) do
    {:docs_v1, _, _, _, %{"en" => moduledoc}, _, entries} = Code.fetch_docs(module)
    [moduledoc | for({_, _, _, %{"en" => doc}, _} <- entries, do: doc)]
  end

  defp spec?({module, name, arity}) do
    {:ok, specs} = Code.Typespec.fetch_specs(module)
    List.keymember?(specs, {name, arity}, 0)
  end

  defp show({module, name, arity}), do: "#{inspect(module)}.#{name}/#{arity}"
end

defmodule Dala.Gpu.Compute.NxBridgeTest do
  # One test takes Nx away for a moment.
  use ExUnit.Case, async: false

  alias Dala.Gpu.Compute.{Error, NxBridge}

  @equal_types [
    f32: {:f, 32},
    f64: {:f, 64},
    f16: {:f, 16},
    bf16: {:bf, 16},
    s8: {:s, 8},
    s16: {:s, 16},
    s32: {:s, 32},
    s64: {:s, 64},
    u8: {:u, 8},
    u16: {:u, 16},
    u32: {:u, 32},
    u64: {:u, 64}
  ]

  test "a tensor gives its bytes, shape and type" do
    tensor = Nx.tensor([[1.0, -2.5, 0.5]], type: :f32)
    assert NxBridge.to_binary(tensor) == {<<0, 0, 0x80, 0x3F, 0, 0, 0x20, 0xC0, 0, 0, 0, 0x3F>>, {1, 3}, :f32}
    assert NxBridge.to_binary(Nx.tensor(7, type: :u8)) == {<<7>>, {}, :u8}
    assert NxBridge.to_binary(Nx.tensor([-2], type: :s64)) == {<<-2::little-64>>, {1}, :s64}
  end

  test "every type with an equal goes there and back" do
    for {dtype, type} <- @equal_types do
      tensor = Nx.tensor([[1, 2], [3, 4], [5, 6]], type: type)
      assert {binary, {3, 2}, ^dtype} = NxBridge.to_binary(tensor)
      back = NxBridge.from_binary(binary, {3, 2}, dtype)
      assert Nx.type(back) == type
      assert Nx.shape(back) == {3, 2}
      assert Nx.to_flat_list(back) == [1, 2, 3, 4, 5, 6]
    end
  end

  test "types without an equal are refused by name" do
    for {type, name, advice} <- [
          {{:c, 64}, "c64", "Nx.real/1"},
          {{:c, 128}, "c128", "Nx.imag/1"}
        ] do
      error = assert_raise Error, fn -> NxBridge.to_binary(Nx.tensor([1, 2], type: type)) end
      assert error.code == :unsupported_type
      assert error.message =~ "buffers have no #{name} elements"
      assert error.message =~ advice
      assert error.details.type == type
    end
  end

  test "vectorized tensors are refused" do
    tensor = Nx.vectorize(Nx.tensor([[1.0, 2.0], [3.0, 4.0]]), :rows)
    error = assert_raise Error, fn -> NxBridge.to_binary(tensor) end
    assert error.code == :unsupported_type
    assert error.message =~ "vectorized over [:rows]"
  end

  test "what is no tensor is refused" do
    for term <- [[1.0], 1.0, nil, %{type: {:f, 32}, shape: {1}}, %Error{code: :freed}] do
      assert_raise ArgumentError, ~r/expected an Nx tensor, got /, fn -> NxBridge.to_binary(term) end
    end
  end

  test "bytes give a tensor" do
    tensor = NxBridge.from_binary(<<1.5::float-little-32, 0, 0, 0x80, 0x7F>>, {2, 1}, :f32)
    assert Nx.shape(tensor) == {2, 1}
    assert Nx.to_flat_list(tensor) == [1.5, :infinity]
    assert Nx.shape(NxBridge.from_binary(<<9>>, {}, :u8)) == {}
    assert Nx.shape(NxBridge.from_binary(<<1, 2>>, [1, 2], :u8)) == {1, 2}
  end

  test "bytes that do not fit are refused" do
    error = assert_raise Error, fn -> NxBridge.from_binary(<<0::64>>, {3}, :f32) end
    assert {error.code, error.details} == {:size_mismatch, %{expected: 12, actual: 8}}
    assert error.message == "a tensor f32{3} has 12 bytes, but there are 8"

    error = assert_raise Error, fn -> NxBridge.from_binary(<<>>, {0, 3}, :f32) end
    assert error.code == :invalid_argument
    assert error.message =~ "Nx has no empty tensors"

    assert_raise ArgumentError, ~r/unknown element type :f8/, fn ->
      NxBridge.from_binary(<<0, 0>>, {1}, :f8)
    end

    assert_raise ArgumentError, ~r/expected a binary, got \[1\]/, fn ->
      NxBridge.from_binary([1], {1}, :u8)
    end

    for shape <- [3, nil, {-1}, {1.0}, {:a}, [1 | 2]] do
      assert_raise ArgumentError, ~r/expected a shape such as \{2, 3\}, got /, fn ->
        NxBridge.from_binary(<<0>>, shape, :u8)
      end
    end
  end

  test "without Nx the error says so, and it works again as soon as Nx is there" do
    tensor = Nx.tensor([1], type: :u8)

    without_nx(fn ->
      for call <- [fn -> NxBridge.to_binary(tensor) end, fn -> NxBridge.from_binary(<<1>>, {1}, :u8) end] do
        error = assert_raise Error, call
        assert error.code == :nx_not_loaded
        assert error.message =~ "add {:nx, "
      end
    end)

    assert NxBridge.to_binary(tensor) == {<<1>>, {1}, :u8}
  end

  defp without_nx(fun) do
    for module <- [Error, NxBridge, Dala.Gpu.Compute.Codec], do: Code.ensure_loaded!(module)
    folder = Nx |> :code.which() |> Path.dirname() |> String.to_charlist()
    true = :code.del_path(folder)
    :code.purge(Nx)
    :code.delete(Nx)

    try do
      fun.()
    after
      :code.add_patha(folder)
      Code.ensure_loaded!(Nx)
    end
  end
end

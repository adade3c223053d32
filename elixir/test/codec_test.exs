defmodule Dala.Gpu.Compute.CodecTest do
  use ExUnit.Case, async: true

  alias Dala.Gpu.Compute.Codec

  test "types and their sizes" do
    assert Codec.dtypes() == [:f32, :f64, :s32, :s64, :u32, :u8, :f16, :bf16, :s8, :s16, :u16, :u64]
    assert Enum.map(Codec.dtypes(), &Codec.element_size/1) == [4, 8, 4, 8, 4, 1, 2, 2, 1, 2, 2, 8]
    assert Codec.dtype?(:f32)
    refute Codec.dtype?(:f8)
    refute Codec.dtype?("f32")

    assert_raise ArgumentError, ~r/unknown element type :f8, expected one of :f32, /, fn ->
      Codec.element_size(:f8)
    end
  end

  describe "encode" do
    test "writes the bytes of IEEE 754 and two's complement, lowest first" do
      assert Codec.encode([1.0, -2.5], :f32) == {:ok, <<0, 0, 0x80, 0x3F, 0, 0, 0x20, 0xC0>>}
      assert Codec.encode([1.0], :f64) == {:ok, <<0, 0, 0, 0, 0, 0, 0xF0, 0x3F>>}
      assert Codec.encode([-2, 258], :s32) == {:ok, <<0xFE, 0xFF, 0xFF, 0xFF, 2, 1, 0, 0>>}
      assert Codec.encode([-2], :s64) == {:ok, <<0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF>>}
      assert Codec.encode([4_294_967_295], :u32) == {:ok, <<0xFF, 0xFF, 0xFF, 0xFF>>}
      assert Codec.encode([0, 7, 255], :u8) == {:ok, <<0, 7, 255>>}
      assert Codec.encode([1.5, -2], :f16) == {:ok, <<0, 0x3E, 0, 0xC0>>}
      assert Codec.encode([1.5, -2], :bf16) == {:ok, <<0xC0, 0x3F, 0, 0xC0>>}
      assert Codec.encode([-2, 127], :s8) == {:ok, <<0xFE, 0x7F>>}
      assert Codec.encode([-2], :s16) == {:ok, <<0xFE, 0xFF>>}
      assert Codec.encode([0xFFFE], :u16) == {:ok, <<0xFE, 0xFF>>}

      assert Codec.encode([0xFFFFFFFFFFFFFFFE], :u64) ==
               {:ok, <<0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF>>}
    end

    test "16-bit floats are rounded half to even" do
      for {dtype, cases} <- [
            f16: [
              {2049, 2048.0},
              {2051, 2052.0},
              {65_519.0, 65_504.0},
              {6.0e-8, 5.960464477539063e-8},
              {1.0e-8, 0.0}
            ],
            bf16: [
              {257, 256.0},
              {259, 260.0},
              {3.39e38, 3.3895313892515355e38}
            ]
          ],
          {given, expected} <- cases do
        {:ok, bytes} = Codec.encode([given], dtype)
        [found] = Codec.decode(bytes, dtype)
        assert_in_delta found, expected, abs(expected) * 1.0e-9 + 1.0e-40
      end

      assert {:error, "element 0 is 65520.0, which is too large for f16 (at most 65504)"} =
               Codec.encode([65_520.0], :f16)

      assert {:error, "element 0 is 3.4e38, which is too large for bf16" <> _} = Codec.encode([3.4e38], :bf16)
    end

    test "an empty list is no bytes" do
      for dtype <- Codec.dtypes(), do: assert(Codec.encode([], dtype) == {:ok, <<>>})
    end

    test "integers are numbers of a float type" do
      assert Codec.encode([1, -3], :f32) == Codec.encode([1.0, -3.0], :f32)
      assert Codec.encode([0x20000000000001], :f64) == {:ok, <<0, 0, 0, 0, 0, 0, 0x40, 0x43>>}
    end

    test "values that are not finite have names" do
      assert Codec.encode([:infinity, :neg_infinity, :nan], :f32) ==
               {:ok, <<0, 0, 0x80, 0x7F, 0, 0, 0x80, 0xFF, 0, 0, 0xC0, 0x7F>>}

      assert Codec.encode([:neg_infinity], :f64) == {:ok, <<0, 0, 0, 0, 0, 0, 0xF0, 0xFF>>}
      assert Codec.encode([:infinity, :nan], :f16) == {:ok, <<0, 0x7C, 0, 0x7E>>}
      assert Codec.encode([:neg_infinity, :nan], :bf16) == {:ok, <<0x80, 0xFF, 0xC0, 0x7F>>}
    end

    test "a float that is too large for f32 is an error, not infinity" do
      assert Codec.encode([0.5, 1.0e300], :f32) ==
               {:error, "element 1 is 1.0e300, which is too large for f32 (at most 3.4028235e38)"}

      # The last number that rounds to the largest f32, and the first that does not.
      assert Codec.encode([3.4028235677973362e38], :f32) == {:ok, <<0xFF, 0xFF, 0x7F, 0x7F>>}
      assert {:error, "element 0 is 3.4028235677973366e38" <> _} = Codec.encode([3.4028235677973366e38], :f32)

      assert {:error, "element 0 is -3.4028235677973366e38" <> _} =
               Codec.encode([-3.4028235677973366e38], :f32)

      assert {:error, "element 0 is " <> _} = Codec.encode([Integer.pow(2, 128)], :f32)
      assert Codec.encode([Integer.pow(2, 127)], :f32) == {:ok, <<0, 0, 0, 0x7F>>}
    end

    test "an integer without a float is an error with a short message" do
      assert {:error, message} = Codec.encode([1, Integer.pow(2, 20_000)], :f64)
      assert message =~ ~r/\Aelement 1 is \d+\.\.\., which is too large for f64/
      assert String.length(message) < 200

      largest = trunc(1.7976931348623157e308)
      assert {:ok, bytes} = Codec.encode([largest, -largest], :f64)
      assert Codec.decode(bytes, :f64) == [1.7976931348623157e308, -1.7976931348623157e308]
      assert {:error, "element 0 is 17976931" <> _} = Codec.encode([largest + 1], :f64)
      assert {:error, "element 0 is -17976931" <> _} = Codec.encode([-largest - 1], :f64)
    end

    test "integers outside of the range are errors that name element and value" do
      assert Codec.encode([1, 2, 3, 256], :u8) == {:error, "element 3 is 256, which is no u8 (0..255)"}
      assert Codec.encode([-1], :u8) == {:error, "element 0 is -1, which is no u8 (0..255)"}
      assert Codec.encode([-1], :u32) == {:error, "element 0 is -1, which is no u32 (0..4294967295)"}

      for {dtype, low, high} <- [
            {:s32, -2_147_483_648, 2_147_483_647},
            {:s64, -9_223_372_036_854_775_808, 9_223_372_036_854_775_807},
            {:u32, 0, 4_294_967_295},
            {:u8, 0, 255},
            {:s8, -128, 127},
            {:s16, -32_768, 32_767},
            {:u16, 0, 65_535},
            {:u64, 0, 18_446_744_073_709_551_615}
          ] do
        assert {:ok, bytes} = Codec.encode([low, high], dtype)
        assert Codec.decode(bytes, dtype) == [low, high]

        assert {:error, "element 0 is #{low - 1}, which is no #{dtype} (#{low}..#{high})"} ==
                 Codec.encode([low - 1], dtype)

        assert {:error, "element 1 is #{high + 1}, which is no #{dtype} (#{low}..#{high})"} ==
                 Codec.encode([low, high + 1], dtype)
      end
    end

    test "integer types take no floats and no names" do
      for dtype <- [:s32, :s64, :u32, :u8, :s8, :s16, :u16, :u64], bad <- [1.0, :nan, :infinity] do
        assert {:error, message} = Codec.encode([0, bad], dtype)
        assert message =~ "element 1 is #{inspect(bad)}, which is no #{dtype} ("
      end
    end

    test "what is no number at all" do
      assert Codec.encode([1.0, "a"], :f32) ==
               {:error, "element 1 is \"a\", which is no f32 (a number, :nan, :infinity or :neg_infinity)"}

      for dtype <- Codec.dtypes(), bad <- [nil, true, [1], <<1>>, {1}, %{}] do
        assert {:error, "element 0 is " <> _} = Codec.encode([bad], dtype)
      end
    end

    test "what is no proper list" do
      for dtype <- Codec.dtypes() do
        assert Codec.encode([1, 2 | 3], dtype) ==
                 {:error, "the list is improper: after 2 elements it ends with 3"}

        assert Codec.encode(<<1, 2>>, dtype) == {:error, "expected a list of numbers, got <<1, 2>>"}
        assert Codec.encode(nil, dtype) == {:error, "expected a list of numbers, got nil"}
      end
    end

    test "an unknown type" do
      assert {:error, "unknown element type :f8, expected one of :f32, :f64, " <> _} =
               Codec.encode([1.0], :f8)

      assert {:error, "unknown element type \"f32\"" <> _} = Codec.encode([1.0], "f32")
    end
  end

  describe "decode" do
    test "reads bytes, lowest first" do
      assert Codec.decode(<<0, 0, 0x80, 0x3F, 0, 0, 0x20, 0xC0>>, :f32) == [1.0, -2.5]
      assert Codec.decode(<<0, 0, 0, 0, 0, 0, 0xF0, 0x3F>>, :f64) == [1.0]
      assert Codec.decode(<<0xFE, 0xFF, 0xFF, 0xFF, 2, 1, 0, 0>>, :s32) == [-2, 258]
      assert Codec.decode(<<0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF>>, :s64) == [-2]
      assert Codec.decode(<<0xFE, 0xFF, 0xFF, 0xFF>>, :u32) == [4_294_967_294]
      assert Codec.decode(<<0, 7, 255>>, :u8) == [0, 7, 255]
      for dtype <- Codec.dtypes(), do: assert(Codec.decode(<<>>, dtype) == [])
    end

    test "names values that are not finite, whatever the bits of a NaN" do
      assert Codec.decode(<<0, 0, 0x80, 0x7F, 0, 0, 0x80, 0xFF>>, :f32) == [:infinity, :neg_infinity]
      assert Codec.decode(<<1, 0, 0x80, 0x7F, 0, 0, 0xC0, 0xFF>>, :f32) == [:nan, :nan]

      assert Codec.decode(<<0x7FF0000000000000::little-64, 0xFFF0000000000000::little-64>>, :f64) == [
               :infinity,
               :neg_infinity
             ]

      assert Codec.decode(<<0x7FF0000000000001::little-64, 0xFFF8000000000000::little-64>>, :f64) == [
               :nan,
               :nan
             ]
    end

    test "finds them at every place" do
      for dtype <- [:f32, :f64, :f16, :bf16],
          count <- 1..20,
          place <- 0..(count - 1),
          special <- [:nan, :infinity, :neg_infinity] do
        list = 1..count |> Enum.map(&(&1 * 1.0)) |> List.replace_at(place, special)
        {:ok, bytes} = Codec.encode(list, dtype)
        assert Codec.decode(bytes, dtype) == list
      end
    end

    test "minus zero survives" do
      for {dtype, bytes} <- [f32: <<0, 0, 0, 0x80>>, f64: <<0, 0, 0, 0, 0, 0, 0, 0x80>>] do
        assert Codec.encode([-0.0], dtype) == {:ok, bytes}
        assert [zero] = Codec.decode(bytes, dtype)
        # `==` does not tell the zeros apart.
        assert <<zero::float>> == <<0x80, 0, 0, 0, 0, 0, 0, 0>>
      end
    end

    test "every length comes back, in order" do
      for dtype <- Codec.dtypes(), length <- 0..40 do
        list = for n <- 1..length//1, do: if(dtype in [:f32, :f64, :f16, :bf16], do: n + 0.5, else: n)
        {:ok, bytes} = Codec.encode(list, dtype)
        assert byte_size(bytes) == length * Codec.element_size(dtype)
        assert Codec.decode(bytes, dtype) == list
      end
    end

    test "an f32 has about seven digits" do
      {:ok, bytes} = Codec.encode([0.1, 16_777_217], :f32)
      assert Codec.decode(bytes, :f32) == [0.10000000149011612, 16_777_216.0]
    end

    test "refuses broken input" do
      assert_raise ArgumentError, "3 bytes are no whole number of f32 elements of 4 bytes", fn ->
        Codec.decode(<<1, 2, 3>>, :f32)
      end

      for unknown <- [:f8, "f32", nil] do
        message = ~r/unknown element type #{inspect(unknown)}/
        assert_raise ArgumentError, message, fn -> Codec.decode(<<>>, unknown) end
      end

      assert_raise ArgumentError, "expected a binary, got [1]", fn -> Codec.decode([1], :u8) end
    end
  end

  @tag :long
  test "a million elements" do
    list = for n <- 1..1_000_000, do: n * 0.5
    {:ok, bytes} = Codec.encode(list, :f32)
    assert byte_size(bytes) == 4_000_000
    assert Codec.decode(bytes, :f32) == list
  end
end

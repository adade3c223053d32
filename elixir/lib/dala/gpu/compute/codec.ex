defmodule Dala.Gpu.Compute.Codec do
  @moduledoc false
  # Lists of numbers to the bytes of a buffer and back, little-endian.
  #
  # The BEAM has no infinite or NaN floats: they appear in lists as :nan, :infinity and :neg_infinity. A NaN
  # comes back as :nan whatever its bits were.

  @type dtype :: :f32 | :f64 | :s32 | :s64 | :u32 | :u8 | :f16 | :bf16 | :s8 | :s16 | :u16 | :u64
  @type element :: number | :nan | :infinity | :neg_infinity

  @sizes [f32: 4, f64: 8, s32: 4, s64: 8, u32: 4, u8: 1, f16: 2, bf16: 2, s8: 1, s16: 2, u16: 2, u64: 8]
  @dtypes Keyword.keys(@sizes)
  @floats [:f32, :f64, :f16, :bf16]

  # The first number that does not round to the largest of its type. `<<x::float-32>>` would turn it into infinity
  # without a word.
  @overflow [f32: 3.4028235677973366e38, f16: 65_520.0, bf16: 3.3961775292304957e38]
  # Integers above the largest f64 have no float at all.
  @f64_largest trunc(1.7976931348623157e308)

  @ranges [
    s32: {-0x80000000, 0x7FFFFFFF},
    s64: {-0x8000000000000000, 0x7FFFFFFFFFFFFFFF},
    u32: {0, 0xFFFFFFFF},
    u8: {0, 255},
    s8: {-128, 127},
    s16: {-0x8000, 0x7FFF},
    u16: {0, 0xFFFF},
    u64: {0, 0xFFFFFFFFFFFFFFFF}
  ]

  # Their bits. Any other value that is not finite is a NaN too.
  @non_finite [
    f32: [infinity: 0x7F800000, neg_infinity: 0xFF800000, nan: 0x7FC00000],
    f64: [infinity: 0x7FF0000000000000, neg_infinity: 0xFFF0000000000000, nan: 0x7FF8000000000000],
    f16: [infinity: 0x7C00, neg_infinity: 0xFC00, nan: 0x7E00],
    bf16: [infinity: 0x7F80, neg_infinity: 0xFF80, nan: 0x7FC0]
  ]

  @doc "The element types of buffers."
  @spec dtypes() :: [dtype]
  def dtypes, do: @dtypes

  @doc "Whether `term` is an element type."
  @spec dtype?(term) :: boolean
  def dtype?(term), do: term in @dtypes

  @doc "The bytes of one element. Raises `ArgumentError` for an unknown type."
  @spec element_size(dtype) :: pos_integer
  for {dtype, size} <- @sizes do
    def element_size(unquote(dtype)), do: unquote(size)
  end

  def element_size(other), do: raise(ArgumentError, unknown_dtype(other))

  @doc "The bytes of `list`, or a message that names the first element that does not fit."
  @spec encode([element], dtype) :: {:ok, binary} | {:error, String.t()}
  # The runtime has no such floats: they are the upper halves of f32, rounded half to even.
  def encode(list, :bf16) when is_list(list) do
    case append(:bf16, list, <<>>) do
      :error -> {:error, first_problem(list, :bf16, 0)}
      wide -> {:ok, for(<<bits::little-32 <- wide>>, into: <<>>, do: <<upper(bits)::little-16>>)}
    end
  end

  def encode(list, dtype) when is_list(list) and dtype in @dtypes do
    # Appending to one binary is fast, because the runtime lets it grow in place.
    case append(dtype, list, <<>>) do
      :error -> {:error, first_problem(list, dtype, 0)}
      binary -> {:ok, binary}
    end
  end

  def encode(list, dtype) when dtype in @dtypes, do: {:error, "expected a list of numbers, got #{show(list)}"}
  def encode(_list, dtype), do: {:error, unknown_dtype(dtype)}

  @doc """
  The elements in `binary`.

  Raises `ArgumentError` if it does not hold a whole number of them.
  """
  @spec decode(binary, dtype) :: [element]
  def decode(binary, dtype) when is_binary(binary) do
    size = element_size(dtype)

    if rem(byte_size(binary), size) != 0 do
      raise ArgumentError,
            "#{byte_size(binary)} bytes are no whole number of #{dtype} elements of #{size} bytes"
    end

    case dtype do
      :bf16 -> elements(:f32, for(<<bits::16 <- binary>>, into: <<>>, do: <<0::16, bits::16>>))
      _ -> elements(dtype, binary)
    end
  end

  def decode(other, _dtype), do: raise(ArgumentError, "expected a binary, got #{show(other)}")

  # The two loops: `append` writes a list behind `bytes`, or gives :error at the first element that does not
  # fit, and `elements` reads a binary. Most of their time would go into garbage collection, because every
  # append makes a term and every step of `elements` takes a place on the stack. Eight elements a step make
  # less of both.
  @step 8

  for {dtype, size} <- @sizes do
    width = if dtype == :bf16, do: 32, else: size * 8

    # One element as a part of a binary.
    segment = fn x ->
      case Atom.to_string(dtype) do
        "s" <> _ -> quote do: unquote(x) :: signed - little - unquote(width)
        "u" <> _ -> quote do: unquote(x) :: unsigned - little - unquote(width)
        _float -> quote do: unquote(x) :: float - little - unquote(width)
      end
    end

    # The guard of an element that can be written so.
    fits = fn x ->
      case dtype do
        narrow when narrow in [:f32, :f16, :bf16] ->
          limit = @overflow[narrow]
          quote do: is_number(unquote(x)) and unquote(x) < unquote(limit) and unquote(x) > -unquote(limit)

        :f64 ->
          quote do
            is_float(unquote(x)) or
              (is_integer(unquote(x)) and unquote(x) <= @f64_largest and unquote(x) >= -@f64_largest)
          end

        integer ->
          {low, high} = @ranges[integer]
          quote do: is_integer(unquote(x)) and unquote(x) >= unquote(low) and unquote(x) <= unquote(high)
      end
    end

    many = Macro.generate_arguments(@step, __MODULE__)

    all_fit =
      many |> Enum.map(fits) |> Enum.reduce(fn one, others -> quote do: unquote(others) and unquote(one) end)

    [x | _] = many

    defp append(unquote(dtype), [unquote_splicing(many) | rest], bytes) when unquote(all_fit) do
      append(unquote(dtype), rest, <<bytes::binary, unquote_splicing(Enum.map(many, segment))>>)
    end

    defp append(unquote(dtype), [unquote(x) | rest], bytes) when unquote(fits.(x)) do
      append(unquote(dtype), rest, <<bytes::binary, unquote(segment.(x))>>)
    end

    wide = if dtype == :bf16, do: :f32, else: dtype

    for {atom, bits} <- Keyword.get(@non_finite, wide, []) do
      defp append(unquote(dtype), [unquote(atom) | rest], bytes) do
        append(unquote(dtype), rest, <<bytes::binary, unquote(bits)::little-unquote(width)>>)
      end
    end

    # Those of bf16 are read as the f32 that they are the upper half of.
    if dtype != :bf16 do
      # A function for each type: the runtime reads a binary faster if nothing else is decided on the way.
      read = :"elements_#{dtype}"

      if dtype == :u8 do
        defp unquote(read)(binary), do: :binary.bin_to_list(binary)
      else
        defp unquote(read)(<<unquote_splicing(Enum.map(many, segment)), rest::binary>>) do
          [unquote_splicing(many) | unquote(read)(rest)]
        end

        defp unquote(read)(<<unquote(segment.(x)), rest::binary>>), do: [unquote(x) | unquote(read)(rest)]

        # A float segment matches finite floats only.
        if non_finite = @non_finite[dtype] do
          defp unquote(read)(<<bits::little-unquote(width), rest::binary>>) do
            x =
              case bits do
                unquote(non_finite[:infinity]) -> :infinity
                unquote(non_finite[:neg_infinity]) -> :neg_infinity
                _ -> :nan
              end

            [x | unquote(read)(rest)]
          end
        end

        defp unquote(read)(<<>>), do: []
      end

      defp elements(unquote(dtype), binary), do: unquote(read)(binary)
    end
  end

  # Half of the last bit that stays, less one where that is even, rounds by a sum. What is not finite is exact already.
  defp upper(bits) do
    if Bitwise.band(bits, 0x7F800000) == 0x7F800000 do
      Bitwise.bsr(bits, 16)
    else
      Bitwise.bsr(bits + 0x7FFF + Bitwise.band(Bitwise.bsr(bits, 16), 1), 16)
    end
  end

  defp append(_dtype, [], bytes), do: bytes
  defp append(_dtype, _bad, _bytes), do: :error

  # Looks for it again, so that the loop need not count.
  defp first_problem([x | rest], dtype, index) do
    if append(dtype, [x], <<>>) == :error do
      "element #{index} is #{show(x)}, which #{why_not(x, dtype)}"
    else
      first_problem(rest, dtype, index + 1)
    end
  end

  defp first_problem(tail, _dtype, index) do
    "the list is improper: after #{index} elements it ends with #{show(tail)}"
  end

  defp why_not(x, :f32) when is_number(x), do: "is too large for f32 (at most 3.4028235e38)"
  defp why_not(x, :f16) when is_number(x), do: "is too large for f16 (at most 65504)"
  defp why_not(x, :bf16) when is_number(x), do: "is too large for bf16 (at most 3.3895314e38)"
  defp why_not(x, :f64) when is_number(x), do: "is too large for f64 (at most 1.7976931348623157e308)"

  defp why_not(_x, dtype) when dtype in @floats do
    "is no #{dtype} (a number, :nan, :infinity or :neg_infinity)"
  end

  defp why_not(_x, dtype) do
    {low, high} = @ranges[dtype]
    "is no #{dtype} (#{low}..#{high})"
  end

  defp unknown_dtype(other) do
    "unknown element type #{show(other)}, expected one of #{Enum.map_join(@dtypes, ", ", &inspect/1)}"
  end

  # Short, whatever the term is: an integer may have thousands of digits.
  defp show(term) do
    text = inspect(term, limit: 5, printable_limit: 40)
    if String.length(text) > 80, do: String.slice(text, 0, 77) <> "...", else: text
  end
end

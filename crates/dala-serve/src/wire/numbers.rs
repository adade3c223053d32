//! The elements of a tensor as JSON, to and from the bytes that they lie in memory as.

use bytes::Bytes;

use super::json::Reader;
use crate::{Datatype, Refusal, Tensor, byte_elements};

/// What floats that JSON has no numbers for are written as, and read from.
const NOT_A_NUMBER: &str = "NaN";
const INFINITY: &str = "Infinity";
const MINUS_INFINITY: &str = "-Infinity";

/// Arrays that hold arrays, down to the elements: that they are as the shape says, or flat.
struct Nesting<'a> {
    shape: &'a [usize],
    /// Where in the data each open array began, in elements.
    open: Vec<usize>,
    /// How deep elements lie.
    leaf: Option<usize>,
}

impl Nesting<'_> {
    /// Elements all lie as deep as the first.
    fn leaf_is_here(&mut self) -> bool {
        *self.leaf.get_or_insert(self.open.len()) == self.open.len()
    }

    /// An array ends after so many elements. Those inside of another hold as many as an axis and those after it.
    fn fits(&self, elements: usize) -> bool {
        let inside = match (self.open.len(), self.leaf) {
            (0, _) => return true,
            (depth, Some(leaf)) if leaf == self.shape.len() => self.shape.get(depth..),
            // Flattened in part: as many as the elements below any axis.
            _ => {
                let below = (0..self.shape.len()).map(|axis| self.shape.get(axis..).unwrap_or_default());
                return below.into_iter().any(|axes| Tensor::elements(axes) == Some(elements));
            }
        };
        inside.and_then(Tensor::elements) == Some(elements)
    }
}

/// Reads the elements of a tensor from an array: flat, or nested as the shape is. Never takes more than `limit_bytes`.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    datatype: Datatype,
    shape: &[usize],
    limit_bytes: usize,
) -> Result<Bytes, Refusal> {
    let elements = Tensor::elements(shape).ok_or_else(|| reader.fail("the shape is too large"))?;
    let size = datatype.size_bytes().unwrap_or(4);
    if elements.saturating_mul(size) > limit_bytes {
        return Err(Refusal::TooLarge { limit_bytes });
    }
    // Every element takes two bytes of text at least, so that a large shape alone reserves nothing.
    let mut data = Vec::with_capacity(elements.min(reader.left() / 2 + 1) * size);
    let mut nesting = Nesting { shape, open: Vec::new(), leaf: None };
    let mut count = 0;
    if !reader.open()? {
        return Err(reader.fail("an array expected"));
    }
    nesting.open.push(0);
    // Whether the array that was opened last has nothing in it yet, so that it may end.
    let mut empty = true;
    loop {
        if reader.open()? {
            nesting.open.push(count);
            empty = true;
            continue;
        }
        let ragged = |reader: &Reader<'_>| reader.fail("arrays that are not nested as the shape is");
        if !(empty && reader.close()) {
            empty = false;
            if !nesting.leaf_is_here() {
                return Err(ragged(reader));
            }
            if count == elements {
                return Err(reader.fail(format_args!("more than the {elements} elements of the shape")));
            }
            element(reader, datatype, &mut data)?;
            if data.len() > limit_bytes {
                return Err(Refusal::TooLarge { limit_bytes });
            }
            count += 1;
            if !reader.close() {
                reader.comma()?;
                continue;
            }
        }
        // Ends, until another value follows.
        loop {
            let began = nesting.open.pop().unwrap_or(0);
            if !nesting.fits(count - began) {
                return Err(ragged(reader));
            }
            if nesting.open.is_empty() {
                if count != elements {
                    return Err(reader.fail(format_args!("{count} elements, where the shape has {elements}")));
                }
                return Ok(data.into());
            }
            if !reader.close() {
                reader.comma()?;
                empty = false;
                break;
            }
        }
    }
}

/// Reads one element of a tensor.
fn element(reader: &mut Reader<'_>, datatype: Datatype, data: &mut Vec<u8>) -> Result<(), Refusal> {
    macro_rules! whole {
        ($type:ty) => {{
            let number = reader.number()?;
            let value = number.text.parse::<$type>().ok().filter(|_| number.is_whole);
            let value = value.ok_or_else(|| reader.fail(format_args!("`{}` is no {datatype}", number.text)))?;
            data.extend_from_slice(&value.to_le_bytes());
        }};
    }
    macro_rules! float {
        ($type:ty) => {{
            let value = if reader.peek() == Some(b'"') {
                match &*reader.string()? {
                    NOT_A_NUMBER => <$type>::NAN,
                    INFINITY => <$type>::INFINITY,
                    MINUS_INFINITY => <$type>::NEG_INFINITY,
                    _ => return Err(reader.fail("a number expected")),
                }
            } else {
                let number = reader.number()?;
                let value = number.text.parse::<$type>().ok().filter(|value| value.is_finite());
                value.ok_or_else(|| reader.fail(format_args!("`{}` is no {datatype}", number.text)))?
            };
            data.extend_from_slice(&value.to_le_bytes());
        }};
    }
    match datatype {
        Datatype::Bool => data.push(u8::from(match reader.peek() {
            Some(b'0' | b'1') => match reader.unsigned()? {
                bit @ (0 | 1) => bit == 1,
                _ => return Err(reader.fail("`true` or `false` expected")),
            },
            _ => reader.boolean()?,
        })),
        Datatype::Uint8 => whole!(u8),
        Datatype::Uint16 => whole!(u16),
        Datatype::Uint32 => whole!(u32),
        Datatype::Uint64 => whole!(u64),
        Datatype::Int8 => whole!(i8),
        Datatype::Int16 => whole!(i16),
        Datatype::Int32 => whole!(i32),
        Datatype::Int64 => whole!(i64),
        Datatype::Fp32 => float!(f32),
        Datatype::Fp64 => float!(f64),
        Datatype::Fp16 | Datatype::Bf16 => return Err(binary_only(datatype)),
        Datatype::Bytes => {
            let text = reader.string()?;
            let length = u32::try_from(text.len()).map_err(|_| reader.fail("a text of 4 GiB"))?;
            data.extend_from_slice(&length.to_le_bytes());
            data.extend_from_slice(text.as_bytes());
        }
    }
    Ok(())
}

/// What the protocol has no JSON for.
pub(crate) fn binary_only(datatype: Datatype) -> Refusal {
    Refusal::BadInput(format!("{datatype} cannot be sent as JSON: use the binary tensor data extension"))
}

/// Writes the elements of a tensor as a flat array.
pub(crate) fn write(tensor: &Tensor, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let data: &[u8] = &tensor.data;
    macro_rules! whole {
        ($type:ty, $bytes:literal) => {{
            let mut buffer = itoa::Buffer::new();
            list(out, data.as_chunks::<$bytes>().0, |out, bytes| {
                out.extend_from_slice(buffer.format(<$type>::from_le_bytes(*bytes)).as_bytes());
            });
        }};
    }
    macro_rules! float {
        ($type:ty, $bytes:literal) => {{
            let mut buffer = zmij::Buffer::new();
            list(out, data.as_chunks::<$bytes>().0, |out, bytes| {
                let value = <$type>::from_le_bytes(*bytes);
                if value.is_finite() {
                    out.extend_from_slice(buffer.format_finite(value).as_bytes());
                } else {
                    let word = match value {
                        _ if value.is_nan() => NOT_A_NUMBER,
                        <$type>::INFINITY => INFINITY,
                        _ => MINUS_INFINITY,
                    };
                    out.push(b'"');
                    out.extend_from_slice(word.as_bytes());
                    out.push(b'"');
                }
            });
        }};
    }
    match tensor.datatype {
        Datatype::Bool => list(out, data, |out, &bit| {
            out.extend_from_slice(if bit == 0 { b"false" } else { b"true" });
        }),
        Datatype::Uint8 => whole!(u8, 1),
        Datatype::Uint16 => whole!(u16, 2),
        Datatype::Uint32 => whole!(u32, 4),
        Datatype::Uint64 => whole!(u64, 8),
        Datatype::Int8 => whole!(i8, 1),
        Datatype::Int16 => whole!(i16, 2),
        Datatype::Int32 => whole!(i32, 4),
        Datatype::Int64 => whole!(i64, 8),
        Datatype::Fp32 => float!(f32, 4),
        Datatype::Fp64 => float!(f64, 8),
        Datatype::Fp16 | Datatype::Bf16 => return Err(binary_only(tensor.datatype)),
        Datatype::Bytes => {
            let text = |element: Option<&[u8]>| element.and_then(|bytes| str::from_utf8(bytes).ok().map(str::to_owned));
            let texts: Option<Vec<String>> = byte_elements(data).map(text).collect();
            let texts = texts.ok_or_else(|| {
                Refusal::BadInput(format!("output `{}` is not text: ask for it as binary data", tensor.name))
            })?;
            list(out, &texts, |out, text| string(text, out));
        }
    }
    Ok(())
}

/// Writes a text with its quotes.
pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _written = serde_json::to_writer(out, text);
}

/// Writes an array.
pub(crate) fn list<T>(out: &mut Vec<u8>, elements: &[T], mut element: impl FnMut(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (index, value) in elements.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        element(out, value);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, datatype: Datatype, shape: &[usize]) -> Result<Bytes, Refusal> {
        let mut reader = Reader::new(text.as_bytes());
        let data = read(&mut reader, datatype, shape, 1 << 20)?;
        reader.end()?;
        Ok(data)
    }

    fn written(datatype: Datatype, data: &[u8]) -> String {
        let tensor = Tensor { name: "x".into(), datatype, shape: vec![], data: Bytes::copy_from_slice(data) };
        let mut out = Vec::new();
        write(&tensor, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn flat_nested_and_partly_nested() {
        let flat = parsed("[1,2,3,4,5,6]", Datatype::Int32, &[2, 3]).unwrap();
        for same in ["[[1,2,3],[4,5,6]]", " [ [1 ,2, 3] ,\n[4,5,6]\t] "] {
            assert_eq!(parsed(same, Datatype::Int32, &[2, 3]).unwrap(), flat);
        }
        assert_eq!(
            parsed("[[[1,2],[3,4]],[[5,6],[7,8]]]", Datatype::Uint8, &[2, 2, 2]).unwrap()[..],
            [1, 2, 3, 4, 5, 6, 7, 8]
        );
        assert_eq!(parsed("[[1,2,3,4],[5,6,7,8]]", Datatype::Uint8, &[2, 2, 2]).unwrap().len(), 8);
        assert_eq!(parsed("[5]", Datatype::Uint8, &[]).unwrap()[..], [5]);
        assert_eq!(parsed("[]", Datatype::Uint8, &[0]).unwrap().len(), 0);
        assert_eq!(parsed("[[],[]]", Datatype::Uint8, &[2, 0]).unwrap().len(), 0);
    }

    #[test]
    fn arrays_that_do_not_fit_the_shape() {
        for (text, shape) in [
            ("[1,2,3]", &[2][..]),
            ("[1]", &[2]),
            ("[]", &[2]),
            ("[[1,2],[3]]", &[3]),
            ("[[1],[2,3,4]]", &[2, 2]),
            ("[[1,2],[3,4],[5,6]]", &[2, 3]),
            ("[1,[2,3,4]]", &[2, 2]),
            ("[[1,2],3,4]", &[2, 2]),
            ("[[1,2,3,4]", &[2, 2]),
            ("[1,2,]", &[2]),
            ("[,1,2]", &[2]),
            ("[1 2]", &[2]),
            ("[1,2", &[2]),
            ("1", &[1]),
            ("{}", &[0]),
            ("", &[0]),
            ("[]", &[usize::MAX, 2]),
            ("[]", &[1 << 40]),
        ] {
            assert!(parsed(text, Datatype::Uint8, shape).is_err(), "{text} as {shape:?}");
        }
    }

    #[test]
    fn elements_that_are_not_of_the_type() {
        for (text, datatype) in [
            ("[256]", Datatype::Uint8),
            ("[-1]", Datatype::Uint32),
            ("[128]", Datatype::Int8),
            ("[1.0]", Datatype::Int32),
            ("[1e2]", Datatype::Int64),
            ("[18446744073709551616]", Datatype::Uint64),
            ("[1e39]", Datatype::Fp32),
            ("[1e309]", Datatype::Fp64),
            ("[\"1\"]", Datatype::Fp32),
            ("[NaN]", Datatype::Fp32),
            ("[true]", Datatype::Fp32),
            ("[2]", Datatype::Bool),
            ("[null]", Datatype::Bool),
            ("[1]", Datatype::Bytes),
            ("[1]", Datatype::Fp16),
            ("[1]", Datatype::Bf16),
        ] {
            assert!(parsed(text, datatype, &[1]).is_err(), "{text} as {datatype}");
        }
    }

    #[test]
    fn edges_of_every_type_go_there_and_back() {
        for (text, datatype) in [
            ("[true,false]", Datatype::Bool),
            ("[0,255]", Datatype::Uint8),
            ("[0,65535]", Datatype::Uint16),
            ("[0,4294967295]", Datatype::Uint32),
            ("[0,18446744073709551615]", Datatype::Uint64),
            ("[-128,127]", Datatype::Int8),
            ("[-32768,32767]", Datatype::Int16),
            ("[-2147483648,2147483647]", Datatype::Int32),
            ("[-9223372036854775808,9223372036854775807]", Datatype::Int64),
            ("[\"\",\"a\\\"é\"]", Datatype::Bytes),
            ("[\"NaN\",\"-Infinity\"]", Datatype::Fp32),
            ("[\"Infinity\",0.1]", Datatype::Fp64),
        ] {
            assert_eq!(written(datatype, &parsed(text, datatype, &[2]).unwrap()), text);
        }
    }

    /// Each is the nearest of its type, by exact fractions; by way of a double some would not be.
    #[test]
    fn floats_are_rounded_once() {
        for (text, bits) in [
            ("7.038531e-26", 0x15ae_43fd_u32),
            ("1.00000017881393432617187499", 0x3f80_0001),
            ("1.00000017881393421514957253748434595763683319091796875001", 0x3f80_0001),
            ("1e-45", 1),
            ("3.4028235e38", 0x7f7f_ffff),
            ("-0", 0x8000_0000),
        ] {
            let data = parsed(&format!("[{text}]"), Datatype::Fp32, &[1]).unwrap();
            assert_eq!(u32::from_le_bytes(data[..].try_into().unwrap()), bits, "{text}");
        }
    }

    #[test]
    fn floats_go_there_and_back() {
        let mut bits = 1u32;
        for _ in 0..100_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = f32::from_bits(bits);
            let text = written(Datatype::Fp32, &value.to_le_bytes());
            let back = parsed(&text, Datatype::Fp32, &[1]).unwrap();
            let back = f32::from_le_bytes(back[..].try_into().unwrap());
            assert!(back.to_bits() == bits || value.is_nan() && back.is_nan(), "{bits:x} as {text}");
        }
    }
}

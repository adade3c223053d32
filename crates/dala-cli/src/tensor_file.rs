//! Tensors of any type as NumPy's `.npy` files.

use std::path::Path;

use anyhow::{Context, Result, bail};
use dala_compute::{DType, Data};

/// What starts such a file.
const MAGIC: &[u8] = b"\x93NUMPY";
/// Where the elements of a file start: a multiple of this.
const ALIGNMENT: usize = 64;

/// The types with NumPy's codes for them, all little-endian. Bfloat16 has none.
const CODES: [(&str, DType); 12] = [
    ("<f4", DType::F32),
    ("<f8", DType::F64),
    ("<f2", DType::F16),
    ("<i4", DType::S32),
    ("<i8", DType::S64),
    ("<u4", DType::U32),
    ("<u8", DType::U64),
    ("|u1", DType::U8),
    ("|i1", DType::S8),
    ("<i2", DType::S16),
    ("<u2", DType::U16),
    ("|b1", DType::U8),
];

/// Reads a file: elements and shape.
pub(crate) fn read(path: &Path) -> Result<(Data, Vec<usize>)> {
    let bytes = std::fs::read(path)?;
    parse(&bytes).with_context(|| format!("{} is no .npy file that can be read", path.display()))
}

fn parse(bytes: &[u8]) -> Result<(Data, Vec<usize>)> {
    let rest = bytes.strip_prefix(MAGIC).context("it does not start as one")?;
    let (len, start) = match rest {
        [1, _, a, b, ..] => (usize::from(u16::from_le_bytes([*a, *b])), 4),
        [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 6),
        _ => bail!("its version is not known"),
    };
    let header = rest.get(start..).and_then(|rest| rest.get(..len)).context("it is cut off")?;
    let header = std::str::from_utf8(header).context("its header is no text")?;
    let after =
        |key: &str| header.split_once(key).map(|(_, rest)| rest.trim_start()).context("its header lacks a part");
    if after("'fortran_order':")?.starts_with("True") {
        bail!("its elements are in the order of columns: save it with numpy.ascontiguousarray");
    }
    let code = after("'descr':")?.split('\'').nth(1).context("its header lacks a part")?;
    let Some((_, dtype)) = CODES.iter().find(|(own, _)| *own == code) else {
        bail!("elements of type {code} are not read")
    };
    let shape =
        after("'shape':")?.strip_prefix('(').and_then(|rest| rest.split_once(')')).context("it has no shape")?.0;
    let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
    let shape = sizes.map(|size| size.parse().context("it has no shape")).collect::<Result<Vec<usize>>>()?;
    let elements = rest.get(start + len..).unwrap_or_default();
    let wanted = shape.iter().try_fold(dtype.size(), |all, size| all.checked_mul(*size));
    if wanted != Some(elements.len()) {
        bail!("its shape {shape:?} does not fit the {} bytes of its elements", elements.len());
    }
    Ok((Data::from_bytes(*dtype, elements), shape))
}

/// A file's bytes.
pub(crate) fn write(data: &Data, shape: &[usize]) -> Result<Vec<u8>> {
    let code = CODES.iter().find(|(_, dtype)| *dtype == data.dtype());
    let Some((code, _)) = code else { bail!(".npy has no elements of type {}", data.dtype()) };
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let mut header = format!("{{'descr': '{code}', 'fortran_order': False, 'shape': ({sizes}), }}");
    let start = MAGIC.len() + 4;
    let padding = (start + header.len() + 1).next_multiple_of(ALIGNMENT) - start - header.len() - 1;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend(u16::try_from(header.len())?.to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(data.to_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (data, shape) in [
            (Data::F32(vec![1.0, -2.5, 3.0, 4.0, 5.0, 6.0]), vec![2, 3]),
            (Data::S64(vec![7]), vec![]),
            (Data::U8(vec![]), vec![0, 4]),
        ] {
            let bytes = write(&data, &shape).unwrap();
            assert_eq!((bytes.len() - data.to_bytes().len()) % ALIGNMENT, 0);
            assert_eq!(parse(&bytes).unwrap(), (data, shape));
        }
    }

    #[test]
    fn other_files_are_refused() {
        let good = write(&Data::F32(vec![1.0]), &[1]).unwrap();
        for bad in [&b"PNG"[..], b"\x93NUMPY\x01\x00\xff\xff", &good[..good.len() - 1], &good[..20]] {
            assert!(parse(bad).is_err());
        }
    }
}

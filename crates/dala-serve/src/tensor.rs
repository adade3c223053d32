//! What is sent to a model, and what comes back.

use std::sync::Arc;

use bytes::Bytes;

use crate::Datatype;

/// Named elements of one type and shape, as they lie in memory: row by row, little-endian.
///
/// The data of a request is a slice of what the network delivered: it is shared, not copied, and may begin at any address.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Which input or output of the model it is.
    pub name: Arc<str>,
    /// The type of its elements.
    pub datatype: Datatype,
    /// How many elements along each axis.
    pub shape: Vec<usize>,
    /// The elements. For `Bytes`, each as its length in four bytes and itself.
    pub data: Bytes,
}

impl Tensor {
    /// How many elements the shape has; `None` if no memory could hold as many.
    pub fn elements(shape: &[usize]) -> Option<usize> {
        // With an empty axis there are none, however long the others say they are.
        if shape.contains(&0) {
            return Some(0);
        }
        shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))
    }
}

/// The elements of a tensor of `Bytes`, one after the other; `None` in place of one that is cut off.
pub fn byte_elements(data: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = Some(data).filter(|data| !data.is_empty());
    std::iter::from_fn(move || {
        let element = rest?.split_first_chunk::<4>().and_then(|(length, after)| {
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            after.split_at_checked(length)
        });
        rest = element.map(|(_, after)| after).filter(|after| !after.is_empty());
        Some(element.map(|(element, _)| element))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_shapes() {
        assert_eq!(Tensor::elements(&[]), Some(1));
        assert_eq!(Tensor::elements(&[2, 3]), Some(6));
        assert_eq!(Tensor::elements(&[usize::MAX, 2, 0]), Some(0));
        assert_eq!(Tensor::elements(&[usize::MAX, 2]), None);
    }

    #[test]
    fn elements_of_bytes() {
        let whole = [1, 0, 0, 0, b'a', 0, 0, 0, 0, 2, 0, 0, 0, b'b', b'c'];
        let read: Vec<_> = byte_elements(&whole).collect();
        assert_eq!(read, [Some(&b"a"[..]), Some(b""), Some(b"bc")]);
        assert_eq!(byte_elements(&[]).count(), 0);
        for cut in [1, 4, 6, 14] {
            assert_eq!(byte_elements(&whole[..cut]).last(), Some(None), "cut at {cut}");
        }
    }
}

//! `Identity`: the same value under another name.

use super::operator::{Kind, Operator, Outcome};

pub(super) const IDENTITY: Operator = Operator::new("Identity", Kind::Others, |call| Ok(Outcome::same(call.input(0)?)));

//! Operators that decide which nodes run, and lists of tensors: nothing is computed, so a walk over the nodes does them.

use super::declared::refused;
use super::operator::{Control, Operator};

/// More than any node has.
const MANY: usize = 1 << 16;

pub(super) const IF: Operator = Operator::control("If", Control::If).inputs(1, 1).outputs(MANY);
pub(super) const LOOP: Operator = Operator::control("Loop", Control::Loop).inputs(0, MANY).outputs(MANY);
pub(super) const SCAN: Operator = Operator::control("Scan", Control::Scan)
    .inputs(1, MANY)
    .outputs(MANY)
    // The form before went over a batch of lists at once.
    .refuses(|node| refused([(node.opset < 9, "the form of version 8")]));
pub(super) const SEQUENCE_CONSTRUCT: Operator = Operator::control("SequenceConstruct", Control::List).inputs(1, MANY);
pub(super) const SEQUENCE_EMPTY: Operator = Operator::control("SequenceEmpty", Control::List).inputs(0, 0);
pub(super) const SEQUENCE_INSERT: Operator = Operator::control("SequenceInsert", Control::Insert).inputs(2, 3);
pub(super) const SEQUENCE_ERASE: Operator = Operator::control("SequenceErase", Control::Erase).inputs(1, 2);
pub(super) const SEQUENCE_AT: Operator = Operator::control("SequenceAt", Control::At).inputs(2, 2);
pub(super) const SEQUENCE_LENGTH: Operator = Operator::control("SequenceLength", Control::Length).inputs(1, 1);
pub(super) const CONCAT_FROM_SEQUENCE: Operator = Operator::control("ConcatFromSequence", Control::Join).inputs(1, 1);
pub(super) const SPLIT_TO_SEQUENCE: Operator = Operator::control("SplitToSequence", Control::Cut).inputs(1, 2);

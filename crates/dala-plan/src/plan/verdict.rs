//! What planning decided, for people.

/// What became of a stage, or of two that follow one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One stage does the other's work as well.
    Fused {
        /// The stage that comes first.
        from: usize,
        /// The stage that takes over its work.
        to: usize,
        /// In which way.
        how: &'static str,
    },
    /// The second reads what the first makes, through memory.
    Apart {
        /// The stage that comes first.
        from: usize,
        /// The stage that reads its result.
        to: usize,
        /// Why they are not one.
        why: &'static str,
    },
    /// A copy that is not made: its readers read the original.
    Elided {
        /// The stage.
        stage: usize,
    },
    /// Work whose result nobody needs.
    Dropped {
        /// The stage.
        stage: usize,
    },
}

//! Numbers so small that processors take a hundred times as long for them.

/// While it is there, this thread takes numbers below the smallest normal one for zero.
///
/// For sums of products: what such numbers add to them is lost in rounding anyway, and channels of trained models that died out
/// are full of them.
pub(super) struct Flushing(u64);

impl Flushing {
    pub(super) fn begin() -> Flushing {
        let before = control();
        set_control(before | FLUSH);
        Flushing(before)
    }
}

impl Drop for Flushing {
    fn drop(&mut self) {
        set_control(self.0);
    }
}

/// Both results and operands.
#[cfg(target_arch = "x86_64")]
const FLUSH: u64 = 0x8040;
#[cfg(target_arch = "aarch64")]
const FLUSH: u64 = 1 << 24;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const FLUSH: u64 = 0;

#[cfg(target_arch = "x86_64")]
fn control() -> u64 {
    let mut word = 0u32;
    // SAFETY: it stores the control word to where it is told.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
    word.into()
}

#[cfg(target_arch = "x86_64")]
fn set_control(word: u64) {
    let word = word as u32;
    // SAFETY: the word was read from there, with bits set that it has; whoever sets them sets it back before other code computes.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
}

#[cfg(target_arch = "aarch64")]
fn control() -> u64 {
    let word: u64;
    // SAFETY: it reads the control word.
    unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags)) };
    word
}

#[cfg(target_arch = "aarch64")]
fn set_control(word: u64) {
    // SAFETY: as on other processors.
    unsafe { std::arch::asm!("msr fpcr, {}", in(reg) word, options(nomem, nostack, preserves_flags)) };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn control() -> u64 {
    0
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn set_control(_: u64) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_small_again_afterwards() {
        let small = std::hint::black_box(f32::MIN_POSITIVE) / 4.0;
        let before = control();
        drop(Flushing::begin());
        assert_eq!(control(), before);
        assert!(std::hint::black_box(small) * 2.0 > 0.0);
    }
}

//! What a waiting thread has brought into its second cache: the weights that it will stream next. Memory would idle while threads
//! meet, and be the limit right after.
//!
//! Addresses are hints: nothing here reads them, and they need not exist any more.

use crate::Stretch;

/// Lines that are asked for between two looks at what is waited for: about 30 ns of memory's time.
const LINES: usize = 8;
/// Bytes of a line.
const LINE: usize = 64;

/// What a thread streams next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Next {
    /// The first of it.
    pub stretches: [Stretch; 2],
    /// Whether something was streamed just now: it has taken the place of what was brought before.
    pub anew: bool,
}

/// Stretches to be brought nearer, and how far that has come.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    stretches: [Stretch; 2],
    /// Bytes of both that were asked for.
    done: usize,
}

impl Ahead {
    /// Goes on with these, or begins with them.
    pub(super) fn turn_to(&mut self, Next { stretches, anew }: Next) {
        if self.stretches != stretches || anew {
            *self = Ahead { stretches, done: 0 };
        }
    }

    /// Asks for a few lines. Returns whether there were any.
    #[inline]
    pub(super) fn bring(&mut self) -> bool {
        let mut any = false;
        for stretch in &self.stretches {
            let end = (self.done + LINES * LINE).min(stretch.bytes);
            for at in (self.done..end).step_by(LINE) {
                prefetch(stretch.start.wrapping_add(at));
                any = true;
            }
        }
        self.done += if any { LINES * LINE } else { 0 };
        any
    }
}

/// Has a line brought into the second cache.
#[inline(always)]
fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, about any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(std::ptr::without_provenance(
            address,
        ));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_asked_for_once() {
        let stretch = |lines: usize| Stretch { start: 0, bytes: lines * LINE };
        let mut ahead = Ahead::default();
        assert!(!ahead.bring());
        let next = Next { stretches: [stretch(3 * LINES + 1), stretch(LINES)], anew: false };
        ahead.turn_to(next);
        assert_eq!((0..9).take_while(|_| ahead.bring()).count(), 4);
        ahead.turn_to(next);
        assert!(!ahead.bring(), "the same again is known to be there");
        ahead.turn_to(Next { anew: true, ..next });
        assert!(ahead.bring(), "unless others have passed since");
        ahead.turn_to(Next { stretches: [stretch(1), Stretch::default()], anew: false });
        assert!(ahead.bring() && !ahead.bring());
    }
}

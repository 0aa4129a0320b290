//! Software prefetch.

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Prefetches the line at an address, any address, to L2; or, if `FIRST`, to L1. The instruction stays where the code has it:
/// an intrinsic would be moved to the end of what is computed meanwhile.
#[inline(always)]
pub fn fetch<const FIRST: bool>(address: *const u8) {
    // SAFETY: every machine of the target has the instruction; it reads nothing and never faults. It is said to touch memory, so
    // that it stays between loads.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        if FIRST {
            std::arch::asm!("prefetcht0 [{}]", in(reg) address, options(nostack, preserves_flags));
        } else {
            std::arch::asm!("prefetcht1 [{}]", in(reg) address, options(nostack, preserves_flags));
        }
    }
    // SAFETY: every AArch64 CPU has `prfm`; it is a hint that reads nothing and never faults.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        if FIRST {
            std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags));
        } else {
            std::arch::asm!("prfm pldl2keep, [{}]", in(reg) address, options(nostack, preserves_flags));
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// Prefetches a region to L2, a few lines at each of a known number of steps, so that memory is read while other work is done. It ends with
/// the last step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpreadPrefetch {
    /// What is left of a row of the region.
    at: *const u8,
    end: *const u8,
    /// The first byte of the row, bytes of it, and bytes from one row to the next.
    row: *const u8,
    bytes: usize,
    stride: usize,
    /// Rows after this one.
    rows: usize,
    /// Steps before the first line, and lines of each step.
    wait: usize,
    lines: usize,
}

/// Memory that is read later: rows of bytes. Addresses only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefetchRows {
    pub(crate) start: *const u8,
    pub(crate) rows: usize,
    /// Bytes of a row, and from one row to the next.
    pub(crate) bytes: usize,
    pub(crate) stride: usize,
}

impl SpreadPrefetch {
    /// Prefetches nothing.
    pub(crate) const NOTHING: SpreadPrefetch = SpreadPrefetch {
        at: std::ptr::null(),
        end: std::ptr::null(),
        row: std::ptr::null(),
        bytes: 0,
        stride: 0,
        rows: 0,
        wait: 0,
        lines: 0,
    };

    /// Returns the prefetch of `region` in `steps` steps.
    #[inline(always)]
    pub(crate) fn new(region: PrefetchRows, steps: usize) -> SpreadPrefetch {
        let PrefetchRows { start, rows, bytes, stride } = region;
        // A row that begins inside a line has one more.
        let all = rows * (bytes.div_ceil(LINE) + 1);
        let lines = all.div_ceil(steps.max(1));
        let wait = steps.saturating_sub(all.div_ceil(lines.max(1)));
        let row = start.wrapping_sub(start.addr() % LINE);
        SpreadPrefetch {
            at: row,
            end: start.wrapping_add(bytes),
            row: start,
            bytes,
            stride,
            rows: rows.saturating_sub(1),
            wait,
            lines,
        }
    }

    /// Takes a step.
    #[inline(always)]
    pub(crate) fn step(&mut self) {
        if self.wait > 0 {
            self.wait -= 1;
            return;
        }
        for _ in 0..self.lines {
            if self.at >= self.end {
                if self.rows == 0 {
                    return;
                }
                self.rows -= 1;
                self.row = self.row.wrapping_add(self.stride);
                self.at = self.row.wrapping_sub(self.row.addr() % LINE);
                self.end = self.row.wrapping_add(self.bytes);
            }
            fetch::<false>(self.at);
            self.at = self.at.wrapping_add(LINE);
        }
    }
}

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

//! The whole pages of host memory around a region, which a GPU can use in place.

use crate::HostRegion;
use std::ffi::c_void;

/// The aligned piece of host memory around a region.
pub(crate) struct Window {
    pub(crate) start: *mut c_void,
    pub(crate) bytes: u64,
    /// Bytes of the window before the region.
    pub(crate) before: usize,
}

impl Window {
    /// Rounds a region outwards to multiples of `alignment`; returns `None` on overflow.
    pub(crate) fn round(region: &HostRegion, alignment: u64) -> Option<Window> {
        let alignment = usize::try_from(alignment).ok()?;
        let before = (region.start.as_ptr() as usize).checked_rem(alignment)?;
        let bytes = before.checked_add(region.bytes)?.checked_next_multiple_of(alignment)?;
        let start = region.start.as_ptr().wrapping_sub(before).cast();
        Some(Window { start, bytes: bytes as u64, before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::NonNull;

    fn round(address: usize, bytes: usize, alignment: u64) -> Option<(usize, u64, usize)> {
        let start = NonNull::new(std::ptr::without_provenance_mut(address)).unwrap();
        let window = Window::round(&HostRegion { start, bytes, writable: false }, alignment)?;
        Some((window.start as usize, window.bytes, window.before))
    }

    #[test]
    fn a_window_covers_its_region() {
        assert_eq!(round(3 * 4096 + 256, 4000, 4096), Some((3 * 4096, 2 * 4096, 256)));
        // Apple's pages.
        assert_eq!(round(5 * 16384 + 4096, 12288, 16384), Some((5 * 16384, 16384, 4096)));
        assert_eq!(round(5 * 16384 + 4096, 12289, 16384), Some((5 * 16384, 2 * 16384, 4096)));
        assert_eq!(round(5 * 16384, 16384, 16384), Some((5 * 16384, 16384, 0)));
    }

    #[test]
    fn a_region_beyond_the_address_space_has_no_window() {
        assert_eq!(round(3 * 4096 + 256, usize::MAX, 4096), None);
        assert_eq!(round(4096, 1, 0), None);
    }
}

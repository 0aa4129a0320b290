//! Windows: pieces of files that a device uses in place.
//!
//! A device takes few, large pieces of host memory more gladly than many small ones (drivers limit their number and
//! pin each), so tensors that lie together share a window and are views of it. A window is opened when the first of
//! its tensors is asked for. Windows of a file are sorted and do not overlap, and each tensor lies in one.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::Purpose;
use silicide_weights::{Bytes, Entry, FileRegion, Source};
use std::ops::Range;

/// Windows begin at multiples of this many bytes of the file: pages, where the file is mapped.
const PAGE: usize = 4096;
/// The largest window, unless one tensor is larger. If a device refuses a window, only that window is copied, not the whole model.
const LARGEST: usize = 1 << 30;
/// A hole between tensors that is larger than this is left out.
const HOLE: usize = 1 << 20;
/// The same where other devices have the tensors in the hole.
const SMALL_HOLE: usize = 16 << 10;

/// The windows of all files of a source.
pub(super) struct Windows {
    files: Vec<Vec<Window>>,
}

struct Window {
    range: Range<usize>,
    state: WindowState,
}

enum WindowState {
    Closed,
    Open(Buffer),
    /// The device can't use it in place.
    Refused,
}

impl Windows {
    /// Groups the tensors of a source that `is_loaded` accepts. Nothing is opened yet.
    pub(super) fn plan(device: &Device, source: &Source, is_loaded: impl Fn(&Entry<'_>) -> bool) -> Windows {
        let mut hole = HOLE;
        let limit = LARGEST.min(device.info().limits.max_block.saturating_sub(2 * PAGE));
        let mut places: Vec<Vec<Range<usize>>> = source.files().iter().map(|_| Vec::new()).collect();
        let mut add = |place: FileRegion| {
            if let Some(file) = places.get_mut(place.file()).filter(|_| place.bytes() > 0) {
                file.push(place.range());
            }
        };
        for entry in source.entries() {
            if !is_loaded(&entry) {
                hole = SMALL_HOLE;
                continue;
            }
            if let Some(planes) = entry.planes() {
                [planes.packed, planes.scales, planes.biases].into_iter().for_each(&mut add);
            } else if let Ok(place) = entry.place() {
                add(place);
            }
        }
        Windows { files: places.into_iter().map(|ranges| group(ranges, limit, hole)).collect() }
    }

    /// The window that a place lies in and where in it, or `None` if the device can't use it in place.
    pub(super) fn find(
        &mut self,
        device: &Device,
        file: &Bytes,
        place: FileRegion,
        purpose: Purpose,
    ) -> Result<Option<(Buffer, usize)>> {
        let Range { start, end } = place.range();
        let Some(windows) = self.files.get_mut(place.file()) else { return Ok(None) };
        let number = windows.partition_point(|window| window.range.end <= start);
        let Some(window) = windows.get_mut(number).filter(|w| w.range.start <= start && end <= w.range.end)
        else {
            return Ok(None);
        };
        if let WindowState::Closed = window.state {
            window.state = match Buffer::over_file(device, file, window.range.clone(), purpose) {
                Ok(buffer) => WindowState::Open(buffer),
                Err(Error::NoImport { .. } | Error::TooLarge { .. }) => WindowState::Refused,
                Err(error) => return Err(error),
            };
        }
        Ok(match &window.state {
            WindowState::Open(buffer) => Some((buffer.clone(), start - window.range.start)),
            _ => None,
        })
    }
}

/// Joins ranges that lie together.
fn group(mut ranges: Vec<Range<usize>>, limit: usize, hole: usize) -> Vec<Window> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut windows: Vec<Window> = Vec::new();
    for Range { start, end } in ranges {
        if let Some(Window { range, .. }) = windows.last_mut() {
            let near = start <= range.end.saturating_add(hole) && end - range.start.min(end) <= limit;
            // Two tensors over the same bytes share a window even if it gets too large for the device.
            if near || start < range.end {
                range.end = range.end.max(end);
                continue;
            }
        }
        // Rounding down must not reach into the window before.
        let page = start - start % PAGE;
        let start = windows.last().map_or(page, |before| page.max(before.range.end.min(start)));
        windows.push(Window { range: start..end, state: WindowState::Closed });
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts and ends of the windows of ranges.
    fn grouped(ranges: &[(usize, usize)], limit: usize) -> Vec<(usize, usize)> {
        let ranges = ranges.iter().map(|&(start, end)| start..end).collect();
        group(ranges, limit, HOLE).into_iter().map(|window| (window.range.start, window.range.end)).collect()
    }

    #[test]
    fn tensors_that_lie_together_share_a_window() {
        assert_eq!(grouped(&[(5000, 6000), (6016, 9000), (9000, 9001)], 1 << 30), [(4096, 9001)]);
        assert_eq!(grouped(&[(6016, 9000), (5000, 6000)], 1 << 30), [(4096, 9000)]);
        assert_eq!(grouped(&[(0, 10), (HOLE + 20, HOLE + 30)], 1 << 30), [(0, 10), (HOLE, HOLE + 30)]);
    }

    #[test]
    fn windows_stay_below_the_limit_and_apart() {
        let windows =
            grouped(&[(0, 60_000), (60_000, 90_000), (90_000, 200_000), (200_000, 200_010)], 100_000);
        assert_eq!(windows, [(0, 90_000), (90_000, 200_000), (200_000, 200_010)]);
        assert_eq!(grouped(&[(0, 80), (40, 120), (120, 130)], 100), [(0, 120), (120, 130)]);
    }
}

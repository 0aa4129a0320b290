//! Checks a launch against what its program needs ([`silicide_hal::Needs`]): bytes, alignment, access and sharing of each
//! binding. Kernels and ops are safe code; this is why a wrong plan is an error and not memory corruption.
//!
//! Both recorders lower through [`Call::step`], so both pass here. A replay runs what was checked and pays nothing.

use super::lower::Call;
use super::recording::BufferRegion;
use crate::error::Result;
use crate::kernel::Launch;
use silicide_hal::{Needs, Program};
use silicide_quant::DType;
use smallvec::SmallVec;

/// Returns the unit, in bytes, of the offset word of a WGSL binding: an element, or a byte for compressed types, since an aligned
/// offset need not lie between blocks.
pub(super) fn offset_unit(dtype: DType) -> usize {
    if dtype.is_compressed() { 1 } else { dtype.size() }
}

impl Call<'_> {
    /// Checks each binding of a launch by itself.
    pub(super) fn check_needs(&self, launch: &Launch, places: &[(BufferRegion<'_>, DType)]) -> Result<Needs> {
        let bound: SmallVec<[u64; 8]> = places.iter().map(|(place, _)| place.range.len() as u64).collect();
        let program = launch.program.name();
        let Some(needs) = launch.program.needs(&launch.params, launch.grid, &bound) else {
            let (params, grid) = (&launch.params, launch.grid);
            let what = format!(
                "a launch of {program} that it does not take: grid {grid:?}, parameters {params:?}, bytes bound {bound:?}"
            );
            return Err(self.defect(what));
        };
        // rule: needs-count
        if needs.bindings().len() != places.len() {
            let (needed, given) = (needs.bindings().len(), places.len());
            return Err(self.defect(format!("{given} bindings of {program}, which has {needed}")));
        }
        let is_unchecked =
            matches!(&launch.program, Program::Wgsl(kernel) if !kernel.is_checked() && kernel.has_offsets());
        for (i, (need, (place, dtype))) in needs.bindings().iter().zip(places).enumerate() {
            let bytes = place.range.len() as u64;
            // rule: needs-bytes
            if need.bytes > bytes {
                let needed = need.bytes;
                return Err(self.defect(format!(
                    "binding {i} of {program} with {bytes} bytes, of which {needed} are needed"
                )));
            }
            let (needed, given) = (need.access, place.access);
            // rule: needs-access
            if (needed.writes() && !given.writes()) || (needed.reads() && !given.reads()) {
                return Err(
                    self.defect(format!("binding {i} of {program} for {given:?}, which is for {needed:?}"))
                );
            }
            let alignment = place.allocation.alignment(place.range.start);
            // rule: needs-alignment
            if alignment < need.align {
                let needed = need.align;
                return Err(self.defect(format!(
                    "binding {i} of {program} aligned to {alignment} bytes instead of {needed}"
                )));
            }
            let unit = offset_unit(*dtype) as u32;
            // rule: needs-unit
            if is_unchecked && unit != need.unit {
                let needed = need.unit;
                return Err(self.defect(format!(
                    "binding {i} of {program} with an offset in units of {unit} bytes instead of {needed}"
                )));
            }
        }
        Ok(needs)
    }

    /// Checks bindings against each other. Tiles read and write at once: a binding that is written shares no bytes with
    /// another, unless the program says that both may be the same bytes.
    pub(super) fn check_places(&self, places: &[(BufferRegion<'_>, DType)], needs: &Needs) -> Result<()> {
        let written = |i: usize| needs.bindings().get(i).is_some_and(|need| need.access.writes());
        for (i, (place, _)) in places.iter().enumerate() {
            for (j, (other, _)) in places.iter().enumerate().skip(i + 1) {
                if !(written(i) || written(j)) || !place.overlaps(other) {
                    continue;
                }
                let (one, two) = (&place.range, &other.range);
                // rule: binding-overlap
                if one != two {
                    return Err(
                        self.defect(format!("bindings of bytes {one:?} and {two:?}, one of them written"))
                    );
                }
                // rule: needs-sharing
                if !needs.may_share(i, j) {
                    return Err(
                        self.defect(format!("bindings {i} and {j} over the same bytes, one of them written"))
                    );
                }
            }
        }
        Ok(())
    }
}

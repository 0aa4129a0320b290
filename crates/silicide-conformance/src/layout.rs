//! Where the arguments of a call lie in memory.
//!
//! Every argument has at least [`GUARD`] bytes before and after it that belong to no argument, or to another one, so
//! that a kernel which writes beside its outputs shows itself. Offsets are in elements, as views allow them.

use crate::subject::Call;
use silicide_core::kernel::TensorInfo;

/// Bytes round arguments. A multiple of 256, so that an offset of 0 keeps the alignment of the allocation.
const GUARD: usize = 1024;

/// How much to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Aligned, mixed offsets, and in place.
    Quick,
    /// Every layout.
    Full,
}

/// Where each argument lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// For reports: `offset 1`, `y over x`.
    pub label: String,
    /// Bytes of each allocation.
    pub storages: Vec<usize>,
    /// One for each argument, inputs first.
    pub spots: Vec<Spot>,
}

/// The place of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Which allocation.
    pub storage: usize,
    /// Its first byte there.
    pub start: usize,
    /// Its length in bytes.
    pub bytes: usize,
}

impl Spot {
    /// Its bytes in the allocation.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.bytes
    }
}

/// The layouts to try a call in. The first is aligned.
pub fn layouts(call: &Call, effort: Effort) -> Vec<Layout> {
    let mut layouts = vec![apart(call, "aligned", |_| 0)];
    if effort == Effort::Full {
        layouts.push(apart(call, "offset 1", |_| 1));
        layouts.push(apart(call, "offset 3", |_| 3));
        layouts.push(side_by_side(call));
    }
    layouts.push(apart(call, "mixed offsets", |i| [1, 0, 3][i % 3]));
    for (output, slot) in call.output_slots().iter().enumerate() {
        for (input, info) in call.inputs.iter().enumerate() {
            let allowed = slot.in_place & (1 << input) != 0;
            let alike = call
                .outputs
                .get(output)
                .is_some_and(|other| other.dtype == info.dtype && other.elements() == info.elements());
            if allowed && alike {
                let over = call.op.slots().get(input).map_or("", |slot| slot.name);
                let label = format!("{} over {over}", slot.name);
                layouts.push(in_place(apart(call, &label, |_| 0), call, output, input));
                if effort == Effort::Full {
                    let odd = apart(call, &format!("{label}, offset 1"), |_| 1);
                    layouts.push(in_place(odd, call, output, input));
                }
            }
        }
    }
    layouts
}

/// Returns a layout with each argument in an allocation of its own; argument `i` starts `offset(i)` elements past the aligned start.
fn apart(call: &Call, label: &str, offset: impl Fn(usize) -> usize) -> Layout {
    let (mut storages, mut spots) = (Vec::new(), Vec::new());
    for (i, info) in call.arguments().enumerate() {
        let start = GUARD + offset(i) * info.dtype.size();
        spots.push(Spot { storage: i, start, bytes: info.bytes() });
        storages.push(start + info.bytes() + GUARD);
    }
    Layout { label: label.to_owned(), storages, spots }
}

/// All arguments in one allocation with no more between them than the alignment of their types, outputs between inputs.
fn side_by_side(call: &Call) -> Layout {
    let arguments: Vec<&TensorInfo> = call.arguments().collect();
    let mut order: Vec<usize> = (0..arguments.len()).collect();
    // Input 0, output 0, input 1, output 1...
    order.sort_by_key(|&i| (i % call.inputs.len().max(1), i));
    let mut spots = vec![Spot { storage: 0, start: 0, bytes: 0 }; arguments.len()];
    let mut end = GUARD + 1;
    for i in order {
        if let (Some(spot), Some(info)) = (spots.get_mut(i), arguments.get(i)) {
            spot.start = end.next_multiple_of(info.dtype.alignment());
            spot.bytes = info.bytes();
            end = spot.range().end;
        }
    }
    Layout { label: "side by side".to_owned(), storages: vec![end + GUARD], spots }
}

/// Puts an output where an input is. The output's own allocation stays, untouched.
fn in_place(mut layout: Layout, call: &Call, output: usize, input: usize) -> Layout {
    let over = layout.spots.get(input).copied();
    if let (Some(spot), Some(over)) = (layout.spots.get_mut(call.inputs.len() + output), over) {
        *spot = over;
    }
    layout
}

impl Layout {
    /// The call with the alignments that arguments have here.
    pub fn place(&self, call: &Call) -> Call {
        let mut placed = call.clone();
        for (info, spot) in placed.inputs.iter_mut().chain(&mut placed.outputs).zip(&self.spots) {
            info.alignment = 1 << spot.start.trailing_zeros().min(8);
        }
        placed
    }
}

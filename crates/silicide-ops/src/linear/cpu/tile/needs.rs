//! The needs of several launches in one: those of each, over the bindings that it is given, and those of bias, gate and quantized
//! rows.
//!
//! A tile is one of one program, or one of both that are gated. So tiles of the whole write different bytes if those of each program
//! do, outputs of different products are different bindings, nothing reads an output of another product, and what is done
//! to an output afterwards is done to what the tile has written.

use super::{BINDINGS, PROGRAMS, Product};
use crate::product::needs as product;
use silicide_gemm::q8::GROUP;
use silicide_hal::{Access, BindingNeed, Count, LaunchShape, Needs};
use smallvec::SmallVec;

/// The needs of each binding so far.
struct Bound<'a> {
    launch: &'a LaunchShape<'a>,
    needs: SmallVec<[Option<BindingNeed>; 16]>,
}

impl Bound<'_> {
    /// Adds a need of binding `i`. `None` where there is no such binding, or where one is written that something else touches.
    fn add(&mut self, i: usize, need: &BindingNeed) -> Option<()> {
        let bound = self.needs.get_mut(i)?;
        let Some(known) = bound else {
            *bound = Some(*need);
            return Some(());
        };
        if known.access.writes() || need.access.writes() {
            return None;
        }
        let (bytes, align) = (known.bytes.max(need.bytes), known.align.max(need.align));
        *bound = Some(BindingNeed { bytes, align, ..*need });
        Some(())
    }

    /// Adds what one of the products needs. Returns the tiles that it has.
    fn product(&mut self, one: &Product) -> Option<u32> {
        let program = PROGRAMS.get(one.program)?;
        let numbers = self.launch.params.get(one.bindings..one.params)?;
        let params = self.launch.params.get(one.params..one.end)?;
        let [x, y] = one.grid;
        if numbers.len() > BINDINGS {
            return None;
        }
        let bound: SmallVec<[u64; BINDINGS]> =
            numbers.iter().map(|i| self.launch.bytes(*i as usize).0).collect();
        let (facts, grid) = (&[][..], [x, y, 1]);
        let needs = (program.needs())(&LaunchShape { params, grid, bound: &bound, facts })?;
        if needs.bindings().len() != numbers.len() || !one.is_cut(params) {
            return None;
        }
        for (need, i) in needs.bindings().iter().zip(numbers) {
            let is_output = *i as usize == one.y;
            if need.access.writes() != is_output {
                return None;
            }
            self.add(*i as usize, need)?;
        }
        if let Some(bias) = one.bias.checked_sub(1) {
            self.add(bias, &need(Access::Read, Count::from(one.columns) * 4u32, 4))?;
        }
        x.checked_mul(y)
    }
}

fn need(access: Access, bytes: Count, align: u32) -> BindingNeed {
    BindingNeed { bytes: bytes.0, align, unit: align, access, shares: 0, is_extent: false }
}

impl Product {
    /// Whether it has the rows and columns of its program, which are the first parameters of each, and so do its tiles.
    fn is_cut(&self, params: &[u32]) -> bool {
        let words = [0, 1, 3, 4].map(|i: usize| params.get(i).map(|word| *word as usize));
        words == [self.rows, self.columns, self.tile_columns, self.tile_rows].map(Some)
    }
}

/// The needs of a launch; see the module for what is checked.
pub(super) fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [count, gate, quantized, groups] = [0, 1, 2, 3].map(|i| launch.param(i));
    let mut bound = Bound { launch, needs: SmallVec::from_elem(None, launch.bound.len()) };
    let mut next = 0u32;
    let mut products: SmallVec<[Product; 3]> = SmallVec::new();
    for index in 0..count as usize {
        let one = Product::read(launch.params, index)?;
        let tiles = bound.product(&one)?;
        if gate == 0 {
            // Each has the tiles that come after those of the one before.
            if one.first != next {
                return None;
            }
            next = next.checked_add(tiles)?;
        } else {
            next = tiles;
        }
        products.push(one);
    }
    if launch.line()? != Count::from(next) {
        return None;
    }
    if gate > 0 {
        let [gate, up] = products.as_slice() else { return None };
        let is_same = gate.is_cut_like(up) && (gate.rows, gate.columns) == (up.rows, up.columns);
        if !is_same {
            return None;
        }
        if let Some(binding) = quantized.checked_sub(1) {
            let is_whole = groups as usize * GROUP == up.columns && up.tile_columns.is_multiple_of(GROUP);
            let bytes = product::quantized(Count::from(up.rows), groups);
            bound.add(binding as usize, &need(Access::Write, bytes, product::ROW_ALIGN as u32))?;
            if !is_whole {
                return None;
            }
        }
    }
    // A binding that nothing needs is not touched.
    let unused = need(Access::Read, Count(0), 1);
    let all = bound.needs.iter().map(|known| known.unwrap_or(unused));
    Some(all.fold(Needs::new(), |needs, known| needs.and(known.access, known.bytes, known.align as usize)))
}

//! The needs of row-wise programs: the bytes of [`RowHeader::binding_bytes`] with access and alignment, and the grid.

use super::RowFormula;
use super::header::{RowHeader, RowTensor};
use crate::cpu::needs::in_tiles_of;
use crate::product::needs as product;
use crate::rowwise::RowOp;
use silicide_gemm::q8::GROUP;
use silicide_hal::{Access, Count, LaunchShape, Needs};
use silicide_quant::DType;

/// The tensors of a launch, in the order of bindings.
struct Tensors<'a> {
    header: &'a RowHeader,
    per_row: bool,
}

impl Tensors<'_> {
    fn output(&self, binding: usize) -> Option<RowTensor> {
        [Some(self.header.y), self.header.combined]
            .into_iter()
            .flatten()
            .find(|output| output.binding == binding)
    }

    fn input(&self, binding: usize) -> Option<RowTensor> {
        let RowHeader { x, other, columns: [first, second], .. } = *self.header;
        [Some(x), other, first, second].into_iter().flatten().find(|input| input.binding == binding)
    }

    /// The inputs, as bits, that an output may be: `x` and the other one, of as large elements and as many rows. A block of
    /// them is read before it is written.
    fn shared(&self, output: RowTensor) -> u32 {
        let RowHeader { x, other, other_rows, rows, .. } = *self.header;
        let inputs = [Some(x), other.filter(|_| other_rows == rows)].into_iter().flatten();
        let same = inputs.filter(|input| !self.per_row && input.size() == output.size());
        same.fold(0, |bits, input| bits | 1u32.checked_shl(input.binding as u32).unwrap_or(0))
    }

    /// Returns the needs of the bindings. A launch that does not touch its outputs needs nothing of them, wherever they are.
    fn needs(&self, touches_outputs: bool) -> Option<Needs> {
        let bytes = self.header.binding_bytes(self.per_row)?;
        let need = |needs: Needs, (i, bytes): (usize, usize)| match (self.output(i), self.input(i)) {
            (Some(_), _) if !touches_outputs => needs.write(0u32, 1).over(!0),
            (Some(output), _) => needs.write(bytes, output.size()).over(self.shared(output)),
            (None, Some(input)) => needs.read(bytes, input.size()),
            (None, None) => needs.read(0u32, 1),
        };
        Some(bytes.into_iter().enumerate().fold(Needs::new(), need))
    }
}

fn header<F: RowFormula>(launch: &LaunchShape<'_>, touches_outputs: bool) -> Option<(RowHeader, Needs)> {
    let header = RowHeader::decode(launch.params);
    let needs = Tensors { header: &header, per_row: F::Op::ROLES.per_row }.needs(touches_outputs)?;
    Some((header, needs))
}

/// Whole rows.
pub(crate) fn whole_need<F: RowFormula>(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (header, needs) = header::<F>(launch, true)?;
    in_tiles_of(launch, Count::from(header.rows), Count::from(header.per))?;
    Some(needs)
}

/// Whole rows, and quantized rows of `y`; the last parameter is groups of a row.
pub(crate) fn whole_quantized_need<F: RowFormula>(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (header, groups) = (RowHeader::decode(launch.params), *launch.params.last()?);
    let is_whole = groups as usize * GROUP == header.k && header.y.code == DType::F32.code();
    let quantized = product::quantized(Count::from(header.rows), groups);
    let needs = whole_need::<F>(launch).filter(|_| is_whole && !F::Op::ROLES.per_row)?;
    Some(needs.write(quantized, product::ROW_ALIGN))
}

/// Scratch memory: a partial result for each span of each row.
fn scratch<F: RowFormula>(header: &RowHeader, needs: Needs, access: Access) -> Option<Needs> {
    let bytes = header.scratch_bytes(size_of::<F::Partial>())?;
    Some(needs.and(access, bytes, align_of::<F::Partial>()))
}

/// Spans to partial results; outputs are not touched.
pub(crate) fn partial_need<F: RowFormula>(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (header, needs) = header::<F>(launch, false)?;
    let is_covered = launch.plane()? == [header.spans(), header.rows].map(Count::from);
    scratch::<F>(&header, needs, Access::Write).filter(|_| is_covered)
}

/// Partial results to outputs: of spans, or of rows.
pub(crate) fn finish_need<F: RowFormula>(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (header, needs) = header::<F>(launch, true)?;
    let across = if F::Op::ROLES.per_row { 1 } else { header.spans() };
    let is_covered = launch.plane()? == [across, header.rows].map(Count::from);
    scratch::<F>(&header, needs, Access::Read).filter(|_| is_covered)
}

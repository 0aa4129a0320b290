//! `cumsum` row by row: groups of 16 are scanned in lanes, and the sum of what comes before is carried along in f64.

use super::Cumsum;
use crate::cpu::Simd;
use crate::rowwise::RowWords;
use crate::rowwise::cpu::{CpuRows, RowBlock, RowBlocks, RowFormula, RowSpan, row_programs};
use crate::rowwise::gpu::{GpuRows, RowShader};

#[derive(Clone, Copy)]
struct CumsumRow;

row_programs!(PROGRAMS, CumsumRow, "cumsum.rows.cpu");
pub(super) static CPU: CpuRows<Cumsum> = CpuRows { name: "cumsum.rows.cpu", programs: |_| &PROGRAMS };

static SHADER: RowShader = RowShader::with_main("cumsum", include_str!("cumsum.wgsl"));
pub(super) static GPU: GpuRows<Cumsum> = GpuRows { name: "cumsum.rows.wgsl", shader: |_| &SHADER };

impl RowFormula for CumsumRow {
    type Op = Cumsum;
    /// The sum of a span.
    type Partial = f64;
    /// The sum of everything before the block.
    type Row = f64;
    const PREFIX: bool = true;

    #[inline(always)]
    fn new(_words: RowWords) -> CumsumRow {
        CumsumRow
    }

    #[inline(always)]
    fn reduce<S: Simd>(&self, blocks: &mut RowBlocks<'_, S, Self>) -> f64 {
        blocks.sum(|x| x)
    }

    #[inline(always)]
    fn finish(&self, partials: &[f64], span: RowSpan) -> f64 {
        partials.iter().take(span.index).sum()
    }

    #[inline(always)]
    fn store<S: Simd>(&self, carry: &mut f64, block: RowBlock<'_>) {
        block.y.copy_from_slice(block.values);
        *carry = scan(block.y, *carry);
    }
}

/// Values that a scan works on at a time.
type ScanGroup = [f32; 16];

/// Each value plus the one `REACH` before it.
#[inline(always)]
fn add_before<const REACH: usize>(values: ScanGroup) -> ScanGroup {
    let mut sums = values;
    for (sum, before) in sums.iter_mut().skip(REACH).zip(values) {
        *sum += before;
    }
    sums
}

/// Replaces values by their running sums on top of `carry`, and returns the last.
#[inline(always)]
fn scan(values: &mut [f32], mut carry: f64) -> f64 {
    let (groups, rest) = values.as_chunks_mut();
    for group in groups {
        // After each step a value is the sum of twice as many neighbours, itself the last.
        let sums: ScanGroup = add_before::<8>(add_before::<4>(add_before::<2>(add_before::<1>(*group))));
        for (value, sum) in group.iter_mut().zip(sums) {
            *value = (carry + f64::from(sum)) as f32;
        }
        let [.., sum] = sums;
        carry += f64::from(sum);
    }
    for value in rest {
        carry += f64::from(*value);
        *value = carry as f32;
    }
    carry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_sums_of_whole_numbers_are_exact() {
        for count in [1, 15, 16, 17, 100] {
            let mut values: Vec<f32> = (1..=count).map(|i| i as f32).collect();
            let last = scan(&mut values, 0.5);
            let expected: Vec<f32> = (1..=count).map(|i| (i * (i + 1) / 2) as f32 + 0.5).collect();
            assert_eq!(values, expected);
            assert_eq!(last, f64::from(expected[expected.len() - 1]));
        }
    }
}

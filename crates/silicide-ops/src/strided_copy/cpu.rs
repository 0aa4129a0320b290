//! Strided copies on the CPU. Where source and target agree on the innermost loop, rows are copied; where they do
//! not, the two innermost loops are cut in square blocks, so that the cache lines of both sides stay in L1.

use super::{Axis, Walk};
use crate::cpu::needs::in_tiles;
use crate::cpu::{Simd, TILE, native_kernel, stream, tiles};
use bytemuck::Pod;
use silicide_core::kernel::{Arg, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Program, Tile};
use silicide_quant::{DType, MAX_RANK};
use smallvec::SmallVec;

/// Elements along each side of a block.
const BLOCK: usize = 128;

/// A launch that copies along a walk from argument 0 to argument 1.
pub(crate) fn plan(walk: &Walk, dtype: DType, _on: &DeviceInfo) -> Plan {
    let mut axes = walk.axes.clone();
    if axes.is_empty() {
        axes.push(Axis { extent: 1, from: 1, to: 1 });
    }
    let inner = axes.len().saturating_sub(1);
    // The loop in which the source is nearest to consecutive.
    let nearest = (0..axes.len()).rev().min_by_key(|&k| axes.get(k).map_or(0, |axis| axis.from));
    let blocked = match (nearest, axes.last()) {
        // A broadcast is nearest, and nothing is won by blocks of it.
        (Some(k), Some(last)) if k != inner => {
            axes.get(k).is_some_and(|axis| axis.from > 0 && axis.from < last.from)
        }
        _ => false,
    };
    if let (true, Some(k)) = (blocked, nearest) {
        let axis = axes.remove(k);
        axes.insert(inner - 1, axis);
    }
    let mut params: SmallVec<[u32; 64]> = SmallVec::new();
    let streaming = stream::is_large(walk.elements().saturating_mul(2 * dtype.size()));
    params.extend([dtype.size() as u32, axes.len() as u32, u32::from(streaming), 0]);
    let numbers = [walk.from, walk.to]
        .into_iter()
        .chain(axes.iter().flat_map(|axis| [axis.extent, axis.from, axis.to]));
    params.extend(numbers.flat_map(|number| [number as u32, (number as u64 >> 32) as u32]));
    let args = [Arg::slot(0), Arg::slot(1)];
    let count: usize = axes.iter().take(inner.saturating_sub(1)).map(|axis| axis.extent).product();
    let blocks =
        axes.iter().skip(inner.saturating_sub(1)).map(|axis| axis.extent.div_ceil(BLOCK)).product::<usize>();
    // Rows take any number of elements; blocks only as many as can be numbered.
    match u32::try_from(count.saturating_mul(blocks)) {
        Ok(tiles) if blocked => Plan::launch(Program::Native(&BLOCKS), &args, &params, [tiles, 1, 1]),
        _ => Plan::launch(Program::Native(&ROWS), &args, &params, tiles(walk.elements())),
    }
}

// SAFETY: the loops reach no further than `needs` states on either side, and no two turns of them write the same place; tiles
// take different turns.
native_kernel!(unsafe ROWS, "strided_copy.rows.cpu", rows, needs rows_need);
// SAFETY: blocks make the turns of the same loops, which `walk_needs` bounds and keeps apart; tiles have different blocks.
native_kernel!(unsafe BLOCKS, "strided_copy.blocks.cpu", blocks::<S>, needs blocks_need);

fn rows_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (axes, needs) = walk_needs(launch)?;
    let elements = axes.iter().fold(Count(1), |elements, axis| elements * axis.extent);
    in_tiles(launch, elements)?;
    Some(needs)
}

fn blocks_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (axes, needs) = walk_needs(launch)?;
    let (outer, &[slow, fast]) = axes.split_last_chunk::<2>()?;
    let turns = outer.iter().fold(Count(1), |turns, axis| turns * axis.extent);
    let blocks = [slow, fast].into_iter().fold(turns, |blocks, axis| blocks * axis.extent.div_ceil(BLOCK));
    (launch.line()? == blocks).then_some(needs)
}

/// The loops of a launch, and what they reach. The target's strides are large enough that no two turns meet.
fn walk_needs(launch: &LaunchShape<'_>) -> Option<(SmallVec<[Axis; MAX_RANK]>, Needs)> {
    let (size, [from, to], axes) = walk(launch.params);
    if !matches!(size, 1 | 2 | 4 | 8) || launch.param(1) as usize > MAX_RANK {
        return None;
    }
    let mut by_target = axes.clone();
    by_target.sort_by_key(|axis| axis.to);
    let (mut from, mut written) = (Count::from(from) + 1u32, Count(1));
    for axis in by_target {
        let steps = axis.extent.checked_sub(1)?;
        if Count::from(axis.to) < written && steps > 0 {
            return None;
        }
        from = from + Count::from(steps) * axis.from;
        written = written + Count::from(steps) * axis.to;
    }
    let to = Count::from(to) + written;
    Some((axes, Needs::new().read(from * size, size).write(to * size, size)))
}

/// The walk of a launch's parameters: bytes of an element, where it starts, and at most `MAX_RANK` loops.
#[inline(always)]
fn walk(params: &[u32]) -> (usize, [usize; 2], SmallVec<[Axis; MAX_RANK]>) {
    let param = |i: usize| params.get(i).copied().unwrap_or(0);
    let number = |i: usize| (u64::from(param(2 * i)) | u64::from(param(2 * i + 1)) << 32) as usize;
    let axes = (0..(param(1) as usize).min(MAX_RANK))
        .map(|k| Axis { extent: number(4 + 3 * k), from: number(5 + 3 * k), to: number(6 + 3 * k) })
        .collect();
    (param(0) as usize, [number(2), number(3)], axes)
}

/// Moves `(from, to)` by the outer loops' steps to their `i`-th turn.
#[inline(always)]
fn turn(outer: &[Axis], [mut from, mut to]: [usize; 2], mut i: usize) -> [usize; 2] {
    for axis in outer.iter().rev() {
        let step = i % axis.extent;
        i /= axis.extent;
        (from, to) = (from + step * axis.from, to + step * axis.to);
    }
    [from, to]
}

/// Bindings: x, y. Parameters: bytes of an element, number of loops, whether to stream, nothing, and in two words each
/// where the loops start and what they are.
///
/// # Safety
/// Parameters, grid and bindings are those of a launch for which `rows_need` returned needs.
#[inline(always)]
unsafe fn rows(tile: &Tile<'_>) {
    let (size, start, axes) = walk(tile.params);
    // SAFETY: `walk_needs` requires x and y as long as the walk reaches, and strides that never write a place twice.
    unsafe {
        match size {
            1 => copy_rows::<u8>(tile, start, &axes),
            2 => copy_rows::<u16>(tile, start, &axes),
            4 => copy_rows::<u32>(tile, start, &axes),
            _ => copy_rows::<u64>(tile, start, &axes),
        }
    }
}

/// # Safety
/// The walk stays inside x and y, of elements `T`, and never writes a place twice.
#[inline(always)]
unsafe fn copy_rows<T: Copy>(tile: &Tile<'_>, start: [usize; 2], axes: &[Axis]) {
    let Some((inner, outer)) = axes.split_last() else { return };
    let elements: usize = axes.iter().map(|axis| axis.extent).product();
    let [index, ..] = tile.index;
    let mut at = (index as usize * TILE).min(elements);
    let end = (at + TILE).min(elements);
    while at < end {
        let (row, column) = (at / inner.extent, at % inner.extent);
        let count = (inner.extent - column).min(end - at);
        let [from, to] = turn(outer, start, row);
        // SAFETY: the walk stays inside x and y, by the caller; rows of different tiles share no element.
        unsafe {
            let from = tile.start(0).cast::<T>().add(from + column * inner.from);
            let to = tile.start(1).cast::<T>().add(to + column * inner.to);
            if inner.from == 1 && inner.to == 1 {
                std::ptr::copy_nonoverlapping(from.cast_const(), to, count);
            } else {
                (0..count).for_each(|i| *to.add(i * inner.to) = *from.add(i * inner.from));
            }
        }
        at += count;
    }
}

/// Bindings and parameters as for `rows`; the last two loops are those of the blocks.
///
/// # Safety
/// The CPU has `S`; parameters, grid and bindings are those of a launch for which `blocks_need` returned needs.
#[inline(always)]
unsafe fn blocks<S: Simd>(tile: &Tile<'_>) {
    let (size, start, axes) = walk(tile.params);
    // SAFETY: `walk_needs` requires x and y as long as the walk reaches, and strides that never write a place twice.
    unsafe {
        match size {
            1 => copy_block::<S, u8, 64>(tile, start, &axes),
            2 => copy_block::<S, u16, 32>(tile, start, &axes),
            4 => copy_block::<S, u32, 16>(tile, start, &axes),
            _ => copy_block::<S, u64, 8>(tile, start, &axes),
        }
    }
}

/// A block goes in patches of `LINE` by `LINE` elements, a cache line on each side: every line is touched once, so
/// that strides which put all lines in one place of the cache do no harm.
///
/// # Safety
/// The walk stays inside x and y, of elements `T`, and never writes a place twice.
#[inline(always)]
unsafe fn copy_block<S: Simd, T: Pod, const LINE: usize>(tile: &Tile<'_>, start: [usize; 2], axes: &[Axis]) {
    let Some((outer, &[slow, fast])) = axes.split_last_chunk::<2>() else { return };
    let [index, ..] = tile.index;
    let across = fast.extent.div_ceil(BLOCK);
    let blocks = slow.extent.div_ceil(BLOCK) * across;
    let [from, to] = turn(outer, start, index as usize / blocks);
    let block = index as usize % blocks;
    let (row, column) = (block / across * BLOCK, block % across * BLOCK);
    let (row_end, column_end) = ((row + BLOCK).min(slow.extent), (column + BLOCK).min(fast.extent));
    let mut patch = [[T::zeroed(); LINE]; LINE];
    for j in (column..column_end).step_by(LINE) {
        for i in (row..row_end).step_by(LINE) {
            let (height, width) = ((row_end - i).min(LINE), (column_end - j).min(LINE));
            // SAFETY: the walk stays inside x and y, by the caller; blocks of different tiles share no element.
            unsafe {
                let from = tile.start(0).cast::<T>().add(from + i * slow.from + j * fast.from);
                let to = tile.start(1).cast::<T>().add(to + i * slow.to + j * fast.to);
                for (k, line) in patch.iter_mut().enumerate().take(width) {
                    let from = from.add(k * fast.from);
                    if slow.from == 1 && height == LINE {
                        *line = from.cast::<[T; LINE]>().read_unaligned();
                    } else {
                        (0..height).zip(line).for_each(|(k, cell)| *cell = *from.add(k * slow.from));
                    }
                }
                for k in 0..height {
                    let to = to.add(k * slow.to);
                    let turned: [T; LINE] =
                        std::array::from_fn(|cell| patch.get(cell).map_or(T::zeroed(), |line| line[k]));
                    if fast.to == 1 && width == LINE && tile.param(2) != 0 && to.addr().is_multiple_of(64) {
                        S::assume().stream_line(&*turned.as_ptr().cast(), &mut *to.cast());
                    } else if fast.to == 1 && width == LINE {
                        to.cast::<[T; LINE]>().write_unaligned(turned);
                    } else {
                        (0..width).zip(turned).for_each(|(k, cell)| *to.add(k * fast.to) = cell);
                    }
                }
            }
        }
    }
    stream::fence();
}

#[cfg(test)]
mod tests {
    use super::super::Layout;
    use super::*;
    use silicide_core::kernel::Step;
    use silicide_hal::{Backend, TileBinding};
    use silicide_quant::Shape;

    #[test]
    fn streaming_blocks_changes_no_bit() {
        let (rows, columns) = (150, 272);
        let shape = Shape::new(&[columns, rows]).unwrap();
        let walk = Walk::new(&shape, &Layout::new(0, &[1, columns]), &Layout::dense(&shape));
        let on = DeviceInfo::new(Backend::Cpu, "cpu", "cpu");
        for dtype in [DType::U8, DType::U16, DType::U32, DType::U64] {
            let size = dtype.size();
            let mut x: Vec<u8> = (0..rows * columns * size).map(|i| (i * 31 % 251) as u8).collect();
            let expected: Vec<u8> = (0..rows * columns)
                .flat_map(|i| x[(i % rows * columns + i / rows) * size..][..size].to_vec())
                .collect();
            let Some(Step::Dispatch(mut launch)) = plan(&walk, dtype, &on).steps.pop() else {
                panic!("a launch")
            };
            let Program::Native(kernel) = launch.program else { panic!("a native kernel") };
            for (variant, streaming) in kernel
                .variants()
                .iter()
                .filter(|variant| variant.isa.is_available())
                .flat_map(|v| [(v, 0), (v, 1)])
            {
                launch.params[2] = streaming;
                let mut y = vec![0u8; x.len() + 64];
                let start = y.as_ptr().align_offset(64);
                let bindings = [
                    TileBinding { start: x.as_mut_ptr(), bytes: x.len() },
                    TileBinding { start: y[start..].as_mut_ptr(), bytes: x.len() },
                ];
                for index in 0..launch.grid[0] {
                    // SAFETY: the instruction set was detected, the bindings are ours and as long as the walk.
                    unsafe {
                        (variant.entry)(&Tile::new([index, 0, 0], launch.grid, &launch.params, &bindings))
                    };
                }
                assert!(y[start..].starts_with(&expected), "{} {dtype} {streaming}", variant.isa);
            }
        }
    }
}

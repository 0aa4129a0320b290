//! Several launches in one: the product that a tile belongs to, the tile as that product's program sees it, and the bias,
//! activation and quantization of its outputs.
//!
//! Parameters are [`HEAD`] words: the number of products, the activation's code and one where they are gated, the binding of
//! quantized rows and one where there are some, and the groups of a row. Then a [`Product`] each, followed by its bindings and
//! its own parameters.

mod needs;

use super::programs::{self, PROGRAMS};
use crate::cpu::{Portable, Simd};
use crate::elementwise::activation::activate;
use crate::quantize_q8::{BoundRow, quantize_part};
use silicide_core::kernel::Launch;
use silicide_gemm::q8::GROUP;
use silicide_hal::cpu::Isa;
use silicide_hal::{NativeKernel, NativeVariant, PrefetchRange, Program, Tile, TileBinding};
use smallvec::SmallVec;
use std::ops::Range;

/// Words before the products.
pub(super) const HEAD: usize = 4;
/// Words of a product before its bindings.
const WORDS: usize = 11;
/// The most bindings of a product.
const BINDINGS: usize = 6;
/// Bindings before they are known.
const NOTHING_BOUND: [TileBinding; BINDINGS] =
    [TileBinding { start: std::ptr::null_mut(), bytes: 0 }; BINDINGS];

/// A launch among several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Product {
    /// Which of the programs.
    program: usize,
    /// Its first tile.
    first: u32,
    /// Its grid.
    grid: [u32; 2],
    /// Columns and rows of a tile, and of the output.
    pub(super) tile_columns: usize,
    tile_rows: usize,
    columns: usize,
    rows: usize,
    /// The binding of the output, and that of the bias, and one, if there is any.
    pub(super) y: usize,
    pub(super) bias: usize,
    /// Bindings and parameters, in the words of the launch.
    bindings: usize,
    params: usize,
    end: usize,
}

impl Product {
    /// Describes a launch that writes `[rows, columns]` and whose first tile is `first`. Returns `None` for unknown programs.
    pub(super) fn new(launch: &Launch, [rows, columns]: [usize; 2], first: u32) -> Option<Product> {
        let Program::Native(program) = launch.program else { return None };
        let program = PROGRAMS.iter().position(|known| *known == program)?;
        let [x, y, 1] = launch.grid else { return None };
        let word = |i: usize| launch.params.get(i).map(|word| *word as usize);
        let (tile_columns, tile_rows) = (word(3)?, word(4)?);
        let fits = launch.args.len() <= BINDINGS;
        let extents = Product { tile_columns, tile_rows, columns, rows, ..Product::default() };
        fits.then_some(Product { program, first, grid: [x, y], ..extents })
    }

    /// Its tiles.
    pub(super) fn tiles(&self) -> u32 {
        self.grid[0] * self.grid[1]
    }

    /// Whether the tiles of both have the same rows and columns.
    pub(super) fn is_cut_like(&self, other: &Product) -> bool {
        let cut = |product: &Product| (product.grid, product.tile_columns, product.tile_rows);
        cut(self) == cut(other)
    }

    /// Appends it with its bindings and parameters.
    pub(super) fn write(&self, words: &mut SmallVec<[u32; 16]>, bindings: &[u32], params: &[u32]) {
        let [x, y] = self.grid;
        let counts = [bindings.len() as u32, params.len() as u32];
        let extents = [self.tile_columns, self.tile_rows, self.columns, self.rows, self.y];
        let extents = extents.map(|extent| extent as u32);
        words.extend([self.program as u32, self.first, x, y]);
        words.extend(extents);
        words.push(self.bias as u32);
        // Both counts in a word.
        words.push(counts[0] << 16 | counts[1]);
        words.extend(bindings.iter().chain(params).copied());
    }

    /// Product `index` of a launch.
    #[inline(always)]
    pub(super) fn read(words: &[u32], index: usize) -> Option<Product> {
        let mut at = HEAD;
        for _ in 0..index {
            at = Product::at(words, at)?.end;
        }
        Product::at(words, at)
    }

    #[inline(always)]
    fn at(words: &[u32], start: usize) -> Option<Product> {
        let words = words.get(start..)?.first_chunk::<WORDS>()?;
        let [program, first, x, y, tile_columns, tile_rows, columns, rows, output, bias, counts] = *words;
        let [tile_columns, tile_rows, columns, rows] =
            [tile_columns, tile_rows, columns, rows].map(|word| word as usize);
        let bindings = start + WORDS;
        let params = bindings + (counts >> 16) as usize;
        let end = params + (counts & 0xffff) as usize;
        let (program, grid, y, bias) = (program as usize, [x, y], output as usize, bias as usize);
        Some(Product {
            program,
            first,
            grid,
            tile_columns,
            tile_rows,
            columns,
            rows,
            y,
            bias,
            bindings,
            params,
            end,
        })
    }

    /// One of its tiles, as its program would see it in a launch of its own.
    #[inline(always)]
    fn tile<'a>(
        &self,
        tile: &Tile<'a>,
        number: u32,
        bindings: &'a mut [TileBinding; BINDINGS],
    ) -> Option<Tile<'a>> {
        let numbers = tile.params.get(self.bindings..self.params)?;
        for (binding, number) in bindings.iter_mut().zip(numbers) {
            let number = *number as usize;
            *binding = TileBinding { start: tile.start(number), bytes: tile.bytes(number) };
        }
        let [across, down] = self.grid;
        let index = [number % across, number / across, 0];
        let params = tile.params.get(self.params..self.end)?;
        let inner = Tile::new(index, [across, down, 1], params, bindings.get(..numbers.len())?);
        // SAFETY: the joined kernel keeps nothing in its workspace.
        Some(unsafe { inner.with_workspace_of(tile) })
    }

    /// Returns the ranges that one of its tiles streams.
    fn streamed(&self, tile: &Tile<'_>, number: u32) -> Option<[PrefetchRange; 2]> {
        let streams = PROGRAMS.get(self.program)?.streams()?;
        Some(streams(&self.tile(tile, number, &mut { NOTHING_BOUND })?))
    }

    /// Runs one of its tiles, and adds the bias; returns what the tile has written.
    ///
    /// # Safety
    ///
    /// The instruction set is present, and bindings are as the planner made them.
    #[inline(always)]
    unsafe fn run(&self, tile: &Tile<'_>, number: u32, isa: Isa) -> Option<Region> {
        let program = PROGRAMS.get(self.program)?;
        // CPUs with AVX-512 need not have AVX-VNNI.
        let runs = |of: Isa| of <= isa && (of != Isa::AvxVnni || isa == Isa::AvxVnni);
        let variant = program.variants().iter().find(|variant| runs(variant.isa))?;
        let mut bindings = NOTHING_BOUND;
        let inner = self.tile(tile, number, &mut bindings)?;
        // SAFETY: the instruction set is this one or a lesser one; the program sees what it would see in a launch of its own.
        unsafe { (variant.entry)(&inner) };
        let [x, y, _] = inner.index;
        let [column, row] = [x as usize * self.tile_columns, y as usize * self.tile_rows];
        let rows = row..(row + self.tile_rows).min(self.rows);
        let region = Region {
            rows,
            columns: column..(column + self.tile_columns).min(self.columns),
            all: self.columns,
        };
        if let Some(bias) = self.bias.checked_sub(1) {
            // SAFETY: `needs` requires a bias for every column and the outputs of the product; the region is of this tile alone.
            unsafe {
                let bias = tile.read_part::<f32>(bias, region.columns.clone());
                for row in region.rows.clone() {
                    let y = tile.write::<f32>(self.y, region.row(row));
                    y.iter_mut().zip(bias).for_each(|(y, bias)| *y += *bias);
                }
            }
        }
        Some(region)
    }
}

/// A part of an output.
struct Region {
    rows: Range<usize>,
    columns: Range<usize>,
    /// Columns of the output.
    all: usize,
}

impl Region {
    /// The elements of one of its rows.
    #[inline(always)]
    fn row(&self, row: usize) -> Range<usize> {
        row * self.all + self.columns.start..row * self.all + self.columns.end
    }
}

/// A tile: of one product, or of both that are gated.
///
/// # Safety
///
/// The instruction set is present, and bindings and parameters are as the planner made them.
#[inline(always)]
unsafe fn run<S: Simd>(tile: &Tile<'_>, isa: Isa) {
    let [number, ..] = tile.index;
    if let Some(gate) = tile.param(1).checked_sub(1) {
        // SAFETY: this function has the conditions of `run_gated`; `needs` requires two products where there is a gate.
        unsafe { run_gated::<S>(tile, gate, isa) };
        return;
    }
    let mut found = None;
    let mut at = HEAD;
    for _ in 0..tile.param(0) {
        let Some(product) = Product::at(tile.params, at).filter(|product| product.first <= number) else {
            break;
        };
        at = product.end;
        found = Some(product);
    }
    if let Some(product) = found {
        // SAFETY: `needs` requires the bindings of every product, and that its tiles begin at `first`; the CPU has `isa`, by
        // the caller.
        unsafe { product.run(tile, number - product.first, isa) };
    }
}

/// Returns the ranges that a tile streams: those of its product, or one for each gated product.
fn streamed(tile: &Tile<'_>) -> [PrefetchRange; 2] {
    let [number, ..] = tile.index;
    let product = |index: usize| Product::read(tile.params, index);
    if tile.param(1) > 0 {
        return [0, 1].map(|index| {
            let [one, _] =
                product(index).and_then(|product| product.streamed(tile, number)).unwrap_or_default();
            one
        });
    }
    let mut products = (0..tile.param(0) as usize).rev().filter_map(product);
    let product = products.find(|product| product.first <= number);
    product.and_then(|product| product.streamed(tile, number - product.first)).unwrap_or_default()
}

/// The same tile of two products, the activation of the first times the second, and its quantized rows.
///
/// # Safety
///
/// As for [`run`].
#[inline(always)]
unsafe fn run_gated<S: Simd>(tile: &Tile<'_>, activation: u32, isa: Isa) {
    let [number, ..] = tile.index;
    // Not by `map`: its closure would be called, and compiled without the instruction set.
    let (Some(gate), Some(up)) = (Product::read(tile.params, 0), Product::read(tile.params, 1)) else {
        return;
    };
    // SAFETY: `needs` requires the bindings of both products and of the quantized rows; the region is of this tile alone, in
    // the gate's memory and in the output.
    unsafe {
        let (Some(region), Some(_)) = (gate.run(tile, number, isa), up.run(tile, number, isa)) else {
            return;
        };
        let [quantized, groups] = [2, 3].map(|i| tile.param(i) as usize);
        for row in region.rows.clone() {
            let gates = tile.write::<f32>(gate.y, region.row(row));
            activate::<S>(activation, gates);
            let y = tile.write::<f32>(up.y, region.row(row));
            y.iter_mut().zip(gates).for_each(|(y, gate)| *y *= *gate);
            if let Some(binding) = quantized.checked_sub(1) {
                let part = region.columns.start / GROUP..region.columns.end / GROUP;
                quantize_part(tile, BoundRow { binding: up.y, row }, BoundRow { binding, row }, groups, part);
            }
        }
    }
}

/// Declares a variant.
macro_rules! variant {
    ($name:ident, $simd:ty, $isa:expr $(, $features:literal)?) => {
        /// # Safety
        /// The CPU has the instruction set; the launch is one for which `needs` returned needs.
        $(#[target_feature(enable = $features)])?
        unsafe fn $name(tile: &Tile<'_>) {
            // SAFETY: the body needs a CPU with the instruction set and a launch within `needs`, as this function does.
            unsafe { run::<$simd>(tile, $isa) }
        }
    };
}

/// Several launches as one. Programs of products are called by their address, so this has a variant for each instruction set
/// that any of them has.
pub(super) static JOINED: NativeKernel = {
    #[cfg(target_arch = "x86_64")]
    variant!(
        avx512,
        crate::cpu::Avx512,
        Isa::Avx512,
        "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx2,fma,f16c"
    );
    #[cfg(target_arch = "x86_64")]
    variant!(avx_vnni, crate::cpu::Avx2, Isa::AvxVnni, "avx2,fma,f16c,avxvnni");
    #[cfg(target_arch = "x86_64")]
    variant!(avx2, crate::cpu::Avx2, Isa::Avx2, "avx2,fma,f16c");
    #[cfg(target_arch = "aarch64")]
    variant!(neon, crate::cpu::Neon, Isa::Neon, "neon,dotprod");
    variant!(portable, Portable, Isa::Portable);
    // SAFETY: a tile runs a tile of one program, or of two, over bindings that have what each needs; `needs` requires the rest.
    unsafe {
        NativeKernel::new(
            "linear.joined.cpu",
            needs::needs,
            &[
                #[cfg(target_arch = "x86_64")]
                NativeVariant { isa: Isa::Avx512, entry: avx512 },
                #[cfg(target_arch = "x86_64")]
                NativeVariant { isa: Isa::AvxVnni, entry: avx_vnni },
                #[cfg(target_arch = "x86_64")]
                NativeVariant { isa: Isa::Avx2, entry: avx2 },
                #[cfg(target_arch = "aarch64")]
                NativeVariant { isa: Isa::Neon, entry: neon },
                NativeVariant { isa: Isa::Portable, entry: portable },
            ],
        )
    }
    .with_workspace(programs::LARGEST_WORKSPACE)
    .streaming(streamed)
};

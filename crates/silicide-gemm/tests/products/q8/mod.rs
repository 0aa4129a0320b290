//! Products of quantized weights, through the safe entry points: against an f64 reference on every instruction set of this machine, at
//! odd sizes; that an output has the same bits whatever is computed beside it; and what is refused.

mod refusals;

use silicide_gemm::isa::{Portable, Simd};
use silicide_gemm::q8::*;
use silicide_gemm::{Matrix, MatrixMut};
use silicide_quant::{DType, Encoding, Format, MlxFormat, MlxMode, MlxPlanes, decode, encode};
use std::ops::Range;

/// A small repeatable generator (splitmix64), uniform in -1..1.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Rows of activations, quantized. Memory is aligned as f32 is.
struct Lhs {
    memory: Vec<f32>,
    rows: usize,
    groups: usize,
}

impl Lhs {
    fn new(activations: &[f32], rows: usize) -> Lhs {
        let k = activations.len() / rows;
        let mut lhs = Lhs {
            memory: vec![f32::NAN; rows * quantized_row_bytes(k / GROUP) / 4],
            rows,
            groups: k / GROUP,
        };
        let from = Matrix::new("activations", activations, [rows, k], k).unwrap();
        let bytes = bytemuck::cast_slice_mut(&mut lhs.memory);
        quantize(from, &mut QuantizedRowsMut::new(bytes, rows, k / GROUP).unwrap()).unwrap();
        lhs
    }

    fn view(&self, rows: usize) -> QuantizedRows<'_> {
        assert!(rows <= self.rows);
        QuantizedRows::new(bytemuck::cast_slice(&self.memory), rows, self.groups).unwrap()
    }

    /// The activations that the codes stand for.
    fn values(&self, row: usize) -> Vec<f64> {
        // A row: codes, a scale per group, sums of codes (`q8::quantize`).
        let (bytes, codes) = (quantized_row_bytes(self.groups), self.groups * GROUP);
        let row = &bytemuck::cast_slice::<f32, u8>(&self.memory)[row * bytes..(row + 1) * bytes];
        let scales: &[f32] = bytemuck::cast_slice(&row[codes..codes + 4 * self.groups]);
        (0..self.groups * GROUP).map(|i| f64::from(row[i] as i8) * f64::from(scales[i / GROUP])).collect()
    }
}

/// Weights of any encoding: their bytes, and the values that they stand for.
struct Rhs {
    label: String,
    encoding: Encoding,
    interleaved: bool,
    planes: MlxPlanes<Vec<u8>>,
    values: Vec<f64>,
    n: usize,
    k: usize,
}

impl Rhs {
    fn view(&self) -> Q8Weights<'_> {
        let extents = [self.n, self.k];
        let MlxPlanes { packed, scales, biases } = &self.planes;
        match self.encoding {
            Encoding::Block(format) if self.interleaved => Q8Weights::interleaved(format, packed, extents),
            Encoding::Block(format) => Q8Weights::blocks(format, packed, extents),
            Encoding::Planes(format) => {
                let view = if self.interleaved { Q8Weights::interleaved_affine } else { Q8Weights::affine };
                view(format, MlxPlanes { packed, scales, biases }, extents)
            }
            encoding => panic!("{encoding:?} has no products"),
        }
        .unwrap()
    }
}

/// Weights of every format and layout with a product, `n` rows of at least `k`. Interleaved ones have whole sixteens of rows.
fn every_rhs(n: usize, k: usize) -> Vec<Rhs> {
    let mut random = Random(7);
    every_rhs_of(n, k, |_| random.unit())
}

/// [`every_rhs`] of the weights that `weight` returns for their places.
fn every_rhs_of(n: usize, k: usize, mut weight: impl FnMut(usize) -> f64) -> Vec<Rhs> {
    let mut all = Vec::new();
    for format in Format::ALL.into_iter().filter(|format| supports(*format)) {
        let k = k.next_multiple_of(format.block_len().max(GROUP));
        let weights: Vec<f64> = (0..n.next_multiple_of(INTERLEAVE) * k).map(&mut weight).collect();
        let packed = encode(DType::Block(format), &weights);
        let values = decode(DType::Block(format), &packed);
        let encoding = Encoding::Block(format);
        if InterleavedBlock::of(format).is_some() {
            let mut to = vec![0; packed.len()];
            let rows = packed.len() / n.next_multiple_of(INTERLEAVE) * INTERLEAVE;
            for (from, to) in packed.chunks_exact(rows).zip(to.chunks_exact_mut(rows)) {
                interleave(Portable::detect().unwrap(), format, from, to).unwrap();
            }
            let planes = MlxPlanes { packed: to, scales: Vec::new(), biases: Vec::new() };
            let (label, n, values) = (format!("{format}x16"), n.next_multiple_of(INTERLEAVE), values.clone());
            all.push(Rhs { label, encoding, interleaved: true, planes, values, n, k });
        }
        let planes = MlxPlanes { packed, scales: Vec::new(), biases: Vec::new() };
        all.push(Rhs { label: format.to_string(), encoding, interleaved: false, planes, values, n, k });
    }
    for format in MlxFormat::all().into_iter().filter(|format| format.mode() == MlxMode::Affine) {
        let (k, order) = (k.next_multiple_of(format.group()), CodeOrder::of(format));
        let (wanted, n) = (n, if order.is_some() { n.next_multiple_of(INTERLEAVE) } else { n });
        let weights: Vec<f32> = (0..n * k).map(|i| weight(i) as f32).collect();
        let sizes = format.plane_bytes(n * k).unwrap();
        let [mut packed, mut scales, mut biases] =
            [sizes.packed, sizes.scales, sizes.biases].map(|bytes| vec![0; bytes]);
        format
            .encode(&weights, MlxPlanes { packed: &mut packed, scales: &mut scales, biases: &mut biases }, 1)
            .unwrap();
        let mut values = vec![0f32; n * k];
        format.decode(MlxPlanes { packed: &packed, scales: &scales, biases: &biases }, &mut values).unwrap();
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        let (planes, encoding) = (MlxPlanes { packed, scales, biases }, Encoding::Planes(format));
        if order.is_some() {
            let (label, planes) = (format!("{format} x16"), interleaved_planes(format, &planes, n));
            all.push(Rhs { label, encoding, interleaved: true, planes, values: values.clone(), n, k });
        }
        let n = wanted;
        all.push(Rhs { label: format.to_string(), encoding, interleaved: false, planes, values, n, k });
    }
    all
}

/// Interleaves the planes of `n` rows.
fn interleaved_planes(format: MlxFormat, planes: &MlxPlanes<Vec<u8>>, n: usize) -> MlxPlanes<Vec<u8>> {
    let plane = |index: usize, from: &Vec<u8>| {
        let (mut to, rows) = (vec![0; from.len()], from.len() / n * INTERLEAVE);
        for (from, to) in from.chunks_exact(rows).zip(to.chunks_exact_mut(rows)) {
            interleave_plane(Portable::detect().unwrap(), format, index, from, to).unwrap();
        }
        to
    };
    MlxPlanes {
        packed: plane(0, &planes.packed),
        scales: plane(1, &planes.scales),
        biases: plane(2, &planes.biases),
    }
}

const SENTINEL: f32 = -12345.5;

/// Computes some outputs of all rows, between sentinels.
fn product<I: Q8Kernels>(isa: I, lhs: QuantizedRows<'_>, rhs: &Rhs, outputs: Range<usize>) -> Vec<f32> {
    let (rows, columns, stride) = (lhs.rows(), outputs.len(), outputs.len() + 5);
    let mut out = vec![SENTINEL; rows * stride];
    let blocking = if rows <= 16 { Blocking::FEW_ROWS } else { Blocking::MANY_ROWS };
    let gemm = Q8Gemm { lhs, rhs: rhs.view(), outputs, blocking };
    let view = MatrixMut::new("out", &mut out, [rows, columns], stride).unwrap();
    gemm.compute(isa, view, &mut Q8Workspace::new()).unwrap();
    let mut y = Vec::new();
    for row in out.chunks_exact(stride) {
        y.extend_from_slice(&row[..columns]);
        assert!(row[columns..].iter().all(|x| *x == SENTINEL), "wrote outside");
    }
    y
}

fn activations(rows: usize, k: usize) -> Vec<f32> {
    let mut random = Random(3);
    (0..rows * k).map(|_| random.unit() as f32).collect()
}

/// Checks a product against one in f64. The codes of activations are taken as they are, so that what is left is f32 rounding of sums.
fn check_values<I: Q8Kernels>(isa: I, rhs: &Rhs, lhs: &Lhs) {
    let y = product(isa, lhs.view(lhs.rows), rhs, 0..rhs.n);
    for row in 0..lhs.rows {
        let x = lhs.values(row);
        for output in 0..rhs.n {
            let w = &rhs.values[output * rhs.k..(output + 1) * rhs.k];
            let expected: f64 = x.iter().zip(w).map(|(x, w)| x * w).sum();
            let size: f64 = x.iter().zip(w).map(|(x, w)| (x * w).abs()).sum();
            let (got, label, rows) = (f64::from(y[row * rhs.n + output]), &rhs.label, lhs.rows);
            let error = (got - expected).abs();
            assert!(error <= 2e-6 * size, "{label} {} {rows} rows: {got}, not {expected}", I::NAME);
        }
    }
}

#[test]
fn products_agree_with_an_f64_reference() {
    for (n, k) in [(16, 32), (37, 544)] {
        for rhs in every_rhs(n, k) {
            for rows in [1, 3, 7, 19] {
                let lhs = Lhs::new(&activations(rows, rhs.k), rows);
                for_every_integer_isa!(check_values(&rhs, &lhs));
            }
        }
    }
}

/// Products of codes are summed in 16 bits where the largest ones fit.
#[test]
fn the_largest_codes_times_the_largest_activations_do_not_saturate() {
    // Both ends of the range of codes, as the first weight of a group sets the scale or the minimum.
    for (first, others) in [(-1.0, 1.0), (1.0, -1.0), (0.0, 1.0), (1.0, 1.0)] {
        for rhs in every_rhs_of(16, 256, |i| if i % GROUP == 0 { first } else { others }) {
            for rows in [1, 2, 6] {
                let x: Vec<f32> =
                    (0..rows * rhs.k).map(|i| if i / rhs.k % 2 == 0 { 1.0 } else { -1.0 }).collect();
                let lhs = Lhs::new(&x, rows);
                for_every_integer_isa!(check_values(&rhs, &lhs));
            }
        }
    }
}

/// A row has the same bytes in a product of any number of rows, and an output those of any range of outputs.
#[test]
fn bits_do_not_depend_on_rows_or_ranges() {
    fn check<I: Q8Kernels>(isa: I, rhs: &Rhs, lhs: &Lhs) {
        let most = lhs.rows;
        let whole = product(isa, lhs.view(most), rhs, 0..rhs.n);
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        for rows in 1..=70 {
            let part = product(isa, lhs.view(rows), rhs, 0..rhs.n);
            assert_eq!(bits(&part), bits(&whole[..rows * rhs.n]), "{} {} {rows} rows", rhs.label, I::NAME);
        }
        let range = if rhs.interleaved { 16..32 } else { 5..24 };
        let part = product(isa, lhs.view(2), rhs, range.clone());
        for (row, part) in part.chunks_exact(range.len()).enumerate() {
            let expected = &whole[row * rhs.n + range.start..row * rhs.n + range.end];
            assert_eq!(bits(part), bits(expected), "{} {} {range:?}", rhs.label, I::NAME);
        }
    }
    for rhs in every_rhs(33, 320) {
        let lhs = Lhs::new(&activations(512, rhs.k), 512);
        for_every_integer_isa!(check(&rhs, &lhs));
    }
}

/// Weights are loaded interleaved or not, so both layouts have the same bits.
#[test]
fn interleaved_weights_have_the_bits_of_plain_ones() {
    fn check<I: Q8Kernels>(isa: I, plain: &Rhs, interleaved: &Rhs) {
        for rows in [1, 2, 4, 5, 9, 17, 40] {
            let lhs = Lhs::new(&activations(rows, plain.k), rows);
            let of = |rhs| product(isa, lhs.view(rows), rhs, 0..32).into_iter().map(f32::to_bits);
            assert!(of(plain).eq(of(interleaved)), "{} {} {rows} rows", plain.label, I::NAME);
        }
    }
    let all = every_rhs(32, 320);
    let (interleaved, plain): (Vec<_>, Vec<_>) = all.iter().partition(|rhs| rhs.interleaved);
    assert!(interleaved.len() > 16);
    for interleaved in interleaved {
        let plain = plain.iter().find(|plain| plain.encoding == interleaved.encoding).unwrap();
        for_every_integer_isa!(check(plain, interleaved));
    }
}

#[test]
fn interleaved_words_of_codes_give_back_the_plain_ones() {
    let mut random = Random(5);
    let orders: Vec<CodeOrder> = MlxFormat::all().into_iter().filter_map(CodeOrder::of).collect();
    assert!(orders.len() >= 2);
    for order in orders {
        for _ in 0..100 {
            let word = random.bits() as u32;
            assert_eq!(order.plain(order.interleaved(word)), word);
        }
    }
    let four = CodeOrder::of(MlxFormat::new(MlxMode::Affine, 4, 32, DType::F16).unwrap()).unwrap();
    assert_eq!(four.interleaved(0x7654_3210), 0x7362_5140);
}

#[test]
fn every_instruction_set_interleaves_alike() {
    fn check<I: Q8Kernels>(isa: I, format: Format, from: &[u8]) {
        let block = InterleavedBlock::of(format).unwrap();
        let mut to = vec![0; from.len()];
        interleave(isa, format, from, &mut to).unwrap();
        let row_bytes = from.len() / INTERLEAVE;
        for (row, from) in from.chunks_exact(row_bytes).enumerate() {
            for (i, byte) in from.iter().enumerate() {
                let at = i / block.bytes() * INTERLEAVE * block.bytes() + block.place(row, i % block.bytes());
                assert_eq!(to[at], *byte, "{format} {}", I::NAME);
            }
        }
    }
    for format in Format::ALL.into_iter().filter(|format| InterleavedBlock::of(*format).is_some()) {
        let mut random = Random(11);
        let from: Vec<u8> = (0..INTERLEAVE * 3 * format.block_bytes()).map(|_| random.bits() as u8).collect();
        for_every_integer_isa!(check(format, &from));
    }
}

#[test]
fn activations_that_are_not_finite_make_their_row_nan() {
    let rhs = &every_rhs(16, 64)[0];
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = activations(3, rhs.k);
        x[rhs.k + 5] = wrong;
        let y = product(Portable::detect().unwrap(), Lhs::new(&x, 3).view(3), rhs, 0..rhs.n);
        for (row, y) in y.chunks_exact(rhs.n).enumerate() {
            assert!(y.iter().all(|y| y.is_nan() == (row == 1)), "{wrong}, row {row}");
        }
    }
}

#[test]
fn codes_are_the_nearest_of_127_steps() {
    let x = activations(4, 96);
    let lhs = Lhs::new(&x, 4);
    for (row, x) in x.chunks_exact(96).enumerate() {
        for (value, x) in lhs.values(row).chunks_exact(GROUP).zip(x.chunks_exact(GROUP)) {
            let largest = x.iter().fold(0f32, |most, x| most.max(x.abs()));
            for (value, x) in value.iter().zip(x) {
                assert!((value - f64::from(*x)).abs() <= f64::from(largest) * (0.5 / 127.0 + 1e-6));
            }
        }
    }
}

/// Quantized rows of any bytes give some numbers, and never a panic.
#[test]
fn rows_of_any_bytes_are_multiplied() {
    fn check<I: Q8Kernels>(isa: I, rhs: &Rhs) {
        let mut random = Random(23);
        let words = 5 * quantized_row_bytes(rhs.k / GROUP) / 4;
        let memory: Vec<f32> = (0..words).map(|_| f32::from_bits(random.bits() as u32)).collect();
        let lhs = Lhs { memory, rows: 5, groups: rhs.k / GROUP };
        for rows in [1, 5] {
            assert_eq!(product(isa, lhs.view(rows), rhs, 0..rhs.n).len(), rows * rhs.n);
        }
    }
    for rhs in every_rhs(16, 256) {
        for_every_integer_isa!(check(&rhs));
    }
}

/// Codes, scales and indices of any bytes give some numbers, and never a panic or a read outside.
#[test]
fn weights_of_any_bytes_are_multiplied() {
    fn check<I: Q8Kernels>(isa: I, rhs: &Rhs, lhs: &Lhs) {
        for rows in [1, 3, 9] {
            assert_eq!(product(isa, lhs.view(rows), rhs, 0..rhs.n).len(), rows * rhs.n);
        }
    }
    let mut random = Random(31);
    for mut rhs in every_rhs(32, 256) {
        let MlxPlanes { packed, scales, biases } = &mut rhs.planes;
        for plane in [packed, scales, biases] {
            plane.iter_mut().for_each(|byte| *byte = random.bits() as u8);
        }
        let lhs = Lhs::new(&activations(9, rhs.k), 9);
        for_every_integer_isa!(check(&rhs, &lhs));
    }
}

#[test]
fn every_byte_of_sixteen_blocks_has_a_place_of_its_own() {
    let mut formats = 0;
    for format in Format::ALL {
        let Some(block) = InterleavedBlock::of(format) else { continue };
        formats += 1;
        let all = (0..INTERLEAVE).flat_map(|row| (0..block.bytes()).map(move |at| block.place(row, at)));
        let mut places: Vec<usize> = all.collect();
        places.sort_unstable();
        assert!(places.iter().enumerate().all(|(i, place)| i == *place), "{format}");
        let from: Vec<u8> = (0..INTERLEAVE * block.bytes()).map(|i| (i % 251) as u8).collect();
        for row in 0..INTERLEAVE {
            let mut to = vec![0; block.bytes()];
            block.copy_row(row, &from, &mut to);
            assert!(to.iter().enumerate().all(|(at, byte)| *byte == from[block.place(row, at)]), "{format}");
        }
    }
    assert!(formats >= 16);
}

/// Dot products of codes are exact, however they are summed.
#[cfg(target_arch = "x86_64")]
#[test]
fn avx_vnni_has_the_bits_of_avx2() {
    use silicide_gemm::isa::{Avx2, AvxVnni};
    let (Some(narrow), Some(vnni)) = (Avx2::detect(), AvxVnni::detect()) else { return };
    for rhs in every_rhs(33, 320) {
        let lhs = Lhs::new(&activations(40, rhs.k), 40);
        for rows in [1, 2, 4, 5, 40] {
            let y = product(narrow, lhs.view(rows), &rhs, 0..rhs.n);
            assert_eq!(y, product(vnni, lhs.view(rows), &rhs, 0..rhs.n), "{} {rows} rows", rhs.label);
        }
    }
}

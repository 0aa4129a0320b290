//! Planes to try: any codes, under scales that keep values finite.

use crate::case::{Data, Input, Random};
use silicide_quant::{DType, MlxFormat, MlxMode};

/// The planes of a weight of `rows` rows of `k` elements.
pub(crate) fn inputs(format: MlxFormat, rows: usize, k: usize) -> Vec<Input> {
    let scale = format.scale_dtype();
    let words = k * format.bits() / 32;
    let groups = [rows, k / format.group()];
    let codes = match format.mode() {
        MlxMode::Mxfp8 => numbers(rows * words),
        _ => Data::Indices { below: 1 << 32 },
    };
    let scales = match format.mode() {
        MlxMode::Affine => Data::Uniform { low: -0.1, high: 0.1 },
        MlxMode::Nvfp4 => Data::Indices { below: 0x7f },
        _ => Data::Uniform { low: 118.0, high: 134.0 },
    };
    let mut inputs = vec![Input::of(DType::U32, &[rows, words], codes), Input::of(scale, &groups, scales)];
    if format.has_biases() {
        inputs.push(Input::of(scale, &groups, Data::Uniform { low: -1.0, high: 1.0 }));
    }
    inputs
}

/// Words of four 8-bit floats, none of which is NaN: in a product it would hide the others.
fn numbers(words: usize) -> Data {
    let mut random = Random::new(7);
    let byte = |byte: u8| if byte & 0x7f == 0x7f { byte - 1 } else { byte };
    let word = |_| f64::from(u32::from_le_bytes((random.bits() as u32).to_le_bytes().map(byte)));
    Data::Values((0..words).map(word).collect())
}

/// Formats that together have every mode, number of bits, group and type of scales.
pub(crate) fn some() -> Vec<MlxFormat> {
    let different = |(i, format): (usize, MlxFormat)| {
        // Of the nine affine formats of each number of bits one, another each time.
        (!format.has_biases() || i % 9 == (i / 9 * 4) % 9).then_some(format)
    };
    MlxFormat::all().into_iter().enumerate().filter_map(different).collect()
}

//! Calls of `gather_rows`: every size of element, conversions, every encoding, odd rows, indices out of range.

use super::GatherRows;
use crate::case::{Case, Data, Input};
use crate::mlx;
use crate::weight::cases::{interleaved, planes};
use silicide_quant::{DType, Encoding, Format};

/// The calls to try.
pub fn cases() -> Vec<Case> {
    use DType::{BF16, F16, F32, I8, I32, U8, U16, U32, U64};
    let mut cases = Vec::new();
    let mut add =
        |(from, table): (DType, &[usize]), (kind, count): (DType, &[usize]), to: DType, data: Data| {
            let label = format!("{from}{table:?} by {kind}{count:?} to {to} {}", cases.len());
            let values = match from {
                DType::Block(_) => Data::Blocks,
                _ if from.is_float() => Data::Gaussian { scale: 1.0 },
                _ => Data::Indices { below: 100 },
            };
            let inputs = vec![Input::of(from, table, values), Input::of(kind, count, data)];
            cases.push(Case::new(label, GatherRows { encoding: Encoding::from(from), to }, inputs));
        };
    let any = || Data::Indices { below: 31 };
    for from in [F32, F16, BF16] {
        for to in [F32, F16, BF16] {
            add((from, &[31, 67]), (I32, &[19]), to, any());
        }
    }
    add((F32, &[31, 2051]), (U32, &[2, 9]), F32, any());
    add((BF16, &[31, 4, 16]), (U32, &[1]), F32, any());
    add((F32, &[31]), (I32, &[7]), F32, any());
    for to in [I8, U8, U16, I32, U64] {
        add((to, &[31, 13]), (I32, &[11]), to, any());
    }
    let outside = || Data::Values(vec![0.0, -1.0, 30.0, 31.0, -2_147_483_648.0, 2_147_483_647.0, 5.0]);
    add((F32, &[31, 5]), (I32, &[7]), F32, outside());
    add((F16, &[31, 5]), (I32, &[7]), F16, outside());
    add((BF16, &[31, 5]), (I32, &[7]), F32, outside());
    add((U8, &[31, 5]), (I32, &[7]), U8, outside());
    add((U64, &[31, 5]), (I32, &[7]), U64, outside());
    let large = Data::Values(vec![4_294_967_295.0, 30.0, 2_147_483_648.0]);
    add((F32, &[31, 5]), (U32, &[3]), F32, large);
    for format in Format::ALL {
        add((format.into(), &[31, 3 * format.block_len()]), (I32, &[7]), F32, outside());
    }
    // Rows that are longer than a chunk, and more of them than a tile.
    add((Format::Q4_0.into(), &[31, 2, 288]), (U32, &[61]), F32, any());
    add((Format::Q6K.into(), &[31, 768]), (I32, &[5]), F16, any());
    add((Format::Iq4Nl.into(), &[31, 64]), (I32, &[5]), BF16, any());
    let mut add = |encoding: Encoding, rows: usize, groups: usize, kind: DType, to: DType| {
        let label = format!("{rows} rows of {groups} groups of {encoding} by {kind} to {to}");
        let mut inputs = planes(encoding, [rows, groups * encoding.group_len()]);
        let indices = if kind == I32 { outside() } else { Data::Indices { below: rows + 2 } };
        inputs.push(Input::of(kind, &[7], indices));
        cases.push(Case::new(label, GatherRows { encoding, to }, inputs));
    };
    let formats = mlx::cases::some();
    formats.iter().for_each(|&format| add(Encoding::Planes(format), 31, 3, I32, F32));
    for (format, to) in formats.into_iter().zip([F16, BF16, F32]) {
        add(Encoding::Planes(format), 31, 21, U32, to);
    }
    interleaved().for_each(|encoding| add(encoding, 48, 3, I32, F32));
    interleaved()
        .filter(|encoding| encoding.takes_rows(1))
        .for_each(|encoding| add(encoding, 21, 70, I32, F32));
    cases
}

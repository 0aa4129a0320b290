//! Attention over compressed caches, from heads as the model makes them to heads as it takes them: rotated, written to the cache,
//! attended and rotated back. The oracle is plain attention in f64 over keys and values that the codec decodes.
#![allow(clippy::unwrap_used)]

use silicide_core::{Buffer, CommandEncoder, Device, DeviceOptions, Isa};
use silicide_ops::attention::{Attention, AttentionInputs, Visibility, WorkList, attention};
use silicide_ops::case::{Data, Input};
use silicide_ops::{cache_write, hadamard, hadamard_inverse};
use silicide_quant::DType;
use silicide_quant::turbo::{TurboBits, TurboCodec};

const HEADS: usize = 6;
const KV_HEADS: usize = 2;

fn gaussian(count: usize, seed: u64) -> Vec<f32> {
    let bytes = Input::of(DType::F32, &[count], Data::Gaussian { scale: 1.0 }).bytes(seed);
    bytes.as_chunks().0.iter().map(|x| f32::from_ne_bytes(*x)).collect()
}

/// Heads as the cache has them: through the codec, or rounded to f16 without one.
fn stored(heads: &[f32], codec: Option<TurboCodec>) -> Vec<f64> {
    match codec {
        Some(codec) => {
            let mut bytes = vec![0; heads.len() / codec.head_len() * codec.head_bytes()];
            codec.encode(heads, &mut bytes).unwrap();
            let mut decoded = vec![0.0; heads.len()];
            codec.decode(&bytes, &mut decoded).unwrap();
            decoded.into_iter().map(f64::from).collect()
        }
        None => {
            let exact: Vec<f64> = heads.iter().copied().map(f64::from).collect();
            silicide_quant::decode(DType::F16, &silicide_quant::encode(DType::F16, &exact))
        }
    }
}

/// A sequence, and how its cache is made.
struct Sequence {
    tokens: usize,
    dims: [usize; 2],
    codecs: [Option<TurboCodec>; 2],
    capacity: usize,
    window: usize,
    sinks: bool,
}

impl Sequence {
    fn q(&self) -> Vec<f32> {
        gaussian(self.tokens * HEADS * self.dims[0], 3)
    }

    /// Keys or values.
    fn rows(&self, which: usize) -> Vec<f32> {
        gaussian(self.tokens * KV_HEADS * self.dims[which], 5 + which as u64)
    }

    fn scale(&self) -> f64 {
        1.0 / (self.dims[0] as f64).sqrt()
    }

    fn sink(head: usize) -> f64 {
        head as f64 / 4.0
    }

    fn oracle(&self) -> Vec<f64> {
        let [dim, value_dim] = self.dims;
        let (q, [keys, values]) =
            (self.q(), [0, 1].map(|which| stored(&self.rows(which), self.codecs[which])));
        let mut y = Vec::new();
        for (row, q) in q.chunks(dim).enumerate() {
            let (token, head) = (row / HEADS, row % HEADS);
            let kv_head = head * KV_HEADS / HEADS;
            let seen = (token + 1).saturating_sub(self.window)..token + 1;
            let scores: Vec<f64> = seen
                .clone()
                .map(|at| {
                    let key = &keys[(at * KV_HEADS + kv_head) * dim..][..dim];
                    self.scale() * q.iter().zip(key).map(|(q, k)| f64::from(*q) * k).sum::<f64>()
                })
                .collect();
            let sink = if self.sinks { Sequence::sink(head).exp() } else { 0.0 };
            let sum: f64 = sink + scores.iter().map(|score| score.exp()).sum::<f64>();
            let mut heads = vec![0.0; value_dim];
            for (at, score) in seen.zip(scores) {
                let value = &values[(at * KV_HEADS + kv_head) * value_dim..][..value_dim];
                heads.iter_mut().zip(value).for_each(|(y, v)| *y += score.exp() / sum * v);
            }
            y.extend(heads);
        }
        y
    }

    /// Runs it on a device, `chunk` tokens at a time.
    fn run(&self, device: &Device, chunk: usize) -> Vec<f32> {
        let [dim, value_dim] = self.dims;
        let [keys, values] = [0, 1].map(|which| {
            let dtype = self.codecs[which].map_or(DType::F16, |codec| DType::Turbo(codec.format()));
            Buffer::allocate(device, dtype, [KV_HEADS, self.capacity, self.dims[which]]).unwrap()
        });
        let rule = Attention { scale: self.scale() as f32, softcap: None };
        let seen = Visibility { window: Some(self.window as u32), ..Visibility::causal(self.capacity) };
        let sinks: Vec<f32> = (0..HEADS).map(|head| Sequence::sink(head) as f32).collect();
        let sinks = Buffer::from_slice(device, [HEADS], &sinks).unwrap();
        let (q, all) = (self.q(), [self.rows(0), self.rows(1)]);
        let mut y = Vec::new();
        for start in (0..self.tokens).step_by(chunk) {
            let count = chunk.min(self.tokens - start);
            let rows = |all: &[f32], heads: usize, dim: usize| {
                let part = &all[start * heads * dim..(start + count) * heads * dim];
                Buffer::from_slice(device, [count, heads, dim], part).unwrap()
            };
            let slots: Vec<u32> = (start..start + count).map(|at| (at % self.capacity) as u32).collect();
            let slots = Buffer::from_slice(device, [count], &slots).unwrap();
            let work = WorkList::buffer(device, &seen, start, count).unwrap();
            let mut encoder = CommandEncoder::new(device);
            let mut q = rows(&q, HEADS, dim);
            let [mut k, mut v] = [rows(&all[0], KV_HEADS, dim), rows(&all[1], KV_HEADS, value_dim)];
            if self.codecs[0].is_some() {
                q = hadamard(&mut encoder, &q).unwrap();
                k = hadamard(&mut encoder, &k).unwrap();
            }
            if self.codecs[1].is_some() {
                v = hadamard(&mut encoder, &v).unwrap();
            }
            cache_write(&mut encoder, &k, &slots, &keys).unwrap();
            cache_write(&mut encoder, &v, &slots, &values).unwrap();
            let sinks = self.sinks.then_some(&sinks);
            let inputs = AttentionInputs { q: &q, k: &keys, v: &values, work: &work, sinks };
            let mut out = attention(&mut encoder, rule, &inputs).unwrap();
            if self.codecs[1].is_some() {
                out = hadamard_inverse(&mut encoder, &out).unwrap();
            }
            encoder.submit().unwrap().wait().unwrap();
            y.extend(out.to_vec::<f32>().unwrap());
        }
        y
    }

    fn check(&self, label: &str) {
        let expected = self.oracle();
        for isa in Isa::available() {
            let mut options = DeviceOptions::default();
            options.isa = Some(isa);
            let device = Device::open_with("cpu", &options).unwrap();
            for chunk in [1, 7, 40] {
                let y = self.run(&device, chunk);
                let error: f64 = y.iter().zip(&expected).map(|(y, e)| (f64::from(*y) - e).powi(2)).sum();
                let nmse = error / expected.iter().map(|e| e * e).sum::<f64>();
                assert!(nmse < 1e-10, "{label}, {isa}, by {chunk}: {nmse:e}");
            }
        }
    }
}

fn codec(bits: TurboBits, dim: usize) -> Option<TurboCodec> {
    Some(TurboCodec::new(bits, dim).unwrap())
}

#[test]
fn compressed_caches_are_attended_as_their_codec_decodes_them() {
    for bits in TurboBits::ALL {
        for dim in [32, 64, 128, 256, 512] {
            let codecs = [codec(bits, dim); 2];
            let sequence =
                Sequence { tokens: 150, dims: [dim; 2], codecs, capacity: 160, window: 200, sinks: false };
            sequence.check(&format!("{bits} x {dim}"));
        }
    }
}

#[test]
fn keys_and_values_of_different_types_are_attended_in_windows_and_rings_with_sinks() {
    let (tq4, tq3) = (codec(TurboBits::B4, 64), codec(TurboBits::B3, 32));
    for codecs in [[tq4, tq3], [None, tq3], [tq4, None]] {
        let sequence =
            Sequence { tokens: 250, dims: [64, 32], codecs, capacity: 90, window: 50, sinks: true };
        sequence.check(&format!("{codecs:?}"));
    }
}

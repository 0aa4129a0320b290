//! Calls of `attention`: one query and many, grouped heads, heads of every length, windows, chunks, rings that have wrapped, caps,
//! sinks, every type of cache, queries that see nothing, and both ways to share keys among items.

use super::{Attend, Attention, ENTRY_WORDS, KEY_LANES, Visibility, WorkList, work::Sharing};
use crate::case::{Case, Data, Input};
use silicide_quant::turbo::{TurboBits, TurboFormat};
use silicide_quant::{DType, Format};

/// A call to try, of which most are alike.
#[derive(Clone, Debug)]
struct Sketch {
    label: &'static str,
    tokens: usize,
    heads: usize,
    kv_heads: usize,
    dim: usize,
    value_dim: usize,
    capacity: usize,
    start: usize,
    types: [DType; 2],
    rule: Attention,
    causal: bool,
    window: Option<u32>,
    /// Positions of a chunk: queries see no earlier ones.
    chunk: Option<usize>,
    sharing: Sharing,
    sinks: Option<f64>,
    scale: f64,
    /// The standard deviation of keys and values.
    cache: f64,
    /// A value in place of one in 97.
    special: Option<f64>,
    /// An element of keys in place of one in 1601.
    special_key: Option<f64>,
    /// Whether the outputs are quantized too.
    quantized: bool,
    /// Whether keys lie in lanes.
    in_lanes: bool,
}

/// A plain call.
fn sketch(label: &'static str, tokens: usize, start: usize, [heads, kv_heads, dim]: [usize; 3]) -> Sketch {
    let capacity = start + tokens + 5;
    let rule = Attention { scale: 1.0 / (dim as f32).sqrt(), softcap: None };
    Sketch {
        label,
        tokens,
        heads,
        kv_heads,
        dim,
        value_dim: dim,
        capacity,
        start,
        types: [DType::F16; 2],
        rule,
        causal: true,
        window: None,
        chunk: None,
        sharing: Sharing::CPU,
        sinks: None,
        scale: 1.0,
        cache: 1.0,
        special: None,
        special_key: None,
        quantized: false,
        in_lanes: false,
    }
}

impl Sketch {
    fn with(mut self, change: impl FnOnce(&mut Sketch)) -> Sketch {
        change(&mut self);
        self
    }

    fn case(&self) -> Case {
        let Sketch { tokens, heads, kv_heads, dim, value_dim, capacity, start, in_lanes, .. } = *self;
        let label = format!(
            "{}: {tokens} from {start}, {heads}/{kv_heads} x {dim}/{value_dim}, {}/{} of {capacity}{}",
            self.label,
            self.types[0],
            self.types[1],
            if in_lanes { ", keys in lanes" } else { "" },
        );
        let rows = [kv_heads, capacity, dim];
        let lanes = [kv_heads, capacity / KEY_LANES, dim, KEY_LANES];
        let keys = if in_lanes { lanes.as_slice() } else { &rows };
        let seen = Visibility { causal: self.causal, window: self.window, capacity };
        let mut list = WorkList::shared(capacity, self.sharing);
        let ranges = seen.ranges(start, tokens).map(|range| {
            let chunk = self.chunk.map_or(0, |chunk| range.end.saturating_sub(1) / chunk * chunk);
            range.start.max(chunk)..range.end
        });
        // A list that is refused leaves a case without entries, which the op refuses.
        let _ = list.set(ranges);
        let work = list.words().iter().map(|word| f64::from(*word)).collect();
        let gaussian = |scale: f64| Data::Gaussian { scale };
        let with_special = |special: Option<f64>, one_in: u32| match special {
            Some(special) => {
                let element = |i| if i == one_in - 1 { special } else { f64::from(i % 7) };
                Data::Values((0..one_in).map(element).collect())
            }
            None => gaussian(self.cache),
        };
        let values = with_special(self.special, 97);
        let mut inputs = vec![
            Input::of(DType::F32, &[tokens, heads, dim], gaussian(self.scale)),
            Input::of(self.types[0], keys, with_special(self.special_key, 1601)),
            Input::of(self.types[1], &[kv_heads, capacity, value_dim], values),
            Input::of(DType::U32, &[list.entries(), ENTRY_WORDS], Data::Values(work)),
        ];
        let sink = |mean: f64| Input::of(DType::F32, &[heads], Data::Uniform { low: mean, high: mean + 2.0 });
        inputs.extend(self.sinks.map(sink));
        let op = Attend { quantized: self.quantized, ..Attend::new(self.rule, self.sinks.is_some()) };
        Case::new(label, op, inputs)
    }
}

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut all = vec![
        sketch("the first token", 1, 0, [1, 1, 8]),
        sketch("one query", 1, 300, [9, 3, 64]),
        sketch("one query", 1, 127, [8, 1, 80]),
        sketch("many heads share", 1, 40, [40, 2, 16]),
        sketch("a few queries", 3, 150, [6, 2, 64]),
        sketch("a prompt", 37, 0, [9, 3, 64]),
        sketch("a prompt", 150, 0, [3, 3, 24]),
        sketch("a prompt after another", 33, 77, [4, 2, 128]),
        sketch("many heads share", 11, 5, [34, 1, 16]),
        sketch("a longer prompt", 131, 20, [2, 1, 32]),
    ];
    for (tokens, start) in [(1, 200), (19, 30)] {
        let plain = |label, shape| sketch(label, tokens, start, shape);
        for dim in [8, 40, 96, 256, 512] {
            all.push(plain("lengths", [2, 1, dim]));
        }
        all.push(plain("values of another length", [2, 1, 64]).with(|call| call.value_dim = 24));
        all.push(plain("values of another length", [2, 1, 72]).with(|call| call.value_dim = 512));
        all.push(plain("the longest keys", [3, 1, 576]).with(|call| call.value_dim = 512));
        let blocks = [Format::Q8_0, Format::Q4_0, Format::Q4_1, Format::Q5_0, Format::Q5_1, Format::Iq4Nl];
        for dtype in [DType::F32, DType::BF16].into_iter().chain(blocks.map(DType::Block)) {
            all.push(plain("types", [4, 2, 64]).with(|call| call.types = [dtype; 2]));
        }
        let mixed = [DType::Block(Format::Q8_0), DType::F16];
        all.push(plain("types", [4, 2, 96]).with(|call| call.types = mixed));
        for format in TurboFormat::ALL {
            let dim = if format.block_len() == 256 { 512 } else { format.block_len() };
            all.push(plain("types", [4, 2, dim]).with(|call| call.types = [format.into(); 2]));
        }
        let turbo = |bits| TurboFormat::for_head(bits, 64).map_or(DType::F16, DType::Turbo);
        let (tq4, tq3) = (turbo(TurboBits::B4), turbo(TurboBits::B3));
        for types in [[DType::F16, tq4], [tq4, DType::F16], [tq4, tq3], [DType::Block(Format::Q4_0), tq4]] {
            all.push(plain("types", [6, 2, 64]).with(|call| call.types = types));
            all.push(plain("types in a ring, with sinks", [4, 2, 64]).with(|call| {
                call.types = types;
                (call.capacity, call.start, call.window) = (60, 1000, Some(33));
                call.sinks = Some(-1.0);
            }));
        }
        for (label, window) in [("a window of 1", 1), ("of 7", 7), ("of 45", 45), ("of 1000", 1000)] {
            all.push(plain(label, [4, 2, 32]).with(|call| call.window = Some(window)));
        }
        all.push(plain("a wrapped ring", [4, 2, 32]).with(|call| {
            call.capacity = 90;
            call.start = 1000;
        }));
        all.push(plain("a wrapped ring in a window", [4, 2, 32]).with(|call| {
            call.capacity = 60;
            call.start = 1000;
            call.window = Some(33);
        }));
        all.push(plain("a cap", [4, 2, 64]).with(|call| {
            call.rule.softcap = Some(2.0);
            call.scale = 5.0;
        }));
        all.push(plain("sinks", [4, 2, 64]).with(|call| call.sinks = Some(-1.0)));
        all.push(plain("large sinks in a window", [4, 2, 64]).with(|call| {
            call.sinks = Some(20.0);
            call.window = Some(16);
        }));
        all.push(plain("all see all", [4, 2, 64]).with(|call| call.causal = false));
        all.push(plain("large scores", [4, 2, 64]).with(|call| call.scale = 30.0));
        all.push(plain("all see all in a window", [4, 2, 64]).with(|call| {
            call.causal = false;
            call.window = Some(60);
        }));
        all.push(plain("subnormal halves", [4, 2, 64]).with(|call| {
            call.cache = 2e-5;
            call.scale = 1e5;
        }));
        for (label, special) in [("values that are infinite", f64::INFINITY), ("that are NaN", f64::NAN)] {
            all.push(plain(label, [4, 2, 24]).with(|call| call.special = Some(special)));
        }
        for special in [f64::INFINITY, f64::NAN] {
            let label = if special.is_nan() { "keys that are NaN" } else { "keys that are infinite" };
            all.push(plain(label, [4, 2, 32]).with(|call| {
                call.special_key = Some(special);
                call.scale = 0.1;
            }));
        }
        all.push(plain("keys and values beyond f16", [4, 2, 32]).with(|call| {
            call.types = [DType::BF16; 2];
            (call.cache, call.scale) = (1e6, 1e-6);
        }));
        all.push(plain("chunks", [2, 2, 16]).with(|call| call.chunk = Some(40)));
    }
    for (tokens, shape) in
        [(1, [9, 3, 64]), (3, [8, 2, 48]), (2, [8, 8, 32]), (21, [9, 3, 64]), (40, [34, 1, 16])]
    {
        all.push(sketch("quantized", tokens, 300, shape).with(|call| call.quantized = true));
        all.push(sketch("quantized, with sinks", tokens, 20, shape).with(|call| {
            call.quantized = true;
            call.sinks = Some(-1.0);
        }));
    }
    // More queries than slots: the first see nothing.
    all.push(sketch("a ring too small", 50, 3, [4, 2, 32]).with(|call| call.capacity = 20));
    all.push(sketch("a ring too small", 5, 0, [2, 2, 16]).with(|call| call.capacity = 2));
    all.push(sketch("a ring too small, with sinks", 5, 0, [2, 2, 16]).with(|call| {
        call.capacity = 2;
        call.sinks = Some(0.0);
    }));
    // Deep enough for items of whole groups on the CPU; on GPUs they are pairs of blocks.
    for (labels, sharing) in [
        (["far", "far in a window"], Sharing::CPU),
        (["far, in items for GPUs", "far in a window, in items for GPUs"], Sharing::GPU),
    ] {
        for tokens in [1, 3] {
            all.push(sketch(labels[0], tokens, 4500, [2, 1, 16]).with(|call| call.sharing = sharing));
            all.push(sketch(labels[1], tokens, 40_000, [2, 1, 8]).with(|call| {
                call.capacity = 4300;
                call.window = Some(4250);
                call.sharing = sharing;
            }));
        }
    }
    // The same with keys in lanes: the least capacity of whole sets.
    let sets: Vec<Sketch> = all.iter().filter(|call| !call.types[0].is_compressed()).cloned().collect();
    all.extend(sets.into_iter().map(|call| {
        call.with(|call| {
            call.capacity = call.capacity.next_multiple_of(KEY_LANES);
            call.in_lanes = true;
        })
    }));
    all.iter().map(Sketch::case).collect()
}

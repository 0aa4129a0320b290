//! RADV's assembly: loops, and what their instructions occupy.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Counts over a loop, loops inside of it included once, or over a whole program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// All but delays and hints.
    pub(crate) instructions: u32,
    /// Vector arithmetic; an instruction with two operations counts once.
    pub(crate) valu: u32,
    /// Cycles that vector arithmetic occupies a SIMD.
    pub(crate) cycles: u32,
    /// Loads from memory.
    pub(crate) loads: u32,
    /// Loads from shared memory.
    pub(crate) lds_loads: u32,
    /// Waits for loads.
    pub(crate) waits: u32,
}

/// A loop: its first and last block, whether no loop is inside of it, bytes that a lane loads from memory, and counts.
#[derive(Clone, Debug)]
struct Loop {
    span: (u32, u32),
    is_innermost: bool,
    load_bytes: u32,
    counts: Counts,
    /// Products of matrices.
    products: usize,
    /// Counts without the loops inside of it that multiply no matrices.
    own: Counts,
}

/// A program.
pub(crate) struct Listing {
    whole: Counts,
    loops: Vec<Loop>,
}

struct Line<'a> {
    block: u32,
    name: &'a str,
    text: &'a str,
}

impl Listing {
    /// Returns the innermost loop that loads most; the whole program where there is no loop. Of a program that multiplies matrices it is
    /// the smallest loop with most of the products, without the loops inside of it that have none: these run for rare inputs.
    pub(crate) fn hot(&self) -> &Counts {
        let multiplies = self.loops.iter().filter(|one| one.products > 0);
        let size = |one: &Loop| std::cmp::Reverse(one.span.1 - one.span.0);
        if let Some(hot) = multiplies.max_by_key(|one| (one.products, size(one))) {
            return &hot.own;
        }
        let innermost = self.loops.iter().filter(|one| one.is_innermost);
        let hot = innermost.max_by_key(|one| (one.load_bytes, one.counts.instructions));
        hot.map_or(&self.whole, |one| &one.counts)
    }

    /// Returns a line for each loop, indented by its depth: blocks, and counts once through, those of inner loops included. With the rounds
    /// of each, which the text of a kernel states, they give the instructions that it executes.
    pub(crate) fn loops(&self) -> String {
        let mut text = String::new();
        for one in &self.loops {
            let (first, last) = one.span;
            let contains = |other: &&Loop| other.span.0 <= first && last <= other.span.1;
            let depth = self.loops.iter().filter(contains).count();
            let Counts { instructions, valu, cycles, loads, lds_loads, waits } = one.counts;
            let _ = writeln!(
                text,
                "{:indent$}BB{first}..BB{last}: {instructions} instructions, {valu} VALU, {cycles} cycles, {loads} loads, \
                 {lds_loads} shared loads, {waits} waits",
                "",
                indent = 2 * depth.saturating_sub(1),
            );
        }
        text
    }
}

/// Reads assembly with labels `BB3:` and comments after `;`, for subgroups of `wave` lanes on a family.
pub(crate) fn read(text: &str, family: &str, wave: u32) -> Listing {
    let (mut block, mut lines) = (0, Vec::new());
    for line in text.lines() {
        let line = line.split(';').next().unwrap_or("").trim();
        if let Some(number) = line.strip_prefix("BB").and_then(|rest| rest.strip_suffix(':')) {
            block = number.parse().unwrap_or(block);
        } else if let Some(name) = line.split_whitespace().next()
            && name.contains('_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            lines.push(Line { block, name, text: line });
        }
    }
    let backward = lines.iter().filter_map(|line| {
        let is_branch = line.name.starts_with("s_branch") || line.name.starts_with("s_cbranch");
        let target = line.text.split_whitespace().nth(1)?.strip_prefix("BB")?.parse().ok()?;
        (is_branch && target <= line.block).then_some((target, line.block))
    });
    // A loop can have several branches back: from its first block to the last of them.
    let mut spans: BTreeMap<u32, u32> = BTreeMap::new();
    for (first, last) in backward {
        let end = spans.entry(first).or_insert(last);
        *end = last.max(*end);
    }
    let count = |first: u32, last: u32| {
        let (mut counts, mut load_bytes) = (Counts::default(), 0);
        for line in lines.iter().filter(|line| (first..=last).contains(&line.block)) {
            load_bytes += counts.add(line, family, wave);
        }
        (counts, load_bytes)
    };
    let products = |first: u32, last: u32| {
        let inside = lines.iter().filter(|line| (first..=last).contains(&line.block));
        inside.filter(|line| line.name.contains("_wmma_")).count()
    };
    let loops = spans.iter().map(|(&first, &last)| {
        let (counts, load_bytes) = count(first, last);
        let inner = |&(a, b): &(u32, u32)| (a, b) != (first, last) && a >= first && b <= last;
        let inner: Vec<_> = spans.iter().map(|(&a, &b)| (a, b)).filter(inner).collect();
        let rare = |block: u32| inner.iter().any(|&(a, b)| (a..=b).contains(&block) && products(a, b) == 0);
        let mut own = Counts::default();
        for line in lines.iter().filter(|line| (first..=last).contains(&line.block) && !rare(line.block)) {
            own.add(line, family, wave);
        }
        let (is_innermost, products) = (inner.is_empty(), products(first, last));
        Loop { span: (first, last), is_innermost, load_bytes, counts, products, own }
    });
    Listing { loops: loops.collect(), whole: count(0, u32::MAX).0 }
}

impl Counts {
    /// Adds an instruction, and returns the bytes that a lane loads by it.
    fn add(&mut self, line: &Line<'_>, family: &str, wave: u32) -> u32 {
        let name = line.name;
        let starts = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
        if starts(&["s_delay_alu", "s_clause", "s_nop", "s_code_end", "s_inst_prefetch", "s_set_inst"]) {
            return 0;
        }
        self.instructions += 1;
        if starts(&["v_"]) {
            self.valu += 1;
            self.cycles += cycles(name, family, wave);
        } else if starts(&["s_wait"]) {
            self.waits += 1;
        } else if starts(&["ds_read", "ds_load"]) {
            self.lds_loads += 1;
        } else if !starts(&["s_", "ds_"]) && name.contains("_load") {
            self.loads += 1;
            return load_bytes(name);
        }
        0
    }
}

/// Returns the cycles of an instruction of vector arithmetic.
///
/// A SIMD of RDNA has 32 lanes, one of GCN has 16. RDNA3 issues sums, products and moves of f32 in one cycle for 64 lanes.
/// Products of integers and transcendental functions take four times as long.
fn cycles(name: &str, family: &str, wave: u32) -> u32 {
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let passes = wave.div_ceil(if family == "GCN5" { 16 } else { 32 });
    let is_float = has(&["_add_f32", "_sub_f32", "_subrev_f32", "_mul_f32", "_fma_f32", "_fmac_f32"])
        || has(&["_fmaak_f32", "_fmamk_f32", "_mov_b32", "_cndmask_b32"]);
    if has(&["_wmma_"]) {
        32
    } else if has(&["_mul_lo_u32", "_mul_hi_u32", "_mul_hi_i32", "_mad_u64_u32", "_mad_i64_i32"])
        || has(&["_rcp_", "_rsq_", "_sqrt_", "_exp_", "_log_", "_sin_", "_cos_"])
    {
        4 * passes
    } else if family == "RDNA3" && is_float {
        passes.div_ceil(2)
    } else {
        passes
    }
}

/// Returns the bytes that a lane loads, by the end of an instruction's name.
fn load_bytes(name: &str) -> u32 {
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    if ends(&["dwordx4", "b128"]) {
        16
    } else if ends(&["dwordx3", "b96"]) {
        12
    } else if ends(&["dwordx2", "b64"]) {
        8
    } else if name.contains("16") || name.contains("short") {
        2
    } else if name.contains("u8") || name.contains("i8") || name.contains("byte") {
        1
    } else {
        4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
BB0:
    s_load_b64 s[0:1], s[2:3], null                    ; f4000000
    v_mov_b32_e32 v0, 0                                ; 7e000280
BB1:
    buffer_load_b128 v[1:4], v5, s[4:7], 0 offen       ; e05c0000
    s_waitcnt vmcnt(0)                                 ; bf8903f7
    v_dual_fmac_f32 v0, v1, v2 :: v_dual_mov_b32 v6, 0 ; ca000000
    v_mul_lo_u32 v7, v8, 18                            ; d72c0007
    v_lshrrev_b32_e32 v7, 4, v8                        ; 320e1084
    ds_load_u16 v7, v8                                 ; d8f00000
    s_delay_alu instid0(VALU_DEP_1)                    ; bf870001
    s_cbranch_scc1 BB1                                 ; bfa2fff0
BB2:
    s_endpgm                                           ; bfb00000
";

    #[test]
    fn the_loop_that_loads_is_counted() {
        let listing = read(TEXT, "RDNA3", 64);
        let loop_of = |cycles| Counts { instructions: 7, valu: 3, cycles, loads: 1, lds_loads: 1, waits: 1 };
        assert_eq!((listing.loops.len(), listing.loops[0].load_bytes), (1, 16));
        assert_eq!(*listing.hot(), loop_of(1 + 8 + 2));
        assert_eq!(*read(TEXT, "RDNA2", 64).hot(), loop_of(2 + 8 + 2));
        assert_eq!(*read(TEXT, "RDNA3", 32).hot(), loop_of(1 + 4 + 1));
        assert_eq!(*read(TEXT, "GCN5", 64).hot(), loop_of(4 + 16 + 4));
        assert_eq!(listing.whole.instructions, 10);
    }

    #[test]
    fn the_hot_loop_of_matrices_is_without_loops_that_multiply_none() {
        let text = "BB0:\n\tv_mov_b32_e32 v0, 0\nBB1:\n\tv_wmma_f32_16x16x16_f16 v[0:3], v[4:11], v[4:11], v[0:3]\n\
                    BB2:\n\tbuffer_load_b128 v[0:3], v0, s[0:3], 0 offen\n\ts_cbranch_scc1 BB2\n\
                    BB3:\n\ts_cbranch_scc1 BB1\nBB4:\n\ts_endpgm\n";
        let hot = *read(text, "RDNA3", 64).hot();
        assert_eq!((hot.instructions, hot.valu, hot.cycles, hot.loads), (2, 1, 32, 0));
    }

    #[test]
    fn loops_are_named_by_their_blocks() {
        let outer = TEXT.replace("s_endpgm", "s_cbranch_scc1 BB0");
        let loops = read(&outer, "RDNA3", 32).loops();
        let lines: Vec<&str> = loops.lines().collect();
        assert!(lines[0].starts_with("BB0..BB2: 10 instructions, "), "{loops}");
        assert_eq!(
            lines[1],
            "  BB1..BB1: 7 instructions, 3 VALU, 6 cycles, 1 loads, 1 shared loads, 1 waits"
        );
    }

    #[test]
    fn a_program_without_loops_is_counted_as_a_whole() {
        let text = TEXT.replace("BB1", "BB9").replace("BB9:", "");
        assert_eq!(read(&text, "RDNA3", 64).hot().instructions, 10);
    }
}

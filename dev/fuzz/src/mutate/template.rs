//! Mutations of Jinja templates: hostile words put in, blocks copied and cut.

use super::{bytes as any_bytes, range};
use fastrand::Rng;

/// Expressions and statements that grow, recurse, divide by zero, slice backwards, or reach outside.
const HOSTILE: [&str; 46] = [
    "{% for i in range(100000) %}",
    "{% endfor %}",
    "{% endif %}",
    "{% if true %}",
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "messages",
    "loop",
    "[0]",
    "[-1]",
    "[::-1]",
    "[1:5:-1]",
    "[:0]",
    "[1:]",
    "|tojson",
    "|length",
    "*999999999",
    "~",
    "+",
    "namespace()",
    "{% set x = x ~ x %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ".split('')",
    ".replace('','a')",
    "|join",
    "|map",
    "|selectattr('role')",
    "is defined",
    "raise_exception('x')",
    "strftime_now('%Q')",
    "\u{e000}",
    "|string",
    "// 0",
    "% 0",
    "** 99",
    ".items()",
    "loop.index0",
    "''[::-1]",
    "{% generation %}",
    "{% include 'x' %}",
    "|indent(99999999)",
    "'%s' % ",
    "(((((((((((((((((((((((((((((((((",
];

/// The starts of `{{`, `{%` and `{#` blocks with their ends.
fn blocks(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut blocks = Vec::new();
    let mut open = None;
    for (at, pair) in text.windows(2).enumerate() {
        match pair {
            b"{{" | b"{%" | b"{#" => open = Some(at),
            b"}}" | b"%}" | b"#}" => blocks.extend(open.take().map(|start| start..at + 2)),
            _ => {}
        }
    }
    blocks
}

/// Puts a hostile word in, cuts or copies a stretch of text, or copies a whole block elsewhere.
pub fn template(text: &mut Vec<u8>, random: &mut Rng) {
    if text.is_empty() {
        return any_bytes(text, random);
    }
    let at = random.usize(..text.len());
    match random.u8(..10) {
        // Inside of a block, where words mean something.
        0..=3 => {
            let blocks = blocks(text);
            let inside = random.choice(&blocks).filter(|block| block.len() > 4);
            let at = inside.map_or(at, |block| random.usize(block.start + 2..block.end - 1));
            let word = random.choice(HOSTILE).unwrap_or("{{");
            text.splice(at..at, word.bytes());
        }
        4 => {
            let word = random.choice(HOSTILE).unwrap_or("{{");
            text.splice(at..at, word.bytes());
        }
        5 => drop(text.drain(range(text.len(), 40, random))),
        6 => {
            let piece = text.get(range(text.len(), 200, random)).unwrap_or_default().to_vec();
            text.splice(at..at, piece);
        }
        7 | 8 => {
            let blocks = blocks(text);
            let (from, to) = (random.choice(&blocks), random.choice(&blocks));
            if let (Some(from), Some(to)) = (from.cloned(), to.cloned()) {
                let piece = text.get(from).unwrap_or_default().to_vec();
                let to = if random.bool() { to } else { to.end..to.end };
                text.splice(to, piece);
            }
        }
        _ => any_bytes(text, random),
    }
}

//! Mutations of JSON texts, by their values. The text may be broken: spans are found by tokens, not by a parser.

use super::{bytes as any_bytes, number_near};
use fastrand::Rng;
use std::ops::Range;

/// Numbers that parsers and their callers trip over.
const NUMBERS: [&str; 22] = [
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "3",
    "5",
    "7",
    "0.5",
    "1e-45",
    "1e308",
    "1e400",
    "255",
    "65536",
    "1048576",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999999",
];
/// Texts likewise.
const TEXTS: [&str; 8] = [
    r#""""#,
    r#""\u0000""#,
    r#""\ud800""#,
    r#""a""#,
    r#""ByteLevel""#,
    r#""Sequence""#,
    r#""(?:a|a)*b\\p{L}{1,1000}""#,
    "\"\u{202e}\u{fffd}\u{2581}\"",
];
/// Literals and containers likewise.
const OTHERS: [&str; 9] = [
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "[null]",
    "[[[[[[[[]]]]]]]]",
    r#"{"type":"Sequence"}"#,
    "[0,-1,1e9]",
];

/// Returns a hostile value: three times out of four one of the type of `old`.
fn hostile(old: &[u8], random: &mut Rng) -> &'static str {
    let values: &[&str] = match (random.u8(..4), old.first()) {
        (1.., Some(b'-' | b'0'..=b'9')) => &NUMBERS,
        (1.., Some(b'"')) => &TEXTS,
        (1.., _) => &OTHERS,
        (0, _) => [&NUMBERS[..], &TEXTS, &OTHERS][random.usize(..3)],
    };
    random.choice(values).copied().unwrap_or("null")
}

/// The values of a text: strings, numbers, literals, and containers from bracket to bracket. Keys are among them.
fn values(text: &[u8]) -> Vec<Range<usize>> {
    let (mut values, mut open, mut at) = (Vec::new(), Vec::new(), 0);
    while let Some(&byte) = text.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'{' | b'[' => open.push(start),
            b'}' | b']' => values.extend(open.pop().map(|start| start..at)),
            b'"' => {
                while let Some(&byte) = text.get(at) {
                    at += if byte == b'\\' { 2 } else { 1 };
                    if byte == b'"' {
                        break;
                    }
                }
                at = at.min(text.len());
                values.push(start..at);
            }
            b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
                at += text.get(at..).unwrap_or_default().iter().take_while(|byte| word(byte)).count();
                values.push(start..at);
            }
            _ => {}
        }
    }
    values
}

/// Changes one value: to a hostile one, to a number near it, to another value of the text; removes it, doubles it with
/// its neighbours, or nests it deeply.
pub fn json(text: &mut Vec<u8>, random: &mut Rng) {
    let values = values(text);
    // Seldom a key: one that is no string breaks the whole text.
    let is_key = |value: &Range<usize>| text.get(value.end) == Some(&b':');
    let keys = random.u8(..16) == 0;
    let candidates: Vec<_> = values.iter().filter(|value| keys || !is_key(value)).cloned().collect();
    let Some(value) = random.choice(candidates) else { return any_bytes(text, random) };
    let old = text.get(value.clone()).unwrap_or_default().to_vec();
    match random.u8(..16) {
        0..=4 => replace(text, value, hostile(&old, random).as_bytes()),
        5..=7 => {
            let number = std::str::from_utf8(&old).ok().and_then(|text| text.parse::<u64>().ok());
            let new = number_near(number.unwrap_or(0), random).to_string();
            replace(text, value, new.as_bytes());
        }
        8..=10 => {
            let other = random.choice(&values).cloned().unwrap_or(0..0);
            let other = text.get(other).unwrap_or_default().to_vec();
            replace(text, value, &other);
        }
        // With its key, and the comma before or behind it.
        11 | 12 => {
            let mut range = member(text, &values, &value);
            let blank = |byte: &&u8| byte.is_ascii_whitespace();
            let behind = text.get(range.end..).unwrap_or_default();
            let ahead = behind.iter().take_while(blank).count();
            if behind.get(ahead) == Some(&b',') {
                range.end += ahead + 1;
            } else {
                let before = text.get(..range.start).unwrap_or_default();
                let back = before.iter().rev().take_while(blank).count();
                let comma = before.len().saturating_sub(back + 1);
                range.start = if before.get(comma) == Some(&b',') { comma } else { range.start };
            }
            replace(text, range, b"");
        }
        13 => {
            let range = member(text, &values, &value);
            let piece = text.get(range.clone()).unwrap_or_default().to_vec();
            replace(text, range.end..range.end, &[b",", piece.as_slice()].concat());
        }
        14 => {
            let depth = 1usize << random.u8(..12);
            let nested = [b"[".repeat(depth), old, b"]".repeat(depth)].concat();
            replace(text, value, &nested);
        }
        _ => any_bytes(text, random),
    }
}

/// The range of a value with its key, if it has one.
fn member(text: &[u8], values: &[Range<usize>], value: &Range<usize>) -> Range<usize> {
    let key = values.iter().rev().find(|key| {
        let between = text.get(key.end..value.start).unwrap_or_default();
        between.contains(&b':') && between.iter().all(|byte| *byte == b':' || byte.is_ascii_whitespace())
    });
    key.map_or(value.start, |key| key.start)..value.end
}

fn replace(text: &mut Vec<u8>, range: Range<usize>, new: &[u8]) {
    if range.start <= range.end && range.end <= text.len() {
        text.splice(range, new.iter().copied());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_text_are_found_with_their_containers() {
        let text = br#"{"a": [1, -2e3], "b\"c": null}"#;
        let found: Vec<&str> =
            values(text).into_iter().map(|range| std::str::from_utf8(&text[range]).unwrap_or("")).collect();
        let whole = r#"{"a": [1, -2e3], "b\"c": null}"#;
        assert_eq!(found, ["\"a\"", "1", "-2e3", "[1, -2e3]", r#""b\"c""#, "null", whole]);
        assert_eq!(values(br#"["open"#), vec![1..6]);
    }
}

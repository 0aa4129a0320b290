//! The printable characters that byte-level vocabularies write bytes with, and text that may not be UTF-8.

use std::borrow::Cow;

/// The mark that SentencePiece vocabularies write a space with.
pub(crate) const SPACE_MARK: &str = "\u{2581}";

/// Returns whether byte-level vocabularies write a byte as the character of the same number.
const fn is_itself(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

/// The character of each byte. Those that are not printable get the characters from U+0100 on, in order.
const CHARACTERS: [char; 256] = {
    let mut table = ['\0'; 256];
    let (mut byte, mut next) = (0usize, 0x100u32);
    while byte < 256 {
        table[byte] = if is_itself(byte as u8) {
            byte as u8 as char
        } else {
            next += 1;
            match char::from_u32(next - 1) {
                Some(character) => character,
                None => char::REPLACEMENT_CHARACTER,
            }
        };
        byte += 1;
    }
    table
};

/// The byte of each character below [`BYTES`]'s length, if it stands for one.
const BYTES: [Option<u8>; 0x144] = {
    let mut table = [None; 0x144];
    let mut byte = 0usize;
    while byte < 256 {
        table[CHARACTERS[byte] as usize] = Some(byte as u8);
        byte += 1;
    }
    table
};

/// Appends the characters that stand for `bytes` to `text`.
pub(crate) fn spell(bytes: &[u8], text: &mut Vec<u8>) {
    let mut buffer = [0; 4];
    for &byte in bytes {
        let character = CHARACTERS.get(usize::from(byte)).copied().unwrap_or_default();
        text.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
    }
}

/// Returns the bytes that the characters of a token stand for. Characters that stand for no byte are kept as they are.
pub(crate) fn unspell(token: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(token.len());
    let mut buffer = [0; 4];
    for character in String::from_utf8_lossy(token).chars() {
        match BYTES.get(character as usize).copied().flatten() {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes()),
        }
    }
    bytes
}

/// Returns the bytes of a UTF-8 character, from its first byte alone.
pub(crate) fn width(first: u8) -> usize {
    match first >> 4 {
        0xc | 0xd => 2,
        0xe => 3,
        0xf => 4,
        _ => 1,
    }
}

/// Returns the byte that a token like `<0x0A>` stands for.
pub(crate) fn named_byte(token: &[u8]) -> Option<u8> {
    let digits = token.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    // `from_str_radix` would accept a sign.
    let plain = digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit);
    std::str::from_utf8(digits).ok().filter(|_| plain).and_then(|digits| u8::from_str_radix(digits, 16).ok())
}

/// Returns the name of the token that stands for a byte.
pub(crate) fn byte_name(byte: u8) -> String {
    format!("<0x{byte:02X}>")
}

/// Text that is split as characters and stored as bytes. The two differ only where the input encodes half of a
/// surrogate pair: three bytes that vocabularies have, but that are not a character.
#[derive(Debug)]
pub(crate) struct Readable<'a> {
    pub(crate) text: Cow<'a, str>,
    /// As long as `text`.
    pub(crate) bytes: Cow<'a, [u8]>,
}

/// Decodes any bytes as llama.cpp does, so that tokens agree. A byte that begins no character becomes the replacement
/// character; overlong encodings become the character that they encode.
pub(crate) fn readable(input: &[u8]) -> Readable<'_> {
    if let Ok(text) = std::str::from_utf8(input) {
        return Readable { text: Cow::Borrowed(text), bytes: Cow::Borrowed(input) };
    }
    let (mut text, mut bytes) = (String::with_capacity(input.len()), Vec::with_capacity(input.len()));
    let mut buffer = [0; 4];
    let mut rest = input;
    while let Some(&first) = rest.first() {
        let (code, taken) = loose(first, rest).unwrap_or((char::REPLACEMENT_CHARACTER as u32, 1));
        rest = rest.get(taken..).unwrap_or_default();
        let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        text.push(character);
        if (0xd800..0xe000).contains(&code) {
            let low = |shift: u32| 0x80 | (code >> shift & 0x3f) as u8;
            bytes.extend([0xe0 | (code >> 12) as u8, low(6), low(0)]);
        } else {
            bytes.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
        }
    }
    Readable { text: Cow::Owned(text), bytes: Cow::Owned(bytes) }
}

/// Returns the code point at the start of `rest`, overlong encodings included, and its number of bytes.
fn loose(first: u8, rest: &[u8]) -> Option<(u32, usize)> {
    let (length, mask) = match first {
        0x00..=0x7f => (1, 0x7f),
        0xc0..=0xdf => (2, 0x1f),
        0xe0..=0xef => (3, 0x0f),
        0xf0..=0xf7 => (4, 0x07),
        _ => return None,
    };
    let mut code = u32::from(first & mask);
    for &byte in rest.get(1..length)? {
        if byte & 0xc0 != 0x80 {
            return None;
        }
        code = code << 6 | u32::from(byte & 0x3f);
    }
    Some((code, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_spelt_and_back() {
        let all: Vec<u8> = (0..=255).collect();
        let mut text = Vec::new();
        spell(&all, &mut text);
        assert_eq!(unspell(&text), all);
        assert_eq!(std::str::from_utf8(&text).unwrap().chars().count(), 256);
        text.clear();
        spell(b" a\n", &mut text);
        assert_eq!(text, "\u{120}a\u{10a}".as_bytes());
        assert_eq!(unspell("\u{2581}x".as_bytes()), "\u{2581}x".as_bytes());
    }

    #[test]
    fn bytes_have_names() {
        assert_eq!(named_byte(byte_name(10).as_bytes()), Some(10));
        for odd in ["<0x0>", "<0x+1>", "<0x001>", "0x00", "<0xGG>", ""] {
            assert_eq!(named_byte(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn any_bytes_are_readable() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b"\xff\xfe", "\u{fffd}\u{fffd}".as_bytes()),
            (b"\xc0\x80", b"\0"),
            (b"\xe2\x28\xa1", "\u{fffd}(\u{fffd}".as_bytes()),
            (b"\xf0\x9f\x98", "\u{fffd}\u{fffd}\u{fffd}".as_bytes()),
            (b"\xed\xa0\x80", b"\xed\xa0\x80"),
            (b"\xf7\xbf\xbf\xbf", "\u{fffd}".as_bytes()),
        ];
        for (input, expected) in cases {
            let Readable { text, bytes } = readable(input);
            assert_eq!(&*bytes, expected);
            assert_eq!(text.len(), bytes.len());
        }
    }
}

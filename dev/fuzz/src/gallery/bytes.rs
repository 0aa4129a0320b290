//! Files written by hand, number by number, in either byte order. The builder of a wrong file states the offset of the fault:
//! [`Bytes::at`] is the offset of the next byte.

/// Bytes of a file to be.
#[derive(Clone, Debug, Default)]
pub(super) struct Bytes {
    bytes: Vec<u8>,
    big_endian: bool,
}

impl Bytes {
    /// The start of a GGUF file, up to its metadata.
    pub(super) fn gguf(version: u32, tensors: u64, entries: u64) -> Bytes {
        Bytes::default().raw(b"GGUF").u32(version).u64(tensors).u64(entries)
    }

    /// As [`Bytes::gguf`], highest byte first.
    pub(super) fn big_endian_gguf(version: u32, tensors: u64, entries: u64) -> Bytes {
        Bytes { bytes: Vec::new(), big_endian: true }.raw(b"GGUF").u32(version).u64(tensors).u64(entries)
    }

    /// The offset of what comes next.
    pub(super) fn at(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn raw(mut self, bytes: &[u8]) -> Bytes {
        self.bytes.extend(bytes);
        self
    }

    pub(super) fn u8(self, number: u8) -> Bytes {
        self.raw(&[number])
    }

    pub(super) fn u16(self, number: u16) -> Bytes {
        let bytes = if self.big_endian { number.to_be_bytes() } else { number.to_le_bytes() };
        self.raw(&bytes)
    }

    pub(super) fn u32(self, number: u32) -> Bytes {
        let bytes = if self.big_endian { number.to_be_bytes() } else { number.to_le_bytes() };
        self.raw(&bytes)
    }

    pub(super) fn u64(self, number: u64) -> Bytes {
        let bytes = if self.big_endian { number.to_be_bytes() } else { number.to_le_bytes() };
        self.raw(&bytes)
    }

    /// A length and that many bytes.
    pub(super) fn text(self, text: impl AsRef<[u8]>) -> Bytes {
        let text = text.as_ref();
        self.u64(text.len() as u64).raw(text)
    }

    /// A metadata key and its type; the value follows.
    pub(super) fn key(self, key: &str, kind: u32) -> Bytes {
        self.text(key).u32(kind)
    }

    /// A tensor's description, fastest axis first.
    pub(super) fn tensor(self, name: &str, extents: &[u64], kind: u32, offset: u64) -> Bytes {
        let start = self.text(name).u32(extents.len() as u32);
        extents.iter().fold(start, |bytes, &extent| bytes.u64(extent)).u32(kind).u64(offset)
    }

    /// Zeros up to a multiple of 32, then `count` bytes of data.
    pub(super) fn data(self, count: usize) -> Bytes {
        let padded = self.bytes.len().next_multiple_of(32);
        let mut bytes = self;
        bytes.bytes.resize(padded + count, 0);
        bytes
    }
}

impl From<Bytes> for Vec<u8> {
    fn from(bytes: Bytes) -> Vec<u8> {
        bytes.bytes
    }
}

//! Entries: the tensors of a file, with every length and offset checked. Code that has an `Entry` does not check it again.

use crate::error::{Error, Fault, Result};
use silicide_quant::{DType, GgmlType, MAX_RANK, MlxFormat, MlxPlanes, Shape};
use std::fmt;
use std::ops::Range;

/// How a tensor is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stored {
    /// In one run of bytes, as an element type that can be decoded.
    As(DType),
    /// In planes of packed numbers, scales and perhaps biases.
    Mlx(MlxFormat),
    /// As a type of GGML that nothing here can decode. Its bytes can be read.
    Ggml(GgmlType),
    /// As a type of safetensors that is known by name but that nothing here can decode.
    Named(&'static str),
}

impl Stored {
    /// Returns the type of a GGML number.
    pub fn from_ggml(id: u32) -> Stored {
        let ggml = GgmlType(id);
        ggml.dtype().map_or(Stored::Ggml(ggml), Stored::As)
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stored::As(dtype) => dtype.fmt(f),
            Stored::Mlx(format) => write!(f, "mlx {format}"),
            Stored::Ggml(id) => write!(f, "GGML type {id}"),
            Stored::Named(name) => f.write_str(name),
        }
    }
}

/// A run of bytes in one of the files of a source. It was compared with the file, and lies in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRegion {
    file: u32,
    start: usize,
    bytes: usize,
}

impl FileRegion {
    /// Returns a place in a file of `size` bytes, if it is one.
    pub(crate) fn new(file: u32, start: u64, bytes: u64, size: usize) -> Option<FileRegion> {
        let (start, bytes) = (usize::try_from(start).ok()?, usize::try_from(bytes).ok()?);
        (start.checked_add(bytes)? <= size).then_some(FileRegion { file, start, bytes })
    }

    /// Returns the same place, where the file has another number.
    pub(crate) fn in_file(self, file: u32) -> FileRegion {
        FileRegion { file, ..self }
    }

    /// No bytes of the same file.
    pub(crate) fn empty(self) -> FileRegion {
        FileRegion { bytes: 0, ..self }
    }

    /// Returns the number of the file among those of its source.
    pub fn file(&self) -> usize {
        self.file as usize
    }

    /// Returns the bytes in that file.
    pub fn range(&self) -> Range<usize> {
        // No overflow: the end lies in the file.
        self.start..self.start.saturating_add(self.bytes)
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Where the bytes of a tensor lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// In one run.
    One(FileRegion),
    /// In several.
    Planes(MlxPlanes<FileRegion>),
    /// The bytes of a type that is not known cannot be counted.
    Unknown,
}

/// A tensor of a source: its name, logical shape, how it is stored, and the bytes it covers. A cheap view.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub(crate) name: &'a str,
    pub(crate) shape: Shape,
    pub(crate) stored: Stored,
    pub(crate) data: Data,
}

impl<'a> Entry<'a> {
    /// Returns the tensor's name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Returns its logical shape, slowest axis first.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How it is stored.
    pub fn stored(&self) -> Stored {
        self.stored
    }

    /// Returns its element type, or an error that says which types could be read.
    pub fn dtype(&self) -> Result<DType> {
        match self.stored {
            Stored::As(dtype) => Ok(dtype),
            _ => Err(self.unsupported(supported())),
        }
    }

    /// Returns the one run of bytes that it covers, if there is one.
    pub fn place(&self) -> Result<FileRegion> {
        match self.data {
            Data::One(place) => Ok(place),
            Data::Planes(_) => Err(self.unsupported("weights in one piece".to_owned())),
            Data::Unknown => Err(self.unsupported(supported())),
        }
    }

    /// Returns the planes of a quantised MLX weight; one that its format does not have is empty.
    pub fn planes(&self) -> Option<MlxPlanes<FileRegion>> {
        if let Data::Planes(planes) = self.data { Some(planes) } else { None }
    }

    /// Returns the bytes that it covers in all files together, unless its type is unknown.
    pub fn bytes(&self) -> Option<u64> {
        match self.data {
            Data::One(place) => Some(place.bytes() as u64),
            Data::Planes(MlxPlanes { packed, scales, biases }) => {
                Some([packed, scales, biases].iter().map(|place| place.bytes() as u64).sum())
            }
            Data::Unknown => None,
        }
    }

    pub(crate) fn unsupported(&self, supported: String) -> Error {
        Error::UnsupportedFormat { tensor: self.name.to_owned(), stored: self.stored.to_string(), supported }
    }
}

/// Returns the names of the types that can be read from one piece.
pub(crate) fn supported() -> String {
    let names = GgmlType::supported().into_iter().filter_map(GgmlType::name);
    names.collect::<Vec<_>>().join(", ")
}

/// A tensor of a checkpoint, whose name had to be unescaped anyway.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: Box<str>,
    pub(crate) shape: Shape,
    pub(crate) stored: Stored,
    pub(crate) data: Data,
}

impl Tensor {
    pub(crate) fn entry(&self) -> Entry<'_> {
        Entry { name: &self.name, shape: self.shape, stored: self.stored, data: self.data }
    }
}

/// Returns the shape of a tensor that a file describes.
pub(crate) fn shape(tensor: &str, extents: &[u64]) -> Result<Shape, Fault> {
    let mut axes = [1usize; MAX_RANK];
    let fits = extents.iter().zip(&mut axes).try_for_each(|(&extent, axis)| {
        *axis = usize::try_from(extent).ok()?;
        Some(())
    });
    let shape = fits.and_then(|()| Shape::new(axes.get(..extents.len())?).ok());
    shape.ok_or_else(|| Fault::Overflow { tensor: tensor.to_owned() })
}

/// Returns the bytes of a tensor that a file describes; rows must be whole blocks.
pub(crate) fn bytes(tensor: &str, shape: &Shape, dtype: DType) -> Result<u64, Fault> {
    let (row, block) = (shape.last(), dtype.block_len());
    if row.checked_rem(block) != Some(0) {
        let (tensor, format) = (tensor.to_owned(), dtype.name());
        return Err(Fault::PartialBlock { tensor, row: row as u64, format, block: block as u64 });
    }
    let bytes = shape.bytes(dtype).map_err(|_| Fault::Overflow { tensor: tensor.to_owned() })?;
    Ok(bytes as u64)
}

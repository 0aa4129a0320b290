//! An opened safetensors file.

use super::outline;
use crate::cursor::{At, Cursor};
use crate::entry::{self, Data, Entry, FileRegion, Stored, Tensor};
use crate::error::{self, Error, Fault, Result};
use crate::{Bytes, Load, json, limits};
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;
use silicide_quant::DType;
use std::collections::BTreeMap;
use std::path::Path;

/// The header's length comes first, in this many bytes.
const LENGTH_BYTES: u64 = 8;

/// An opened safetensors file: proven entries in the order of their data.
#[derive(Debug)]
pub struct SafetensorsFile {
    bytes: Bytes,
    tensors: Vec<Tensor>,
}

impl SafetensorsFile {
    /// Maps and checks a file.
    pub fn open(path: impl AsRef<Path>) -> Result<SafetensorsFile> {
        let path = path.as_ref();
        SafetensorsFile::parse(Bytes::load(path, Load::Map)?)
    }

    /// Checks a file that is in memory or mapped already.
    pub fn parse(bytes: Bytes) -> Result<SafetensorsFile> {
        let tensors = read(bytes.as_slice())
            .map_err(|(offset, fault)| Error::malformed(bytes.path(), offset, fault))?;
        Ok(SafetensorsFile { bytes, tensors })
    }

    /// Returns the file.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the tensors, in the order of their data.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry<'_>> {
        self.tensors.iter().map(Tensor::entry)
    }

    /// Returns the free metadata of the file, read again.
    pub fn metadata(&self) -> BTreeMap<String, String> {
        #[derive(Deserialize)]
        struct Free {
            #[serde(rename = "__metadata__", default)]
            metadata: BTreeMap<String, String>,
        }
        // Opening the file has read it already.
        let header = header(self.bytes.as_slice()).unwrap_or_default();
        serde_json::from_str(header).map(|free: Free| free.metadata).unwrap_or_default()
    }

    pub(crate) fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Returns where in the file a tensor is described.
    pub(crate) fn declared(&self, name: &str) -> u64 {
        let header = header(self.bytes.as_slice()).unwrap_or_default();
        LENGTH_BYTES.saturating_add(json::locate(header, name))
    }
}

/// Returns the header's text.
fn header(bytes: &[u8]) -> At<&str> {
    let mut cursor = Cursor::new(bytes, false);
    let length = cursor.count(error::HEADER, limits::SAFETENSORS_HEADER, 1)?;
    let start = cursor;
    std::str::from_utf8(cursor.take(length, error::HEADER)?).map_err(|invalid| {
        let offset = start.offset().saturating_add(invalid.valid_up_to() as u64);
        (offset, Fault::Utf8 { what: error::HEADER })
    })
}

fn read(bytes: &[u8]) -> At<Vec<Tensor>> {
    let header = header(bytes)?;
    let in_header = |(offset, fault)| (LENGTH_BYTES.saturating_add(offset), fault);
    let data = LENGTH_BYTES.saturating_add(header.len() as u64);
    outline::check(header, (bytes.len() as u64).saturating_sub(data)).map_err(in_header)?;
    let other = |error: safetensors::SafeTensorError| {
        (LENGTH_BYTES, Fault::Json { what: "header", detail: error.to_string() })
    };
    let (_, contents) = SafeTensors::read_metadata(bytes).map_err(other)?;
    let mut tensors = Vec::new();
    for name in contents.offset_keys() {
        let Some(info) = contents.info(&name) else { continue };
        let fault = |fault| in_header((json::locate(header, &name), fault));
        let extents: Vec<u64> = info.shape.iter().map(|&extent| extent as u64).collect();
        let shape = entry::shape(&name, &extents).map_err(fault)?;
        let (start, end) = (info.data_offsets.0 as u64, info.data_offsets.1 as u64);
        let place = FileRegion::new(0, data.saturating_add(start), end.saturating_sub(start), bytes.len());
        let Some(place) = place else {
            let size = bytes.len() as u64;
            return Err(fault(Fault::OutsideFile { tensor: name.clone(), start, end, size }));
        };
        let stored = stored(info.dtype);
        tensors.push(Tensor { name: name.into(), shape, stored, data: Data::One(place) });
    }
    Ok(tensors)
}

fn stored(dtype: Dtype) -> Stored {
    Stored::As(match dtype {
        Dtype::F64 => DType::F64,
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I64 => DType::I64,
        Dtype::I32 => DType::I32,
        Dtype::I16 => DType::I16,
        Dtype::I8 => DType::I8,
        Dtype::U64 => DType::U64,
        Dtype::U32 => DType::U32,
        Dtype::U16 => DType::U16,
        Dtype::U8 => DType::U8,
        Dtype::BOOL => return Stored::Named("BOOL"),
        Dtype::F8_E4M3 => return Stored::Named("F8_E4M3"),
        Dtype::F8_E5M2 => return Stored::Named("F8_E5M2"),
        Dtype::F8_E8M0 => return Stored::Named("F8_E8M0"),
        Dtype::F8_E4M3FNUZ => return Stored::Named("F8_E4M3FNUZ"),
        Dtype::F8_E5M2FNUZ => return Stored::Named("F8_E5M2FNUZ"),
        Dtype::F6_E2M3 => return Stored::Named("F6_E2M3"),
        Dtype::F6_E3M2 => return Stored::Named("F6_E3M2"),
        Dtype::F4 => return Stored::Named("F4"),
        Dtype::C64 => return Stored::Named("C64"),
        // A type that a later version of the format adds.
        _ => return Stored::Named("a new type"),
    })
}

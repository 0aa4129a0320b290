//! Safetensors files, and the quantized weights of a model's folder.

mod config;

pub use config::{QuantizationConfig, TensorQuantConfig};

use crate::error::{MlxError, Result, refuse};
use crate::{DType, MlxBuffer, MlxDevice};
use silicide::weights::{Bytes, Entry, Load, Stored, safetensors};
use std::collections::HashMap;
use std::path::Path;

/// Returns a buffer with the bytes of a tensor, which must be as many as `dtype` and `shape` have.
pub fn safetensors_to_metal_buffer(
    device: &MlxDevice,
    data: &[u8],
    dtype: DType,
    shape: Vec<usize>,
) -> Result<MlxBuffer> {
    device.upload_shared_bytes(data, dtype, shape)
}

/// A tensor: its type, its shape and its buffer.
pub type LoadedTensor = (DType, Vec<usize>, MlxBuffer);

/// A mapped safetensors file.
#[derive(Debug)]
pub struct SafetensorsFile {
    file: safetensors::SafetensorsFile,
}

fn malformed(error: impl ToString) -> MlxError {
    MlxError::SafetensorsError(error.to_string())
}

impl SafetensorsFile {
    /// Maps a file and checks its header.
    pub fn open(path: &Path) -> Result<SafetensorsFile> {
        let bytes = Bytes::load(path, Load::Map).map_err(|error| MlxError::IoError(error.to_string()))?;
        let file = safetensors::SafetensorsFile::parse(bytes).map_err(malformed)?;
        Ok(SafetensorsFile { file })
    }

    /// Returns the names of all tensors.
    pub fn tensor_names(&self) -> Result<Vec<String>> {
        Ok(self.file.entries().map(|entry| entry.name().to_owned()).collect())
    }

    /// Returns a tensor: its type, its shape and a buffer.
    pub fn load_tensor(&self, name: &str, device: &MlxDevice) -> Result<LoadedTensor> {
        let entry = self.file.entries().find(|entry| entry.name() == name);
        self.load(&entry.ok_or_else(|| malformed(format!("no tensor {name:?}")))?, device)
    }

    /// Returns all tensors by name.
    pub fn load_all_tensors(&self, device: &MlxDevice) -> Result<HashMap<String, LoadedTensor>> {
        let load = |entry: Entry<'_>| Ok((entry.name().to_owned(), self.load(&entry, device)?));
        self.file.entries().map(load).collect()
    }

    fn load(&self, entry: &Entry<'_>, device: &MlxDevice) -> Result<LoadedTensor> {
        let dtype = match entry.stored() {
            Stored::As(silicide::DType::F32) => DType::F32,
            Stored::As(silicide::DType::F16) => DType::F16,
            Stored::As(silicide::DType::BF16) => DType::BF16,
            Stored::As(silicide::DType::U8) => DType::U8,
            Stored::As(silicide::DType::U16) => DType::U16,
            Stored::As(silicide::DType::U32) => DType::U32,
            Stored::As(silicide::DType::I32) => DType::I32,
            other => return Err(MlxError::UnsupportedDtype(format!("tensor {:?}: {other}", entry.name()))),
        };
        let range = entry.place().map_err(malformed)?.range();
        let bytes =
            self.file.bytes().as_slice().get(range).ok_or_else(|| malformed("a tensor past the end"))?;
        let shape = entry.shape().axes().to_vec();
        let buffer = device.upload_shared_bytes(bytes, dtype, shape.clone())?;
        Ok((dtype, shape, buffer))
    }
}

/// A quantized weight: codes, scales and perhaps biases.
#[derive(Clone, Debug)]
pub struct QuantizedWeight {
    /// The name, without `.weight`.
    pub tensor_name: String,
    /// The shape of the packed codes.
    pub shape: Vec<usize>,
    /// The type of the packed codes.
    pub dtype: DType,
    /// Bits of a code.
    pub bits: u8,
    /// Codes under one scale.
    pub group_size: usize,
    /// Scales.
    pub scales: MlxBuffer,
    /// Biases.
    pub biases: Option<MlxBuffer>,
    /// Codes.
    pub packed_data: MlxBuffer,
}

impl QuantizedWeight {
    /// Returns the name, without `.weight`.
    pub fn tensor_name(&self) -> &str {
        &self.tensor_name
    }

    /// Returns the shape of the packed codes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the type of the packed codes.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the bits of a code.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Returns the codes under one scale.
    pub fn group_size(&self) -> usize {
        self.group_size
    }

    /// Returns the scales.
    pub fn scales(&self) -> &MlxBuffer {
        &self.scales
    }

    /// Returns the biases.
    pub fn biases(&self) -> Option<&MlxBuffer> {
        self.biases.as_ref()
    }

    /// Returns the codes.
    pub fn packed_data(&self) -> &MlxBuffer {
        &self.packed_data
    }

    /// Returns the product of the extents.
    pub fn element_count(&self) -> usize {
        self.packed_data.element_count()
    }

    /// Returns the groups of a row of `shape`.
    pub fn num_groups(&self) -> usize {
        self.shape.last().map_or(0, |last| last.div_ceil(self.group_size.max(1)))
    }
}

/// Returns the quantized weights of a folder, by name. The folder has `quantization_config.json`. Tensors without scales are left out.
pub fn load_quantized_weights(model_dir: &Path, device: &MlxDevice) -> Result<Vec<QuantizedWeight>> {
    let config = QuantizationConfig::from_file(&model_dir.join("quantization_config.json"))?;
    let unreadable = |error: std::io::Error| MlxError::IoError(format!("{}: {error}", model_dir.display()));
    let mut tensors = HashMap::new();
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(model_dir).map_err(unreadable)? {
        paths.push(entry.map_err(unreadable)?.path());
    }
    paths.sort();
    let is_file = |path: &&std::path::PathBuf| path.extension().is_some_and(|end| end == "safetensors");
    for path in paths.iter().filter(is_file) {
        tensors.extend(SafetensorsFile::open(path)?.load_all_tensors(device)?);
    }
    if tensors.is_empty() {
        refuse!("{}: no safetensors files", model_dir.display());
    }
    let mut stems: Vec<String> =
        tensors.keys().filter_map(|name| name.strip_suffix(".scales").map(str::to_owned)).collect();
    stems.sort();
    let mut weights = Vec::new();
    for tensor_name in stems {
        let packed =
            tensors.remove(&format!("{tensor_name}.weight")).or_else(|| tensors.remove(&tensor_name));
        let scales = tensors.remove(&format!("{tensor_name}.scales"));
        let (Some((dtype, shape, packed_data)), Some((_, _, scales))) = (packed, scales) else { continue };
        let biases = tensors.remove(&format!("{tensor_name}.biases")).map(|(_, _, buffer)| buffer);
        let (bits, group_size) = config.config_for_tensor(&tensor_name);
        weights.push(QuantizedWeight {
            tensor_name,
            shape,
            dtype,
            bits,
            group_size,
            scales,
            biases,
            packed_data,
        });
    }
    Ok(weights)
}

//! GGUF files: metadata, and tensors as buffers.

mod header;
mod types;

pub use header::{GgufHeaderLimits, MetadataValue, TensorInfo};
pub(crate) use types::check_block_weight;
pub use types::{
    GgmlType, test_only_compute_byte_len, test_only_dequantize, test_only_dequantize_iq4_nl,
    test_only_dequantize_iq4_xs, test_only_dequantize_q5_1, test_only_ggml_type_from_u32,
    test_only_kvalues_iq4_nl, test_only_raw_tensor_dtype,
};

use crate::error::{MlxError, Result};
use crate::metal::DeviceRef;
use crate::{DType, MlxBuffer, MlxBufferPool, MlxDevice};
use silicide::weights::MappedFile;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// An opened file. Data is read when a tensor is loaded.
#[derive(Debug)]
pub struct GgufFile {
    file: Mutex<File>,
    /// The path, if the file was opened by one.
    path: Option<PathBuf>,
    header: header::Header,
}

fn unreadable(error: std::io::Error) -> MlxError {
    MlxError::IoError(error.to_string())
}

impl GgufFile {
    /// Opens a file and reads its header.
    pub fn open(path: &Path) -> Result<GgufFile> {
        let open = |error| MlxError::IoError(format!("{}: {error}", path.display()));
        let file = GgufFile::from_file(File::open(path).map_err(open)?)?;
        Ok(GgufFile { path: Some(path.to_owned()), ..file })
    }

    /// Reads the header of an open file.
    pub fn from_file(file: File) -> Result<GgufFile> {
        GgufFile::from_file_with_limits(file, GgufHeaderLimits::default())
    }

    /// Reads the header of an open file under limits.
    pub fn from_file_with_limits(mut file: File, limits: GgufHeaderLimits) -> Result<GgufFile> {
        file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        let header = header::read(BufReader::new(&mut file), limits)?;
        Ok(GgufFile { file: Mutex::new(file), path: None, header })
    }

    /// Returns the value of a key.
    pub fn metadata(&self, key: &str) -> Option<&MetadataValue> {
        self.header.metadata.get(key)
    }

    /// Returns the text of a key.
    pub fn metadata_string(&self, key: &str) -> Option<&str> {
        self.metadata(key)?.as_str()
    }

    /// Returns the number of a key: [`MetadataValue::as_u32`].
    pub fn metadata_u32(&self, key: &str) -> Option<u32> {
        self.metadata(key)?.as_u32()
    }

    /// Returns the number of a key: [`MetadataValue::as_f32`].
    pub fn metadata_f32(&self, key: &str) -> Option<f32> {
        self.metadata(key)?.as_f32()
    }

    /// Returns the names of all tensors, in no order.
    pub fn tensor_names(&self) -> Vec<&str> {
        self.header.tensors.keys().map(String::as_str).collect()
    }

    /// Returns the tensor of a name.
    pub fn tensor_info(&self, name: &str) -> Option<&TensorInfo> {
        self.header.tensors.get(name)
    }

    /// Returns the number of tensors.
    pub fn tensor_count(&self) -> usize {
        self.header.tensors.len()
    }

    /// Returns the number of keys.
    pub fn metadata_count(&self) -> usize {
        self.header.metadata.len()
    }

    /// Returns where in the file the data begins.
    pub fn tensor_data_offset(&self) -> u64 {
        self.header.data
    }

    fn tensor(&self, name: &str) -> Result<&TensorInfo> {
        self.tensor_info(name).ok_or_else(|| MlxError::GgufParseError(format!("no tensor {name:?}")))
    }

    /// Returns the bytes of a tensor, as they are stored.
    pub fn read_tensor_bytes_host(&self, name: &str) -> Result<Vec<u8>> {
        let tensor = self.tensor(name)?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let size = file.metadata().map_err(unreadable)?.len();
        let range = byte_range(tensor, self.header.data, size)?;
        let mut bytes = Vec::new();
        let failed = |_| MlxError::BufferAllocationError { bytes: range.len() };
        bytes.try_reserve_exact(range.len()).map_err(failed)?;
        bytes.resize(range.len(), 0);
        file.seek(SeekFrom::Start(range.start as u64)).map_err(unreadable)?;
        file.read_exact(&mut bytes).map_err(unreadable)?;
        Ok(bytes)
    }

    /// Returns the values of a tensor, decoded.
    pub fn read_tensor_f32_host(&self, name: &str) -> Result<Vec<f32>> {
        let tensor = self.tensor(name)?;
        let bytes = self.read_tensor_bytes_host(name)?;
        let count = (tensor.byte_len / tensor.ggml_type.block_bytes() as usize)
            .saturating_mul(tensor.ggml_type.block_values() as usize);
        let mut values = Vec::new();
        let failed = |_| MlxError::BufferAllocationError { bytes: count.saturating_mul(4) };
        values.try_reserve_exact(count).map_err(failed)?;
        values.resize(count, 0.0);
        test_only_dequantize(&bytes, tensor.ggml_type, &mut values)?;
        Ok(values)
    }

    /// Returns a tensor as it is stored: blocks as bytes under their logical shape.
    pub fn load_tensor(&self, name: &str, device: &MlxDevice) -> Result<MlxBuffer> {
        let tensor = self.tensor(name)?;
        let bytes = self.read_tensor_bytes_host(name)?;
        let dtype = test_only_raw_tensor_dtype(tensor.ggml_type);
        filled(device, &bytes, dtype, tensor.shape.clone())
    }

    /// Returns a tensor in f32.
    pub fn load_tensor_f32(&self, name: &str, device: &MlxDevice) -> Result<MlxBuffer> {
        let values = self.read_tensor_f32_host(name)?;
        filled(device, bytemuck::cast_slice(&values), DType::F32, self.tensor(name)?.shape.clone())
    }

    /// [`GgufFile::load_tensor`]. The pool is for residency, which this crate does not have.
    pub fn load_tensor_into_pool(
        &self,
        name: &str,
        device: &MlxDevice,
        pool: &mut MlxBufferPool,
    ) -> Result<MlxBuffer> {
        let buffer = self.load_tensor(name, device)?;
        pool.register_existing(device, &buffer)?;
        Ok(buffer)
    }

    /// Maps the file and returns a tensor of it: a read-only view, nothing is copied.
    pub fn load_tensor_mapped(&self, name: &str, device: &MlxDevice) -> Result<MlxBuffer> {
        self.map_tensor_data(device)?.load_tensor(name)
    }

    /// Maps the file for several tensors. Only a file that was opened by its path can be mapped.
    pub fn map_tensor_data<'a>(&'a self, device: &MlxDevice) -> Result<GgufMappedTensorSet<'a>> {
        let unnamed =
            || MlxError::IoError("only a file that was opened by its path can be mapped".to_owned());
        let path = self.path.as_ref().ok_or_else(unnamed)?;
        let mapped = MappedFile::open_weights(path).map_err(|error| MlxError::IoError(error.to_string()))?;
        let size = mapped.bytes().len();
        let root =
            silicide::Buffer::from_mapped(device.silicide(), &mapped, 0..size, silicide::DType::U8, [size])?;
        Ok(GgufMappedTensorSet { gguf: self, root: MlxBuffer::over_file(root, DType::U8, vec![size]) })
    }

    /// Returns the memory that mapping takes: one segment, the file.
    pub fn mapped_tensor_storage_plan(&self, _device: &DeviceRef) -> Result<GgufMappedTensorStoragePlan> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let size = file.metadata().map_err(unreadable)?.len();
        for tensor in self.header.tensors.values() {
            byte_range(tensor, self.header.data, size)?;
        }
        Ok(GgufMappedTensorStoragePlan { segment_bytes: vec![size], tensors: self.header.tensors.len() })
    }
}

/// Returns the bytes of a tensor in a file of `size` bytes.
fn byte_range(tensor: &TensorInfo, data: u64, size: u64) -> Result<std::ops::Range<usize>> {
    let range = || {
        let start = data.checked_add(tensor.offset)?;
        let end = start.checked_add(tensor.byte_len as u64)?;
        (end <= size).then_some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    };
    range().ok_or_else(|| {
        MlxError::GgufParseError(format!("tensor {:?} lies past the end of the file", tensor.name))
    })
}

fn filled(device: &MlxDevice, bytes: &[u8], dtype: DType, shape: Vec<usize>) -> Result<MlxBuffer> {
    let mut buffer = device.alloc_buffer(bytes.len(), dtype, shape)?;
    buffer.as_mut_slice::<u8>()?.copy_from_slice(bytes);
    buffer.settle();
    Ok(buffer)
}

/// A mapped file.
#[derive(Debug)]
pub struct GgufMappedTensorSet<'a> {
    gguf: &'a GgufFile,
    root: MlxBuffer,
}

impl GgufMappedTensorSet<'_> {
    /// Returns the number of allocations: one, the file.
    pub fn segment_count(&self) -> usize {
        1
    }

    /// Returns a tensor: a read-only view.
    pub fn load_tensor(&self, name: &str) -> Result<MlxBuffer> {
        let tensor = self.gguf.tensor(name)?;
        let range = byte_range(tensor, self.gguf.header.data, self.root.byte_len() as u64)?;
        let view = self.root.slice_view(range.start as u64, range.len());
        Ok(view.retyped(test_only_raw_tensor_dtype(tensor.ggml_type), tensor.shape.clone()))
    }
}

/// The memory that a mapped file takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufMappedTensorStoragePlan {
    /// Bytes of each segment.
    pub segment_bytes: Vec<u64>,
    /// Tensors.
    pub tensors: usize,
}

//! The device. One process has one, as every `MlxDevice` must take the buffers of every other.

use crate::error::{MlxError, Result, refuse};
use crate::metal::{CommandQueue, Device, DeviceRef};
use crate::{CommandEncoder, DType, EncoderSession, MlxBuffer};
use silicide::Buffer;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

/// The device of this process: the one that `SILICIDE_DEVICE` names (`cpu`, `vulkan`, `metal`), otherwise the best.
/// Clones, and all that [`MlxDevice::new`] returns, are the same device.
#[derive(Clone, Debug)]
pub struct MlxDevice {
    device: Device,
    queue: CommandQueue,
}

/// The device, or why it did not open.
static DEVICE: OnceLock<std::result::Result<silicide::Device, String>> = OnceLock::new();

fn open() -> std::result::Result<silicide::Device, String> {
    match std::env::var("SILICIDE_DEVICE") {
        Ok(name) if !name.is_empty() => {
            silicide::Device::open(&name).map_err(|error| format!("SILICIDE_DEVICE={name}: {error}"))
        }
        _ => silicide::Device::best().map_err(|error| error.to_string()),
    }
}

impl MlxDevice {
    /// Returns the device of this process, and opens it first if that has not happened.
    pub fn new() -> Result<MlxDevice> {
        let device = DEVICE.get_or_init(open).clone().map_err(MlxError::argument)?;
        Ok(MlxDevice { device: Device(device.clone()), queue: CommandQueue(device) })
    }

    /// Returns the device's name.
    pub fn name(&self) -> String {
        self.device.name().to_owned()
    }

    /// Returns a number that names the device in this process.
    pub fn registry_id(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.silicide().info().id.hash(&mut hasher);
        hasher.finish()
    }

    /// Returns false: there are no residency sets.
    pub fn residency_sets_enabled(&self) -> bool {
        false
    }

    /// Returns a buffer with these bytes, which must be as many as `dtype` and `shape` have.
    pub fn upload_shared_bytes(&self, data: &[u8], dtype: DType, shape: Vec<usize>) -> Result<MlxBuffer> {
        let expected = crate::buffer::shape_bytes(dtype, &shape);
        if expected != Some(data.len()) {
            refuse!("upload_shared_bytes: {shape:?} of {dtype} does not have {} bytes", data.len());
        }
        let mut buffer = self.alloc_buffer(data.len(), dtype, shape)?;
        buffer.as_mut_slice::<u8>()?.copy_from_slice(data);
        buffer.settle();
        Ok(buffer)
    }

    /// Returns an encoder with a new command buffer.
    pub fn command_encoder(&self) -> Result<CommandEncoder> {
        Ok(CommandEncoder::new(self))
    }

    /// Returns a session, or `None` unless `HF2Q_ENCODER_SESSION` was 1 when it was first looked up.
    pub fn encoder_session(&self) -> Result<Option<EncoderSession>> {
        Ok(EncoderSession::env_enabled().then(|| EncoderSession::new(self)))
    }

    /// Returns a buffer of `byte_len` bytes, all zero. `shape` is not compared with the length.
    pub fn alloc_buffer(&self, byte_len: usize, dtype: DType, shape: Vec<usize>) -> Result<MlxBuffer> {
        if byte_len == 0 {
            refuse!("a buffer must have at least one byte");
        }
        let buffer = Buffer::allocate(self.silicide(), silicide::DType::U8, [byte_len])?;
        Ok(MlxBuffer::over(buffer, dtype, shape))
    }

    /// As [`MlxDevice::alloc_buffer`].
    ///
    /// # Safety
    ///
    /// There are no conditions: the memory is zero. The function is unsafe because that of mlx-native is.
    #[allow(unsafe_code)]
    pub unsafe fn alloc_buffer_for_overwrite(
        &self,
        byte_len: usize,
        dtype: DType,
        shape: Vec<usize>,
    ) -> Result<MlxBuffer> {
        self.alloc_buffer(byte_len, dtype, shape)
    }

    /// Returns the device, for functions that take it by this type.
    pub fn metal_device(&self) -> &DeviceRef {
        &self.device
    }

    /// Returns the queue of the device.
    pub fn metal_queue(&self) -> &CommandQueue {
        &self.queue
    }

    /// Returns the device of silicide.
    pub fn silicide(&self) -> &silicide::Device {
        &self.device.0
    }
}

//! The one error type. Variants carry data, so that programs can match on causes; messages say what, where,
//! expected, got, and what to do next.

use silicide_hal::HalError;
use silicide_quant::{DType, EncodingError, Shape, ShapeError};
use std::sync::Arc;

/// The result of almost everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such device name.
    #[error("there is no device called {name:?}; known are {known}")]
    UnknownDevice {
        /// The requested name.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A backend reported trouble.
    #[error("{device}: {source}")]
    Device {
        /// The device.
        device: String,
        /// What it said.
        source: HalError,
    },
    /// The device ran out of memory, or the budget does not allow more.
    #[error(
        "{device}: cannot allocate {requested} bytes for {purpose}: {in_use} bytes are in use of {limit}; \
         free buffers, trim pools or raise the budget"
    )]
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes asked for.
        requested: usize,
        /// What for.
        purpose: &'static str,
        /// Bytes in use on the device.
        in_use: usize,
        /// The budget or the device's memory.
        limit: usize,
    },
    /// One allocation or binding larger than the device can make.
    #[error("{device}: {bytes} bytes exceed the largest {what} of {limit} bytes; split the tensor")]
    TooLarge {
        /// The device.
        device: String,
        /// `allocation` or `binding`.
        what: &'static str,
        /// Bytes asked for.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A buffer, view or copy of no bytes.
    #[error("{what}: zero bytes; a buffer holds at least one element")]
    ZeroSize {
        /// Where.
        what: &'static str,
    },
    /// A view outside its buffer.
    #[error("{what}: bytes {offset}..+{bytes} lie outside a buffer of {size} bytes")]
    OutOfBounds {
        /// Where.
        what: &'static str,
        /// First byte.
        offset: usize,
        /// Length in bytes.
        bytes: usize,
        /// Bytes there are.
        size: usize,
    },
    /// A view of another storage.
    #[error("{what}: a view of storage {got}, expected a view of storage {expected}")]
    OtherStorage {
        /// Where.
        what: &'static str,
        /// The storage expected.
        expected: String,
        /// The storage of the view.
        got: String,
    },
    /// An offset or a length that is not a whole number of elements.
    #[error("{what}: {bytes} is not a multiple of the {alignment} bytes that {dtype} needs")]
    Misaligned {
        /// Where.
        what: &'static str,
        /// The offset, length or address.
        bytes: usize,
        /// The multiple needed.
        alignment: usize,
        /// The element type.
        dtype: DType,
    },
    /// Two sizes that must agree do not.
    #[error("{what}: expected {expected} bytes, got {got}")]
    SizeMismatch {
        /// Where.
        what: &'static str,
        /// Expected bytes.
        expected: usize,
        /// Given bytes.
        got: usize,
    },
    /// Not a shape.
    #[error("{what}: {source}")]
    BadShape {
        /// Where.
        what: &'static str,
        /// Why.
        source: ShapeError,
    },
    /// An op or a reshape was given a shape it can't take.
    #[error("{op}: {slot} has shape {got}, expected {expected}")]
    Shape {
        /// The op.
        op: &'static str,
        /// The argument.
        slot: &'static str,
        /// What it takes, in words.
        expected: String,
        /// What it got.
        got: Shape,
    },
    /// An op or host access was given the wrong element type.
    #[error("{op}: {slot} has type {got}, expected {expected}")]
    DTypeMismatch {
        /// The op.
        op: &'static str,
        /// The argument.
        slot: &'static str,
        /// What it takes, in words.
        expected: String,
        /// What it got.
        got: DType,
    },
    /// An op's own parameter is out of range.
    #[error("{op}: {what}")]
    BadParameter {
        /// The op.
        op: &'static str,
        /// Which, expected, got.
        what: String,
    },
    /// The wrong number of arguments.
    #[error("{op}: takes {expected} {what}, got {got}")]
    ArgumentCount {
        /// The op.
        op: &'static str,
        /// `inputs` or `outputs`.
        what: &'static str,
        /// Expected.
        expected: usize,
        /// Given.
        got: usize,
    },
    /// A buffer of one device used with another.
    #[error("{what}: the buffer lives on {got}, the command runs on {expected}; use copy_from to move it")]
    WrongDevice {
        /// Where.
        what: &'static str,
        /// The device of the command.
        expected: String,
        /// The device of the buffer.
        got: String,
    },
    /// A value or a parameter of one graph used with another.
    #[error("{what}: the value belongs to another graph; use values of the builder that captures the op")]
    WrongGraph {
        /// Where.
        what: &'static str,
    },
    /// An output shares bytes with another argument in a way that the op can't run.
    #[error("{op}: {output} overlaps {other}; give them separate memory")]
    Aliasing {
        /// The op.
        op: &'static str,
        /// The output.
        output: &'static str,
        /// The other argument.
        other: &'static str,
    },
    /// Memory that must not be written, such as a mapped file.
    #[error("{what}: the buffer is read-only")]
    ReadOnly {
        /// Where.
        what: &'static str,
    },
    /// The device can't use host memory in place.
    #[error("{device} cannot use host memory in place; copy it into a buffer instead")]
    NoImport {
        /// The device.
        device: String,
    },
    /// Memory that the host can't see.
    #[error("{what}: the buffer is in device memory that the host cannot see; use copy_out or copy_in")]
    NotHostVisible {
        /// Where.
        what: &'static str,
    },
    /// Memory that the system did not lock.
    #[error(
        "{bytes} bytes can't be locked in memory: {detail}. Raise the limit with `ulimit -l unlimited`, memlock in \
         /etc/security/limits.conf or systemd's LimitMEMLOCK, or do not lock memory"
    )]
    NotLocked {
        /// The bytes.
        bytes: usize,
        /// What the system says, and its limit.
        detail: String,
    },
    /// Systems without locked memory.
    #[error("memory can be locked on Unix only; do not lock memory here")]
    NoMemoryLock,
    /// A host guard is held over bytes that a command, or another guard, needs.
    #[error(
        "{what}: bytes {start}..{end} of {storage} are held by a host {held} guard; drop the guard first"
    )]
    HostGuard {
        /// The operation that was tried.
        what: &'static str,
        /// The storage.
        storage: String,
        /// First byte of the guard.
        start: usize,
        /// One past its last byte.
        end: usize,
        /// `read` or `write`.
        held: &'static str,
    },
    /// The work that should have written these bytes failed.
    #[error(
        "{what}: the contents were lost when an earlier submission failed ({cause}); write the buffer anew"
    )]
    Poisoned {
        /// The operation that was tried.
        what: &'static str,
        /// The failure.
        cause: Arc<Error>,
    },
    /// No kernel can run this op here.
    #[error("{op}: no kernel on {device} for {io}; {declined}")]
    NoKernel {
        /// The op.
        op: &'static str,
        /// The device.
        device: String,
        /// Types and shapes of the arguments.
        io: String,
        /// Each candidate and why it declined.
        declined: String,
    },
    /// A kernel planned something that the device or the buffers do not allow: a defect of the kernel.
    #[error("kernel {kernel} planned {what}; this is a defect of the kernel, please report it")]
    BadPlan {
        /// The kernel.
        kernel: &'static str,
        /// What it planned.
        what: String,
    },
    /// No kernel was registered under this name.
    #[error("{device}: no kernel is registered as {name:?}; known are {known}")]
    UnknownKernel {
        /// The device.
        device: String,
        /// The name.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Another kernel has this name.
    #[error(
        "{device}: another kernel is registered as {name:?}; unregister it first, or choose another name"
    )]
    KernelExists {
        /// The device.
        device: String,
        /// The name.
        name: String,
    },
    /// A closure of a worker panicked.
    #[error("{what} panicked: {message}")]
    Panicked {
        /// What ran it.
        what: &'static str,
        /// The message of the panic.
        message: String,
    },
    /// The system started no thread.
    #[error("{what}: the system gave no thread ({detail}); end other threads or raise the limit")]
    NoThread {
        /// What it is for.
        what: &'static str,
        /// The system's message.
        detail: String,
    },
    /// A part that silicide itself made is missing: a defect.
    #[error("{what} is missing; this is a defect of silicide, please report it")]
    Missing {
        /// The part.
        what: &'static str,
    },
    /// Work was stopped on request.
    #[error("{what}: cancelled")]
    Cancelled {
        /// The work that was stopped.
        what: &'static str,
    },
    /// A tensor of a model could not be brought onto a device.
    #[error("tensor {name:?}: {source}")]
    Tensor {
        /// The tensor.
        name: String,
        /// Why not.
        source: Arc<Error>,
    },
    /// A weight file could not be read, or is malformed.
    #[error(transparent)]
    Weights(#[from] silicide_weights::Error),
}

impl Error {
    /// Wraps a backend's error with the device's name.
    pub(crate) fn device(device: &str, source: HalError) -> Error {
        Error::Device { device: device.to_owned(), source }
    }

    /// Wraps a shape error with the place it arose.
    pub fn bad_shape(what: &'static str, source: impl Into<ShapeError>) -> Error {
        Error::BadShape { what, source: source.into() }
    }

    /// Names the plane of a weight that `op` refuses.
    pub fn bad_plane(op: &'static str, error: EncodingError) -> Error {
        match error {
            EncodingError::Count { expected, got, .. } => {
                Error::ArgumentCount { op, what: "planes", expected, got }
            }
            EncodingError::Type { plane, expected, got, .. } => {
                Error::DTypeMismatch { op, slot: plane, expected: expected.to_string(), got }
            }
            EncodingError::Shape { plane, expected, got, .. } => {
                Error::Shape { op, slot: plane, expected, got }
            }
            EncodingError::Extent(source) => Error::bad_shape(op, source),
            other => Error::BadParameter { op, what: other.to_string() },
        }
    }
}

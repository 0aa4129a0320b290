#![doc = include_str!("../../../README.md")]
#![forbid(unsafe_code)]

#[doc(inline)]
pub use silicide_core::{CancelToken, Error};
#[doc(inline)]
pub use silicide_core::{buffer, device, graph, kernel, memory, profile, record};
#[doc(inline)]
pub use silicide_hal as hal;
/// The bindings to Metal that this crate uses (`objc2`, `objc2_foundation`, `objc2_metal`), for programs that call Metal
/// themselves.
#[cfg(target_vendor = "apple")]
pub use silicide_hal::metal::bindings as metal;
#[cfg(feature = "llm")]
#[doc(inline)]
pub use silicide_llm as llm;
#[doc(inline)]
pub use silicide_ops as ops;
#[doc(inline)]
pub use silicide_quant as quant;

pub mod weights {
    //! Weight files, and their tensors as buffers on a device.
    //!
    //! A [`Source`] is an opened file or folder: GGUF, safetensors or MLX. Opening reads names, shapes and offsets, and
    //! checks them. A [`Loader`] turns its tensors into [`Weight`]s: in place where the device can read the mapped file,
    //! copied otherwise.

    pub use silicide_core::weights::{
        LoadEvent, LoadOptions, LoadProgress, LoadReport, Loader, Placement, PlanarWeight, Weight, Weights,
    };
    pub use silicide_weights::{
        Bytes, Config, Container, Entry, Error, Fault, Load, MappedFile, Place, QuantizedWeight, Source,
        Stored, gguf, limits, safetensors,
    };
}

pub mod prelude {
    //! The names that most programs need: `use silicide::prelude::*`.

    #[doc(no_inline)]
    pub use silicide_core::{Buffer, CancelToken, CommandEncoder, Device, Error, Recorder};
    #[cfg(feature = "llm")]
    #[doc(no_inline)]
    pub use silicide_llm::{Chat, Message, Model, engine::GenerateOptions};
    #[doc(no_inline)]
    pub use silicide_ops as ops;
    #[doc(no_inline)]
    pub use silicide_quant::{DType, Shape};
}

// Shortcuts to the types of the prelude.
#[doc(no_inline)]
pub use silicide_core::{Buffer, CommandEncoder, Device, Recorder};
#[cfg(feature = "llm")]
#[doc(no_inline)]
pub use silicide_llm::{Chat, Message, Model};
#[doc(no_inline)]
pub use silicide_quant::{DType, Shape};

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod facade;

pub use facade::{graph, kernel, record, weights};
#[doc(inline)]
pub use silicide_core::{CancelToken, EncoderWorker, Error, WorkerTask};
#[doc(inline)]
pub use silicide_core::{buffer, device, memory, profile};
#[doc(inline)]
pub use silicide_hal as hal;
/// The bindings to Metal that this crate uses (`objc2`, `objc2_foundation`, `objc2_metal`), for programs that call Metal
/// themselves.
#[cfg(all(target_vendor = "apple", feature = "metal"))]
pub use silicide_hal::metal::bindings as metal;
#[cfg(feature = "llm")]
#[doc(inline)]
pub use silicide_llm as llm;
#[doc(inline)]
pub use silicide_ops as ops;
#[doc(inline)]
pub use silicide_quant as quant;

// Shortcuts to the types of the prelude.
#[doc(no_inline)]
pub use silicide_core::{Buffer, CommandEncoder, Device, Recorder};
#[cfg(feature = "llm")]
#[doc(no_inline)]
pub use silicide_llm::{Chat, Message, Model};
#[doc(no_inline)]
pub use silicide_quant::{DType, Shape};

pub mod prelude {
    //! The names that most programs need: `use silicide::prelude::*`. None of them shadows a name of std's prelude.

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

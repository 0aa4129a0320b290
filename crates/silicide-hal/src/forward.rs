//! A device that passes its calls on to another device, for tools and tests: profiling, failure injection, emulation.
//!
//! A wrapper implements [`Forward`]: [`Forward::inner`], and the verbs in which it differs. Every such type is a
//! [`RawDevice`]; all other verbs, those with a default included, go to the inner device.
//!
//! ```
//! use silicide_hal::{CommandList, Forward, RawDevice, Result, Ticket};
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! /// Counts submissions.
//! struct Counted {
//!     inner: Arc<dyn RawDevice>,
//!     submissions: AtomicU64,
//! }
//!
//! // SAFETY: counting changes nothing of what the inner device does.
//! unsafe impl Forward for Counted {
//!     fn inner(&self) -> &dyn RawDevice {
//!         &*self.inner
//!     }
//!
//!     unsafe fn submit(&self, list: &CommandList, ticket: Ticket) -> Result<()> {
//!         self.submissions.fetch_add(1, Ordering::Relaxed);
//!         // SAFETY: the same call, with the same conditions.
//!         unsafe { self.inner.submit(list, ticket) }
//!     }
//! }
//! ```

use crate::{
    BlockDesc, CommandList, DeviceInfo, HostRegion, Imported, NativeObject, Program, RawBaked, RawBlock,
    RawDevice, RawPipeline, Result, Span, ThreadTimes, Ticket,
};
use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

/// Makes [`Forward`] and its [`RawDevice`] from one list of all verbs, so that neither can lack one that the other has.
macro_rules! forward {
    (
        safe: $(fn $safe:ident($($given:ident: $of:ty),*) -> $result:ty;)+
        unsafe: $(fn $verb:ident($($argument:ident: $type:ty),*) $(-> $output:ty)?;)+
    ) => {
        /// A device that passes its calls on to an inner device, except for the verbs that it overrides.
        ///
        /// # Safety
        ///
        /// Overridden verbs keep what [`RawDevice`] demands of implementors. `inner` returns the same device every time.
        pub unsafe trait Forward: Send + Sync {
            /// Returns the inner device.
            fn inner(&self) -> &dyn RawDevice;
            $(
                #[doc = concat!("See [`RawDevice::", stringify!($safe), "`].")]
                fn $safe(&self, $($given: $of),*) -> $result {
                    self.inner().$safe($($given),*)
                }
            )+
            $(
                #[doc = concat!("See [`RawDevice::", stringify!($verb), "`].")]
                ///
                /// # Safety
                #[doc = concat!("As for [`RawDevice::", stringify!($verb), "`].")]
                unsafe fn $verb(&self, $($argument: $type),*) $(-> $output)? {
                    // SAFETY: the same verb with the same arguments, and so with the same conditions.
                    unsafe { self.inner().$verb($($argument),*) }
                }
            )+
        }

        // SAFETY: every verb is that of `Forward`, whose implementors keep the contract.
        unsafe impl<F: Forward> RawDevice for F {
            $(
                fn $safe(&self, $($given: $of),*) -> $result {
                    Forward::$safe(self, $($given),*)
                }
            )+
            $(
                unsafe fn $verb(&self, $($argument: $type),*) $(-> $output)? {
                    // SAFETY: the same verb with the same arguments, and so with the same conditions.
                    unsafe { Forward::$verb(self, $($argument),*) }
                }
            )+
        }
    };
}

forward! {
    safe:
        fn info() -> &DeviceInfo;
        fn translate(program: &Program) -> Result<Option<Vec<u8>>>;
        fn driver_cache() -> Vec<u8>;
        fn wait(ticket: Ticket, timeout: Duration) -> Result<()>;
        fn reached() -> Result<Ticket>;
        fn workspace_bytes() -> usize;
        fn spans(ticket: Ticket) -> Vec<Span>;
        fn thread_times(ticket: Ticket) -> ThreadTimes;
        fn capture(to: Option<&Path>) -> Result<()>;
        fn validation_messages() -> Vec<String>;
    unsafe:
        fn alloc(desc: &BlockDesc) -> Result<RawBlock>;
        fn import(host: HostRegion) -> Result<Option<Imported>>;
        fn adopt(object: NonNull<c_void>) -> Result<Option<RawBlock>>;
        fn native(of: NativeObject) -> Option<NonNull<c_void>>;
        fn free(block: RawBlock);
        fn map(block: RawBlock) -> Option<NonNull<[u8]>>;
        fn compile(label: &str, program: &Program, binary: Option<&[u8]>) -> Result<RawPipeline>;
        fn discard(pipeline: RawPipeline);
        fn submit(list: &CommandList, ticket: Ticket) -> Result<()>;
        fn bake(list: &CommandList) -> Result<RawBaked>;
        fn replay(baked: RawBaked, ticket: Ticket) -> Result<()>;
        fn unbake(baked: RawBaked);
}

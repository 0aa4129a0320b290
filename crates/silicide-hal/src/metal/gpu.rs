//! An opened device with its queue, and the memory of its loss.
//!
//! A device that was lost stays lost: [`Gpu::check`] is called by every verb first, and every error of finished work
//! passes [`Gpu::failed`].

use super::MetalOptions;
use super::adapter::{Adapter, unavailable};
use super::fault::command_error;
use super::{Object, text};
use crate::{HalError, Result};
use objc2::msg_send;
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::{AnyObject, ProtocolObject};
use objc2_foundation::{NSArray, NSError};
use objc2_metal::{
    MTLCommandBufferEncoderInfo, MTLCommandBufferEncoderInfoErrorKey, MTLCommandEncoderErrorState,
    MTLCommandQueue, MTLDevice, MTLFence,
};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

/// Command buffers that may be made and not finished. Making one more waits.
const QUEUE_DEPTH: usize = 1024;

/// The device, its queue, and the fence that orders its passes.
pub(super) struct Gpu {
    pub(super) adapter: Adapter,
    pub(super) queue: Object<dyn MTLCommandQueue>,
    /// Every pass waits for it and updates it. It orders passes, because Metal does not track this memory.
    pub(super) fence: Object<dyn MTLFence>,
    /// Whether errors should name the pass that failed.
    pub(super) validation: bool,
    /// Whether passes are labelled, for debuggers.
    pub(super) labels: AtomicBool,
    lost: OnceLock<String>,
}

impl Gpu {
    /// Opens device `index` of the adapters.
    pub(super) fn open(index: usize, options: &MetalOptions) -> Result<Gpu> {
        autoreleasepool(|_| {
            let adapters = Adapter::all(options)?;
            let count = adapters.len();
            let Some(adapter) = adapters.into_iter().nth(index) else {
                let detail = format!("there is no device metal:{index}, only {count} can be used");
                return Err(unavailable(&detail, "Open one of those that the device list shows"));
            };
            let refused =
                |call| HalError::Driver { call, detail: "Metal gave nothing and no reason".to_owned() };
            let queue = adapter
                .device
                .newCommandQueueWithMaxCommandBufferCount(QUEUE_DEPTH)
                .ok_or_else(|| refused("newCommandQueue"))?;
            queue.setLabel(Some(&text("silicide")));
            let fence = adapter.device.newFence().ok_or_else(|| refused("newFence"))?;
            Ok(Gpu {
                adapter,
                queue,
                fence,
                validation: options.validation,
                labels: AtomicBool::new(options.validation || options.timing),
                lost: OnceLock::new(),
            })
        })
    }

    /// Metal's device.
    pub(super) fn device(&self) -> &ProtocolObject<dyn MTLDevice> {
        &self.adapter.device
    }

    /// Fails when the device was lost.
    pub(super) fn check(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(detail) => Err(HalError::DeviceLost { detail: detail.clone() }),
        }
    }

    /// Converts the error of a command buffer, and records a lost device.
    pub(super) fn failed(&self, error: Option<Retained<NSError>>) -> HalError {
        let Some(error) = error else {
            let detail = "the work failed, and Metal does not say why".to_owned();
            return HalError::Driver { call: "MTLCommandBuffer", detail };
        };
        let said = error.localizedDescription().to_string();
        match command_error(error.code(), &said, &faulted(&error)) {
            HalError::DeviceLost { detail } => self.lose(detail),
            other => other,
        }
    }

    /// Declares the device lost.
    pub(super) fn lose(&self, detail: String) -> HalError {
        HalError::DeviceLost { detail: self.lost.get_or_init(|| detail).clone() }
    }
}

/// Returns the labels of the passes that faulted, where the command buffer records them.
fn faulted(error: &NSError) -> Vec<String> {
    // SAFETY: a constant of the framework, never written.
    let key = unsafe { MTLCommandBufferEncoderInfoErrorKey };
    let Some(found) = error.userInfo().objectForKey(key) else { return Vec::new() };
    let Ok(passes) = found.downcast::<NSArray>() else { return Vec::new() };
    let mut labels = Vec::new();
    for pass in passes.iter() {
        let pass: &AnyObject = &pass;
        // SAFETY: what the framework keeps under this key are objects of this protocol.
        let pass =
            unsafe { &*std::ptr::from_ref(pass).cast::<ProtocolObject<dyn MTLCommandBufferEncoderInfo>>() };
        if pass.errorState() == MTLCommandEncoderErrorState::Faulted {
            labels.push(pass.label().to_string());
        }
    }
    labels
}

/// Returns whether an object has a method: newer systems have more of them.
pub(super) fn responds<T: objc2::Message>(object: &T, selector: objc2::runtime::Sel) -> bool {
    // SAFETY: every object that Metal hands out is an `NSObject`, which has this method.
    unsafe { msg_send![object, respondsToSelector: selector] }
}

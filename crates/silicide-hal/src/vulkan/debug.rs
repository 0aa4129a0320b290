//! Messages of the validation layer, and labels for debuggers and profilers.
//!
//! The layer reports on the thread that made the offending call, while the call runs. So a caller that noted
//! [`Messages::position`] before a call finds the messages of the call with [`Messages::caused_since`], independent of
//! other threads.

use crate::{HalError, Result};
use ash::vk;
use std::collections::VecDeque;
use std::ffi::{CStr, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// The most messages kept until they are drained.
const KEPT: usize = 1000;

/// Messages of the validation layer.
#[derive(Default)]
pub(super) struct Messages {
    queue: Mutex<MessageQueue>,
}

#[derive(Default)]
struct MessageQueue {
    /// How many were heard so far, drained ones included.
    count: u64,
    waiting: VecDeque<Message>,
}

struct Message {
    number: u64,
    thread: ThreadId,
    text: String,
}

impl Messages {
    /// Returns a point in the stream of messages.
    pub(super) fn position(&self) -> u64 {
        self.lock().count
    }

    /// Returns the first message that this thread caused since `position`.
    pub(super) fn caused_since(&self, position: u64) -> Option<String> {
        let thread = std::thread::current().id();
        let heard = self.lock();
        let caused = heard.waiting.iter().find(|m| m.number >= position && m.thread == thread);
        caused.map(|message| message.text.clone())
    }

    /// Returns all messages not yet drained.
    pub(super) fn drain(&self) -> Vec<String> {
        self.lock().waiting.drain(..).map(|message| message.text).collect()
    }

    fn hear(&self, text: String) {
        let mut heard = self.lock();
        let number = heard.count;
        heard.count += 1;
        if heard.waiting.len() == KEPT {
            heard.waiting.pop_front();
        }
        heard.waiting.push_back(Message { number, thread: std::thread::current().id(), text });
    }

    fn lock(&self) -> MutexGuard<'_, MessageQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens to the validation layer while an instance lives.
pub(super) struct Messenger {
    functions: ash::ext::debug_utils::Instance,
    raw: vk::DebugUtilsMessengerEXT,
    /// The layer holds a pointer to these until the messenger is destroyed.
    messages: Arc<Messages>,
}

impl Messenger {
    pub(super) fn new(entry: &ash::Entry, instance: &ash::Instance) -> Result<Messenger> {
        let functions = ash::ext::debug_utils::Instance::new(entry, instance);
        let messages = Arc::<Messages>::default();
        let create = vk::DebugUtilsMessengerCreateInfoEXT::default()
            .message_severity(
                vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR,
            )
            .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
            .pfn_user_callback(Some(hear))
            .user_data(Arc::as_ptr(&messages).cast_mut().cast());
        // SAFETY: VK_EXT_debug_utils is enabled; the user data outlives the messenger, which is dropped with it.
        let raw = unsafe { functions.create_debug_utils_messenger(&create, None) }.map_err(|result| {
            HalError::Driver { call: "vkCreateDebugUtilsMessengerEXT", detail: result.to_string() }
        })?;
        Ok(Messenger { functions, raw, messages })
    }

    pub(super) fn messages(&self) -> &Arc<Messages> {
        &self.messages
    }
}

impl Drop for Messenger {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once, before its instance.
        unsafe { self.functions.destroy_debug_utils_messenger(self.raw, None) };
        // Messages about the destruction of the device (leaked objects) can't be returned by it any more.
        for text in self.messages.drain() {
            eprintln!("vulkan validation: {text}");
        }
    }
}

/// The callback of the layer.
///
/// # Safety
/// `user` points to the [`Messages`] given to the messenger, `data` is the layer's.
unsafe extern "system" fn hear(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    user: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the messenger keeps its messages alive, and they are only used through shared references.
    let messages = unsafe { user.cast::<Messages>().as_ref() };
    // SAFETY: the layer gives its data for the length of this call.
    let text = unsafe { data.as_ref() }.map(|data| data.p_message).filter(|message| !message.is_null());
    if let (Some(messages), Some(text)) = (messages, text) {
        // SAFETY: a NUL-terminated string of the layer, not null.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        messages.hear(format!("{severity:?}: {text}"));
    }
    vk::FALSE
}

/// Sets names and labels that debuggers and profilers show.
pub(super) struct Labels {
    functions: ash::ext::debug_utils::Device,
}

impl Labels {
    pub(super) fn new(instance: &ash::Instance, device: &ash::Device) -> Labels {
        Labels { functions: ash::ext::debug_utils::Device::new(instance, device) }
    }

    /// Names an object.
    pub(super) fn name(&self, object: impl vk::Handle, label: &str) {
        let mut text = Vec::new();
        let name = terminated(&mut text, label);
        let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(name);
        // SAFETY: the object is a live one of this device. A failure costs only the name.
        let _ = unsafe { self.functions.set_debug_utils_object_name(&info) };
    }

    /// Opens a labelled region; `text` is scratch memory.
    pub(super) fn begin(&self, buffer: vk::CommandBuffer, label: &str, text: &mut Vec<u8>) {
        let info = vk::DebugUtilsLabelEXT::default().label_name(terminated(text, label));
        // SAFETY: `Recording`, the only caller, has begun the command buffer.
        unsafe { self.functions.cmd_begin_debug_utils_label(buffer, &info) };
    }

    /// Closes the region opened last.
    pub(super) fn end(&self, buffer: vk::CommandBuffer) {
        // SAFETY: the command buffer is being recorded and has an open region.
        unsafe { self.functions.cmd_end_debug_utils_label(buffer) };
    }
}

/// `label` up to its first NUL, as a C string in `text`.
fn terminated<'a>(text: &'a mut Vec<u8>, label: &str) -> &'a CStr {
    text.clear();
    text.extend_from_slice(label.as_bytes());
    text.push(0);
    CStr::from_bytes_until_nul(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validation_messages_belong_to_the_thread_that_caused_them() {
        let messages = Messages::default();
        messages.hear("before".into());
        let position = messages.position();
        std::thread::scope(|scope| scope.spawn(|| messages.hear("elsewhere".into())).join().unwrap());
        assert_eq!(messages.caused_since(position), None);
        messages.hear("here".into());
        assert_eq!(messages.caused_since(position).as_deref(), Some("here"));
        assert_eq!(messages.drain(), ["before", "elsewhere", "here"]);
        assert!(messages.drain().is_empty());
    }

    #[test]
    fn a_storm_of_messages_is_cut() {
        let messages = Messages::default();
        (0..2 * KEPT).for_each(|i| messages.hear(i.to_string()));
        assert_eq!(messages.drain().len(), KEPT);
    }

    #[test]
    fn labels_end_at_a_nul() {
        assert_eq!(terminated(&mut Vec::new(), "attention"), c"attention");
        assert_eq!(terminated(&mut Vec::new(), "a\0b"), c"a");
    }
}

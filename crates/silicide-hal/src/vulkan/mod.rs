//! The Vulkan backend.

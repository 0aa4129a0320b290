//! The Vulkan loader and one instance of it: the library is found at run time, layers and extensions are enabled
//! only where they are there.

use super::VulkanOptions;
use super::debug::{Messages, Messenger};
use crate::{HalError, Result};
use ash::vk;
use std::ffi::CStr;
use std::sync::Arc;

const INSTALL_LOADER: &str = "Install the Vulkan loader and a driver (Debian, Ubuntu: apt install libvulkan1 \
     mesa-vulkan-drivers; for NVIDIA the maker's driver)";
const INSTALL_DRIVER: &str = "Install a Vulkan driver (Debian, Ubuntu: apt install mesa-vulkan-drivers for AMD, Intel \
     and software devices; for NVIDIA the maker's driver)";
const UPDATE_LOADER: &str = "Update the Vulkan loader and the GPU driver to Vulkan 1.2 or newer";
const INSTALL_LAYERS: &str = "Install the validation layers (Debian, Ubuntu: apt install vulkan-validationlayers) or \
     open the device without validation";

const VALIDATION_LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// A loaded library and an instance of it.
pub(super) struct Instance {
    pub(super) raw: ash::Instance,
    /// Whether debug labels and names may be set.
    pub(super) has_debug_utils: bool,
    messenger: Option<Messenger>,
    /// Keeps the library loaded.
    pub(super) entry: ash::Entry,
}

impl Instance {
    /// Loads the library and creates an instance.
    pub(super) fn open(options: &VulkanOptions) -> Result<Instance> {
        // SAFETY: the system's Vulkan loader is trusted to be one.
        let entry = loaded(unsafe { ash::Entry::load() })?;
        // SAFETY: the entry is loaded; no arguments.
        let version = unsafe { entry.try_enumerate_instance_version() };
        if !matches!(version, Ok(Some(version)) if version >= vk::API_VERSION_1_2) {
            return Err(unavailable("the Vulkan loader is older than 1.2", UPDATE_LOADER));
        }
        let layers = match options.validation {
            true => vec![validation_layer(&entry)?.as_ptr()],
            false => Vec::new(),
        };
        let has_debug_utils = has_extension(&entry, None, ash::ext::debug_utils::NAME)
            || options.validation
                && has_extension(&entry, Some(VALIDATION_LAYER), ash::ext::debug_utils::NAME);
        let check_hazards = options.validation
            && options.synchronization_validation
            && has_extension(&entry, Some(VALIDATION_LAYER), ash::ext::validation_features::NAME);
        let mut extensions = Vec::new();
        if has_debug_utils {
            extensions.push(ash::ext::debug_utils::NAME.as_ptr());
        }
        if check_hazards {
            extensions.push(ash::ext::validation_features::NAME.as_ptr());
        }
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let enabled = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&enabled);
        let mut create = vk::InstanceCreateInfo::default()
            .application_info(&application)
            .enabled_layer_names(&layers)
            .enabled_extension_names(&extensions);
        if check_hazards {
            create = create.push_next(&mut features);
        }
        // SAFETY: names are NUL-terminated statics, the chain lives on this stack.
        let raw = unsafe { entry.create_instance(&create, None) }.map_err(|result| match result {
            vk::Result::ERROR_INCOMPATIBLE_DRIVER => {
                unavailable("no Vulkan driver is installed", INSTALL_DRIVER)
            }
            other => unavailable(&format!("vkCreateInstance: {other}"), INSTALL_DRIVER),
        })?;
        let mut instance = Instance { raw, has_debug_utils, messenger: None, entry };
        if options.validation {
            if !has_debug_utils {
                return Err(unavailable(
                    "the validation layer can't report (no VK_EXT_debug_utils)",
                    INSTALL_LAYERS,
                ));
            }
            instance.messenger = Some(Messenger::new(&instance.entry, &instance.raw)?);
        }
        Ok(instance)
    }

    /// Returns where the validation layer's messages are, when it is loaded.
    pub(super) fn messages(&self) -> Option<&Arc<Messages>> {
        self.messenger.as_ref().map(Messenger::messages)
    }

    /// Returns all physical devices.
    pub(super) fn physical_devices(&self) -> Result<Vec<vk::PhysicalDevice>> {
        // SAFETY: the instance lives until `drop`.
        unsafe { self.raw.enumerate_physical_devices() }
            .map_err(|result| unavailable(&format!("vkEnumeratePhysicalDevices: {result}"), INSTALL_DRIVER))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The messenger belongs to the instance and hears what its devices leaked: it goes last but one.
        drop(self.messenger.take());
        // SAFETY: everything made from the instance is gone: devices hold it, the messenger was just dropped.
        unsafe { self.raw.destroy_instance(None) };
    }
}

/// Returns an error for a machine that lacks something.
pub(super) fn unavailable(detail: &str, advice: &'static str) -> HalError {
    HalError::Unavailable { backend: "vulkan", detail: detail.to_owned(), advice }
}

/// Returns the error for a machine without a usable device, with the reasons found.
pub(super) fn no_device(reasons: &[String]) -> HalError {
    match reasons {
        [] => unavailable("no Vulkan device was found", INSTALL_DRIVER),
        reasons => unavailable(&reasons.join("; "), UPDATE_LOADER),
    }
}

fn loaded(entry: std::result::Result<ash::Entry, ash::LoadingError>) -> Result<ash::Entry> {
    entry.map_err(|error| unavailable(&format!("the Vulkan loader was not found ({error})"), INSTALL_LOADER))
}

fn validation_layer(entry: &ash::Entry) -> Result<&'static CStr> {
    // SAFETY: the entry is loaded; no arguments.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }.unwrap_or_default();
    match layers.iter().any(|layer| layer.layer_name_as_c_str() == Ok(VALIDATION_LAYER)) {
        true => Ok(VALIDATION_LAYER),
        false => Err(unavailable("the validation layer is not installed", INSTALL_LAYERS)),
    }
}

fn has_extension(entry: &ash::Entry, layer: Option<&CStr>, name: &CStr) -> bool {
    // SAFETY: the entry is loaded; the layer, when given, was found to be there or makes the call fail.
    let there = unsafe { entry.enumerate_instance_extension_properties(layer) }.unwrap_or_default();
    there.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_loader_says_what_to_install() {
        // SAFETY: there is no such library to run code from.
        let error = loaded(unsafe { ash::Entry::load_from("no-such-libvulkan.so") }).err().unwrap();
        assert!(error.to_string().contains("apt install libvulkan1"), "{error}");
        assert!(matches!(error, HalError::Unavailable { backend: "vulkan", .. }));
    }

    #[test]
    fn errors_distinguish_old_drivers_from_missing_devices() {
        assert!(no_device(&[]).to_string().contains("mesa-vulkan-drivers"));
        let error = no_device(&["Old GPU has Vulkan 1.1".into()]).to_string();
        assert!(error.contains("Old GPU has Vulkan 1.1") && error.contains("Update"), "{error}");
    }
}

//! Listing devices, and errors that name what is missing.

use silicide_hal::vulkan::{self, VulkanOptions};
use std::process::Command;

#[test]
fn real_gpus_are_listed_before_software() {
    let listed = vulkan::enumerate().unwrap();
    assert!(listed.is_sorted_by_key(|info| info.software));
    for (index, info) in listed.iter().enumerate() {
        assert_eq!(info.id, format!("vulkan:{index}"));
        assert!(!info.driver.is_empty());
    }
}

/// Runs itself again in a process that sees no driver and no layers.
#[test]
fn a_machine_without_drivers_or_layers_is_told_what_to_install() {
    if std::env::var_os("VK_DRIVER_FILES").is_some_and(|path| path == "/nowhere") {
        let error = vulkan::enumerate().err().unwrap().to_string();
        assert!(error.contains("apt install mesa-vulkan-drivers"), "{error}");
        let error = vulkan::open(0, &VulkanOptions::default().validation(true)).err().unwrap().to_string();
        assert!(error.contains("apt install vulkan-validationlayers"), "{error}");
        return;
    }
    let again = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "open::a_machine_without_drivers_or_layers_is_told_what_to_install"])
        .env("VK_DRIVER_FILES", "/nowhere")
        .env("VK_ICD_FILENAMES", "/nowhere")
        .env("VK_LAYER_PATH", "/nowhere")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && text.contains("1 passed"), "{text}");
}

//! Finding and opening devices, and saying what is missing.

use crate::rig::Rig;
use silicide_hal::vulkan::{self, VulkanOptions};
use silicide_hal::{Backend, HalError};
use std::process::Command;

#[test]
fn devices_are_listed_and_described() {
    let listed = vulkan::enumerate().unwrap();
    for (index, info) in listed.iter().enumerate() {
        assert_eq!(info.id, format!("vulkan:{index}"));
        assert_eq!(info.backend, Backend::Vulkan);
        assert!(info.is_gpu() && info.isa.is_none() && !info.name.is_empty() && !info.driver.is_empty());
        assert!(info.fingerprint.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c)));
        let (limits, features) = (info.limits, info.features);
        assert!(limits.max_block >= limits.max_binding && limits.max_binding >= 1 << 27);
        assert!(limits.binding_alignment.is_power_of_two() && limits.binding_alignment <= 256);
        assert!(limits.max_param_bytes >= 128 && limits.max_bindings >= 4);
        assert!(limits.max_workgroup >= 128 && limits.max_workgroup_bytes >= 16 << 10);
        assert!(limits.max_grid.iter().all(|axis| *axis >= 65_535));
        assert!(features.subgroup_size.0 >= 1 && features.subgroup_size.0 <= features.subgroup_size.1);
        assert!(info.memory.total > 0 && info.memory.available <= info.memory.total);
    }
    // Real GPUs come before software.
    assert!(listed.is_sorted_by_key(|info| info.software));
    let rig = Rig::new();
    let opened = rig.device.info();
    assert_eq!((&opened.id, &opened.fingerprint), (&listed[0].id, &listed[0].fingerprint));
    assert_eq!((opened.limits, opened.features), (listed[0].limits, listed[0].features));
}

#[test]
fn an_index_beyond_the_list_is_refused() {
    let error = vulkan::open(99, &VulkanOptions::default()).err().unwrap();
    assert!(matches!(error, HalError::Unavailable { backend: "vulkan", .. }), "{error}");
    assert!(error.to_string().contains("vulkan:99"), "{error}");
}

/// What a process that sees no driver and no layers says; run by the test below with an environment of its own.
#[test]
fn a_machine_without_drivers_or_layers_is_told_what_to_install() {
    if std::env::var_os("VK_DRIVER_FILES").is_some_and(|path| path == "/nowhere") {
        let error = vulkan::enumerate().err().unwrap().to_string();
        assert!(error.contains("apt install mesa-vulkan-drivers"), "{error}");
        let mut options = VulkanOptions::default();
        options.validation = true;
        let error = vulkan::open(0, &options).err().unwrap().to_string();
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

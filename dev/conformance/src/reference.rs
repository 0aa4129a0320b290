//! Imagined devices: what the support table and the shader check are made for, the same on every machine.

use silicide_core::{DeviceInfo, Isa};
use silicide_hal::{Backend, Features, MatrixShape};

/// A CPU of each instruction set, weakest first.
pub fn cpus() -> Vec<DeviceInfo> {
    let cpu = |isa: Isa| {
        let mut info = DeviceInfo::new(Backend::Cpu, "cpu", isa.name());
        info.limits.max_grid = [u32::MAX; 3];
        info.limits.max_param_bytes = 4096;
        info.limits.max_bindings = 16;
        info.isa = Some(isa);
        info.threads = 4;
        info.features.unified_memory = true;
        info.features.host_import = true;
        info
    };
    Isa::ALL.into_iter().map(cpu).collect()
}

/// A GPU with the least that Vulkan 1.2 requires.
pub fn plain_gpu() -> DeviceInfo {
    let mut info = DeviceInfo::new(Backend::Vulkan, "vulkan:0", "plain");
    info.limits.max_block = 1 << 30;
    info.limits.max_binding = 1 << 27;
    info.limits.max_workgroup = 128;
    info
}

/// A GPU with every feature.
pub fn full_gpu() -> DeviceInfo {
    let mut info = DeviceInfo::new(Backend::Vulkan, "vulkan:0", "full");
    info.limits.max_binding = (1 << 32) - 4;
    info.limits.max_param_bytes = 256;
    info.limits.max_bindings = 16;
    info.limits.max_workgroup = 1024;
    info.limits.max_workgroup_bytes = 32 << 10;
    info.features = Features {
        f16: true,
        storage_16: true,
        storage_8: true,
        int_16: true,
        int_64: true,
        f16_subnormals: true,
        f16_rounding: true,
        integer_dot: true,
        subgroups: true,
        subgroup_size: (32, 32),
        required_subgroup_size: (32, 32),
        unified_memory: true,
        host_import: true,
        bf16: true,
        matrices: MatrixShape::ALL.into_iter().collect(),
        timestamps: true,
    };
    info
}

//! Description of a physical device: the [`DeviceInfo`] for the core, and the facts that opening needs.
//!
//! Only devices that can be opened become adapters, in an order that never depends on the driver's mood: real GPUs
//! first, software last, otherwise as the loader lists them. That order numbers them.

use super::VulkanOptions;
use super::instance::{Instance, no_device};
use super::matrix;
use super::memory_types::MemoryTypes;
use super::pipeline::CacheIdentity;
use super::subgroup::SubgroupControl;
use crate::wgsl::{SpirvTarget, TRANSLATOR};
use crate::{Backend, DeviceInfo, Features, Limits, MatrixShapes, Memory, Result};
use ash::vk;
use std::ffi::CStr;

/// The most bindings a dispatch may have, whatever the device could do.
const MAX_BINDINGS: u32 = 32;

/// Bound ranges start at multiples of at least this, so that kernels may load four words at once.
const MIN_ALIGNMENT: u64 = 16;

/// A physical device that can be opened.
pub(super) struct Adapter {
    pub(super) physical: vk::PhysicalDevice,
    pub(super) info: DeviceInfo,
    /// The capabilities that its kernels may use.
    pub(super) target: SpirvTarget,
    /// The queue family that lists run on.
    pub(super) family: u32,
    pub(super) memory: MemoryTypes,
    pub(super) has_push_descriptors: bool,
    pub(super) subgroups: SubgroupControl,
    /// Whether the device's features come in the form of Vulkan 1.3.
    pub(super) is_1_3: bool,
    /// Imported host memory starts and ends at multiples of this.
    pub(super) import_alignment: u64,
    pub(super) clock: Clock,
    /// Names the driver's pipeline cache format: vendor, device and UUID.
    pub(super) cache_identity: CacheIdentity,
}

/// How to read the device's timestamps.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    pub(super) nanoseconds_per_tick: f64,
    /// Bits of a timestamp that count; they wrap.
    pub(super) mask: u64,
}

/// Properties of a device, from all the structures they are spread over.
struct Properties {
    core: vk::PhysicalDeviceProperties,
    v11: vk::PhysicalDeviceVulkan11Properties<'static>,
    v12: vk::PhysicalDeviceVulkan12Properties<'static>,
    v13: vk::PhysicalDeviceVulkan13Properties<'static>,
    push: vk::PhysicalDevicePushDescriptorPropertiesKHR<'static>,
    host: vk::PhysicalDeviceExternalMemoryHostPropertiesEXT<'static>,
}

/// Features of a device.
struct Supported {
    core: vk::PhysicalDeviceFeatures,
    v11: vk::PhysicalDeviceVulkan11Features<'static>,
    v12: vk::PhysicalDeviceVulkan12Features<'static>,
    v13: vk::PhysicalDeviceVulkan13Features<'static>,
}

impl Adapter {
    /// Returns all devices that can be opened, best first.
    pub(super) fn all(instance: &Instance, options: &VulkanOptions) -> Result<Vec<Adapter>> {
        let mut adapters = Vec::new();
        let mut reasons = Vec::new();
        for physical in instance.physical_devices()? {
            match Adapter::describe(instance, physical, options) {
                Ok(adapter) => adapters.push(adapter),
                Err(reason) => reasons.push(reason),
            }
        }
        if adapters.is_empty() {
            return Err(no_device(&reasons));
        }
        adapters.sort_by_key(|(rank, _)| *rank);
        let numbered = adapters.into_iter().enumerate().map(|(index, (_, mut adapter))| {
            adapter.info.id = format!("vulkan:{index}");
            adapter
        });
        Ok(numbered.collect())
    }

    /// Returns the description of a device and the rank of its kind, or why it can't be used.
    fn describe(
        instance: &Instance,
        physical: vk::PhysicalDevice,
        options: &VulkanOptions,
    ) -> std::result::Result<(u8, Adapter), String> {
        // SAFETY: the physical device is one of the instance's: `Adapter::all` enumerated it.
        let core = unsafe { instance.raw.get_physical_device_properties(physical) };
        let (version, name) = (core.api_version, text(core.device_name_as_c_str()));
        if version < vk::API_VERSION_1_2 {
            let (major, minor) = (vk::api_version_major(version), vk::api_version_minor(version));
            return Err(format!("{name} has Vulkan {major}.{minor}, 1.2 is needed"));
        }
        // SAFETY: the physical device is one of the instance's: `Adapter::all` enumerated it.
        let extensions =
            unsafe { instance.raw.enumerate_device_extension_properties(physical) }.unwrap_or_default();
        let has = |name: &CStr| extensions.iter().any(|there| there.extension_name_as_c_str() == Ok(name));
        let properties = Properties::of(instance, physical, version, &has);
        let supported = Supported::of(instance, physical, version);
        if supported.v12.timeline_semaphore == 0 {
            return Err(format!("{name} has no timeline semaphores"));
        }
        // SAFETY: the physical device is one of the instance's: `Adapter::all` enumerated it.
        let families = unsafe { instance.raw.get_physical_device_queue_family_properties(physical) };
        let Some(family) = compute_family(&families) else {
            return Err(format!("{name} has no compute queue"));
        };
        let timestamp_bits = families.get(family).map_or(0, |family| family.timestamp_valid_bits);
        let memory = MemoryTypes::of(instance, physical, properties.core.device_type);
        let has_push_descriptors = options.push_descriptors && has(ash::khr::push_descriptor::NAME);
        let mut target = supported.target(version, &properties);
        let may_multiply = target.subgroups
            && supported.v12.vulkan_memory_model != 0
            && supported.v13.compute_full_subgroups != 0
            && has(ash::khr::cooperative_matrix::NAME);
        let matrices: MatrixShapes = match may_multiply {
            true => matrix::shapes(instance, physical)
                .iter()
                .filter(|shape| target.f16 || !shape.is_f16())
                .collect(),
            false => MatrixShapes::NONE,
        };
        target.cooperative_matrix = !matrices.is_empty();
        let subgroups = match version >= vk::API_VERSION_1_3 {
            true => SubgroupControl::of_core(&supported.v13, &properties.v13),
            false if has(ash::ext::subgroup_size_control::NAME) => {
                SubgroupControl::of_extension(instance, physical)
            }
            false => SubgroupControl::default(),
        };
        let subgroup_size = if target.subgroups { properties.subgroup_size(version) } else { (1, 1) };
        let can_import = has(ash::ext::external_memory_host::NAME) && imports_host_memory(instance, physical);
        let mut info = DeviceInfo::new(Backend::Vulkan, "", name);
        info.driver = [properties.v12.driver_name_as_c_str(), properties.v12.driver_info_as_c_str()]
            .map(text)
            .join(" ");
        info.fingerprint = properties.fingerprint();
        info.software = properties.core.device_type == vk::PhysicalDeviceType::CPU;
        info.limits = properties.limits(&memory, has_push_descriptors);
        info.features = Features {
            f16: target.f16,
            storage_16: supported.storage_16(),
            storage_8: supported.v12.storage_buffer8_bit_access != 0,
            f16_subnormals: target.f16_subnormals,
            f16_rounding: target.f16_rounding,
            int_16: target.int_16,
            int_64: target.int_64,
            integer_dot: target.integer_dot
                && properties.v13.integer_dot_product4x8_bit_packed_signed_accelerated != 0,
            subgroups: target.subgroups,
            subgroup_size,
            required_subgroup_size: match target.subgroups {
                true => subgroups.required(subgroup_size),
                false => (0, 0),
            },
            unified_memory: memory.is_unified(),
            host_import: can_import,
            bf16: false,
            matrices,
            timestamps: timestamp_bits > 0 && supported.v12.host_query_reset != 0,
        };
        info.memory = memory_sizes(instance, physical, &memory, has(ash::ext::memory_budget::NAME));
        let adapter = Adapter {
            physical,
            info,
            target,
            family: family as u32,
            memory,
            has_push_descriptors,
            subgroups,
            is_1_3: version >= vk::API_VERSION_1_3,
            import_alignment: properties.host.min_imported_host_pointer_alignment.max(1),
            clock: Clock {
                nanoseconds_per_tick: f64::from(properties.core.limits.timestamp_period),
                mask: u64::MAX.checked_shr(64 - timestamp_bits.min(64)).unwrap_or(0),
            },
            cache_identity: CacheIdentity {
                vendor: properties.core.vendor_id,
                device: properties.core.device_id,
                uuid: properties.core.pipeline_cache_uuid,
            },
        };
        Ok((rank(properties.core.device_type), adapter))
    }
}

impl Properties {
    fn of(
        instance: &Instance,
        physical: vk::PhysicalDevice,
        version: u32,
        has: &dyn Fn(&CStr) -> bool,
    ) -> Properties {
        let mut v11 = vk::PhysicalDeviceVulkan11Properties::default();
        let mut v12 = vk::PhysicalDeviceVulkan12Properties::default();
        let mut v13 = vk::PhysicalDeviceVulkan13Properties::default();
        let mut push = vk::PhysicalDevicePushDescriptorPropertiesKHR::default();
        let mut host = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
        let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut v11).push_next(&mut v12);
        if has(ash::khr::push_descriptor::NAME) {
            all = all.push_next(&mut push);
        }
        if has(ash::ext::external_memory_host::NAME) {
            all = all.push_next(&mut host);
        }
        if version >= vk::API_VERSION_1_3 {
            all = all.push_next(&mut v13);
        }
        // SAFETY: the physical device is the instance's; the chain lives on this stack.
        unsafe { instance.raw.get_physical_device_properties2(physical, &mut all) };
        let core = all.properties;
        // The chain ends here: the links point into this stack frame.
        v11.p_next = std::ptr::null_mut();
        v12.p_next = std::ptr::null_mut();
        v13.p_next = std::ptr::null_mut();
        push.p_next = std::ptr::null_mut();
        host.p_next = std::ptr::null_mut();
        Properties { core, v11, v12, v13, push, host }
    }

    fn fingerprint(&self) -> String {
        let uuid: String = self.core.pipeline_cache_uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        format!(
            "vulkan-{:x}-{:x}-{:x}-{uuid}-{}",
            self.core.vendor_id,
            self.core.device_id,
            self.core.driver_version,
            TRANSLATOR.replace(' ', "-")
        )
    }

    fn limits(&self, memory: &MemoryTypes, has_push_descriptors: bool) -> Limits {
        let core = &self.core.limits;
        let mut max_block = self.v11.max_memory_allocation_size.min(memory.largest_heap());
        if self.v13.max_buffer_size > 0 {
            max_block = max_block.min(self.v13.max_buffer_size);
        }
        let mut max_bindings = MAX_BINDINGS
            .min(core.max_per_stage_descriptor_storage_buffers)
            .min(core.max_descriptor_set_storage_buffers)
            .min(core.max_per_stage_resources);
        if has_push_descriptors {
            max_bindings = max_bindings.min(self.push.max_push_descriptors);
        }
        Limits {
            max_block: to_usize(max_block),
            max_binding: to_usize(u64::from(core.max_storage_buffer_range).min(max_block)),
            binding_alignment: to_usize(core.min_storage_buffer_offset_alignment.max(MIN_ALIGNMENT)),
            max_param_bytes: core.max_push_constants_size as usize,
            max_bindings,
            max_grid: core.max_compute_work_group_count,
            max_workgroup: core
                .max_compute_work_group_invocations
                .min(core.max_compute_work_group_size.first().copied().unwrap_or(1)),
            max_workgroup_size: core.max_compute_work_group_size,
            max_workgroup_bytes: core.max_compute_shared_memory_size as usize,
        }
    }

    /// Returns whether a kernel can require that subnormal f16 are kept, and nothing of f32: the modes of widths may be bound
    /// to each other.
    fn keeps_f16_subnormals(&self) -> bool {
        use vk::ShaderFloatControlsIndependence as Independence;
        let of_64 = self.v12.shader_denorm_preserve_float64 != 0;
        self.v12.shader_denorm_preserve_float16 != 0
            && of_64
            && self.v12.denorm_behavior_independence != Independence::NONE
    }

    /// Returns whether a kernel can require rounding to nearest even, of all widths: their modes may be bound to each other.
    fn rounds_f16_to_even(&self) -> bool {
        let v12 = &self.v12;
        let widths = [
            v12.shader_rounding_mode_rte_float16,
            v12.shader_rounding_mode_rte_float32,
            v12.shader_rounding_mode_rte_float64,
        ];
        widths.iter().all(|&rounds| rounds != 0)
    }

    fn subgroup_size(&self, version: u32) -> (u32, u32) {
        match version >= vk::API_VERSION_1_3 {
            true => (self.v13.min_subgroup_size, self.v13.max_subgroup_size),
            false => (self.v11.subgroup_size, self.v11.subgroup_size),
        }
    }
}

impl Supported {
    fn of(instance: &Instance, physical: vk::PhysicalDevice, version: u32) -> Supported {
        let mut v11 = vk::PhysicalDeviceVulkan11Features::default();
        let mut v12 = vk::PhysicalDeviceVulkan12Features::default();
        let mut v13 = vk::PhysicalDeviceVulkan13Features::default();
        let mut all = vk::PhysicalDeviceFeatures2::default().push_next(&mut v11).push_next(&mut v12);
        if version >= vk::API_VERSION_1_3 {
            all = all.push_next(&mut v13);
        }
        // SAFETY: the physical device is the instance's; the chain lives on this stack.
        unsafe { instance.raw.get_physical_device_features2(physical, &mut all) };
        let core = all.features;
        // The chain ends here: the links point into this stack frame.
        v11.p_next = std::ptr::null_mut();
        v12.p_next = std::ptr::null_mut();
        v13.p_next = std::ptr::null_mut();
        Supported { core, v11, v12, v13 }
    }

    fn storage_16(&self) -> bool {
        self.v11.storage_buffer16_bit_access != 0 && self.v11.uniform_and_storage_buffer16_bit_access != 0
    }

    /// Returns the SPIR-V capabilities of the device. The translator needs 16-bit storage for every 16-bit type.
    fn target(&self, version: u32, properties: &Properties) -> SpirvTarget {
        let subgroup = vk::SubgroupFeatureFlags::BASIC
            | vk::SubgroupFeatureFlags::VOTE
            | vk::SubgroupFeatureFlags::ARITHMETIC
            | vk::SubgroupFeatureFlags::BALLOT
            | vk::SubgroupFeatureFlags::SHUFFLE
            | vk::SubgroupFeatureFlags::SHUFFLE_RELATIVE;
        SpirvTarget {
            version: if version >= vk::API_VERSION_1_3 { (1, 6) } else { (1, 5) },
            f16: self.v12.shader_float16 != 0 && self.storage_16(),
            int_8: self.v12.shader_int8 != 0,
            int_16: self.core.shader_int16 != 0 && self.storage_16(),
            int_64: self.core.shader_int64 != 0,
            integer_dot: self.v13.shader_integer_dot_product != 0,
            subgroups: properties.v11.subgroup_supported_operations.contains(subgroup)
                && properties.v11.subgroup_supported_stages.contains(vk::ShaderStageFlags::COMPUTE),
            f16_subnormals: properties.keeps_f16_subnormals(),
            f16_rounding: properties.rounds_f16_to_even(),
            cooperative_matrix: false,
        }
    }
}

/// Returns a compute family without graphics where there is one: work there does not stall the desktop.
fn compute_family(families: &[vk::QueueFamilyProperties]) -> Option<usize> {
    let computes = |flags: vk::QueueFlags| flags.contains(vk::QueueFlags::COMPUTE);
    let alone = |flags: vk::QueueFlags| computes(flags) && !flags.contains(vk::QueueFlags::GRAPHICS);
    let find = |fits: &dyn Fn(vk::QueueFlags) -> bool| families.iter().position(|f| fits(f.queue_flags));
    find(&alone).or_else(|| find(&computes))
}

fn imports_host_memory(instance: &Instance, physical: vk::PhysicalDevice) -> bool {
    let ask = vk::PhysicalDeviceExternalBufferInfo::default()
        .usage(vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::TRANSFER_SRC)
        .handle_type(vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT);
    let mut answer = vk::ExternalBufferProperties::default();
    // SAFETY: the physical device is the instance's; the structures live on this stack.
    unsafe { instance.raw.get_physical_device_external_buffer_properties(physical, &ask, &mut answer) };
    let features = answer.external_memory_properties.external_memory_features;
    features.contains(vk::ExternalMemoryFeatureFlags::IMPORTABLE)
        && !features.contains(vk::ExternalMemoryFeatureFlags::DEDICATED_ONLY)
}

fn memory_sizes(
    instance: &Instance,
    physical: vk::PhysicalDevice,
    memory: &MemoryTypes,
    has_budget: bool,
) -> Memory {
    let total = memory.heaps().map(|(_, bytes)| bytes).sum();
    if !has_budget {
        return Memory { total: to_usize(total), available: to_usize(total) };
    }
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut all = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
    // SAFETY: the physical device is the instance's and has VK_EXT_memory_budget; the chain lives on this stack.
    unsafe { instance.raw.get_physical_device_memory_properties2(physical, &mut all) };
    let free = |heap: usize| match (budget.heap_budget.get(heap), budget.heap_usage.get(heap)) {
        (Some(budget), Some(usage)) => budget.saturating_sub(*usage),
        _ => 0,
    };
    let available = memory.heaps().map(|(heap, bytes)| free(heap).min(bytes)).sum();
    Memory { total: to_usize(total), available: to_usize(available) }
}

fn rank(kind: vk::PhysicalDeviceType) -> u8 {
    match kind {
        vk::PhysicalDeviceType::DISCRETE_GPU => 0,
        vk::PhysicalDeviceType::INTEGRATED_GPU => 1,
        vk::PhysicalDeviceType::VIRTUAL_GPU => 2,
        vk::PhysicalDeviceType::CPU => 4,
        _ => 3,
    }
}

fn text(name: std::result::Result<&CStr, std::ffi::FromBytesUntilNulError>) -> String {
    name.unwrap_or_default().to_string_lossy().into_owned()
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

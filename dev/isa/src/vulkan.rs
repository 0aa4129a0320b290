//! A device that only compiles, and what its driver says of pipelines.

use crate::kernels::Kernel;
use ash::vk;
use silicide_hal::wgsl::to_spirv;
use std::collections::BTreeMap;
use std::ffi::CStr;

/// A pipeline as the driver describes it.
pub(crate) struct Built {
    pub(crate) statistics: BTreeMap<String, f64>,
    pub(crate) subgroup: u32,
    pub(crate) assembly: Option<String>,
}

/// The first device of the loader's driver.
pub(crate) struct Device {
    // Keeps the loader's library.
    _entry: ash::Entry,
    instance: ash::Instance,
    device: ash::Device,
    executables: ash::khr::pipeline_executable_properties::Device,
    /// Whether pipelines can require a size of subgroups.
    has_sizes: bool,
    /// The version of Mesa: `22.3.6`.
    pub(crate) mesa: String,
}

/// Returns a function that names the call in an error.
fn failed<E: std::fmt::Debug>(call: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{call}: {error:?}")
}

impl Device {
    /// Opens the device with every feature except robust access.
    pub(crate) fn open() -> Result<Device, String> {
        // SAFETY: `load` opens the system's Vulkan loader, which has no requirement on its initialisation.
        let entry = unsafe { ash::Entry::load() }.map_err(failed("Vulkan's loader"))?;
        let app = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let create = vk::InstanceCreateInfo::default().application_info(&app);
        // SAFETY: `create` and what it points to live until the call returns.
        let instance = unsafe { entry.create_instance(&create, None) }.map_err(failed("vkCreateInstance"))?;
        // SAFETY: the instance is live.
        let physical = unsafe { instance.enumerate_physical_devices() }.map_err(failed("devices"))?;
        let physical = *physical.first().ok_or("RADV has no device for RADV_FORCE_FAMILY")?;
        let mut v12 = vk::PhysicalDeviceVulkan12Properties::default();
        let mut v13 = vk::PhysicalDeviceVulkan13Properties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut v12).push_next(&mut v13);
        // SAFETY: the physical device is the instance's; the chain lives on this stack.
        unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
        let sized_stages = v13.required_subgroup_size_stages;
        let driver =
            v12.driver_info_as_c_str().map_or(String::new(), |text| text.to_string_lossy().into_owned());
        let mesa = version(&driver).ok_or_else(|| format!("not Mesa: {driver}"))?.to_owned();
        let mut v11 = vk::PhysicalDeviceVulkan11Features::default();
        let mut v12 = vk::PhysicalDeviceVulkan12Features::default();
        let mut v13 = vk::PhysicalDeviceVulkan13Features::default();
        let mut executable = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default();
        let mut features = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut v11)
            .push_next(&mut v12)
            .push_next(&mut v13)
            .push_next(&mut executable);
        // SAFETY: the physical device is the instance's; the chain lives on this stack.
        unsafe { instance.get_physical_device_features2(physical, &mut features) };
        features.features.robust_buffer_access = 0;
        let mut extensions = vec![ash::khr::pipeline_executable_properties::NAME.as_ptr()];
        // SAFETY: the physical device is the instance's.
        let known = unsafe { instance.enumerate_device_extension_properties(physical) };
        let known = known.map_err(failed("extensions"))?;
        let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true);
        // Mesa has it from 23.3 on, for families with matrices.
        if known.iter().any(|one| one.extension_name_as_c_str() == Ok(ash::khr::cooperative_matrix::NAME)) {
            extensions.push(ash::khr::cooperative_matrix::NAME.as_ptr());
            features = features.push_next(&mut matrix);
        }
        let queue = [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&[1.0])];
        let create = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queue)
            .enabled_extension_names(&extensions)
            .push_next(&mut features);
        // SAFETY: only features that the device has just reported are enabled; a missing extension is an error.
        let device = unsafe { instance.create_device(physical, &create, None) }.map_err(failed("device"))?;
        let has_sizes =
            v13.subgroup_size_control != 0 && sized_stages.contains(vk::ShaderStageFlags::COMPUTE);
        let executables = ash::khr::pipeline_executable_properties::Device::new(&instance, &device);
        Ok(Device { _entry: entry, instance, device, executables, has_sizes, mesa })
    }

    /// Compiles a kernel.
    pub(crate) fn compile(&self, kernel: &Kernel) -> Result<Built, String> {
        let words = to_spirv(&kernel.program, &kernel.target).map_err(|error| error.to_string())?;
        let create = vk::ShaderModuleCreateInfo::default().code(&words);
        // SAFETY: naga has validated the module for the capabilities of `target`, which the device reported.
        let module = unsafe { self.device.create_shader_module(&create, None) }.map_err(failed("module"))?;
        let subgroup = kernel.program.subgroup();
        let built = self.with_layout(kernel, |layout| self.pipeline(module, layout, subgroup));
        // SAFETY: the pipeline made of it is destroyed.
        unsafe { self.device.destroy_shader_module(module, None) };
        built.map_err(|error| format!("{}: {error}", kernel.name))
    }

    /// Calls `then` with the layout of a kernel: storages, and parameters as push constants.
    fn with_layout(
        &self,
        kernel: &Kernel,
        then: impl FnOnce(vk::PipelineLayout) -> Result<Built, String>,
    ) -> Result<Built, String> {
        let binding = |number| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(number)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let bindings: Vec<_> = (0..kernel.program.bindings).map(binding).collect();
        let create = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: `create` and what it points to live until the call returns.
        let set =
            unsafe { self.device.create_descriptor_set_layout(&create, None) }.map_err(failed("set"))?;
        let bytes = kernel.program.words * 4;
        let range = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(bytes)];
        let sets = [set];
        let mut create = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
        if bytes > 0 {
            create = create.push_constant_ranges(&range);
        }
        // SAFETY: `create` and what it points to live until the call returns.
        let layout = unsafe { self.device.create_pipeline_layout(&create, None) }.map_err(failed("layout"));
        let built = layout.and_then(|layout| {
            let built = then(layout);
            // SAFETY: `then` has destroyed the pipeline that used it.
            unsafe { self.device.destroy_pipeline_layout(layout, None) };
            built
        });
        // SAFETY: the layout that used it is destroyed.
        unsafe { self.device.destroy_descriptor_set_layout(set, None) };
        built
    }

    /// Compiles a pipeline with subgroups of a size, or of any; describes and destroys it.
    fn pipeline(
        &self,
        module: vk::ShaderModule,
        layout: vk::PipelineLayout,
        subgroup: Option<u32>,
    ) -> Result<Built, String> {
        let full = match subgroup {
            Some(_) => vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS,
            None => vk::PipelineShaderStageCreateFlags::empty(),
        };
        let size = subgroup.unwrap_or(0);
        let mut required =
            vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default().required_subgroup_size(size);
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .flags(full)
            .name(c"main");
        // A device with one size may have no control of it.
        if size > 0 && self.has_sizes {
            stage = stage.push_next(&mut required);
        }
        let flags = vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR
            | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR;
        let create = [vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(layout)];
        // SAFETY: module and layout are live, and the layout has the module's bindings and words.
        let made = unsafe { self.device.create_compute_pipelines(vk::PipelineCache::null(), &create, None) };
        let made = made.map_err(|(_, error)| format!("pipeline: {error:?}"))?;
        let pipeline = made.first().copied().unwrap_or_default();
        let built = self.describe(pipeline);
        // SAFETY: it was made above, and no list has it.
        unsafe { self.device.destroy_pipeline(pipeline, None) };
        built
    }

    fn describe(&self, pipeline: vk::Pipeline) -> Result<Built, String> {
        let which = vk::PipelineInfoKHR::default().pipeline(pipeline);
        // SAFETY: `pipeline` keeps the pipeline live until this returns.
        let list = unsafe { self.executables.get_pipeline_executable_properties(&which) };
        let list = list.map_err(failed("executables"))?;
        let subgroup = list.first().ok_or("no executables")?.subgroup_size;
        let which = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline).executable_index(0);
        // SAFETY: the pipeline is live, has an executable, and was made with statistics captured.
        let all = unsafe { self.executables.get_pipeline_executable_statistics(&which) };
        let statistics = all.map_err(failed("statistics"))?;
        let statistics = statistics.iter().map(|one| {
            use vk::PipelineExecutableStatisticFormatKHR as Format;
            // SAFETY: `format` says which member the driver wrote.
            let value = unsafe {
                match one.format {
                    Format::UINT64 => one.value.u64 as f64,
                    Format::INT64 => one.value.i64 as f64,
                    Format::FLOAT64 => one.value.f64,
                    _ => f64::from(one.value.b32),
                }
            };
            (text(one.name_as_c_str()), value)
        });
        Ok(Built { statistics: statistics.collect(), subgroup, assembly: self.assembly(&which)? })
    }

    /// Returns the assembly. The driver is called twice: for the sizes of texts, then for the texts.
    fn assembly(&self, which: &vk::PipelineExecutableInfoKHR<'_>) -> Result<Option<String>, String> {
        let call = self.executables.fp().get_pipeline_executable_internal_representations_khr;
        let device = self.device.handle();
        let mut count = 0;
        // SAFETY: `which` names a live pipeline with representations captured; null requests the count.
        let result = unsafe { call(device, which, &mut count, std::ptr::null_mut()) };
        result.result().map_err(failed("representations"))?;
        let mut list = vec![vk::PipelineExecutableInternalRepresentationKHR::default(); count as usize];
        // SAFETY: as above; the list has `count` entries without data, so sizes are written.
        let result = unsafe { call(device, which, &mut count, list.as_mut_ptr()) };
        result.result().map_err(failed("representations"))?;
        let mut buffers: Vec<Vec<u8>> = list.iter().map(|one| vec![0; one.data_size]).collect();
        for (one, buffer) in list.iter_mut().zip(&mut buffers) {
            one.p_data = buffer.as_mut_ptr().cast();
        }
        // SAFETY: as above; each buffer has the size that the driver returned, and outlives the call.
        let result = unsafe { call(device, which, &mut count, list.as_mut_ptr()) };
        result.result().map_err(failed("representations"))?;
        let is_assembly = |one: &vk::PipelineExecutableInternalRepresentationKHR<'_>| {
            text(one.name_as_c_str()) == "Assembly"
        };
        let found = list.iter().zip(&buffers).find(|(one, _)| is_assembly(one));
        Ok(found.map(|(_, buffer)| {
            let bytes = buffer.split(|&byte| byte == 0).next().unwrap_or(&[]);
            String::from_utf8_lossy(bytes).into_owned()
        }))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: all methods destroy what they make, so nothing of the device is left.
        unsafe {
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

/// Returns the version of Mesa in a driver's description, without what a distribution adds: `25.0.7` of `Mesa 25.0.7-2`.
fn version(driver: &str) -> Option<&str> {
    let version = driver.strip_prefix("Mesa ")?.split(|c: char| c != '.' && !c.is_ascii_digit()).next()?;
    (!version.is_empty()).then_some(version)
}

/// Returns a driver's name as text; empty if it has no end.
fn text<E>(name: Result<&CStr, E>) -> String {
    name.map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_those_of_mesa() {
        assert_eq!(version("Mesa 22.3.6"), Some("22.3.6"));
        assert_eq!(version("Mesa 25.0.7-2~bpo12+1"), Some("25.0.7"));
        assert_eq!(version("Mesa 25.1.0-devel (git-0123456)"), Some("25.1.0"));
        assert_eq!([version("AMD 24.9"), version("Mesa git")], [None; 2]);
    }
}

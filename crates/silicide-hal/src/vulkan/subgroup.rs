//! Sizes of subgroups that pipelines can require: core in Vulkan 1.3, before that VK_EXT_subgroup_size_control.

use super::instance::Instance;
use crate::{Features, WgslKernel};
use ash::vk;

/// What a device lets a pipeline require of its subgroups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SubgroupControl {
    /// Whether compute pipelines can require a size.
    pub(super) is_controlled: bool,
    /// Whether they can require that every subgroup has all its invocations.
    pub(super) are_full: bool,
    /// Whether both come from the extension, which must be enabled.
    pub(super) is_extension: bool,
    /// Smallest and largest size of subgroups.
    sizes: (u32, u32),
    /// The most subgroups of a workgroup whose pipeline requires a size.
    most: u32,
}

impl SubgroupControl {
    /// Returns what a device of Vulkan 1.3 allows.
    pub(super) fn of_core(
        features: &vk::PhysicalDeviceVulkan13Features<'_>,
        properties: &vk::PhysicalDeviceVulkan13Properties<'_>,
    ) -> SubgroupControl {
        let in_compute = properties.required_subgroup_size_stages.contains(vk::ShaderStageFlags::COMPUTE);
        SubgroupControl {
            is_controlled: features.subgroup_size_control != 0 && in_compute,
            are_full: features.compute_full_subgroups != 0,
            is_extension: false,
            sizes: (properties.min_subgroup_size, properties.max_subgroup_size),
            most: properties.max_compute_workgroup_subgroups,
        }
    }

    /// Returns what a device with VK_EXT_subgroup_size_control allows.
    pub(super) fn of_extension(instance: &Instance, physical: vk::PhysicalDevice) -> SubgroupControl {
        let mut feature = vk::PhysicalDeviceSubgroupSizeControlFeatures::default();
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut feature);
        // SAFETY: the physical device is the instance's; the chain lives on this stack.
        unsafe { instance.raw.get_physical_device_features2(physical, &mut features) };
        let mut property = vk::PhysicalDeviceSubgroupSizeControlProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut property);
        // SAFETY: the physical device is the instance's; the chain lives on this stack.
        unsafe { instance.raw.get_physical_device_properties2(physical, &mut properties) };
        let in_compute = property.required_subgroup_size_stages.contains(vk::ShaderStageFlags::COMPUTE);
        SubgroupControl {
            is_controlled: feature.subgroup_size_control != 0 && in_compute,
            are_full: feature.compute_full_subgroups != 0,
            is_extension: true,
            sizes: (property.min_subgroup_size, property.max_subgroup_size),
            most: property.max_compute_workgroup_subgroups,
        }
    }

    /// Returns the smallest and the largest size that a kernel can require on a device whose subgroups have `sizes`: a device
    /// with one size needs no control.
    pub(super) fn required(&self, sizes: (u32, u32)) -> (u32, u32) {
        match sizes.0 == sizes.1 {
            _ if self.is_controlled => self.sizes,
            true => sizes,
            false => (0, 0),
        }
    }

    /// Returns why a kernel's subgroups can't be had; pipelines that require them anyway are undefined behaviour.
    pub(super) fn check(&self, kernel: &WgslKernel, features: &Features) -> Result<(), String> {
        kernel.check_subgroup(features)?;
        let Some(size) = kernel.subgroup().filter(|_| self.is_controlled) else { return Ok(()) };
        let (count, most) = (kernel.value_of("WG").unwrap_or(0) / size, self.most);
        match count <= most {
            true => Ok(()),
            false => Err(format!("{count} subgroups of {size} in a workgroup, which has at most {most}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Part, Snippet};

    static TEXT: Snippet = Snippet { name: "text", text: "" };

    fn kernel(workgroup: u32, size: u32) -> WgslKernel {
        WgslKernel::new("kernel", &[Part::plain(&TEXT)], 1, 0).constant("WG", workgroup).with_subgroup(size)
    }

    #[test]
    fn kernels_whose_subgroups_the_device_lacks_are_refused() {
        let control =
            SubgroupControl { is_controlled: true, sizes: (32, 64), most: 2, ..SubgroupControl::default() };
        let required_subgroup_size = control.required((64, 64));
        assert_eq!(required_subgroup_size, (32, 64));
        let features = Features { subgroups: true, required_subgroup_size, ..Features::default() };
        assert!(control.check(&kernel(64, 32), &features).is_ok());
        let plain = WgslKernel::new("kernel", &[Part::plain(&TEXT)], 1, 0);
        assert!(control.check(&plain, &features).is_ok());
        for (workgroup, size) in [(64, 16), (64, 128), (48, 32), (16, 32), (128, 32)] {
            assert!(control.check(&kernel(workgroup, size), &features).is_err(), "{workgroup}, {size}");
        }
        assert!(control.check(&plain.with_subgroup(32), &features).is_err(), "a workgroup without a size");
    }

    #[test]
    fn without_control_only_a_device_with_one_size_keeps_it() {
        let control = SubgroupControl::default();
        assert_eq!(control.required((8, 8)), (8, 8));
        assert_eq!(control.required((8, 32)), (0, 0));
    }
}

//! Cooperative matrices: which shapes a device multiplies, and whether that of our kernels is among them.

use super::instance::Instance;
use ash::vk;

/// Returns whether subgroups of compute kernels multiply 8x8 matrices of f32. The device has VK_KHR_cooperative_matrix.
pub(super) fn multiplies_8x8(instance: &Instance, physical: vk::PhysicalDevice) -> bool {
    let mut feature = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut feature);
    // SAFETY: the physical device is the instance's; the chain lives on this stack.
    unsafe { instance.raw.get_physical_device_features2(physical, &mut features) };
    let mut property = vk::PhysicalDeviceCooperativeMatrixPropertiesKHR::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut property);
    // SAFETY: the physical device is the instance's; the chain lives on this stack.
    unsafe { instance.raw.get_physical_device_properties2(physical, &mut properties) };
    let in_compute = property.cooperative_matrix_supported_stages.contains(vk::ShaderStageFlags::COMPUTE);
    if feature.cooperative_matrix == 0 || !in_compute {
        return false;
    }
    let functions = ash::khr::cooperative_matrix::Instance::new(&instance.entry, &instance.raw);
    // SAFETY: the physical device is the instance's and has the extension.
    let shapes = unsafe { functions.get_physical_device_cooperative_matrix_properties(physical) };
    shapes.unwrap_or_default().iter().any(is_8x8)
}

/// Returns whether a shape is that of our kernels.
fn is_8x8(shape: &vk::CooperativeMatrixPropertiesKHR<'_>) -> bool {
    let types = [shape.a_type, shape.b_type, shape.c_type, shape.result_type];
    [shape.m_size, shape.n_size, shape.k_size] == [8; 3]
        && types == [vk::ComponentTypeKHR::FLOAT32; 4]
        && shape.scope == vk::ScopeKHR::SUBGROUP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_f32_of_a_subgroup_counts() {
        let single = vk::ComponentTypeKHR::FLOAT32;
        let shape = vk::CooperativeMatrixPropertiesKHR::default()
            .m_size(8)
            .n_size(8)
            .k_size(8)
            .a_type(single)
            .b_type(single)
            .c_type(single)
            .result_type(single)
            .scope(vk::ScopeKHR::SUBGROUP);
        assert!(is_8x8(&shape));
        assert!(!is_8x8(&shape.k_size(16)));
        assert!(!is_8x8(&shape.a_type(vk::ComponentTypeKHR::FLOAT16)));
        assert!(!is_8x8(&shape.scope(vk::ScopeKHR::WORKGROUP)));
    }
}

//! Cooperative matrices: which of our kernels' shapes a device multiplies.

use super::instance::Instance;
use crate::{MatrixShape, MatrixShapes};
use ash::vk;

/// Returns the shapes that subgroups of compute kernels multiply. The device has VK_KHR_cooperative_matrix.
pub(super) fn shapes(instance: &Instance, physical: vk::PhysicalDevice) -> MatrixShapes {
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
        return MatrixShapes::NONE;
    }
    let functions = ash::khr::cooperative_matrix::Instance::new(&instance.entry, &instance.raw);
    // SAFETY: the physical device is the instance's and has the extension.
    let reported = unsafe { functions.get_physical_device_cooperative_matrix_properties(physical) };
    reported.unwrap_or_default().iter().filter_map(shape_of).collect()
}

/// Returns the shape that the driver describes, if kernels are written for it.
fn shape_of(reported: &vk::CooperativeMatrixPropertiesKHR<'_>) -> Option<MatrixShape> {
    let (single, half) = (vk::ComponentTypeKHR::FLOAT32, vk::ComponentTypeKHR::FLOAT16);
    let extents = [reported.m_size, reported.n_size, reported.k_size];
    let is_shape = |shape: &MatrixShape| {
        let factors = if shape.is_f16() { half } else { single };
        extents == shape.extents() && [reported.a_type, reported.b_type] == [factors; 2]
    };
    let has_f32_sums = [reported.c_type, reported.result_type] == [single; 2];
    let fits =
        has_f32_sums && reported.scope == vk::ScopeKHR::SUBGROUP && reported.saturating_accumulation == 0;
    MatrixShape::ALL.into_iter().filter(|_| fits).find(is_shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_f32_sums_of_a_subgroup_count() {
        let (single, half) = (vk::ComponentTypeKHR::FLOAT32, vk::ComponentTypeKHR::FLOAT16);
        let reported = vk::CooperativeMatrixPropertiesKHR::default()
            .m_size(8)
            .n_size(8)
            .k_size(8)
            .a_type(single)
            .b_type(single)
            .c_type(single)
            .result_type(single)
            .scope(vk::ScopeKHR::SUBGROUP);
        assert_eq!(shape_of(&reported), Some(MatrixShape::F32M8N8K8));
        assert_eq!(shape_of(&reported.k_size(16)), None);
        assert_eq!(shape_of(&reported.a_type(half)), None);
        assert_eq!(shape_of(&reported.scope(vk::ScopeKHR::WORKGROUP)), None);
        let halves = reported.a_type(half).b_type(half);
        assert_eq!(shape_of(&halves), Some(MatrixShape::F16M8N8K8));
        assert_eq!(shape_of(&halves.k_size(16)), Some(MatrixShape::F16M8N8K16));
        assert_eq!(shape_of(&halves.k_size(16).n_size(16)), Some(MatrixShape::F16M8N16K16));
        let square = halves.k_size(16).n_size(16).m_size(16);
        assert_eq!(shape_of(&square), Some(MatrixShape::F16M16N16K16));
        assert_eq!(shape_of(&square.c_type(half).result_type(half)), None);
    }
}

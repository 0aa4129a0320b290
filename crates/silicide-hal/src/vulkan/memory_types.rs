//! Which of a device's memory types is used for what.
//!
//! Shared blocks need memory that the host sees coherently, private ones memory near the device; where both are the
//! same memory, all blocks are both.

use super::instance::Instance;
use crate::MemoryKind;
use ash::vk;
use smallvec::SmallVec;

const VISIBLE: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::HOST_VISIBLE.as_raw() | vk::MemoryPropertyFlags::HOST_COHERENT.as_raw(),
);

/// Kinds of memory that need a feature, or cannot hold buffers.
const SPECIAL: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::PROTECTED.as_raw()
        | vk::MemoryPropertyFlags::LAZILY_ALLOCATED.as_raw()
        | vk::MemoryPropertyFlags::DEVICE_COHERENT_AMD.as_raw()
        | vk::MemoryPropertyFlags::DEVICE_UNCACHED_AMD.as_raw(),
);

/// The memory that a device offers.
pub(super) struct MemoryTypes {
    properties: vk::PhysicalDeviceMemoryProperties,
    unified: bool,
}

impl MemoryTypes {
    pub(super) fn of(
        instance: &Instance,
        physical: vk::PhysicalDevice,
        kind: vk::PhysicalDeviceType,
    ) -> MemoryTypes {
        // SAFETY: the physical device is one of the instance's: `Adapter::all` enumerated it.
        let properties = unsafe { instance.raw.get_physical_device_memory_properties(physical) };
        MemoryTypes::new(properties, kind)
    }

    fn new(properties: vk::PhysicalDeviceMemoryProperties, kind: vk::PhysicalDeviceType) -> MemoryTypes {
        let shares = matches!(kind, vk::PhysicalDeviceType::INTEGRATED_GPU | vk::PhysicalDeviceType::CPU);
        let both = VISIBLE | vk::MemoryPropertyFlags::DEVICE_LOCAL;
        let unified =
            shares && properties.memory_types_as_slice().iter().any(|t| t.property_flags.contains(both));
        MemoryTypes { properties, unified }
    }

    /// True when memory near the device is also near the host.
    pub(super) fn is_unified(&self) -> bool {
        self.unified
    }

    /// Returns the heaps that count as the device's memory, with their sizes: all of them when memory is unified.
    pub(super) fn heaps(&self) -> impl Iterator<Item = (usize, u64)> {
        let heaps = self.properties.memory_heaps_as_slice().iter().enumerate();
        heaps
            .filter(|(_, heap)| self.unified || heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL))
            .map(|(index, heap)| (index, heap.size))
    }

    pub(super) fn largest_heap(&self) -> u64 {
        self.heaps().map(|(_, bytes)| bytes).max().unwrap_or(0)
    }

    /// Memory types of `bits` for a kind of block, best first.
    pub(super) fn candidates(&self, kind: MemoryKind, bits: u32) -> SmallVec<[u32; 8]> {
        let flags_of = |index: u32| {
            let types = self.properties.memory_types_as_slice();
            types.get(index as usize).map_or(vk::MemoryPropertyFlags::empty(), |t| t.property_flags)
        };
        // Unified memory is host-visible for both kinds: a private block that the host can see saves a copy.
        let needed = match kind {
            MemoryKind::Private if !self.unified => vk::MemoryPropertyFlags::DEVICE_LOCAL,
            _ => VISIBLE,
        };
        let mut found: SmallVec<[u32; 8]> = (0..self.properties.memory_type_count)
            .filter(|&index| bits & (1 << index) != 0)
            .filter(|&index| flags_of(index).contains(needed) && !flags_of(index).intersects(SPECIAL))
            .collect();
        found.sort_by_key(|&index| {
            let has = |flag| flags_of(index).contains(flag);
            let local = has(vk::MemoryPropertyFlags::DEVICE_LOCAL);
            let good = match kind {
                _ if self.unified => [local, has(vk::MemoryPropertyFlags::HOST_CACHED)],
                // Read back by the host: near it, and cached.
                MemoryKind::Shared => [!local, has(vk::MemoryPropertyFlags::HOST_CACHED)],
                // The window that the host can see into is small and wanted by others.
                MemoryKind::Private => [true, !has(vk::MemoryPropertyFlags::HOST_VISIBLE)],
            };
            good.map(|good| !good)
        });
        found
    }

    /// Returns the memory type of `bits` for memory that the host writes in place.
    pub(super) fn for_import(&self, bits: u32) -> Option<u32> {
        (0..self.properties.memory_type_count)
            .find(|&index| bits & (1 << index) != 0 && self.is_visible(index))
    }

    /// True when blocks of a memory type can be mapped.
    pub(super) fn is_visible(&self, index: u32) -> bool {
        let types = self.properties.memory_types_as_slice();
        types.get(index as usize).is_some_and(|t| t.property_flags.contains(VISIBLE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vk::MemoryPropertyFlags as F;

    fn types(kind: vk::PhysicalDeviceType, flags: &[F]) -> MemoryTypes {
        let mut properties = vk::PhysicalDeviceMemoryProperties {
            memory_type_count: flags.len() as u32,
            ..Default::default()
        };
        for (to, from) in properties.memory_types.iter_mut().zip(flags) {
            to.property_flags = *from;
        }
        MemoryTypes::new(properties, kind)
    }

    #[test]
    fn a_discrete_card_keeps_private_blocks_near_and_shared_ones_cached() {
        let flags = [F::DEVICE_LOCAL | VISIBLE, VISIBLE, F::DEVICE_LOCAL, VISIBLE | F::HOST_CACHED];
        let types = types(vk::PhysicalDeviceType::DISCRETE_GPU, &flags);
        assert!(!types.is_unified());
        assert_eq!(types.candidates(MemoryKind::Private, !0).as_slice(), [2, 0]);
        assert_eq!(types.candidates(MemoryKind::Shared, !0).as_slice(), [3, 1, 0]);
        assert_eq!(types.candidates(MemoryKind::Shared, 0b011).as_slice(), [1, 0]);
    }

    #[test]
    fn unified_memory_is_near_and_visible_for_all() {
        let special = F::DEVICE_LOCAL | VISIBLE | F::DEVICE_COHERENT_AMD;
        let flags = [VISIBLE, F::DEVICE_LOCAL | VISIBLE, F::DEVICE_LOCAL, special];
        let types = types(vk::PhysicalDeviceType::INTEGRATED_GPU, &flags);
        assert!(types.is_unified());
        assert_eq!((types.for_import(0b0110), types.for_import(0b0100)), (Some(1), None));
        for kind in [MemoryKind::Private, MemoryKind::Shared] {
            assert_eq!(types.candidates(kind, !0).as_slice(), [1, 0]);
        }
    }
}

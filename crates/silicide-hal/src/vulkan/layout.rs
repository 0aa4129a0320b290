//! Layouts that pipelines share: all kernels with the same number of bindings and parameter words have one.
//!
//! Bindings are written through an update template, the cheapest form there is: one call takes all of a dispatch's
//! bindings as they lie in an array.

use super::gpu::Gpu;
use crate::Result;
use ash::vk;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How a kernel's arguments are passed.
#[derive(Clone, Copy, Default)]
pub(super) struct Layout {
    pub(super) pipeline: vk::PipelineLayout,
    pub(super) set: vk::DescriptorSetLayout,
    /// Writes an array of `VkDescriptorBufferInfo`; null for kernels without bindings.
    pub(super) template: vk::DescriptorUpdateTemplate,
}

/// The layouts in use, by bindings and parameter words. As many as there are kinds of kernels: a handful.
pub(super) struct Layouts {
    gpu: Arc<Gpu>,
    made: Mutex<FxHashMap<(u32, u32), Layout>>,
}

impl Layouts {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Layouts {
        Layouts { gpu: gpu.clone(), made: Mutex::default() }
    }

    /// Returns the layout for kernels of this shape.
    pub(super) fn get(&self, bindings: u32, words: u32) -> Result<Layout> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(layout) = made.get(&(bindings, words)) {
            return Ok(*layout);
        }
        let mut layout = Layout::default();
        match create(&self.gpu, bindings, words, &mut layout) {
            Ok(()) => {
                made.insert((bindings, words), layout);
                Ok(layout)
            }
            Err(error) => {
                destroy(&self.gpu, &layout);
                Err(error)
            }
        }
    }
}

impl Drop for Layouts {
    fn drop(&mut self) {
        let made = self.made.get_mut().unwrap_or_else(PoisonError::into_inner);
        made.values().for_each(|layout| destroy(&self.gpu, layout));
    }
}

/// Fills in `layout` as far as it gets.
fn create(gpu: &Gpu, bindings: u32, words: u32, layout: &mut Layout) -> Result<()> {
    let slots: Vec<_> = (0..bindings)
        .map(|binding| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        })
        .collect();
    let (flags, kind) = match gpu.push {
        Some(_) => (
            vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR,
            vk::DescriptorUpdateTemplateType::PUSH_DESCRIPTORS_KHR,
        ),
        None => {
            (vk::DescriptorSetLayoutCreateFlags::empty(), vk::DescriptorUpdateTemplateType::DESCRIPTOR_SET)
        }
    };
    let set = vk::DescriptorSetLayoutCreateInfo::default().bindings(&slots).flags(flags);
    // SAFETY: `gpu` keeps the device alive; the arrays live on this stack.
    layout.set = unsafe { gpu.device.create_descriptor_set_layout(&set, None) }
        .map_err(|result| gpu.error("vkCreateDescriptorSetLayout", result))?;
    let sets = [layout.set];
    let ranges =
        [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(words * 4)];
    let mut pipeline = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
    if words > 0 {
        pipeline = pipeline.push_constant_ranges(&ranges);
    }
    // SAFETY: the device is alive, the set layout was just made, and the arrays live on this stack.
    layout.pipeline = unsafe { gpu.device.create_pipeline_layout(&pipeline, None) }
        .map_err(|result| gpu.error("vkCreatePipelineLayout", result))?;
    if bindings == 0 {
        return Ok(());
    }
    let stride = size_of::<vk::DescriptorBufferInfo>();
    let entries: Vec<_> = (0..bindings)
        .map(|binding| {
            vk::DescriptorUpdateTemplateEntry::default()
                .dst_binding(binding)
                .descriptor_count(1)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .offset(binding as usize * stride)
                .stride(stride)
        })
        .collect();
    let template = vk::DescriptorUpdateTemplateCreateInfo::default()
        .descriptor_update_entries(&entries)
        .template_type(kind)
        .descriptor_set_layout(layout.set)
        .pipeline_bind_point(vk::PipelineBindPoint::COMPUTE)
        .pipeline_layout(layout.pipeline)
        .set(0);
    // SAFETY: the device is alive, both layouts were just made, and the entries live on this stack.
    layout.template = unsafe { gpu.device.create_descriptor_update_template(&template, None) }
        .map_err(|result| gpu.error("vkCreateDescriptorUpdateTemplate", result))?;
    Ok(())
}

/// Destroys the objects of a layout that no pipeline and no command buffer uses.
fn destroy(gpu: &Gpu, layout: &Layout) {
    // SAFETY: made by `create`, or null, which is ignored; called once, with the device idle or before any use.
    unsafe {
        gpu.device.destroy_descriptor_update_template(layout.template, None);
        gpu.device.destroy_pipeline_layout(layout.pipeline, None);
        gpu.device.destroy_descriptor_set_layout(layout.set, None);
    }
}

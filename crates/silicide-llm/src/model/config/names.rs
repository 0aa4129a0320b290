//! Names of tensors. The model code has GGUF's names; checkpoints have others.

use super::Layout;
use silicide_weights::Source;

/// Modules of the body outside the layers: in GGUF, in checkpoints.
const MODULES: [(&str, &str); 2] = [("token_embd", "embed_tokens"), ("output_norm", "norm")];

/// GGUF's name of the head.
const HEAD: &str = "output";

/// The prefixes of the body of the language model and of its head in checkpoints. The first is usual; models with a
/// vision tower have the others.
const PLACES: [(&str, &str); 3] = [
    ("model", "lm_head"),
    ("language_model.model", "language_model.lm_head"),
    ("model.language_model", "lm_head"),
];

/// Prefixes of a vision tower's tensors.
const PICTURES: [&str; 4] =
    ["vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."];

/// Modules of a layer.
const LAYER_MODULES: [(&str, &str); 15] = [
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
    ("attn_norm", "input_layernorm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate_inp", "mlp.gate"),
    ("ffn_gate_exps", "mlp.switch_mlp.gate_proj"),
    ("ffn_up_exps", "mlp.switch_mlp.up_proj"),
    ("ffn_down_exps", "mlp.switch_mlp.down_proj"),
];

/// Modules of a layer of Mixtral, which has other names for experts.
const BLOCK_SPARSE: [(&str, &str); 4] = [
    ("ffn_gate_inp", "block_sparse_moe.gate"),
    ("ffn_gate_exps", "block_sparse_moe.switch_mlp.gate_proj"),
    ("ffn_up_exps", "block_sparse_moe.switch_mlp.up_proj"),
    ("ffn_down_exps", "block_sparse_moe.switch_mlp.down_proj"),
];

/// The matrices of experts one by one: all in one tensor in GGUF, in older files of it, in checkpoints, in Mixtral's.
const SINGLE: [(&str, &str, &str, &str); 3] = [
    ("ffn_gate_exps", "ffn_gate", "gate_proj", "w1"),
    ("ffn_up_exps", "ffn_up", "up_proj", "w3"),
    ("ffn_down_exps", "ffn_down", "down_proj", "w2"),
];

/// How checkpoints of an architecture differ from those of Llama.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conventions {
    /// Modules of a layer with other names: in GGUF, in checkpoints.
    pub modules: &'static [(&'static str, &'static str)],
    /// The number that is added to the weights of norms: 1 if checkpoints store them less one.
    pub norm_offset: f32,
}

/// The translation between GGUF's names of tensors and those of a file.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    layout: Layout,
    /// Modules of a layer that the architecture names differently.
    modules: &'static [(&'static str, &'static str)],
    block_sparse: bool,
    body: &'static str,
    head: &'static str,
}

impl Names {
    /// Returns the names in files of language models alone, with the `conventions` of their architecture.
    pub fn of(layout: Layout, conventions: &Conventions) -> Names {
        let [(body, head), ..] = PLACES;
        Names { layout, modules: conventions.modules, block_sparse: false, body, head }
    }

    /// Returns the names in a source, of which the language model may be a part.
    pub fn in_source(source: &Source, layout: Layout, conventions: &Conventions) -> Names {
        let names = Names::of(layout, conventions);
        let placed = PLACES.map(|(body, head)| Names { body, head, ..names });
        let has_table = |names: &Names| {
            names.in_file("token_embd.weight").is_some_and(|name| source.entry(&name).is_ok())
        };
        let names = placed.into_iter().find(has_table).unwrap_or(names);
        let router = format!("{}.layers.0.block_sparse_moe.gate.weight", names.body);
        Names { block_sparse: layout == Layout::Checkpoint && source.entry(&router).is_ok(), ..names }
    }

    /// Returns the name in the file of one expert's part of the tensor that GGUF calls `name`, in files that have experts one by one.
    pub fn of_expert(&self, name: &str, expert: usize) -> Option<String> {
        let (layer, module) = name.strip_prefix("blk.")?.split_once('.')?;
        let (module, kind) = module.split_once('.')?;
        let (_, gguf, usual, mixtral) = SINGLE.iter().find(|(all, ..)| *all == module)?;
        let body = self.body;
        Some(match (self.layout, self.block_sparse) {
            (Layout::Gguf, _) => format!("blk.{layer}.{gguf}.{expert}.{kind}"),
            (_, true) => format!("{body}.layers.{layer}.block_sparse_moe.experts.{expert}.{mixtral}.{kind}"),
            (_, false) => format!("{body}.layers.{layer}.mlp.experts.{expert}.{usual}.{kind}"),
        })
    }

    /// Returns the name in the file of the tensor that GGUF calls `name`; `None` if this kind of file has no such tensor.
    pub fn in_file(&self, name: &str) -> Option<String> {
        if self.layout == Layout::Gguf {
            return Some(name.to_owned());
        }
        let (module, kind) = name.rsplit_once('.')?;
        if module == HEAD {
            return Some(format!("{}.{kind}", self.head));
        }
        let body = self.body;
        if let Some((_, to)) = MODULES.iter().find(|(from, _)| *from == module) {
            return Some(format!("{body}.{to}.{kind}"));
        }
        let (layer, module) = module.strip_prefix("blk.")?.split_once('.')?;
        let (_, to) = self.layer_modules().find(|(from, _)| *from == module)?;
        Some(format!("{body}.layers.{layer}.{to}.{kind}"))
    }

    /// Returns GGUF's name of a checkpoint's tensor; `None` if it has none.
    pub fn in_gguf(&self, name: &str) -> Option<String> {
        if self.layout == Layout::Gguf {
            return Some(name.to_owned());
        }
        let (module, kind) = name.rsplit_once('.')?;
        if !matches!(kind, "weight" | "bias") {
            return None;
        }
        if module == self.head {
            return Some(format!("{HEAD}.{kind}"));
        }
        let module = module.strip_prefix(self.body)?.strip_prefix('.')?;
        if let Some((to, _)) = MODULES.iter().find(|(_, from)| *from == module) {
            return Some(format!("{to}.{kind}"));
        }
        let (layer, module) = module.strip_prefix("layers.")?.split_once('.')?;
        let layer: u32 = layer.parse().ok()?;
        let (to, _) = self.layer_modules().find(|(_, from)| *from == module)?;
        Some(format!("blk.{layer}.{to}.{kind}"))
    }

    fn layer_modules(&self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        let experts: &[_] = if self.block_sparse { &BLOCK_SPARSE } else { &[] };
        // The first match is used.
        self.modules.iter().chain(experts).chain(&LAYER_MODULES)
    }

    /// Returns whether a tensor may stay unused: a table that can be computed, a tied head, a vision tower.
    pub fn may_be_left(&self, name: &str) -> bool {
        // The embedding has no bias, so a head with one is not tied to it.
        let head = || name.strip_prefix(self.head) == Some(".weight");
        name.ends_with("rotary_emb.inv_freq")
            || (self.layout == Layout::Checkpoint
                && (head() || PICTURES.iter().any(|part| name.starts_with(part))))
    }
}

#[cfg(test)]
mod tests;

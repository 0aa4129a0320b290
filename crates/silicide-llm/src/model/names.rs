//! The names of tensors. Inside, everything goes by GGUF's names; checkpoints have others.

use super::config::Layout;

/// Modules outside the layers: in GGUF, in checkpoints.
const MODULES: [(&str, &str); 3] =
    [("token_embd", "model.embed_tokens"), ("output_norm", "model.norm"), ("output", "lm_head")];

/// Modules of a layer.
const LAYER_MODULES: [(&str, &str); 11] = [
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
];

/// Modules of a layer that has norms before and after each of its two parts.
const FOUR_NORMS: [(&str, &str); 4] = [
    ("attn_norm", "input_layernorm"),
    ("post_attention_norm", "post_attention_layernorm"),
    ("ffn_norm", "pre_feedforward_layernorm"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
];

/// The name in a checkpoint of the tensor that GGUF calls `name`, or in GGUF of one that a checkpoint has.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    layout: Layout,
    four_norms: bool,
}

impl Names {
    /// The names in files of an architecture.
    pub fn of(layout: Layout, architecture: &str) -> Names {
        Names { layout, four_norms: architecture == "gemma3" }
    }

    /// The name in the file of what GGUF calls `name`; `None` if this kind of file has no such tensor.
    pub fn in_file(&self, name: &str) -> Option<String> {
        if self.layout == Layout::Gguf {
            return Some(name.to_owned());
        }
        let (module, kind) = name.rsplit_once('.')?;
        if let Some((_, to)) = MODULES.iter().find(|(from, _)| *from == module) {
            return Some(format!("{to}.{kind}"));
        }
        let (layer, module) = module.strip_prefix("blk.")?.split_once('.')?;
        let (_, to) = self.layer_modules().find(|(from, _)| *from == module)?;
        Some(format!("model.layers.{layer}.{to}.{kind}"))
    }

    /// GGUF's name of a checkpoint's tensor; `None` if it has none.
    pub fn in_gguf(&self, name: &str) -> Option<String> {
        if self.layout == Layout::Gguf {
            return Some(name.to_owned());
        }
        let (module, kind) = name.rsplit_once('.')?;
        if !matches!(kind, "weight" | "bias") {
            return None;
        }
        if let Some((to, _)) = MODULES.iter().find(|(_, from)| *from == module) {
            return Some(format!("{to}.{kind}"));
        }
        let (layer, module) = module.strip_prefix("model.layers.")?.split_once('.')?;
        let layer: u32 = layer.parse().ok()?;
        let (to, _) = self.layer_modules().find(|(_, from)| *from == module)?;
        Some(format!("blk.{layer}.{to}.{kind}"))
    }

    fn layer_modules(&self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        let norms: &[_] = if self.four_norms { &FOUR_NORMS } else { &[] };
        // The first that matches counts.
        norms.iter().chain(&LAYER_MODULES)
    }

    /// Whether a tensor may stay unused: tables that can be computed, a head that is the embedding again, and the parts
    /// of a model that see pictures.
    pub fn may_be_left(&self, name: &str) -> bool {
        name.ends_with("rotary_emb.inv_freq")
            || (self.layout == Layout::Checkpoint
                && (name.starts_with("lm_head.")
                    || name.starts_with("vision_tower.")
                    || name.starts_with("multi_modal_projector.")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        let names = Names::of(Layout::Checkpoint, "llama");
        for (gguf, checkpoint) in [
            ("token_embd.weight", "model.embed_tokens.weight"),
            ("blk.12.attn_q.bias", "model.layers.12.self_attn.q_proj.bias"),
            ("blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
        ] {
            assert_eq!(names.in_file(gguf).as_deref(), Some(checkpoint));
            assert_eq!(names.in_gguf(checkpoint).as_deref(), Some(gguf));
        }
        let four = Names::of(Layout::Checkpoint, "gemma3");
        let (gguf, checkpoint) =
            ("blk.3.post_attention_norm.weight", "model.layers.3.post_attention_layernorm.weight");
        assert_eq!(four.in_file(gguf).as_deref(), Some(checkpoint));
        assert_eq!(four.in_gguf(checkpoint).as_deref(), Some(gguf));
        assert_eq!(
            four.in_file("blk.3.ffn_norm.weight").unwrap(),
            "model.layers.3.pre_feedforward_layernorm.weight"
        );
    }

    #[test]
    fn other_names_have_no_place() {
        let names = Names::of(Layout::Checkpoint, "llama");
        for other in [
            "model.layers.x.mlp.up_proj.weight",
            "model.layers.0.mlp.up_proj.scales",
            "vision.weight",
            "weight",
        ] {
            assert_eq!(names.in_gguf(other), None);
        }
        assert_eq!(Names::of(Layout::Gguf, "llama").in_gguf("anything").as_deref(), Some("anything"));
    }
}

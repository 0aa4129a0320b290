use super::*;

const USUAL: Conventions = Conventions { modules: &[], norm_offset: 0.0 };
/// Gemma's norms before and after each part.
const FOUR_NORMS: Conventions = Conventions {
    modules: &[
        ("post_attention_norm", "post_attention_layernorm"),
        ("ffn_norm", "pre_feedforward_layernorm"),
    ],
    norm_offset: 1.0,
};

#[test]
fn names_go_both_ways() {
    let names = Names::of(Layout::Checkpoint, &USUAL);
    for (gguf, checkpoint) in [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("blk.12.attn_q.bias", "model.layers.12.self_attn.q_proj.bias"),
        ("blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
    ] {
        assert_eq!(names.in_file(gguf).as_deref(), Some(checkpoint));
        assert_eq!(names.in_gguf(checkpoint).as_deref(), Some(gguf));
    }
    let four = Names::of(Layout::Checkpoint, &FOUR_NORMS);
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
fn experts_have_names_together_and_one_by_one() {
    let gguf = Names::of(Layout::Gguf, &USUAL);
    let usual = Names::of(Layout::Checkpoint, &USUAL);
    let mixtral = Names { block_sparse: true, ..Names::of(Layout::Checkpoint, &USUAL) };
    let name = "blk.3.ffn_down_exps.weight";
    let of = |names: &Names| names.of_expert(name, 7).unwrap();
    assert_eq!(of(&gguf), "blk.3.ffn_down.7.weight");
    assert_eq!(of(&usual), "model.layers.3.mlp.experts.7.down_proj.weight");
    assert_eq!(of(&mixtral), "model.layers.3.block_sparse_moe.experts.7.w2.weight");
    assert_eq!(usual.in_file(name).unwrap(), "model.layers.3.mlp.switch_mlp.down_proj.weight");
    assert_eq!(usual.in_file("blk.3.ffn_gate_inp.weight").unwrap(), "model.layers.3.mlp.gate.weight");
    let router = "model.layers.3.block_sparse_moe.gate.weight";
    assert_eq!(mixtral.in_file("blk.3.ffn_gate_inp.weight").unwrap(), router);
    assert_eq!(mixtral.in_gguf(router).unwrap(), "blk.3.ffn_gate_inp.weight");
    // GGUF has no tensor for the matrix of one expert.
    assert_eq!(usual.in_gguf(&of(&usual)), None);
    assert_eq!(usual.of_expert("blk.3.attn_q.weight", 0), None);
}

#[test]
fn the_language_model_may_be_a_part() {
    let plain = Names::of(Layout::Checkpoint, &FOUR_NORMS);
    for (body, head) in PLACES {
        let names = Names { body, head, ..plain };
        for (gguf, checkpoint) in [
            ("token_embd.weight", format!("{body}.embed_tokens.weight")),
            ("output.weight", format!("{head}.weight")),
            ("blk.2.attn_q.weight", format!("{body}.layers.2.self_attn.q_proj.weight")),
        ] {
            assert_eq!(names.in_file(gguf).as_ref(), Some(&checkpoint));
            assert_eq!(names.in_gguf(&checkpoint).as_deref(), Some(gguf));
        }
    }
}

#[test]
fn only_what_is_not_needed_may_be_left() {
    let names = Names::of(Layout::Checkpoint, &FOUR_NORMS);
    for name in ["lm_head.weight", "model.vision_tower.x.weight", "multi_modal_projector.y"] {
        assert!(names.may_be_left(name), "{name}");
    }
    for name in ["lm_head.bias", "model.norm.weight", "model.layers.0.mlp.up_proj.bias"] {
        assert!(!names.may_be_left(name), "{name}");
    }
    assert!(!Names::of(Layout::Gguf, &USUAL).may_be_left("lm_head.weight"));
}

#[test]
fn other_names_have_no_place() {
    let names = Names::of(Layout::Checkpoint, &USUAL);
    for other in
        ["model.layers.x.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.scales", "vision.weight", "weight"]
    {
        assert_eq!(names.in_gguf(other), None);
    }
    assert_eq!(Names::of(Layout::Gguf, &USUAL).in_gguf("anything").as_deref(), Some("anything"));
}

use super::super::recipe::Recipe;
use super::*;

/// A model of 16 layers with grouped queries, tied unless it has an output.
fn facts(group: usize, experts: usize, output: bool) -> Facts {
    let mut names: Vec<String> = vec!["token_embd.weight".to_owned()];
    names.extend(output.then(|| "output.weight".to_owned()));
    for layer in 0..16 {
        for part in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_gate", "ffn_down"] {
            names.push(format!("blk.{layer}.{part}.weight"));
        }
    }
    let facts = Facts { architecture: "llama".to_owned(), layers: 16, group, experts, ..Facts::default() };
    facts.with_tensors(names.iter().map(String::as_str))
}

fn format(facts: &Facts, recipe: &str, name: &str) -> Format {
    let Some(Recipe::Mixture(mixture)) = Recipe::from_name(recipe) else { panic!("{recipe}") };
    facts.format(mixture, name, 4096, 1)
}

#[test]
fn q4_k_m_is_finer_where_it_matters() {
    let model = facts(3, 0, false);
    let finer: Vec<usize> = (0..16)
        .filter(|layer| format(&model, "q4_k_m", &format!("blk.{layer}.ffn_down.weight")) == Format::Q6K)
        .collect();
    assert_eq!(finer, [0, 1, 4, 7, 10, 13, 14, 15]);
    assert_eq!(format(&model, "q4_k_m", "blk.4.attn_v.weight"), Format::Q6K);
    assert_eq!(format(&model, "q4_k_m", "blk.4.attn_q.weight"), Format::Q4K);
    assert_eq!(format(&model, "q4_k_m", "token_embd.weight"), Format::Q6K);
    let untied = facts(3, 0, true);
    assert_eq!(format(&untied, "q4_k_m", "token_embd.weight"), Format::Q4K);
    assert_eq!(format(&untied, "q4_k_m", "output.weight"), Format::Q6K);
}

#[test]
fn each_mixture_follows_its_own_rules() {
    let (plain, grouped, mixtral) = (facts(1, 0, true), facts(8, 0, true), facts(4, 8, true));
    for (model, recipe, name, expected) in [
        (&plain, "q4_0", "output.weight", Format::Q6K),
        (&plain, "q8_0", "output.weight", Format::Q8_0),
        (&plain, "q2_k", "blk.9.attn_v.weight", Format::Q3K),
        (&grouped, "q2_k", "blk.9.attn_v.weight", Format::Q4K),
        (&plain, "q2_k", "blk.9.ffn_down.weight", Format::Q3K),
        (&plain, "q2_k", "blk.9.attn_output.weight", Format::Q3K),
        (&plain, "q2_k", "blk.9.ffn_up.weight", Format::Q2K),
        (&plain, "q3_k_s", "blk.9.attn_v.weight", Format::Q3K),
        (&plain, "q3_k_m", "blk.1.attn_v.weight", Format::Q5K),
        (&plain, "q3_k_m", "blk.2.attn_v.weight", Format::Q4K),
        (&plain, "q3_k_m", "blk.0.ffn_down.weight", Format::Q5K),
        (&plain, "q3_k_m", "blk.5.ffn_down.weight", Format::Q4K),
        (&plain, "q3_k_l", "blk.9.attn_output.weight", Format::Q5K),
        (&plain, "q4_k_s", "blk.3.attn_v.weight", Format::Q5K),
        (&plain, "q4_k_s", "blk.4.attn_v.weight", Format::Q4K),
        (&plain, "q4_k_s", "blk.1.ffn_down.weight", Format::Q5K),
        (&plain, "q5_k_s", "blk.0.ffn_down.weight", Format::Q5K),
        (&grouped, "iq4_xs", "blk.9.attn_v.weight", Format::Q5K),
        (&plain, "iq4_xs", "blk.9.attn_v.weight", Format::Iq4Xs),
        (&plain, "iq4_nl", "blk.1.ffn_down.weight", Format::Q5K),
        (&plain, "iq3_xs", "blk.8.ffn_up.weight", Format::Iq3Xxs),
        (&plain, "iq3_xs", "blk.0.ffn_up.weight", Format::Iq3S),
        (&plain, "iq3_xxs", "blk.8.attn_k.weight", Format::Iq2S),
        (&plain, "iq2_xs", "output.weight", Format::Q5K),
        (&plain, "iq2_xs", "token_embd.weight", Format::Q2K),
        (&plain, "iq2_m", "blk.8.attn_output.weight", Format::Iq3S),
        (&plain, "iq1_s", "blk.8.attn_output.weight", Format::Iq2Xxs),
        (&mixtral, "q4_k_m", "blk.8.attn_k.weight", Format::Q8_0),
        (&mixtral, "q4_k_m", "blk.8.attn_output.weight", Format::Q5K),
        (&plain, "mxfp4_moe", "blk.8.ffn_up.weight", Format::Q8_0),
    ] {
        assert_eq!(format(model, recipe, name), expected, "{recipe} {name}");
    }
    // Rows that the blocks of the mixture do not divide.
    let Some(Recipe::Mixture(mixture)) = Recipe::from_name("q4_k_m") else { panic!("a mixture") };
    assert_eq!(plain.format(mixture, "output.weight", 576, 1), Format::Q8_0);
    let Some(Recipe::Mixture(mixture)) = Recipe::from_name("mxfp4_moe") else { panic!("a mixture") };
    assert_eq!(plain.format(mixture, "blk.3.ffn_up_exps.weight", 4096, 8), Format::Mxfp4);
}

//! Which tensor gets which type in a mixture: the rules of llama.cpp's quantizer without an importance matrix.
//!
//! A rule depends on the role of a tensor, its place among the tensors of that role, and facts of the model. Roles:
//!
//! | role | tensors | why |
//! |---|---|---|
//! | output | `output.weight`, or a tied `token_embd.weight` | its errors reach the logits directly |
//! | values | `attn_v`, `attn_qkv`, `attn_kv_b` | small with grouped queries, and sensitive |
//! | down | `ffn_down*` | outliers, above all in the first layers |

use super::recipe::{Kind, Mixture};
use silicide_quant::{DType, Format};
use std::collections::HashMap;

/// Facts of a model that rules depend on.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) architecture: String,
    pub(super) layers: usize,
    /// Query heads that share a key head.
    pub(super) group: usize,
    pub(super) experts: usize,
    /// The embedding is the output projection too.
    pub(super) tied: bool,
    /// Where a tensor stands among those of its role, in the order of layers.
    pub(super) ranks: HashMap<String, usize>,
    /// How many tensors have the role of values.
    pub(super) values: usize,
}

/// The role of a tensor in the model, as far as the rules distinguish roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Role {
    Embedding,
    Output,
    Query,
    Key,
    Value,
    /// Queries, keys and values in one.
    Joined,
    /// Keys and values of latent attention.
    Latent,
    AttentionOutput,
    Up,
    Gate,
    Down,
    Other,
}

impl Role {
    fn of(name: &str) -> Role {
        const PARTS: [(&str, Role); 9] = [
            ("attn_qkv.weight", Role::Joined),
            ("attn_kv_b.weight", Role::Latent),
            ("attn_v.weight", Role::Value),
            ("attn_k.weight", Role::Key),
            ("attn_q.weight", Role::Query),
            ("attn_output.weight", Role::AttentionOutput),
            ("ffn_up", Role::Up),
            ("ffn_gate", Role::Gate),
            ("ffn_down", Role::Down),
        ];
        match name {
            "output.weight" => Role::Output,
            "token_embd.weight" | "per_layer_token_embd.weight" => Role::Embedding,
            _ => PARTS.iter().find(|(part, _)| name.contains(part)).map_or(Role::Other, |(_, role)| *role),
        }
    }

    fn is_values(self) -> bool {
        matches!(self, Role::Value | Role::Joined | Role::Latent)
    }
}

/// The layer that a tensor belongs to.
fn layer(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

impl Facts {
    /// Looks at the names of all tensors.
    pub(super) fn with_tensors<'a>(mut self, names: impl Iterator<Item = &'a str>) -> Facts {
        let mut sorted: Vec<&str> = names.collect();
        sorted.sort_by_key(|name| (layer(name), *name));
        self.tied = !sorted.contains(&"output.weight");
        let mut counts = HashMap::new();
        for name in sorted {
            let role = Role::of(name);
            // All tensors of values are counted together.
            let role = if role.is_values() { Role::Value } else { role };
            let count = counts.entry(role).or_insert(0);
            self.ranks.insert(name.to_owned(), *count);
            *count += 1;
        }
        self.values = counts.get(&Role::Value).copied().unwrap_or(0);
        self
    }

    /// The place of a feed-forward tensor: its layer in a mixture of experts, which may have several in a layer.
    fn depth(&self, name: &str) -> usize {
        let rank = self.ranks.get(name).copied().unwrap_or(0);
        if self.experts > 1 { layer(name).unwrap_or(rank) } else { rank }
    }

    /// The type of a tensor in a mixture, before its rows are known to fit. `row` is its length, `matrices` how many
    /// matrices it has.
    pub(super) fn dtype(&self, mixture: Mixture, name: &str, row: usize, matrices: usize) -> DType {
        DType::Block(self.format(mixture, name, row, matrices))
    }

    fn format(&self, Mixture { kind, base, .. }: Mixture, name: &str, row: usize, matrices: usize) -> Format {
        let role = Role::of(name);
        if role == Role::Output || self.tied && role == Role::Embedding {
            return self.output(kind, base, row);
        }
        match (kind, role) {
            (Kind::Mxfp4Moe, _) => {
                if matrices > 1 {
                    Format::Mxfp4
                } else {
                    Format::Q8_0
                }
            }
            (Kind::Iq1 | Kind::Iq2X, Role::Embedding) => Format::Q2K,
            (Kind::Iq2S | Kind::Iq3Xxs, Role::Embedding) => Format::Iq3S,
            (Kind::Ternary, Role::Embedding) => Format::Q4K,
            (_, Role::Embedding) => base,
            (Kind::Iq1 | Kind::Iq2X | Kind::Iq2S, _) => self.small(kind, role, name).unwrap_or(base),
            (_, Role::Value | Role::Joined | Role::Latent) => self.value(kind, base, name),
            (_, Role::Key) if self.experts == 8 => Format::Q8_0,
            (Kind::Iq3Xs, Role::Key | Role::Query) => Format::Iq3Xxs,
            (Kind::Iq3Xxs, Role::Key | Role::Query) => Format::Iq2S,
            (_, Role::Down) => self.down(kind, name).unwrap_or(base),
            (_, Role::AttentionOutput) => self.attention_output(kind).unwrap_or(base),
            (Kind::Iq3Xs, Role::Gate | Role::Up) if self.is_inner(self.depth(name)) => Format::Iq3Xxs,
            _ => base,
        }
    }

    fn output(&self, kind: Kind, base: Format, row: usize) -> Format {
        let fits = row.is_multiple_of(DType::Block(base).block_len());
        match kind {
            Kind::Mxfp4Moe => Format::Q8_0,
            _ if self.is_falcon() || !fits => Format::Q8_0,
            Kind::Iq1 | Kind::Iq2X | Kind::Iq2S | Kind::Iq3Xxs => Format::Q5K,
            _ if base == Format::Q8_0 => Format::Q8_0,
            _ => Format::Q6K,
        }
    }

    /// The types of about two bits and less.
    fn small(&self, kind: Kind, role: Role, name: &str) -> Option<Format> {
        let finer = if kind == Kind::Iq2S { Format::Iq3S } else { Format::Q2K };
        match role {
            Role::Value | Role::Joined | Role::Latent => {
                Some(if self.group >= 4 || self.experts >= 4 { Format::Q4K } else { finer })
            }
            Role::Key if self.experts == 8 => Some(Format::Q4K),
            Role::Down => {
                let rank = self.ranks.get(name).copied().unwrap_or(0);
                (rank < self.layers / 8).then_some(finer)
            }
            Role::AttentionOutput if self.experts == 8 => Some(Format::Q5K),
            Role::AttentionOutput if kind == Kind::Iq1 => Some(Format::Iq2Xxs),
            Role::AttentionOutput if kind == Kind::Iq2S => Some(Format::Iq3S),
            _ => None,
        }
    }

    fn value(&self, kind: Kind, base: Format, name: &str) -> Format {
        let rank = self.ranks.get(name).copied().unwrap_or(0);
        let grouped = self.group >= 4;
        let format = match kind {
            Kind::Q2K => {
                if grouped {
                    Format::Q4K
                } else {
                    Format::Q3K
                }
            }
            Kind::Q2KS | Kind::Iq3Xs | Kind::Iq3S if grouped => Format::Q4K,
            Kind::Iq3Xxs => {
                if grouped {
                    Format::Q4K
                } else {
                    Format::Iq3S
                }
            }
            Kind::Iq3M => Format::Q4K,
            Kind::Q3KM => {
                if rank < 2 {
                    Format::Q5K
                } else {
                    Format::Q4K
                }
            }
            Kind::Q3KL => Format::Q5K,
            Kind::Iq4 if grouped => Format::Q5K,
            Kind::Q4KM | Kind::Q5KM if more_bits(rank, self.values) => Format::Q6K,
            Kind::Q4KS if rank < 4 => Format::Q5K,
            _ => base,
        };
        if self.experts == 8 {
            return Format::Q8_0;
        }
        // Llama 70B: eight query heads share values, which are small then.
        let large = self.layers == 80 && matches!(self.architecture.as_str(), "llama" | "qwen2");
        if large && matches!(format, Format::Q3K | Format::Q4K) { Format::Q5K } else { format }
    }

    fn down(&self, kind: Kind, name: &str) -> Option<Format> {
        let (depth, layers) = (self.depth(name), self.layers);
        let (first, more) = (depth < layers / 8, more_bits(depth, layers));
        match kind {
            Kind::Q2K => Some(Format::Q3K),
            Kind::Q2KS => first.then_some(Format::Q4K),
            Kind::Iq3Xxs => Some(if first { Format::Q4K } else { Format::Q3K }),
            Kind::Q3KM if depth < layers / 16 => Some(Format::Q5K),
            Kind::Q3KM => (!self.is_falcon() || more).then_some(Format::Q4K),
            Kind::Iq3M => (first || self.experts == 8 && more).then_some(Format::Q4K),
            Kind::Q3KL => Some(if self.is_falcon() { Format::Q4K } else { Format::Q5K }),
            Kind::Q4KM if self.is_falcon() => match (depth < layers / 16, more) {
                (true, _) => Some(Format::Q6K),
                (false, true) => Some(Format::Q5K),
                _ => None,
            },
            Kind::Q4KM | Kind::Q5KM => more.then_some(Format::Q6K),
            Kind::Iq4 => first.then_some(Format::Q5K),
            Kind::Q4KS => (!self.is_falcon() && first).then_some(Format::Q5K),
            _ => None,
        }
    }

    fn attention_output(&self, kind: Kind) -> Option<Format> {
        if self.is_falcon() {
            return (kind == Kind::Q3KL).then_some(Format::Q4K);
        }
        if self.experts == 8 {
            use Kind::{Iq3M, Iq3S, Iq3Xs, Iq3Xxs, Iq4, Q2K, Q3KM, Q3KS, Q4KM, Q4KS};
            let finer = matches!(kind, Q2K | Iq3Xs | Iq3Xxs | Q3KS | Q3KM | Iq4 | Q4KS | Q4KM | Iq3S | Iq3M);
            return finer.then_some(Format::Q5K);
        }
        match kind {
            Kind::Q2K => Some(Format::Q3K),
            Kind::Iq3Xxs => Some(Format::Iq3S),
            Kind::Q3KM | Kind::Iq3M => Some(Format::Q4K),
            Kind::Q3KL => Some(Format::Q5K),
            _ => None,
        }
    }

    /// The layers between the first and the last eighth.
    fn is_inner(&self, depth: usize) -> bool {
        depth >= self.layers / 8 && depth < 7 * self.layers / 8
    }

    fn is_falcon(&self) -> bool {
        self.architecture == "falcon"
    }
}

/// The first and the last eighth of `count` tensors, and every third between them.
fn more_bits(rank: usize, count: usize) -> bool {
    let eighth = count / 8;
    rank < eighth || rank >= 7 * count / 8 || (rank - eighth) % 3 == 2
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

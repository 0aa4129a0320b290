// S = S exp(decay); S = S + beta (v - S k) k^T; y = scale S q, for each row of a head's S and each token. Invocation `part` of a team
// has elements part, part + 32, ... of the row.
struct Params {
    q_offset: u32,
    k_offset: u32,
    v_offset: u32,
    decay_offset: u32,
    beta_offset: u32,
    state_offset: u32,
    y_offset: u32,
    new_state_offset: u32,
    rows: u32,
    tokens: u32,
    key_heads: u32,
    heads: u32,
    key_dim: u32,
    value_dim: u32,
    tiled: u32,
    scale: u32,
}
var<immediate> p: Params;
override WG: u32 = 256u;
// Elements of a row that an invocation has: at most 8.
override PARTS: u32 = 8u;
const TEAM: u32 = 32u;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = linear_group(group, groups) * (WG / TEAM) + lane / TEAM;
    let part = lane % TEAM;
    // Teams past the end repeat the last row, and write nothing: all invocations meet at the same barriers.
    let live = row < p.rows;
    let here = min(row, p.rows - 1u);
    let of_head = here / p.value_dim;
    let head = of_head % p.heads;
    let sequence = of_head / p.heads;
    let key_head = select(head / (p.heads / p.key_heads), head % p.key_heads, p.tiled != 0u);
    let scale = bitcast<f32>(p.scale);
    var s: array<f32, 8>;
    for (var i = 0u; i < PARTS; i++) {
        let at = part + i * TEAM;
        s[i] = 0.0;
        if at < p.key_dim {
            s[i] = load_state(here * p.key_dim + at);
        }
    }
    for (var t = 0u; t < p.tokens; t++) {
        let token = sequence * p.tokens + t;
        let scalar = token * p.heads + head;
        let keys = (token * p.key_heads + key_head) * p.key_dim;
        let value = scalar * p.value_dim + here % p.value_dim;
        let factor = exp(load_decay(scalar));
        var k: array<f32, 8>;
        var kept = 0.0;
        for (var i = 0u; i < PARTS; i++) {
            let at = part + i * TEAM;
            k[i] = 0.0;
            if at < p.key_dim {
                k[i] = load_k(keys + at);
            }
            s[i] *= factor;
            kept += s[i] * k[i];
        }
        let delta = load_beta(scalar) * (load_v(value) - team_sum(kept, lane, TEAM));
        var seen = 0.0;
        for (var i = 0u; i < PARTS; i++) {
            let at = part + i * TEAM;
            s[i] += delta * k[i];
            if at < p.key_dim {
                seen += s[i] * load_q(keys + at);
            }
        }
        let y = scale * team_sum(seen, lane, TEAM);
        if live && part == 0u {
            store_y(value, y);
        }
    }
    for (var i = 0u; i < PARTS; i++) {
        let at = part + i * TEAM;
        if live && at < p.key_dim {
            store_new_state(here * p.key_dim + at, s[i]);
        }
    }
}

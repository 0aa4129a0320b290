// The `used` best experts of a row and their weights: a workgroup per row. An expert's place is the number of experts with a
// larger `key`, or an equal one and a smaller index.
struct Params {
    logits_offset: u32,
    bias_offset: u32,
    ids_offset: u32,
    weights_offset: u32,
    rows: u32,
    experts: u32,
    used: u32,
    // 0: softmax over all; 1: sigmoid; 2: softmax over those chosen.
    gate: u32,
    normalized: u32,
    biased: u32,
    scale: f32,
}
var<immediate> p: Params;
override WG: u32 = 64;
// At least as many as there are experts.
override ROOM: u32 = 1024;

const LEAST: f32 = 1.0 / 16384.0;

// What weights are taken of, and what the choice is made by.
var<workgroup> values: array<f32, ROOM>;
var<workgroup> keys: array<u32, ROOM>;
// The chosen, the best first.
var<workgroup> chosen: array<u32, ROOM>;
// Of the chosen: what is taken from values before they become powers, and what weights are multiplied by.
var<workgroup> largest_chosen: f32;
var<workgroup> factor: f32;

// The softmax over all experts: from the lowest number up, so that a row of -infinity has a finite maximum and no weights.
fn fill_softmax(base: u32, lane: u32) {
    var largest = LOWEST;
    for (var i = lane; i < p.experts; i += WG) {
        largest = maximum(largest, load_logits(base + i));
    }
    largest = team_max(largest, lane, WG);
    var sum = 0.0;
    for (var i = lane; i < p.experts; i += WG) {
        let mine = weight(load_logits(base + i) - largest);
        values[i] = mine;
        sum += mine;
    }
    sum = team_sum(sum, lane, WG);
    let share = select(1.0 / sum, 0.0, sum == 0.0);
    for (var i = lane; i < p.experts; i += WG) {
        values[i] = values[i] * share;
    }
}

// The weight of a chosen expert, before it is multiplied.
fn weight_of(id: u32) -> f32 {
    if p.gate == 2u {
        return weight(values[id] - largest_chosen);
    }
    return values[id];
}

// What all weights of the row are multiplied by.
fn find_factor() {
    largest_chosen = LOWEST;
    for (var i = 0u; i < p.used; i++) {
        largest_chosen = maximum(largest_chosen, values[chosen[i]]);
    }
    var sum = 0.0;
    for (var i = 0u; i < p.used; i++) {
        sum += weight_of(chosen[i]);
    }
    factor = p.scale;
    if p.gate == 2u {
        // They sum up to one then, and there is nothing to normalise but a row of nothing.
        factor = select(p.scale / sum, 0.0, sum == 0.0);
    } else if p.normalized != 0u {
        factor = p.scale / select(sum, LEAST, sum < LEAST);
    }
}

fn compute_row(row: u32, lane: u32) {
    let base = row * p.experts;
    if p.gate == 0u {
        fill_softmax(base, lane);
    } else {
        for (var i = lane; i < p.experts; i += WG) {
            let logit = load_logits(base + i);
            if p.gate == 1u {
                values[i] = sigmoid_of(logit);
            } else {
                values[i] = logit;
            }
        }
    }
    // Each invocation wrote the values that it reads here.
    for (var i = lane; i < p.experts; i += WG) {
        var score = load_logits(base + i);
        if p.biased != 0u {
            score = values[i] + load_bias(i);
        }
        keys[i] = key(score);
    }
    workgroupBarrier();
    for (var i = lane; i < p.experts; i += WG) {
        let mine = keys[i];
        var place = 0u;
        for (var j = 0u; j < p.experts; j++) {
            let other = keys[j];
            if other > mine || (other == mine && j < i) {
                place++;
            }
        }
        if place < p.used {
            chosen[place] = i;
        }
    }
    workgroupBarrier();
    if lane == 0u {
        find_factor();
    }
    workgroupBarrier();
    for (var i = lane; i < p.used; i += WG) {
        let id = chosen[i];
        put_ids(row * p.used + i, id);
        store_weights(row * p.used + i, weight_of(id) * factor);
    }
}

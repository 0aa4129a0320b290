// norm = sqrt(sum of x^2, or their mean); code = how many midpoints of neighbouring levels are below x * factor / norm.
struct Params {
    x_offset: u32,
    levels_offset: u32,
    codes_offset: u32,
    norms_offset: u32,
    rows: u32,
    block: u32,
    levels: u32,
    mean: u32,
    nibbles: u32,
    factor: u32,
}
var<immediate> p: Params;
override WG: u32 = 256u;

fn code_of(y: f32) -> u32 {
    // Midpoints before `low` are below y, those from `high` on are not.
    var low = 0u;
    var high = p.levels - 1u;
    while low < high {
        let middle = (low + high) / 2u;
        let midpoint = (load_levels(middle) + load_levels(middle + 1u)) * 0.5;
        if y > midpoint {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low;
}

fn compute_row(row: u32, lane: u32) {
    let first = row * p.block;
    var sum = 0.0;
    for (var i = lane; i < p.block; i += WG) {
        let x = load_x(first + i);
        sum += x * x;
    }
    sum = team_sum(sum, lane, WG);
    let norm = sqrt(select(sum, sum / f32(p.block), p.mean != 0u));
    let scale = select(0.0, bitcast<f32>(p.factor) / norm, norm > 1e-10);
    if lane == 0u {
        store_norms(row, norm);
    }
    if p.nibbles == 0u {
        for (var i = lane; i < p.block; i += WG) {
            put_codes(first + i, code_of(load_x(first + i) * scale));
        }
    } else {
        for (var i = 2u * lane; i < p.block; i += 2u * WG) {
            let low = code_of(load_x(first + i) * scale);
            let high = code_of(load_x(first + i + 1u) * scale);
            put_codes((first + i) / 2u, low | (high << 4u));
        }
    }
}

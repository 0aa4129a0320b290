// y = levels[code] * norm of the block / factor.
struct Params {
    codes_offset: u32,
    norms_offset: u32,
    levels_offset: u32,
    y_offset: u32,
    count: u32,
    block: u32,
    levels: u32,
    nibbles: u32,
    factor: u32,
}
var<immediate> p: Params;

fn element(i: u32) {
    var code = 0u;
    if p.nibbles != 0u {
        code = (get_codes(i / 2u) >> (4u * (i % 2u))) & 15u;
    } else {
        code = get_codes(i);
    }
    let scale = load_norms(i / p.block) / bitcast<f32>(p.factor);
    store_y(i, load_levels(min(code, p.levels - 1u)) * scale);
}

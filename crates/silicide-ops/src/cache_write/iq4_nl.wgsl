// iq4_nl (iq4_nl.wgsl of silicide-quant has the layout): of scales around that of the extreme, in both directions, the one with the least
// squared error.
const ITEM: u32 = 32u;

fn level_of(code: u32) -> f32 {
    var levels = vec4<u32>(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
    return f32(bitcast<i32>(levels[code >> 2u] << (24u - ((code & 3u) << 3u))) >> 24u);
}

// The code of the level nearest to x: the number of midpoints below it.
fn code_of(x: f32) -> u32 {
    var code = 0u;
    for (var i = 0u; i < 15u; i++) {
        code += select(0u, 1u, x > (level_of(i) + level_of(i + 1u)) * 0.5);
    }
    return code;
}

// The best scale found with the farthest level at `reach`.
fn fit(first: u32, reach: f32, most: f32) -> f32 {
    var best = 0.0;
    var gain = 0.0;
    let width = max(abs(reach) / 16.0, 1.0);
    for (var step = 0; step <= 16; step++) {
        let factor = -(reach + f32(step - 8) * 0.125 * width) / most;
        var squares = 0.0;
        var products = 0.0;
        for (var i = 0u; i < ITEM; i++) {
            let value = load_rows(first + i);
            let level = level_of(code_of(value * factor));
            squares += level * level;
            products += level * value;
        }
        let scale = products * inverse(squares);
        if products * scale > gain {
            gain = products * scale;
            best = scale;
        }
    }
    return best;
}

fn error_of(first: u32, scale: f32) -> f32 {
    let factor = inverse(scale);
    var error = 0.0;
    for (var i = 0u; i < ITEM; i++) {
        let value = load_rows(first + i);
        let difference = level_of(code_of(value * factor)) * scale - value;
        error += difference * difference;
    }
    return error;
}

fn put_item(to: u32, source: u32) {
    let first = source * ITEM;
    let most = extreme(first);
    var scale = 0.0;
    if most != 0.0 {
        scale = fit(first, 127.0, most);
        let other = fit(first, -113.0, most);
        if error_of(first, other) < error_of(first, scale) {
            scale = other;
        }
    }
    begin_block(to * 18u);
    put_half(scale);
    let factor = inverse(unpack2x16float(narrow_$NAME(scale)).x);
    for (var i = 0u; i < 16u; i++) {
        put_byte(code_of(load_rows(first + i) * factor) | (code_of(load_rows(first + i + 16u) * factor) << 4u));
    }
    end_block();
}

// Blocks of TurboQuant: code = the nearest level to x / rms; the scale makes the length of the levels that of the block. Constants and
// levels are those of the type.
const ITEM: u32 = LEN_$NAME;

// The number of the level nearest to x, of `levels` of them, by bisection: levels are symmetric and ascend.
fn first_code(x: f32) -> u32 {
    let half = 1u << (LOW_$NAME + HIGH_$NAME - 1u);
    var above = 0u;
    for (var step = half / 2u; step > 0u; step /= 2u) {
        let next = above + step;
        let boundary = 0.5 * (first_level_$NAME(half + next - 1u) + first_level_$NAME(half + next));
        above = select(above, next, abs(x) > boundary);
    }
    return select(half + above, half - 1u - above, x < 0.0);
}

fn rest_code(x: f32) -> u32 {
    let half = 1u << (LOW_$NAME - 1u);
    var above = 0u;
    for (var step = half / 2u; step > 0u; step /= 2u) {
        let next = above + step;
        let boundary = 0.5 * (rest_level_$NAME(half + next - 1u) + rest_level_$NAME(half + next));
        above = select(above, next, abs(x) > boundary);
    }
    return select(half + above, half - 1u - above, x < 0.0);
}

fn put_item(to: u32, source: u32) {
    let first = source * ITEM;
    var square = 0.0;
    for (var i = 0u; i < ITEM; i++) {
        let value = load_rows(first + i);
        square += value * value;
    }
    var factor = 0.0;
    if square > 0.0 {
        factor = sqrt(f32(ITEM) / square);
    }
    // Four codes to a word.
    var codes: array<u32, ITEM / 4u>;
    var level_square = 0.0;
    for (var i = 0u; i < ITEM; i++) {
        let value = load_rows(first + i) * factor;
        var code: u32;
        var level: f32;
        if i < WITH_HIGH_$NAME {
            code = first_code(value);
            level = first_level_$NAME(code);
        } else {
            code = rest_code(value);
            level = rest_level_$NAME(code);
        }
        level_square += level * level;
        codes[i >> 2u] |= code << ((i & 3u) << 3u);
    }
    begin_block(to * BYTES_$NAME);
    // A block with an element that is not finite is NaN, and so is one whose square is beyond f32.
    if (bitcast<u32>(square) & 0x7f800000u) == 0x7f800000u {
        put_pair(0x7e00u);
    } else {
        put_half(sqrt(square / level_square));
    }
    let each = 8u / LOW_$NAME;
    for (var i = 0u; i < ITEM; i += each) {
        var byte = 0u;
        for (var j = 0u; j < each; j++) {
            let code = codes[(i + j) >> 2u] >> (((i + j) & 3u) << 3u);
            byte |= (code & ((1u << LOW_$NAME) - 1u)) << (j * LOW_$NAME);
        }
        put_byte(byte);
    }
    if HIGH_$NAME > 0u {
        let each = 8u / max(HIGH_$NAME, 1u);
        for (var i = 0u; i < WITH_HIGH_$NAME; i += each) {
            var byte = 0u;
            for (var j = 0u; j < each; j++) {
                let code = codes[(i + j) >> 2u] >> (((i + j) & 3u) << 3u);
                byte |= ((code >> LOW_$NAME) & ((1u << HIGH_$NAME) - 1u)) << (j * HIGH_$NAME);
            }
            put_byte(byte);
        }
    }
    end_block();
}

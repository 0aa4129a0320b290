// The positive levels of tq4; the others are minus these.
fn first_level_$NAME(code: u32) -> f32 {
    var levels = array<f32, 8>(
        0.12839504, 0.3880483, 0.65675914, 0.94234043, 1.2562312, 1.6180464, 2.0690172, 2.7325895,
    );
    let is_negative = code < 8u;
    let level = levels[select(code - 8u, 7u - code, is_negative) & 7u];
    return select(level, -level, is_negative);
}
fn rest_level_$NAME(code: u32) -> f32 {
    return first_level_$NAME(code);
}

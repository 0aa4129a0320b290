// The positive levels of tq3; the others are minus these.
fn first_level_$NAME(code: u32) -> f32 {
    var levels = array<f32, 4>(
        0.24509418, 0.7560053, 1.3439093, 2.1519456,
    );
    let is_negative = code < 4u;
    let level = levels[select(code - 4u, 3u - code, is_negative) & 3u];
    return select(level, -level, is_negative);
}
fn rest_level_$NAME(code: u32) -> f32 {
    return first_level_$NAME(code);
}

// The positive levels of tq2; the others are minus these.
fn first_level_$NAME(code: u32) -> f32 {
    var levels = array<f32, 2>(
        0.45278004, 1.5104176,
    );
    let is_negative = code < 2u;
    let level = levels[select(code - 2u, 1u - code, is_negative) & 1u];
    return select(level, -level, is_negative);
}
fn rest_level_$NAME(code: u32) -> f32 {
    return first_level_$NAME(code);
}

// The positive levels of tq5; the others are minus these.
fn first_level_$NAME(code: u32) -> f32 {
    var levels = array<f32, 16>(
        0.06588966, 0.19805183, 0.3313783, 0.4666995, 0.6049336, 0.7471357, 0.8945651, 1.0487833,
        1.2118044, 1.3863404, 1.576228, 1.7872332, 2.0287285, 2.3177395, 2.6911197, 3.2607324,
    );
    let is_negative = code < 16u;
    let level = levels[select(code - 16u, 15u - code, is_negative) & 15u];
    return select(level, -level, is_negative);
}
fn rest_level_$NAME(code: u32) -> f32 {
    return first_level_$NAME(code);
}

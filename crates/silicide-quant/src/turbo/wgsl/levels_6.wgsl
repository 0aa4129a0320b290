// The positive levels of tq6; the others are minus these.
fn first_level_$NAME(code: u32) -> f32 {
    var levels = array<f32, 32>(
        0.033409506, 0.10027829, 0.1672969, 0.23456699, 0.30219284, 0.37028265, 0.43894967, 0.5083138,
        0.578503, 0.6496556, 0.7219219, 0.7954677, 0.8704766, 0.94715494, 1.0257363, 1.1064882,
        1.1897202, 1.2757945, 1.365141, 1.4582764, 1.5558312, 1.6585889, 1.7675419, 1.8839773,
        2.0096111, 2.1468103, 2.2989812, 2.471305, 2.6722739, 2.9174068, 3.240437, 3.7441013,
    );
    let is_negative = code < 32u;
    let level = levels[select(code - 32u, 31u - code, is_negative) & 31u];
    return select(level, -level, is_negative);
}
fn rest_level_$NAME(code: u32) -> f32 {
    return first_level_$NAME(code);
}

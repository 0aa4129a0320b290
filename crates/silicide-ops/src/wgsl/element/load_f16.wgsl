fn load_$NAME(i: u32) -> f32 {
    // Below the normal range of halves by hand: devices may take such a half for zero, though it is a normal f32.
    let bits = get_$NAME(i);
    let small = f32(bits & 0x3ffu) * 5.9604644775390625e-8;
    let magnitude = select(unpack2x16float(bits & 0x7fffu).x, small, (bits & 0x7c00u) == 0u);
    return select(magnitude, -magnitude, (bits & 0x8000u) != 0u);
}

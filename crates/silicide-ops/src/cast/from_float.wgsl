fn number(i: u32) -> Number {
    let x = load_x(i);
    if (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u {
        return Number(false, 0u, 0u);
    }
    let size = trunc(abs(x));
    if size >= 18446744073709551616.0 {
        return Number(x < 0.0, 0xffffffffu, 0xffffffffu);
    }
    // Both steps are exact: a float's digits fit the word they fall in, or end in zeros.
    let high = floor(size / 4294967296.0);
    return Number(x < 0.0, u32(size - high * 4294967296.0), u32(high));
}

fn number(i: u32) -> Number {
    let bits = get_x(i);
    let negative = p.x_signed == 1u && (bits >> (p.x_width - 1u)) == 1u;
    let size = (~bits + 1u) & (0xffffffffu >> (32u - p.x_width));
    return Number(negative, select(bits, size, negative), 0u);
}

fn number(i: u32) -> Number {
    let bits = get_x(i);
    let negative = p.x_signed == 1u && (bits.y >> 31u) == 1u;
    let size = select(bits, negate(bits), negative);
    return Number(negative, size.x, size.y);
}

fn element(i: u32) {
    put_y(i, to_bits(number(i)).x);
}

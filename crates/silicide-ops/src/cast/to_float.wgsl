fn element(i: u32) {
    store_y(i, to_float(number(i)));
}

fn transfer(i: u32, at: u32) {
    store_y(i, load_table(at));
}
fn blank(i: u32) {
    put_y(i, p.blank_low);
}

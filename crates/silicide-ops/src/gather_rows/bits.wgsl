fn transfer(i: u32, at: u32) {
    put_y(i, get_table(at));
}
fn blank(i: u32) {
    put_y(i, p.blank_low);
}

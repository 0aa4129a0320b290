// Every element the same, of 64 bits.
struct Params { y_offset: u32, count: u32, low: u32, high: u32 }
var<immediate> p: Params;

fn element(i: u32) {
    put_y(i, vec2<u32>(p.low, p.high));
}

// Every element the same, of 32 bits or fewer.
struct Params { y_offset: u32, count: u32, low: u32, high: u32 }
var<immediate> p: Params;

fn element(i: u32) {
    put_y(i, p.low);
}

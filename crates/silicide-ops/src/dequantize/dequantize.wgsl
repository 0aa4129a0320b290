// From a block format to f32, f16 or bf16.
struct Params { x_offset: u32, y_offset: u32, count: u32 }
var<immediate> p: Params;

fn element(i: u32) {
    store_y(i, load_x(i));
}

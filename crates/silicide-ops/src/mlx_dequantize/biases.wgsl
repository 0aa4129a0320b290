// Parameters for formats with biases.
struct Params {
    b_offset: u32,
    b_scales_offset: u32,
    b_biases_offset: u32,
    y_offset: u32,
    count: u32,
}
var<immediate> p: Params;

// Parameters for formats without biases.
struct Params {
    b_offset: u32,
    b_scales_offset: u32,
    y_offset: u32,
    count: u32,
}
var<immediate> p: Params;

// y[sum of i_k * y_strides[k]] = x[sum of i_k * x_strides[k]] for i_k below extents[k]: up to six loops, the innermost last.
struct Params {
    x_offset: u32,
    y_offset: u32,
    count: u32,
    loops: u32,
    extents: array<u32, 6>,
    x_strides: array<u32, 6>,
    y_strides: array<u32, 6>,
}
var<immediate> p: Params;

fn element(i: u32) {
    var rest = i;
    var at_x = 0u;
    var at_y = 0u;
    for (var k = p.loops; k > 0u; k = k - 1u) {
        let extent = p.extents[k - 1u];
        let turn = rest % extent;
        rest = rest / extent;
        at_x = at_x + turn * p.x_strides[k - 1u];
        at_y = at_y + turn * p.y_strides[k - 1u];
    }
    put_y(at_y, get_x(at_x));
}

// Sums and maxima over a workgroup of WG invocations, WG a power of two declared by the kernel. A fixed tree in
// shared memory: no subgroup size is assumed, the order never changes. Call from uniform control flow; every
// invocation gets the result.
var<workgroup> reduce_cells: array<f32, WG>;

fn workgroup_sum(value: f32, lane: u32) -> f32 {
    // Someone may still be reading the result of the call before.
    workgroupBarrier();
    reduce_cells[lane] = value;
    workgroupBarrier();
    for (var width = WG / 2u; width > 0u; width = width / 2u) {
        if lane < width {
            reduce_cells[lane] = reduce_cells[lane] + reduce_cells[lane + width];
        }
        workgroupBarrier();
    }
    return reduce_cells[0];
}

// The larger, or NaN if either is NaN; the device's own max may drop it.
fn maximum(a: f32, b: f32) -> f32 {
    let b_is_nan = (bitcast<u32>(b) & 0x7fffffffu) > 0x7f800000u;
    let a_is_nan = (bitcast<u32>(a) & 0x7fffffffu) > 0x7f800000u;
    return select(a, b, b_is_nan || (b > a && !a_is_nan));
}

fn workgroup_max(value: f32, lane: u32) -> f32 {
    workgroupBarrier();
    reduce_cells[lane] = value;
    workgroupBarrier();
    for (var width = WG / 2u; width > 0u; width = width / 2u) {
        if lane < width {
            reduce_cells[lane] = maximum(reduce_cells[lane], reduce_cells[lane + width]);
        }
        workgroupBarrier();
    }
    return reduce_cells[0];
}

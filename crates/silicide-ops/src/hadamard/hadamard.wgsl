// y = H (s * x) / sqrt(DIM), or s * (H x) / sqrt(DIM), of a row: butterflies in shared memory, one stage after the other.
struct Params {
    x_offset: u32,
    y_offset: u32,
    rows: u32,
}
var<immediate> p: Params;
override WG: u32 = 64;
override DIM: u32 = 64;
override INVERSE: u32 = 0;

var<workgroup> cells: array<f32, DIM>;

// The sign of an element: the first bit of a SplitMix64 sequence.
fn signed(value: f32, i: u32) -> f32 {
    var signs = array<u32, 16>(
        0x737afa89u, 0x9ecc3104u, 0x1ac16ee8u, 0x365e05b6u,
        0xbe83866bu, 0x0b672b6eu, 0x53b8f652u, 0x3c995686u,
        0x4a58a241u, 0x1d861e84u, 0xc090d448u, 0xab7139cbu,
        0xb86256d5u, 0xc8d6e9e5u, 0x1e8256f2u, 0x0a049ca6u,
    );
    return select(value, -value, ((signs[(i >> 5u) & 15u] >> (i & 31u)) & 1u) == 1u);
}

fn compute_row(row: u32, lane: u32) {
    for (var i = lane; i < DIM; i += WG) {
        let value = load_x(row * DIM + i);
        if INVERSE == 1u {
            cells[i] = value;
        } else {
            cells[i] = signed(value, i);
        }
    }
    workgroupBarrier();
    for (var half = 1u; half < DIM; half *= 2u) {
        for (var pair = lane; pair < DIM / 2u; pair += WG) {
            let low = pair / half * (2u * half) + pair % half;
            let a = cells[low];
            let b = cells[low + half];
            cells[low] = a + b;
            cells[low + half] = a - b;
        }
        workgroupBarrier();
    }
    let scale = 1.0 / sqrt(f32(DIM));
    for (var i = lane; i < DIM; i += WG) {
        let value = cells[i] * scale;
        if INVERSE == 1u {
            store_y(row * DIM + i, signed(value, i));
        } else {
            store_y(row * DIM + i, value);
        }
    }
}

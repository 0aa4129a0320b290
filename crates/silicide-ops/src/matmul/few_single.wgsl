// One weight at a time.
const RUN: u32 = 1u;

// Element `at` of four rows from `row` on, counted from the first row. Past the last row it is the last one's, which costs less than a branch.
fn four(at: u32, row: u32) -> vec4<f32> {
    let last = p.rows - 1u;
    return vec4<f32>(
        load_a(at + min(row, last) * p.k),
        load_a(at + min(row + 1u, last) * p.k),
        load_a(at + min(row + 2u, last) * p.k),
        load_a(at + min(row + 3u, last) * p.k),
    );
}

fn add_products(sums: Sums, a: u32, b: u32) -> Sums {
    var sum = sums;
    let weight = load_b(b);
    if p.rows == 1u {
        sum.low.x += weight * load_a(a);
    } else {
        sum.low += weight * four(a, 0u);
        if p.rows > 4u {
            sum.high += weight * four(a, 4u);
        }
    }
    return sum;
}

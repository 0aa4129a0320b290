// Eight weights at a time, as block formats are unpacked best; depths are whole blocks.
const RUN: u32 = 8u;

fn product(weights: mat2x4<f32>, a: u32, row: u32) -> f32 {
    // Past the last row it is the last one's, which costs less than a branch.
    let at = a + min(row, p.rows - 1u) * p.k;
    let first = vec4<f32>(load_a(at), load_a(at + 1u), load_a(at + 2u), load_a(at + 3u));
    let second = vec4<f32>(load_a(at + 4u), load_a(at + 5u), load_a(at + 6u), load_a(at + 7u));
    return dot(weights[0], first) + dot(weights[1], second);
}

fn products(weights: mat2x4<f32>, a: u32, row: u32) -> vec4<f32> {
    return vec4<f32>(
        product(weights, a, row), product(weights, a, row + 1u),
        product(weights, a, row + 2u), product(weights, a, row + 3u),
    );
}

fn add_products(sums: Sums, a: u32, b: u32) -> Sums {
    var sum = sums;
    let weights = eight_b(b);
    if p.rows == 1u {
        sum.low.x += product(weights, a, 0u);
    } else {
        sum.low += products(weights, a, 0u);
        if p.rows > 4u {
            sum.high += products(weights, a, 4u);
        }
    }
    return sum;
}

// Shared by the kernels for many queries of a workgroup, which have ROWS of them: the positions that they see, and numbers of a softmax.
// 1 if scores are capped: a constant, as it takes registers.
override CAPPED: u32 = 0;

// Of rows: the positions that are seen, and where queries begin.
var<workgroup> bounds: array<vec2<u32>, ROWS>;
var<workgroup> query_starts: array<u32, ROWS>;
// Of all rows: the first position, the end, the last first position, the first end.
var<workgroup> hull: vec4<u32>;

// The exponentials of a softmax, as `weight` does.
fn weights(d: vec4<f32>) -> vec4<f32> {
    // Devices may make a small number of exp(-infinity), and lose NaN.
    let powers = select(exp(d), vec4<f32>(), d < vec4<f32>(-87.0));
    return select(powers, d, (bitcast<vec4<u32>>(d) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u));
}

// What a row of keys or values begins at, of the keys from slot `first` on. Past the last it is that one's.
fn cache_row(head: u32, first: u32, key: u32, count: u32) -> u32 {
    let slot = first + min(key, count - 1u);
    return head + min(slot, slot - p.capacity);
}

// Finds the positions that rows see.
fn find_bounds(work: Work, lane: u32) -> vec4<u32> {
    if lane < ROWS {
        bounds[lane] = visible_to(work, lane);
        query_starts[lane] = query_row(work, lane) * DIM;
    }
    workgroupBarrier();
    if lane == 0u {
        var all = vec4<u32>(MOST_POSITIONS, 0u, 0u, MOST_POSITIONS);
        for (var row = 0u; row < ROWS; row++) {
            let seen = bounds[row];
            // Rows that see nothing have no part in the range.
            if seen.x < seen.y {
                all.x = min(all.x, seen.x);
            }
            all = vec4<u32>(all.x, max(all.y, seen.y), max(all.z, seen.x), min(all.w, seen.y));
        }
        all.x = max(all.x, all.y - min(all.y, p.capacity));
        hull = all;
    }
    return workgroupUniformLoad(&hull);
}

fn capped_four(s: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(capped(s.x), capped(s.y), capped(s.z), capped(s.w));
}

fn largest_in(v: vec4<f32>) -> f32 {
    return max(max(v.x, v.y), max(v.z, v.w));
}

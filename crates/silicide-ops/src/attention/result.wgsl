// What one query has seen.
struct Mine {
    largest: f32,
    sum: f32,
}

// Where a query's values go, and what they are multiplied by.
struct Target {
    start: u32,
    factor: f32,
}

// Where the factors begin, and the first row and column of a square.
struct Tile {
    a: u32,
    b: u32,
    row: u32,
    column: u32,
    // All columns.
    columns: u32,
}


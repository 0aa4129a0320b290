// A tile of outputs: where the factors and the outputs begin, its first row and column, and the number of all columns.
struct Tile {
    a: u32,
    b: u32,
    y: u32,
    row: u32,
    column: u32,
    columns: u32,
}

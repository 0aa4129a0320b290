    y_offset: u32,
    rows: u32,
    columns: u32,
    k: u32,
    batches: u32,
    // Of the output: elements from one row to the next, and the first column of this launch.
    y_stride: u32,
    y_column: u32,
}
var<immediate> p: Params;

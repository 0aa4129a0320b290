struct Params {
    x_offset: u32,
    weight_offset: u32,
    y_offset: u32,
    rows: u32,
    k: u32,
    team: u32,
    eps: f32,
    weighted: u32,
}
var<immediate> p: Params;

fn element(i: u32) -> f32 {
    return load_x(i);
}

fn keep(i: u32, v: f32) {}

    rows: u32,
    k: u32,
    // The code of the activation, where two are gated.
    kind: u32,
    columns_one: u32,
    columns_two: u32,
    columns_three: u32,
    // The first workgroups of the second product and of the third.
    first_two: u32,
    first_three: u32,
}
var<immediate> p: Params;

enable wgpu_cooperative_matrix;
// Matrices of 8x8 elements, with factors of f32 and sums of f32, for `matrix_cells.wgsl`.
alias Element = f32;
alias Left = coop_mat8x8<f32, A>;
alias Right = coop_mat8x8<f32, B>;
alias Sums = coop_mat8x8<f32, C>;
const SIDE: u32 = 8u;
// Elements that follow a row in shared memory: 16 bytes, so that rows begin in different banks and loads are wide.
const PAD: u32 = 4u;
// Whether factors are rounded.
const ROUNDS: bool = false;

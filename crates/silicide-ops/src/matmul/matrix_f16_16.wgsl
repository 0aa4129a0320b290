enable f16;
enable wgpu_cooperative_matrix;
// Matrices of 16x16 elements, with factors of f16 and sums of f32, for `matrix_cells.wgsl`.
alias Element = f16;
alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;
alias Sums = coop_mat16x16<f32, C>;
const SIDE: u32 = 16u;
// Elements that follow a row in shared memory: 16 bytes, so that rows begin in different banks and loads are wide.
const PAD: u32 = 8u;
// Whether factors are rounded.
const ROUNDS: bool = true;

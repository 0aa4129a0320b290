use super::*;
use silicide_core::kernel::{Step, TensorInfo};
use silicide_hal::Backend;
use silicide_quant::{DType, Format, Shape};

fn gpu() -> DeviceInfo {
    DeviceInfo::new(Backend::Vulkan, "vulkan:0", "test")
}

/// Returns the value of a constant in the plan for a row of `[rows, k]` and weights of `[n, k]`, whose arguments begin at multiples of
/// the given bytes.
fn constant(name: &str, rows: usize, n: usize, alignment: [u32; 2], on: &DeviceInfo) -> Option<u32> {
    let info = |dtype, axes: [usize; 2], alignment| TensorInfo {
        alignment,
        ..TensorInfo::new(dtype, Shape::new(&axes).unwrap())
    };
    let inputs = [
        info(DType::F32, [rows, 4096], alignment[0]),
        info(DType::Block(Format::Q4K), [n, 4096], alignment[1]),
    ];
    let outputs = [info(DType::F32, [rows, n], 256)];
    let plan = FEW[1].plan(&Matmul::default(), &Io { inputs: &inputs, outputs: &outputs }, on);
    let Some(Step::Dispatch(launch)) = plan.steps.first() else { panic!("{plan:?}") };
    let Program::Wgsl(kernel) = &launch.program else { panic!("{launch:?}") };
    kernel.value_of(name)
}

#[test]
fn teams_have_fewer_columns_of_small_matrices_and_of_many_rows() {
    let aligned = [256, 256];
    let columns = |rows, n| constant("COLUMNS", rows, n, aligned, &gpu());
    assert_eq!([4096, 2048, 1024, 1].map(|n| columns(1, n)), [Some(4), Some(2), Some(1), Some(1)]);
    assert_eq!([1, 4, 5, 8].map(|rows| columns(rows, 1 << 17)), [Some(4), Some(4), Some(2), Some(2)]);
    let mut software = gpu();
    software.software = true;
    assert_eq!(constant("COLUMNS", 1, 64, aligned, &software), Some(4));
}

#[test]
fn codes_are_read_where_both_arguments_are_aligned() {
    // Only the text for any offset has tails.
    let reads_codes = |alignment| constant("TAIL", 1, 4096, alignment, &gpu()).is_none();
    assert!(reads_codes([16, 4]));
    assert!(!reads_codes([4, 256]) && !reads_codes([256, 2]));
}

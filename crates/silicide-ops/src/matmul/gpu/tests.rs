use super::super::Matmul;
use super::super::few::FEW;
use super::super::tiled::TILED;
use super::*;
use silicide_core::kernel::{Io, Kernel, Op, Plan, Step, TensorInfo};
use silicide_hal::Backend;
use silicide_quant::Shape;

/// Computes the shaders' results, launch by launch, from the windows and parameters of a plan.
fn emulate(plan: &Plan, a: &[f32], b: &[f32], y: &mut [f32], weight_size: usize) {
    for step in &plan.steps {
        let Step::Dispatch(launch) = step else { panic!("{step:?}") };
        let windows = [(0, 4), (1, weight_size), (2, 4)].map(|(i, size): (usize, usize)| {
            let arg = launch.args[i];
            assert!(arg.start.is_multiple_of(size) && arg.bytes.is_multiple_of(size));
            arg.start / size..(arg.start + arg.bytes) / size
        });
        let [a_window, b_window, y_window] = windows;
        let (a, b, y) = (&a[a_window], &b[b_window], &mut y[y_window]);
        let [rows, columns, k, batches, stride, first, ..] = launch.params[..] else { panic!() };
        let [rows, columns, k, stride, first] = [rows, columns, k, stride, first].map(|x| x as usize);
        for batch in 0..batches as usize {
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                let (a, b) = (&a[(batch * rows + row) * k..][..k], &b[(batch * columns + column) * k..][..k]);
                let y = &mut y[(batch * rows + row) * stride + first + column];
                assert!(y.is_nan(), "an output is written twice");
                *y = a.iter().zip(b).map(|(a, b)| a * b).sum();
            }
        }
    }
}

fn fits_bindings(step: &Step, most: usize) -> bool {
    matches!(step, Step::Dispatch(launch) if launch.args.iter().all(|arg| arg.bytes <= most))
}

#[test]
fn calls_larger_than_a_binding_are_cut_to_fit() {
    let mut on = DeviceInfo::new(Backend::Vulkan, "vulkan:0", "test");
    on.limits.binding_alignment = 16;
    let shape = |axes: &[usize]| Shape::new(axes).unwrap();
    for (a_axes, b_axes) in [
        (&[8, 5, 7][..], &[4, 9, 7][..]),
        (&[3, 40], &[70, 40]),
        (&[300, 3], &[290, 3]),
        (&[1, 64], &[33, 64]),
    ] {
        for (dtype, max_binding, cut) in
            [(DType::F32, 1400, true), (DType::F16, 1400, true), (DType::BF16, 1 << 30, false)]
        {
            on.limits.max_binding = max_binding;
            let inputs = [TensorInfo::new(DType::F32, shape(a_axes)), TensorInfo::new(dtype, shape(b_axes))];
            let outputs = Op::infer(&Matmul::default(), &inputs).unwrap();
            let io = Io { inputs: &inputs, outputs: &outputs };
            // Small whole numbers: every order of summing them is exact.
            let values = |count: usize| (0..count).map(|i| (i * 7 % 13) as f32 - 6.0).collect::<Vec<f32>>();
            let (a, b) = (values(inputs[0].elements()), values(inputs[1].elements()));
            let host = |info: &TensorInfo, values: &[f32]| silicide_core::kernel::Host {
                dtype: info.dtype,
                shape: info.shape,
                values: values.iter().map(|&x| f64::from(x)).collect(),
            };
            let mut expected = [host(&outputs[0], &vec![0.0; outputs[0].elements()])];
            Op::reference(&Matmul::default(), &[host(&inputs[0], &a), host(&inputs[1], &b)], &mut expected);
            for kernel in [&FEW[1] as &dyn Kernel<Op = Matmul>, &TILED] {
                if kernel.fits(&Matmul::default(), &io, &on).is_err() {
                    continue;
                }
                let plan = kernel.plan(&Matmul::default(), &io, &on);
                assert_eq!(plan.steps.len() > 1, cut, "{io}");
                let mut y = vec![f32::NAN; outputs[0].elements()];
                emulate(&plan, &a, &b, &mut y, dtype.size());
                assert!(plan.steps.iter().all(|step| fits_bindings(step, max_binding - 16)), "{io}");
                assert!(y.iter().map(|&y| f64::from(y)).eq(expected[0].values.iter().copied()), "{io}");
            }
        }
    }
}

#[test]
fn rows_larger_than_a_binding_are_refused() {
    let mut on = DeviceInfo::new(Backend::Vulkan, "vulkan:0", "test");
    on.limits.max_binding = 1 << 20;
    let info = |rows| TensorInfo::new(DType::F32, Shape::new(&[rows, 1 << 18]).unwrap());
    let inputs = [info(2), info(3)];
    let outputs = Op::infer(&Matmul::default(), &inputs).unwrap();
    assert!(TILED.fits(&Matmul::default(), &Io { inputs: &inputs, outputs: &outputs }, &on).is_err());
}

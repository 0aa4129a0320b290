//! Live extents: a replay computes the rows that were set, and no others.

use crate::common::ops::{Accumulate, Add, Scale, Triple};
use crate::common::{count, devices, null_device, vector};
use silicide_core::hal::null::NullOptions;
use silicide_core::kernel::TensorInfo;
use silicide_core::{
    Device, Error, GraphArena, GraphBuilder, GraphExecutor, GraphOptions, GraphSession, LiveExtent,
    Parameter, Recorder,
};
use silicide_quant::{DType, Shape};

/// The most rows.
const ROWS: usize = 64;
/// Elements of a row: no multiple of what a tile has.
const ROW: usize = 37;

fn info(axes: &[usize]) -> TensorInfo {
    TensorInfo::new(DType::F32, Shape::new(axes).unwrap())
}

/// `y = 3 (2 x + x)` over live rows, captured for `rows` rows.
fn capture(device: &Device, rows: usize) -> (GraphExecutor, LiveExtent, Parameter) {
    let mut builder = GraphBuilder::new(device);
    let extent = builder.extent("rows", rows).unwrap();
    let (x, value) = builder.live_parameter("x", info(&[rows, ROW]), extent).unwrap();
    let double = builder.run_one(Scale(2.0), &[&value]).unwrap();
    let flat = Shape::new(&[rows * ROW]).unwrap();
    let [double, value] = [double, value].map(|value| builder.reshape(&value, flat).unwrap());
    let sum = builder.run_one(Add, &[&double, &value]).unwrap();
    let triple = builder.run_one(Triple, &[&sum]).unwrap();
    let graph = builder.finish(&[&triple]).unwrap();
    (GraphExecutor::new(graph, &GraphOptions::default()).unwrap(), extent, x)
}

fn output(session: &GraphSession) -> Vec<f32> {
    session.output(0).unwrap().to_vec::<f32>().unwrap()
}

#[test]
fn a_replay_computes_live_rows_and_leaves_the_others() {
    for device in devices() {
        let (executor, rows, x) = capture(&device, ROWS);
        let mut session = executor.session(&[]).unwrap();
        let mut expected = vec![0.0; ROWS * ROW];
        for (round, live) in [ROWS, 1, 7, 8, ROWS, 33, 2].into_iter().enumerate() {
            session.set_extent(rows, live).unwrap();
            let values: Vec<f32> = (0..live * ROW).map(|i| (i + round) as f32).collect();
            session.set(x, &values).unwrap();
            let _submission = session.replay().unwrap();
            expected.iter_mut().zip(&values).for_each(|(y, x)| *y = 9.0 * x);
            assert_eq!(output(&session), expected, "{live} rows on {device:?}");
            assert_eq!(session.padded_ops().unwrap(), Vec::<&str>::new());
        }
        assert_eq!(device.validation_messages(), Vec::<String>::new());
    }
}

#[test]
fn an_input_has_live_rows_too() {
    for device in devices() {
        let mut builder = GraphBuilder::new(&device);
        let extent = builder.extent("rows", ROWS).unwrap();
        let x = builder.live_input("x", info(&[ROWS, ROW]), extent).unwrap();
        let y = builder.run_one(Triple, &[&x]).unwrap();
        assert_eq!(builder.extent_of(&x).unwrap(), Some(extent));
        assert_eq!(builder.extent_of(&y).unwrap(), Some(extent));
        let fixed = builder.input("fixed", info(&[ROWS, ROW]));
        assert_eq!(builder.extent_of(&fixed).unwrap(), None);
        let graph = builder.finish(&[&y]).unwrap();
        let executor = GraphExecutor::new(graph, &GraphOptions::default()).unwrap();
        let [input, fixed] =
            [(); 2].map(|()| vector(&device, &count(ROWS * ROW)).reshape([ROWS, ROW]).unwrap());
        let mut session = executor.session(&[&input, &fixed]).unwrap();
        let mut expected = vec![0.0; ROWS * ROW];
        for (round, live) in [ROWS, 1, 7, ROWS, 33].into_iter().enumerate() {
            session.set_extent(extent, live).unwrap();
            let values: Vec<f32> = (0..ROWS * ROW).map(|i| (i + round) as f32).collect();
            input.copy_in(&values).unwrap();
            let _submission = session.replay().unwrap();
            expected.iter_mut().zip(&values).take(live * ROW).for_each(|(y, x)| *y = 3.0 * x);
            assert_eq!(output(&session), expected, "{live} rows on {device:?}");
        }
        // A buffer of another shape is refused, as for any input.
        let short = vector(&device, &count(ROW));
        assert!(executor.session(&[&short, &fixed]).is_err());
    }
}

#[test]
fn live_rows_of_an_input_are_not_written() {
    let device = Device::cpu().unwrap();
    let mut builder = GraphBuilder::new(&device);
    let extent = builder.extent("rows", ROWS).unwrap();
    let x = builder.live_input("x", info(&[ROWS, ROW]), extent).unwrap();
    let y = builder.live_input("y", info(&[ROWS, ROW]), extent).unwrap();
    let written = builder.run_into(Accumulate, &[&x], &[&y]);
    assert!(matches!(written, Err(Error::BadParameter { .. })), "{written:?}");
    let mut other = GraphBuilder::new(&device);
    assert!(matches!(other.live_input("z", info(&[ROWS, ROW]), extent), Err(Error::WrongGraph { .. })));
    assert!(matches!(builder.live_input("z", info(&[ROWS + 1, ROW]), extent), Err(Error::Shape { .. })));
    assert!(matches!(other.extent_of(&x), Err(Error::WrongGraph { .. })));
}

#[test]
fn an_extent_of_one_row_is_a_fixed_shape() {
    for device in devices() {
        let (executor, rows, x) = capture(&device, 1);
        let mut session = executor.session(&[]).unwrap();
        session.set_extent(rows, 1).unwrap();
        session.set(x, &count(ROW)).unwrap();
        session.replay().unwrap().wait().unwrap();
        assert_eq!(output(&session)[5], 45.0);
        let parameters = executor.graph().parameter_bytes().next_multiple_of(256);
        assert_eq!(executor.session_bytes(), parameters, "no launch words");
    }
}

#[test]
fn executors_of_several_sizes_share_one_arena() {
    for device in devices() {
        let sizes = [1, 4, ROWS].map(|rows| capture(&device, rows));
        let bytes = sizes.iter().map(|(executor, ..)| executor.arena_bytes()).max().unwrap();
        let arena = GraphArena::new(&device, bytes).unwrap();
        let before = device.usage().total();
        let mut sessions: Vec<_> = (sizes.iter())
            .map(|(executor, rows, x)| (executor.session_in(&arena, &[]).unwrap(), *rows, *x))
            .collect();
        let own: usize = sizes.iter().map(|(executor, ..)| executor.session_bytes()).sum();
        assert_eq!(device.usage().total() - before, own, "only parameters and launch words");
        for round in 0..3 {
            for ((session, rows, x), live) in sessions.iter_mut().zip([1, 3, 50]) {
                session.set_extent(*rows, live).unwrap();
                session.set(*x, &vec![round as f32; live * ROW]).unwrap();
                let _submission = session.replay().unwrap();
                assert!(output(session)[..live * ROW].iter().all(|y| *y == 9.0 * round as f32));
            }
        }
    }
}

#[test]
fn lists_of_the_null_device_have_their_launch_words() {
    let (device, raw) = null_device(&NullOptions::default());
    let (executor, rows, _) = capture(&device, ROWS);
    let mut session = executor.session(&[]).unwrap();
    session.set_extent(rows, 5).unwrap();
    let _submission = session.replay().unwrap();
    let lists = raw.lists();
    let (_, list) = lists.last().unwrap();
    let live = list.commands.iter().filter(
        |command| matches!(command, silicide_hal::Command::Dispatch(dispatch) if dispatch.live.is_some()),
    );
    assert_eq!(live.count(), 4);
}

#[test]
fn rules_refuse_extents_beyond_the_plan_and_of_other_graphs() {
    for device in devices() {
        let (executor, rows, x) = capture(&device, ROWS);
        let (_, foreign, _) = capture(&device, ROWS);
        let mut session = executor.session(&[]).unwrap();
        for bad in [0, ROWS + 1, usize::MAX] {
            let error = session.set_extent(rows, bad).unwrap_err();
            assert!(matches!(&error, Error::BadParameter { op: "set_extent", .. }), "{error}");
        }
        assert!(matches!(session.set_extent(foreign, 3), Err(Error::WrongGraph { .. })));
        session.set_extent(rows, 3).unwrap();
        for elements in [0, 2 * ROW, 3 * ROW + 1, ROWS * ROW + 1] {
            let error = session.set(x, &vec![0f32; elements]).unwrap_err();
            assert!(matches!(error, Error::SizeMismatch { .. }), "{error}");
        }
        session.set(x, &vec![1f32; ROWS * ROW]).unwrap();
        session.replay().unwrap().wait().unwrap();
    }
}

#[test]
fn rules_refuse_arenas_that_are_too_small() {
    let device = Device::cpu().unwrap();
    let (executor, ..) = capture(&device, ROWS);
    let small = GraphArena::new(&device, executor.arena_bytes() - 1).unwrap();
    let error = executor.session_in(&small, &[]).unwrap_err();
    assert!(matches!(error, Error::SizeMismatch { what: "arena", .. }), "{error}");
    let other = GraphArena::new(&Device::cpu().unwrap(), executor.arena_bytes()).unwrap();
    assert!(matches!(executor.session_in(&other, &[]), Err(Error::WrongDevice { .. })));
}

#[test]
fn rules_keep_live_rows_in_the_first_axis_and_in_the_arena() {
    let device = Device::cpu().unwrap();
    let mut builder = GraphBuilder::new(&device);
    assert!(matches!(builder.extent("rows", 0), Err(Error::BadParameter { .. })));
    let rows = builder.extent("rows", ROWS).unwrap();
    for axes in [&[ROW, ROWS][..], &[1], &[]] {
        assert!(matches!(builder.live_parameter("x", info(axes), rows), Err(Error::Shape { .. })));
    }
    let (_, value) = builder.live_parameter("x", info(&[ROWS, ROW]), rows).unwrap();
    for axes in [&[ROWS / 2, 2 * ROW][..], &[ROW, ROWS], &[1, ROWS, ROW]] {
        let reshaped = builder.reshape(&value, Shape::new(axes).unwrap());
        assert!(matches!(reshaped, Err(Error::Shape { .. })), "{axes:?}");
    }
    let state = builder.input("state", info(&[ROWS, ROW]));
    let written = builder.run_into(Accumulate, &[&value], &[&state]);
    assert!(matches!(written, Err(Error::BadParameter { op: "accumulate", .. })));
    // A constant has all rows: at fewer rows the op would refuse its inputs.
    let constant = builder.constant(&vector(&device, &[0.0; ROWS * ROW]).reshape([ROWS, ROW]).unwrap());
    assert!(matches!(builder.run_one(Add, &[&value, &constant]), Err(Error::Shape { .. })));
    let (other, _) = (GraphBuilder::new(&device).extent("rows", ROWS).unwrap(), ());
    let declared = builder.live_parameter("y", info(&[ROWS]), other);
    assert!(matches!(declared, Err(Error::WrongGraph { .. })));
}

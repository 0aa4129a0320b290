//! The rules of live extents: an extent within the plan, an arena that is large enough, live rows in the first axis, and launches
//! that replace those of the plan. What is accepted computes what is recorded op by op at those rows.
//!
//! `scripts/check-rules` shows that these tests notice each rule that is missing.

use crate::common::ops::{Accumulate, Add, Odd, Scale, Switching, Transpose};
use proptest::prelude::*;
use silicide_core::kernel::TensorInfo;
use silicide_core::{Device, Error, GraphArena, GraphBuilder, GraphExecutor, GraphOptions, Recorder};
use silicide_quant::{DType, Shape};

/// Elements of a row.
const ROW: usize = 67;

fn info(axes: &[usize]) -> TensorInfo {
    TensorInfo::new(DType::F32, Shape::new(axes).unwrap())
}

fn values(rows: usize) -> Vec<f32> {
    (0..rows * ROW).map(|i| i as f32).collect()
}

/// The most rows of a plan, and a number of rows that may be too large for it.
fn rows() -> impl Strategy<Value = (usize, usize)> {
    (4..40usize).prop_flat_map(|most| (Just(most), 0..2 * most))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// An extent is at least 1 and at most what was planned, and an arena is as large as the plan.
    #[test]
    fn rules_of_extents_and_arenas_hold((most, live) in rows(), slack in -600i64..600) {
        let device = Device::cpu().unwrap();
        let mut builder = GraphBuilder::new(&device);
        let extent = builder.extent("rows", most).unwrap();
        let (x, value) = builder.live_parameter("x", info(&[most, ROW]), extent).unwrap();
        let twice = builder.run_one(Scale(2.0), &[&value]).unwrap();
        let sum = builder.run_one(Add, &[&twice, &value]).unwrap();
        let graph = builder.finish(&[&sum]).unwrap();
        let executor = GraphExecutor::new(graph, &GraphOptions::default()).unwrap();
        let arena = GraphArena::new(&device, executor.arena_bytes().saturating_add_signed(slack as isize)).unwrap();
        let mut session = match executor.session_in(&arena, &[]) {
            Ok(session) => session,
            Err(error) => {
                prop_assert!(slack < 0 && matches!(error, Error::SizeMismatch { what: "arena", .. }), "{error}");
                return Ok(());
            }
        };
        prop_assert!(slack >= 0);
        if let Err(error) = session.set_extent(extent, live) {
            let refused = matches!(error, Error::BadParameter { op: "set_extent", .. });
            prop_assert!(refused && (live == 0 || live > most), "{error}");
            return Ok(());
        }
        prop_assert!((1..=most).contains(&live));
        session.set(x, &values(live)).unwrap();
        let _submission = session.replay().unwrap();
        let output = session.output(0).unwrap().to_vec::<f32>().unwrap();
        let expected: Vec<f32> = values(live).iter().map(|x| 3.0 * x).collect();
        prop_assert_eq!(&output[..live * ROW], expected);
    }

    /// Live rows are never written to memory from outside, which has a fixed shape.
    #[test]
    fn rules_keep_live_rows_inside((most, live) in rows(), outside: bool) {
        let device = Device::cpu().unwrap();
        let mut builder = GraphBuilder::new(&device);
        let extent = builder.extent("rows", most).unwrap();
        let (x, value) = builder.live_parameter("x", info(&[most, ROW]), extent).unwrap();
        let target = match outside {
            true => builder.input("state", info(&[most, ROW])),
            false => builder.run_one(Scale(2.0), &[&value]).unwrap(),
        };
        let written = builder.run_into(Accumulate, &[&value], &[&target]);
        prop_assert_eq!(written.is_err(), outside);
        if outside {
            return Ok(());
        }
        let live = live.clamp(1, most);
        let graph = builder.finish(&[&target]).unwrap();
        let mut session = GraphExecutor::new(graph, &GraphOptions::default()).unwrap().session(&[]).unwrap();
        session.set_extent(extent, live).unwrap();
        session.set(x, &values(live)).unwrap();
        let _submission = session.replay().unwrap();
        let output = session.output(0).unwrap().to_vec::<f32>().unwrap();
        prop_assert!(output.iter().zip(values(live)).all(|(y, x)| *y == 3.0 * x));
    }

    /// An op may move live rows out of the first axis, or change its output at single numbers of rows: such a capture or replay
    /// is refused. Other numbers of rows are computed.
    #[test]
    fn rules_refuse_outputs_that_do_not_follow_their_rows((most, live) in rows(), odd in 2..40usize) {
        let device = Device::cpu().unwrap();
        let mut builder = GraphBuilder::new(&device);
        let extent = builder.extent("rows", most).unwrap();
        let (x, value) = builder.live_parameter("x", info(&[most, ROW]), extent).unwrap();
        prop_assert!(builder.run_one(Transpose, &[&value]).is_err());
        prop_assume!(odd < most - 1);
        let output = builder.run_one(Odd(odd), &[&value]).unwrap();
        let graph = builder.finish(&[&output]).unwrap();
        let mut session = GraphExecutor::new(graph, &GraphOptions::default()).unwrap().session(&[]).unwrap();
        let live = live.clamp(1, most);
        session.set_extent(extent, live).unwrap();
        session.set(x, &values(live)).unwrap();
        let replayed = session.replay();
        prop_assert_eq!(replayed.is_err(), live == odd, "{} of {} rows", live, most);
        if replayed.is_ok() {
            let output = session.output(0).unwrap().to_vec::<f32>().unwrap();
            prop_assert_eq!(output, values(1)[..2].to_vec());
        }
    }

    /// A kernel that plans fewer rows with another program keeps its planned launch.
    #[test]
    fn rules_keep_the_program_that_was_baked((most, live) in rows()) {
        let device = Device::cpu().unwrap();
        let mut builder = GraphBuilder::new(&device);
        let extent = builder.extent("rows", most).unwrap();
        let (x, value) = builder.live_parameter("x", info(&[most, ROW]), extent).unwrap();
        let output = builder.run_one(Switching { at: most * ROW }, &[&value]).unwrap();
        let graph = builder.finish(&[&output]).unwrap();
        let mut session = GraphExecutor::new(graph, &GraphOptions::default()).unwrap().session(&[]).unwrap();
        let live = live.clamp(1, most);
        session.set_extent(extent, live).unwrap();
        session.set(x, &values(live)).unwrap();
        let _submission = session.replay().unwrap();
        let output = session.output(0).unwrap().to_vec::<f32>().unwrap();
        prop_assert!(output.iter().zip(values(live)).all(|(y, x)| *y == 3.0 * x));
    }
}

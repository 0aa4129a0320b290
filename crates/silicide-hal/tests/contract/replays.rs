//! Baked lists: a replay is a submission.

use super::{Bench, LONG, Rig, TestKernel};
use silicide_hal::{Binding, Command, CommandList, RawPipeline};

/// Three dispatches in a row over `x`: `x = x * 3 + round + i`.
fn rounds(pipeline: RawPipeline, x: Binding) -> CommandList {
    let count = (x.bytes / 4) as u32;
    let mut list = CommandList::default();
    for round in 0..3 {
        list.dispatch(pipeline, [count, 1, 1], &[x], &[0, 3, round, count, 1]);
        list.commands.push(Command::Barrier);
    }
    list
}

/// A list that adds 2 to a word three times.
fn counting(pipeline: RawPipeline, x: Binding) -> CommandList {
    let mut list = CommandList::default();
    for _ in 0..3 {
        list.dispatch(pipeline, [1, 1, 1], &[x], &[0, 1, 2, 1, 1]);
        list.commands.push(Command::Barrier);
    }
    list
}

pub(crate) fn baking_runs_nothing<R: Rig>(bench: &Bench<R>) {
    let x = bench.bind(&[1u32]);
    let baked = bench.bake(&counting(bench.compile(TestKernel::Affine), x));
    bench.run(&CommandList::default());
    bench.unbake(baked);
    assert_eq!(bench.read::<u32>(x), [1]);
}

pub(crate) fn a_replay_computes_what_a_submission_computes<R: Rig>(bench: &Bench<R>) {
    let pipeline = bench.compile(TestKernel::Affine);
    let (submitted, replayed) = (bench.bind(&[1u32; 700]), bench.bind(&[1u32; 700]));
    let list = rounds(pipeline, submitted);
    let baked = bench.bake(&rounds(pipeline, replayed));
    for turn in 0..4 {
        bench.run(&list);
        bench.device.wait(bench.replay(baked), LONG).unwrap();
        let expected = bench.read::<u32>(submitted);
        assert_ne!(expected[1], 1, "the kernel ran");
        assert_eq!(bench.read::<u32>(replayed), expected, "turn {turn}");
    }
}

pub(crate) fn a_replay_reads_what_the_host_has_written<R: Rig>(bench: &Bench<R>) {
    let (input, output) = (bench.bind(&[0u32; 4]), bench.bind(&[0u32; 4]));
    let mut list = CommandList::default();
    list.commands.push(Command::Copy { src: input, dst: output });
    let baked = bench.bake(&list);
    for value in [5u32, 900, 0, 7] {
        bench.bytes(input).copy_from_slice(bytemuck::bytes_of(&[value; 4]));
        bench.device.wait(bench.replay(baked), LONG).unwrap();
        assert_eq!(bench.read::<u32>(output), [value; 4]);
    }
}

pub(crate) fn replays_follow_each_other_without_waiting<R: Rig>(bench: &Bench<R>) {
    let x = bench.bind(&[0u32]);
    let baked = bench.bake(&counting(bench.compile(TestKernel::Affine), x));
    let last = (0..200).map(|_| bench.replay(baked)).last().unwrap();
    bench.device.wait(last, LONG).unwrap();
    assert_eq!(bench.read::<u32>(x), [1200]);
}

pub(crate) fn baked_lists_and_submissions_can_be_mixed<R: Rig>(bench: &Bench<R>) {
    let (pipeline, x) = (bench.compile(TestKernel::Affine), bench.bind(&[0u32]));
    let list = counting(pipeline, x);
    for turn in 1..=3 {
        // Two live at once; later turns use the handles of earlier ones again.
        let [one, two] = [bench.bake(&list), bench.bake(&list)];
        assert_ne!(one, two);
        bench.replay(one);
        bench.submit(&list).1.unwrap();
        let last = bench.replay(two);
        bench.device.wait(last, LONG).unwrap();
        assert_eq!(bench.read::<u32>(x), [18 * turn]);
        bench.unbake(one);
        bench.unbake(two);
    }
}

//! Live dispatches: parameter words, grid and lengths of bindings lie in memory that the host writes between replays.

use super::{Bench, LONG, Rig, TestKernel};
use silicide_hal::{Binding, CommandList, LaunchWords, RawPipeline};

/// Elements of `x`.
const COUNT: u32 = 300;

/// The launch words of `Affine` over the first `count` elements: `x = x * factor + term + i`.
fn affine(count: u32, factor: u32, term: u32) -> Vec<u32> {
    let mut words = Vec::new();
    LaunchWords::write(&[0, factor, term, count, 1], [count, 1, 1], [u64::from(count) * 4], &mut words);
    words
}

/// Appends a live dispatch of `Affine` over all of `x`, with its launch words in `words`.
fn push_live(list: &mut CommandList, pipeline: RawPipeline, x: Binding, words: Binding) {
    list.dispatch(pipeline, [COUNT, 1, 1], &[x], &[0, 7, 7, COUNT, 1]);
    list.make_live(words);
}

fn compile<R: Rig>(bench: &Bench<R>) -> RawPipeline {
    bench.compile_program(&R::program(TestKernel::Affine).live()).unwrap()
}

pub(crate) fn a_live_dispatch_reads_its_launch_words_at_every_replay<R: Rig>(bench: &Bench<R>) {
    let x = bench.bind(&[1u32; COUNT as usize]);
    let words = bench.bind(&affine(COUNT, 1, 0));
    let mut list = CommandList::default();
    push_live(&mut list, compile(bench), x, words);
    let baked = bench.bake(&list);
    let mut expected = vec![1u32; COUNT as usize];
    for (count, factor, term) in [(COUNT, 1, 0), (3, 2, 5), (1, 1, 1), (130, 3, 0), (COUNT, 2, 9)] {
        bench.bytes(words).copy_from_slice(bytemuck::cast_slice(&affine(count, factor, term)));
        bench.device.wait(bench.replay(baked), LONG).unwrap();
        for (i, value) in expected.iter_mut().enumerate().take(count as usize) {
            *value = *value * factor + term + i as u32;
        }
        assert_eq!(bench.read::<u32>(x), expected, "{count} elements");
    }
}

pub(crate) fn a_live_dispatch_can_be_submitted_once<R: Rig>(bench: &Bench<R>) {
    let (x, words) = (bench.bind(&[0u32; COUNT as usize]), bench.bind(&affine(2, 1, 40)));
    let mut list = CommandList::default();
    push_live(&mut list, compile(bench), x, words);
    bench.run(&list);
    assert_eq!(bench.read::<u32>(x)[..3], [40, 41, 0]);
}

pub(crate) fn live_and_fixed_dispatches_share_a_group<R: Rig>(bench: &Bench<R>) {
    let [x, y, z] = [0; 3].map(|_| bench.bind(&[0u32; COUNT as usize]));
    let words = [5, 6].map(|_| bench.bind(&affine(COUNT, 1, 0)));
    let (live, fixed) = (compile(bench), bench.compile(TestKernel::Affine));
    let mut list = CommandList::default();
    push_live(&mut list, live, x, words[0]);
    list.dispatch(fixed, [COUNT, 1, 1], &[y], &[0, 1, 2, COUNT, 1]);
    push_live(&mut list, live, z, words[1]);
    let baked = bench.bake(&list);
    for counts in [[9, 1], [1, 200]] {
        for (words, count) in words.iter().zip(counts) {
            bench.bytes(*words).copy_from_slice(bytemuck::cast_slice(&affine(count, 0, 1)));
        }
        for buffer in [x, y, z] {
            bench.bytes(buffer).fill(0);
        }
        bench.device.wait(bench.replay(baked), LONG).unwrap();
        let written = |buffer| bench.read::<u32>(buffer).iter().filter(|value| **value > 0).count() as u32;
        assert_eq!([written(x), written(y), written(z)], [counts[0], COUNT, counts[1]]);
    }
}

//! Work lists of attention: the host refuses bad ones, and devices cut bad words, so that nothing outside of the cache is read.
#![allow(clippy::unwrap_used, clippy::panic)]

use silicide_core::{Buffer, CommandEncoder, Device};
use silicide_ops::attention::{Attention, AttentionInputs, MOST_POSITIONS, Visibility, WorkList, attention};
use std::ops::Range;

const CAPACITY: usize = 600;
const HEADS: usize = 4;
const DIM: usize = 16;

fn devices() -> Vec<Device> {
    let mut devices = vec![Device::cpu().unwrap()];
    match Device::open("vulkan") {
        Ok(vulkan) => devices.push(vulkan),
        Err(error) => samples::not_tested(format!("work lists on Vulkan: {error}")),
    }
    devices
}

/// The outputs of `queries` queries whose list has these words.
fn run(device: &Device, words: &[u32], queries: usize) -> Vec<f32> {
    run_without(device, words, queries, None)
}

/// [`run`], with NaN as the keys and values of a slot.
fn run_without(device: &Device, words: &[u32], queries: usize, slot: Option<usize>) -> Vec<f32> {
    let values = |count: usize, step: usize| -> Vec<f32> {
        (0..count).map(|i| ((i * step) % 101) as f32 / 50.0 - 1.0).collect()
    };
    let q = Buffer::from_slice(device, [queries, HEADS, DIM], &values(queries * HEADS * DIM, 7)).unwrap();
    let cache = |step| {
        let mut values = values(2 * CAPACITY * DIM, step);
        for head in 0..2 {
            if let Some(slot) = slot {
                values[(head * CAPACITY + slot) * DIM..][..DIM].fill(f32::NAN);
            }
        }
        Buffer::from_slice(device, [2, CAPACITY, DIM], &values).unwrap()
    };
    let (k, v) = (cache(3), cache(5));
    let work = Buffer::from_slice(device, [words.len() / 4, 4], words).unwrap();
    let mut encoder = CommandEncoder::new(device);
    let inputs = AttentionInputs { q: &q, k: &k, v: &v, work: &work, sinks: None };
    let y = attention(&mut encoder, Attention { scale: 0.25, softcap: None }, &inputs).unwrap();
    encoder.submit().unwrap().wait().unwrap();
    y.to_vec().unwrap()
}

fn list(device: &Device, queries: usize) -> Vec<u32> {
    let mut list = WorkList::new(CAPACITY, device.info());
    list.set(Visibility::causal(CAPACITY).ranges(500, queries)).unwrap();
    list.words().to_vec()
}

#[test]
fn ranges_that_a_cache_does_not_have_are_refused() {
    let device = Device::cpu().unwrap();
    let mut list = WorkList::new(100, device.info());
    let mut set = |ranges: &[(usize, usize)]| {
        let done = list.set(ranges.iter().map(|&(first, end)| first..end));
        assert_eq!(done.is_err(), list.entries() == 0, "{ranges:?}");
        done.map_err(|error| error.to_string())
    };
    set(&[(0, 100), (1, 1), (50, 100)]).unwrap();
    set(&[(MOST_POSITIONS - 1, MOST_POSITIONS)]).unwrap();
    assert!(set(&[(0, 101)]).unwrap_err().contains("query 0 sees 0..101"));
    assert!(set(&[(50, 100), (0, 10), (80, 110)]).unwrap_err().contains("query 2 sees 80..110"));
    assert!(set(&[(0, 1), (9, 8)]).unwrap_err().contains("query 1 sees 9..8"));
    assert!(set(&[(MOST_POSITIONS, MOST_POSITIONS + 1)]).is_err());
    assert!(set(&[(0, usize::MAX)]).is_err());
}

#[test]
fn lists_have_at_most_the_entries_that_memory_is_planned_for() {
    for device in devices() {
        for (capacity, window) in [(64, None), (1000, Some(130)), (20_000, None), (100_000, Some(90_000))] {
            let rule = Visibility { window, ..Visibility::causal(capacity) };
            let mut list = WorkList::new(capacity, device.info());
            for tokens in [1, 2, 5, 16, 17, 40] {
                let most = WorkList::most_entries(&rule, tokens, device.info());
                for start in (0..4 * capacity).step_by(61) {
                    list.set(rule.ranges(start, tokens)).unwrap();
                    assert!(
                        list.entries() <= most,
                        "{} of {most}: {rule:?}, {tokens} at {start}",
                        list.entries()
                    );
                }
            }
        }
    }
}

#[test]
fn a_query_whose_items_do_not_have_it_is_nan_and_others_are_not() {
    for device in devices() {
        let words = list(&device, 3);
        let whole = run(&device, &words, 3);
        assert!(whole.iter().all(|value| value.is_finite()));
        // The items begin at the second query.
        let mut late = words.clone();
        late[12..].as_chunks_mut::<4>().0.iter_mut().for_each(|item| (item[0], item[1]) = (1, 2));
        let got = run(&device, &late, 3);
        let (first, others) = got.split_at(HEADS * DIM);
        assert!(first.iter().all(|value| value.is_nan()), "{}", device.info().id);
        assert_eq!(others, &whole[HEADS * DIM..]);
    }
}

#[test]
fn items_may_have_fewer_queries_than_the_list() {
    for device in devices() {
        // Two blocks of one group of eight, and two of two groups.
        for block in [0, 7] {
            let from = block * 128 + 20;
            let (short, long) = (from..from + 80, from..from + 180);
            let mut all = WorkList::new(CAPACITY, device.info());
            all.set([short.clone(), long.clone()].into_iter()).unwrap();
            let query = |seen: Range<usize>, items| [seen.start as u32, seen.end as u32, 0, items];
            let items = [[0, 2, block as u32, 1], [1, 1, block as u32 + 1, 1]];
            let staggered = [query(short, 1), query(long, 2), items[0], items[1]].concat();
            let (want, got) = (run(&device, all.words(), 2), run(&device, &staggered, 2));
            if device.info().is_gpu() {
                let difference = want.iter().zip(&got).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(difference < 1e-5, "{}, block {block}: {difference}", device.info().id);
            } else {
                assert_eq!(want, got, "block {block}");
            }
        }
    }
}

#[test]
fn keys_and_values_after_a_query_do_not_reach_it() {
    for device in devices() {
        for queries in [3, 20] {
            let words = list(&device, queries);
            let whole = run(&device, &words, queries);
            let got = run_without(&device, &words, queries, Some(500 + queries - 1));
            let (before, last) = got.split_at((queries - 1) * HEADS * DIM);
            assert_eq!(before, &whole[..before.len()], "{}, {queries} queries", device.info().id);
            assert!(last.iter().all(|value| value.is_nan()), "{}", device.info().id);
        }
    }
}

#[test]
fn bounds_are_cut_to_the_capacity() {
    for device in devices() {
        for queries in [1, 20] {
            let cut = |first: u32, end: u32| {
                let mut words: Vec<u32> = (0..queries).flat_map(|_| [first, end, 0, 1]).collect();
                if queries == 1 {
                    words.extend([0, 1, (MOST_POSITIONS / 128 - 3) as u32, 3]);
                }
                run(&device, &words, queries)
            };
            let most = MOST_POSITIONS as u32;
            assert_eq!(cut(0, u32::MAX), cut(most - CAPACITY as u32, most), "{}", device.info().id);
        }
    }
}

#[test]
fn any_words_are_run() {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    for device in devices() {
        for round in 0..60 {
            let queries = [1, 3, 16, 33][round % 4];
            let mut words = list(&device, queries);
            for _ in 0..=round % 7 {
                let at = next() as usize % words.len();
                words[at] = match next() % 3 {
                    0 => u32::MAX - next() % 3,
                    1 => next() % 700,
                    _ => next(),
                };
            }
            assert_eq!(run(&device, &words, queries).len(), queries * HEADS * DIM);
        }
    }
}

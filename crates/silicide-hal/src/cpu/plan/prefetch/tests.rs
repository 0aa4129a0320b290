use super::super::{Kernel, Opened, Words};
use super::*;

/// Returns 64 bytes for a tile; with a parameter, 64 bytes of each of two weights.
fn streams(tile: &Tile<'_>) -> [PrefetchRange; 2] {
    let at = |start: usize| PrefetchRange { start: start + 64 * tile.index[0] as usize, bytes: 64 };
    [at(1000), if tile.param(0) > 0 { at(9000) } else { PrefetchRange::default() }]
}

fn nothing(_: &Tile<'_>) {}

/// Returns a plan with a group for each (kernel, number of tiles, number of parameter words).
fn plan(groups: &[(&Kernel, u32, u32)], l2_bytes: usize) -> Plan {
    let mut plan = Plan::default();
    for (kernel, tiles, params) in groups {
        let none = Words { start: 0, len: 0 };
        let params = Words { start: 0, len: *params };
        let grid = [*tiles, 1, 1];
        let work = Work::Launch(Launch { kernel: *kernel, grid, bindings: none, params, live: None });
        let first_step = plan.steps.len() as u32;
        plan.steps.push(Step { first: 0, work });
        plan.close(&mut Opened { first_step, tiles: u64::from(*tiles), bytes: 0, launches: true });
    }
    plan.plan_prefetch(&[1], 2, l2_bytes);
    plan
}

#[test]
fn a_thread_prefetches_the_start_of_its_part_in_the_next_group_that_streams() {
    let kernel = |streams| Kernel { entry: nothing, name: "", label: String::new(), streams, workspace: 0 };
    let (weights, other) = (kernel(Some(streams as crate::StreamFn)), kernel(None));
    let range = |start, bytes| PrefetchRange { start, bytes };
    let none = PrefetchRange::default();
    let plan =
        plan(&[(&other, 4, 0), (&weights, 8, 0), (&other, 1, 0), (&other, 4, 0), (&weights, 4, 1)], 1024);
    // Four tiles of each thread fill a quarter of the cache.
    assert_eq!(plan.next_ranges(0, 0, 2).ranges, [range(1000, 256), none]);
    assert_eq!(plan.next_ranges(0, 1, 2).ranges, [range(1256, 256), none]);
    for group in 1..4 {
        assert_eq!(
            plan.next_ranges(group, 1, 2).ranges,
            [range(1128, 128), range(9128, 128)],
            "after group {group}"
        );
    }
    assert_eq!(plan.next_ranges(4, 0, 2).ranges, [range(1000, 256), none], "a replay starts over");
    assert_eq!(
        [0, 1, 2, 3, 4].map(|group| plan.next_ranges(group, 0, 2).evicted),
        [false, true, false, false, true]
    );
    assert_eq!(plan.next_ranges(0, 0, 1), NextRanges::default(), "a smaller team has other parts");
}

#[test]
fn no_more_than_a_fraction_of_the_cache_is_prefetched() {
    let kernel =
        Kernel { entry: nothing, name: "", label: String::new(), streams: Some(streams), workspace: 0 };
    let [one, two] = plan(&[(&kernel, 64, 1)], 1024).next_ranges(0, 0, 2).ranges;
    assert_eq!((one.bytes, two.bytes), (128, 128));
    let [one, two] = plan(&[(&kernel, 64, 0)], 1024).next_ranges(0, 1, 2).ranges;
    assert_eq!((one, two.bytes), (PrefetchRange { start: 1000 + 64 * 32, bytes: 256 }, 0));
}

#[test]
fn planning_examines_a_bounded_number_of_tiles_and_survives_wrong_hints() {
    let kernel = |streams| Kernel {
        entry: nothing,
        name: "",
        label: String::new(),
        streams: Some(streams),
        workspace: 0,
    };
    let [one, _] = plan(&[(&kernel(streams), 4000, 0)], 1 << 30).next_ranges(0, 0, 2).ranges;
    assert_eq!(one.bytes, 64 * MOST_TILES);
    fn panics(tile: &Tile<'_>) -> [PrefetchRange; 2] {
        [PrefetchRange { start: tile.params[7] as usize, bytes: 1 }; 2]
    }
    assert_eq!(plan(&[(&kernel(panics), 8, 0)], 1024).next_ranges(0, 0, 2), NextRanges::default());
    // Address arithmetic saturates.
    fn endless(_: &Tile<'_>) -> [PrefetchRange; 2] {
        [PrefetchRange { start: usize::MAX, bytes: usize::MAX }; 2]
    }
    let [one, two] = plan(&[(&kernel(endless), 8, 0)], 1024).next_ranges(0, 0, 2).ranges;
    assert_eq!((one.bytes, two.bytes), (128, 128));
}

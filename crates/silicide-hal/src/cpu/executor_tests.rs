//! The CPU device through its verbs.

use super::*;
use crate::{Binding, Command, MemoryKind, NativeKernel, NativeVariant, Tile};
use std::sync::atomic::{AtomicU32, Ordering};

/// A kernel with one portable variant.
macro_rules! kernel {
    ($name:literal, $entry:expr) => {
        Program::Native({
            static KERNEL: NativeKernel =
                NativeKernel::new($name, &[NativeVariant { isa: Isa::Portable, entry: $entry }]);
            &KERNEL
        })
    };
}

/// `out[i] = out[i] * params[0] + params[1] + i`, one element per tile along x.
unsafe fn affine(tile: &Tile<'_>) {
    let [i, ..] = tile.index.map(|i| i as usize);
    // SAFETY: the tests bind one u32 per tile.
    let out = unsafe { tile.write::<u32>(0, i..i + 1) };
    out[0] = out[0].wrapping_mul(tile.param(0)).wrapping_add(tile.param(1)).wrapping_add(i as u32);
}

/// Panics at the tile whose index is word 0 of its binding.
unsafe fn fail_as_told(tile: &Tile<'_>) {
    // SAFETY: the tests bind one u32, which only the host writes.
    if tile.index[0] == unsafe { tile.read::<u32>(0)[0] } {
        std::panic::resume_unwind(Box::new("as told".to_owned()));
    }
}

/// Panics at tile `params[0]`, without a word on the terminal.
unsafe fn fail(tile: &Tile<'_>) {
    if tile.index[0] == tile.param(0) {
        std::panic::resume_unwind(Box::new(format!("tile {}", tile.param(0))));
    }
}

/// A device with what it made, freed at the end.
struct Bench {
    device: Arc<dyn RawDevice>,
    blocks: Vec<RawBlock>,
    pipelines: Vec<RawPipeline>,
    last: Ticket,
}

impl Bench {
    fn new(threads: usize) -> Bench {
        let device = open(&CpuOptions::default().threads(threads)).unwrap();
        Bench { device, blocks: Vec::new(), pipelines: Vec::new(), last: Ticket(0) }
    }

    fn words(&mut self, values: &[u32]) -> Binding {
        let bytes = values.len() * 4;
        // SAFETY: a valid size.
        let block = unsafe { self.device.alloc(&BlockDesc { bytes, kind: MemoryKind::Shared }).unwrap() };
        self.blocks.push(block);
        let binding = Binding { block, offset: 0, bytes: bytes as u64 };
        self.view(binding).copy_from_slice(values);
        binding
    }

    #[allow(clippy::mut_from_ref)]
    fn view(&self, binding: Binding) -> &mut [u32] {
        // SAFETY: live, aligned, and nothing runs while a test looks.
        unsafe {
            let bytes = self.device.map(binding.block).unwrap().as_ptr() as *mut u8;
            let start = bytes.add(binding.offset as usize).cast();
            std::slice::from_raw_parts_mut(start, binding.bytes as usize / 4)
        }
    }

    fn compile(&mut self, program: &Program) -> RawPipeline {
        // SAFETY: the kernels of these tests stay inside their bindings.
        let pipeline = unsafe { self.device.compile(program.name(), program, None).unwrap() };
        self.pipelines.push(pipeline);
        pipeline
    }

    fn submit(&mut self, list: &CommandList) -> Result<()> {
        self.last.0 += 1;
        // SAFETY: the tests keep handles live and place barriers.
        unsafe { self.device.submit(list, self.last)? };
        assert_eq!(self.device.reached(), Ok(self.last));
        self.device.wait(self.last, Duration::ZERO)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // SAFETY: live, and nothing is running.
        unsafe {
            self.blocks.drain(..).for_each(|block| self.device.free(block));
            self.pipelines.drain(..).for_each(|pipeline| self.device.discard(pipeline));
        }
    }
}

#[test]
fn copies_and_fills_of_all_sizes() {
    for threads in [1, 3] {
        let mut bench = Bench::new(threads);
        for words in [1, 2, 16_384, 65_536, 65_537, 300_001] {
            let values: Vec<u32> = (0..words).collect();
            let source = bench.words(&values);
            let copy = bench.words(&vec![9; words as usize]);
            let filled = bench.words(&vec![9; words as usize + 2]);
            let inner = Binding { offset: 4, bytes: filled.bytes - 8, ..filled };
            let mut list = CommandList::default();
            list.commands.push(Command::Copy { src: source, dst: copy });
            list.commands.push(Command::Fill { dst: inner, value: 0xdead_beef });
            bench.submit(&list).unwrap();
            assert_eq!(bench.view(copy), values);
            assert!(bench.view(inner).iter().all(|word| *word == 0xdead_beef));
            let around = bench.view(filled);
            assert_eq!((around[0], around[words as usize + 1]), (9, 9));
        }
    }
}

#[test]
fn dispatches_see_parameters_and_order() {
    for threads in [1, 2, 3, 5] {
        let mut bench = Bench::new(threads);
        let pipeline = bench.compile(&kernel!("affine", affine));
        for tiles in [1u32, 2, 7, 1000, 10_000] {
            let data = bench.words(&vec![1; tiles as usize]);
            let mut list = CommandList::default();
            let mut expected = vec![1u32; tiles as usize];
            for round in 0..20u32 {
                list.dispatch(pipeline, [tiles, 1, 1], &[data], &[3, round]);
                list.commands.push(Command::Barrier);
                for (i, value) in expected.iter_mut().enumerate() {
                    *value = value.wrapping_mul(3).wrapping_add(round).wrapping_add(i as u32);
                }
            }
            bench.submit(&list).unwrap();
            assert_eq!(bench.view(data), expected, "{threads} threads, {tiles} tiles");
        }
    }
}

#[test]
fn every_position_of_a_grid_runs_once() {
    unsafe fn count(tile: &Tile<'_>) {
        let [x, y, z] = tile.index.map(|i| i as usize);
        let [width, height, _] = tile.grid.map(|n| n as usize);
        let i = (z * height + y) * width + x;
        // SAFETY: one u32 per position.
        unsafe { tile.write::<u32>(0, i..i + 1)[0] += 1 };
    }
    for threads in [1, 2, 3] {
        let mut bench = Bench::new(threads);
        let pipeline = bench.compile(&kernel!("count", count));
        for grid in [[1, 1, 1], [5, 7, 3], [17, 31, 23], [4095, 1, 1], [1, 4096, 1], [1, 1, 100_000]] {
            let tiles = grid.iter().product::<u32>() as usize;
            let data = bench.words(&vec![0; tiles]);
            let mut list = CommandList::default();
            list.dispatch(pipeline, grid, &[data], &[]);
            bench.submit(&list).unwrap();
            assert!(bench.view(data).iter().all(|count| *count == 1), "{grid:?}");
        }
    }
}

/// Two dispatches of one tile each wait for each other: they finish only when they run at the same time.
#[test]
fn commands_of_a_group_run_side_by_side() {
    static ARRIVED: AtomicU32 = AtomicU32::new(0);
    unsafe fn meet(_: &Tile<'_>) {
        ARRIVED.fetch_add(1, Ordering::SeqCst);
        let started = std::time::Instant::now();
        while ARRIVED.load(Ordering::SeqCst) < 2 {
            assert!(started.elapsed() < Duration::from_secs(30), "left alone");
            std::thread::yield_now();
        }
    }
    let mut bench = Bench::new(2);
    let pipeline = bench.compile(&kernel!("meet", meet));
    let mut list = CommandList::default();
    list.dispatch(pipeline, [1, 1, 1], &[], &[]);
    list.dispatch(pipeline, [1, 1, 1], &[], &[]);
    bench.submit(&list).unwrap();
}

#[test]
fn marks_become_spans() {
    unsafe fn sleep(tile: &Tile<'_>) {
        std::thread::sleep(Duration::from_millis(u64::from(tile.param(0))));
    }
    let mut bench = Bench::new(2);
    let pipeline = bench.compile(&kernel!("sleep", sleep));
    let mut list = CommandList::default();
    list.dispatch(pipeline, [1, 1, 1], &[], &[1]);
    list.commands.push(Command::Mark { label: "one" });
    list.dispatch(pipeline, [2, 1, 1], &[], &[4]);
    list.commands.push(Command::Mark { label: "two" });
    list.commands.push(Command::Mark { label: "three" });
    list.dispatch(pipeline, [1, 1, 1], &[], &[8]);
    bench.submit(&list).unwrap();
    let spans = bench.device.spans(bench.last);
    let labels: Vec<&str> = spans.iter().map(|span| span.label).collect();
    assert_eq!(labels, ["one", "two", "three"]);
    assert_eq!(spans[0].start_ns, 0);
    assert!(spans[0].duration_ns >= 4_000_000 && spans[2].duration_ns >= 8_000_000, "{spans:?}");
    assert!(spans.windows(2).all(|pair| pair[1].start_ns == pair[0].start_ns + pair[0].duration_ns));
    list.commands.retain(|command| !matches!(command, Command::Mark { .. }));
    bench.submit(&list).unwrap();
    assert_eq!(bench.device.spans(bench.last), []);
}

#[test]
fn traced_lists_tell_what_each_thread_did() {
    unsafe fn sleep(tile: &Tile<'_>) {
        std::thread::sleep(Duration::from_micros(u64::from(tile.param(0))));
    }
    let mut bench = Bench::new(2);
    let (one, two) = (bench.compile(&kernel!("one", sleep)), bench.compile(&kernel!("two", sleep)));
    let data = bench.words(&[1; 64]);
    let mut list = CommandList { traced: true, ..CommandList::default() };
    list.commands.push(Command::Mark { label: "both" });
    // Two commands of one group: a thread that has run its own tiles goes back to those of the other.
    list.dispatch(one, [20, 1, 1], &[], &[500]);
    list.dispatch(two, [20, 1, 1], &[], &[500]);
    list.commands.push(Command::Mark { label: "alone" });
    list.dispatch(one, [1, 1, 1], &[], &[500]);
    list.commands.push(Command::Barrier);
    list.commands.push(Command::Fill { dst: data, value: 3 });
    // SAFETY: handles live as long as the bench.
    let baked = unsafe { bench.device.bake(&list).unwrap() };
    for _ in 0..3 {
        bench.last.0 += 1;
        // SAFETY: baked above.
        unsafe { bench.device.replay(baked, bench.last).unwrap() };
        let times = bench.device.thread_times(bench.last);
        assert_eq!(times.dropped, 0);
        let spans = bench.device.spans(bench.last);
        let end = spans.iter().map(|span| span.start_ns + span.duration_ns).max().unwrap();
        for thread in [0, 1] {
            let lane: Vec<_> = times.spans.iter().filter(|span| span.thread == thread).collect();
            assert!(lane.iter().any(|span| span.duration_ns >= 500_000), "{times:?}");
            assert!(
                lane.windows(2).all(|pair| pair[0].start_ns + pair[0].duration_ns <= pair[1].start_ns),
                "{times:?}"
            );
            assert!(lane.iter().all(|span| span.start_ns + span.duration_ns <= end), "{times:?}");
        }
        for label in ["one", "two", "fill"] {
            assert!(times.spans.iter().any(|span| span.label == label), "{label} in {times:?}");
        }
        assert!(times.spans.len() < 20, "runs of tiles, not tiles: {times:?}");
    }
    // SAFETY: baked, and nothing runs.
    unsafe { bench.device.unbake(baked) };
    list.traced = false;
    bench.submit(&list).unwrap();
    assert_eq!(bench.device.spans(bench.last).len(), 2);
    assert_eq!(bench.device.thread_times(bench.last), crate::ThreadTimes::default(), "nobody asked");
}

#[test]
fn a_panic_poisons_its_ticket_and_no_other() {
    for threads in [1, 2, 5] {
        let mut bench = Bench::new(threads);
        let bad = bench.compile(&kernel!("bad", fail));
        let good = bench.compile(&kernel!("affine", affine));
        let data = bench.words(&[1; 100]);
        let mut list = CommandList::default();
        list.commands.push(Command::Mark { label: "never timed" });
        list.dispatch(bad, [100, 1, 1], &[], &[3]);
        list.commands.push(Command::Barrier);
        list.dispatch(good, [100, 1, 1], &[data], &[0, 5]);
        let failure = bench.submit(&list).unwrap_err();
        let expected = HalError::KernelPanicked { label: "bad".into(), detail: "tile 3".into() };
        assert_eq!(failure, expected);
        assert!(bench.view(data).iter().all(|word| *word == 1), "the rest is skipped");
        assert_eq!(bench.device.spans(bench.last), []);
        let poisoned = bench.last;
        let mut list = CommandList::default();
        list.dispatch(good, [100, 1, 1], &[data], &[0, 5]);
        bench.submit(&list).unwrap();
        assert!(bench.view(data).iter().enumerate().all(|(i, word)| *word == 5 + i as u32));
        assert_eq!(bench.device.wait(poisoned, Duration::ZERO), Err(failure));
    }
}

#[test]
fn panics_anywhere_hang_nobody() {
    for threads in [1, 2, 3, 5] {
        let mut bench = Bench::new(threads);
        let bad = bench.compile(&kernel!("bad", fail));
        let good = bench.compile(&kernel!("affine", affine));
        let data = bench.words(&[0; 64]);
        let mut random = 12345u32;
        for _ in 0..200 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (tiles, tile) = (1 + (random >> 8) % 5000, (random >> 20) % 6000);
            let mut list = CommandList::default();
            list.dispatch(good, [64, 1, 1], &[data], &[1, 1]);
            list.dispatch(bad, [tiles, 1, 1], &[], &[tile]);
            list.commands.push(Command::Barrier);
            list.dispatch(bad, [tiles / 2 + 1, 1, 1], &[], &[u32::MAX]);
            let outcome = bench.submit(&list);
            assert_eq!(outcome.is_err(), tile < tiles, "{outcome:?}");
        }
    }
}

#[test]
fn instruction_sets_can_be_forced() {
    unsafe fn store_0(tile: &Tile<'_>) {
        // SAFETY: one u32 is bound.
        unsafe { tile.write::<u32>(0, 0..1)[0] = 100 };
    }
    unsafe fn store_1(tile: &Tile<'_>) {
        // SAFETY: one u32 is bound.
        unsafe { tile.write::<u32>(0, 0..1)[0] = 101 };
    }
    static KERNEL: NativeKernel = NativeKernel::new(
        "two",
        &[
            NativeVariant { isa: Isa::Avx2, entry: store_1 },
            NativeVariant { isa: Isa::Neon, entry: store_1 },
            NativeVariant { isa: Isa::Portable, entry: store_0 },
        ],
    );
    for isa in Isa::ALL {
        let device = open(&CpuOptions::default().threads(1).isa(isa));
        if !isa.is_available() {
            let Err(HalError::Unavailable { backend: "cpu", detail, .. }) = device else { panic!("{isa}") };
            assert!(detail.contains(isa.name()) && detail.contains("portable"), "{detail}");
            continue;
        }
        let device = device.unwrap();
        assert_eq!(device.info().isa, Some(isa));
        assert!(device.info().fingerprint.contains(isa.name()));
        let mut bench = Bench { device, blocks: Vec::new(), pipelines: Vec::new(), last: Ticket(0) };
        let pipeline = bench.compile(&Program::Native(&KERNEL));
        let data = bench.words(&[0]);
        let mut list = CommandList::default();
        list.dispatch(pipeline, [1, 1, 1], &[data], &[]);
        bench.submit(&list).unwrap();
        assert_eq!(bench.view(data)[0], if isa == Isa::Portable { 100 } else { 101 });
    }
}

#[test]
fn wgsl_is_refused_with_a_reason() {
    let bench = Bench::new(1);
    let program = Program::Wgsl(crate::WgslKernel::new("gpu_only", &[], 0, 0));
    // SAFETY: nothing is dispatched.
    let failure = unsafe { bench.device.compile("gpu_only", &program, None).unwrap_err() };
    assert!(
        matches!(failure, HalError::Compile { label, detail } if label == "gpu_only" && detail.contains("WGSL"))
    );
}

#[test]
fn imported_memory_is_used_in_place() {
    let mut bench = Bench::new(1);
    let pipeline = bench.compile(&kernel!("affine", affine));
    let mut words = vec![0u32; 8];
    let start = NonNull::new(words.as_mut_ptr().cast()).unwrap();
    // SAFETY: the vector outlives the block.
    let block = unsafe { bench.device.import(HostRegion { start, bytes: 32, writable: true }) };
    let binding = Binding { block: block.unwrap().unwrap().block, offset: 8, bytes: 8 };
    let mut list = CommandList::default();
    list.dispatch(pipeline, [2, 1, 1], &[binding], &[1, 7]);
    bench.submit(&list).unwrap();
    // SAFETY: live, and nothing is running.
    unsafe { bench.device.free(binding.block) };
    assert_eq!(words, [0, 0, 7, 8, 0, 0, 0, 0]);
}

#[test]
fn the_device_describes_itself() {
    let device = open(&CpuOptions::default()).unwrap();
    let info = device.info();
    assert_eq!((info.backend, info.id.as_str(), info.isa), (Backend::Cpu, "cpu", Some(Isa::best())));
    assert!(info.threads >= 1 && info.threads <= 64);
    assert!(info.features.unified_memory && info.features.host_import && info.features.timestamps);
    assert!(info.memory.total > 0 && !info.name.is_empty());
    assert_eq!(open(&CpuOptions::default().threads(0)).unwrap().info().threads, 1);
    assert_eq!(open(&CpuOptions::default().threads(1000)).unwrap().info().threads, 64);
}

#[test]
fn a_replay_is_a_submission() {
    for threads in [1, 3] {
        let mut bench = Bench::new(threads);
        let pipeline = bench.compile(&kernel!("affine", affine));
        let (submitted, replayed) = (bench.words(&[1; 700]), bench.words(&[1; 700]));
        let list = |data: Binding| {
            let mut list = CommandList::default();
            list.commands.push(Command::Mark { label: "all" });
            for round in 0..3 {
                list.dispatch(pipeline, [700, 1, 1], &[data], &[3, round]);
                list.commands.push(Command::Barrier);
            }
            list
        };
        // SAFETY: handles stay live until the list is unbaked.
        let baked = unsafe { bench.device.bake(&list(replayed)).unwrap() };
        for turn in 0..4 {
            bench.submit(&list(submitted)).unwrap();
            bench.last.0 += 1;
            // SAFETY: baked above.
            unsafe { bench.device.replay(baked, bench.last).unwrap() };
            bench.device.wait(bench.last, Duration::ZERO).unwrap();
            assert_eq!(bench.view(submitted), bench.view(replayed), "{threads} threads, turn {turn}");
            assert_eq!(bench.device.spans(bench.last).len(), 1);
        }
        // SAFETY: everything was reached.
        unsafe { bench.device.unbake(baked) };
    }
}

#[test]
fn a_replay_that_panics_can_be_replayed() {
    let mut bench = Bench::new(2);
    let bad = bench.compile(&kernel!("bad", fail_as_told));
    let panics_at = bench.words(&[3]);
    let mut list = CommandList::default();
    list.dispatch(bad, [8, 1, 1], &[panics_at], &[]);
    // SAFETY: handles stay live until the list is unbaked; the word is written while nothing runs.
    unsafe {
        let baked = bench.device.bake(&list).unwrap();
        bench.device.replay(baked, Ticket(1)).unwrap();
        bench.view(panics_at)[0] = 9;
        bench.device.replay(baked, Ticket(2)).unwrap();
        bench.device.unbake(baked);
    }
    assert!(matches!(bench.device.wait(Ticket(1), Duration::ZERO), Err(HalError::KernelPanicked { .. })));
    assert_eq!(bench.device.wait(Ticket(2), Duration::ZERO), Ok(()));
}

#[test]
fn submissions_from_many_threads_are_serialised() {
    let mut bench = Bench::new(3);
    let pipeline = bench.compile(&kernel!("affine", affine));
    let data = bench.words(&vec![0; 500]);
    let mut list = CommandList::default();
    for _ in 0..5 {
        list.dispatch(pipeline, [500, 1, 1], &[data], &[1, 1]);
        list.commands.push(Command::Barrier);
    }
    let device = &bench.device;
    let next = Mutex::new(0u64);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let ticket = {
                        let mut next = next.lock().unwrap();
                        *next += 1;
                        Ticket(*next)
                    };
                    // SAFETY: handles are live; the order of the tickets does not matter to this list.
                    unsafe { device.submit(&list, ticket).unwrap() };
                }
            });
        }
    });
    let rounds = 4 * 50 * 5;
    assert!(bench.view(data).iter().enumerate().all(|(i, word)| *word == rounds * (1 + i as u32)));
}

/// What [`stage`] keeps in its workspace.
type Staged = [u32; 20_000];

/// Fills its workspace with its index, yields, and writes to its word whether all of it is still there.
unsafe fn stage(tile: &Tile<'_>) {
    let [i, ..] = tile.index;
    // SAFETY: the only reference into the workspace, which is filled before it is read; one u32 per tile is bound.
    unsafe {
        let staged = tile.workspace::<Staged>();
        staged.as_mut_ptr().write_bytes(0, 1);
        let staged = staged.assume_init_mut();
        staged.fill(i);
        std::thread::yield_now();
        tile.write::<u32>(0, i as usize..i as usize + 1)[0] = u32::from(staged.iter().all(|word| *word == i));
    }
}

static STAGE: NativeKernel =
    NativeKernel::new("stage", &[NativeVariant { isa: Isa::Portable, entry: stage }])
        .with_workspace(size_of::<Staged>());

#[test]
fn every_thread_has_a_workspace_of_its_own() {
    for threads in [1, 3] {
        let mut bench = Bench::new(threads);
        assert_eq!(bench.device.workspace_bytes(), 0, "none before a kernel needs one");
        let words = bench.words(&[7; 500]);
        let pipeline = bench.compile(&Program::Native(&STAGE));
        let mut list = CommandList::default();
        list.dispatch(pipeline, [500, 1, 1], &[words], &[]);
        bench.submit(&list).unwrap();
        assert!(bench.view(words).iter().all(|kept| *kept == 1), "{threads} threads");
        let stride = size_of::<Staged>().next_multiple_of(4096);
        assert_eq!(bench.device.workspace_bytes(), threads * stride);
    }
}

#[test]
fn a_baked_list_has_its_workspaces_before_it_runs() {
    let mut bench = Bench::new(2);
    let words = bench.words(&[7; 40]);
    let pipeline = bench.compile(&Program::Native(&STAGE));
    let mut list = CommandList::default();
    list.dispatch(pipeline, [40, 1, 1], &[words], &[]);
    // SAFETY: handles live until the list is unbaked, and nothing conflicts.
    unsafe {
        let baked = bench.device.bake(&list).unwrap();
        let reserved = bench.device.workspace_bytes();
        assert!(reserved >= 2 * size_of::<Staged>());
        bench.last.0 += 1;
        bench.device.replay(baked, bench.last).unwrap();
        bench.device.wait(bench.last, Duration::ZERO).unwrap();
        assert_eq!(bench.device.workspace_bytes(), reserved);
        bench.device.unbake(baked);
    }
    assert!(bench.view(words).iter().all(|kept| *kept == 1));
}

#[test]
fn a_workspace_that_cannot_be_had_fails_the_submission_and_nothing_runs() {
    static GREEDY: NativeKernel =
        NativeKernel::new("greedy", &[NativeVariant { isa: Isa::Portable, entry: affine }])
            .with_workspace(isize::MAX as usize / 2);
    let mut bench = Bench::new(2);
    let words = bench.words(&[5; 4]);
    let pipeline = bench.compile(&Program::Native(&GREEDY));
    let mut list = CommandList::default();
    list.dispatch(pipeline, [4, 1, 1], &[words], &[0, 1]);
    // SAFETY: handles live until the end, and nothing conflicts.
    unsafe {
        assert!(matches!(bench.device.bake(&list), Err(HalError::OutOfMemory { .. })));
        assert!(matches!(bench.device.submit(&list, Ticket(1)), Err(HalError::OutOfMemory { .. })));
    }
    assert_eq!(bench.view(words), [5; 4]);
}

#[test]
fn a_kernel_that_uses_more_workspace_than_it_declared_panics() {
    static MODEST: NativeKernel =
        NativeKernel::new("modest", &[NativeVariant { isa: Isa::Portable, entry: stage }]).with_workspace(64);
    let mut bench = Bench::new(1);
    let words = bench.words(&[5; 4]);
    let pipeline = bench.compile(&Program::Native(&MODEST));
    let mut list = CommandList::default();
    list.dispatch(pipeline, [4, 1, 1], &[words], &[]);
    let Err(HalError::KernelPanicked { detail, .. }) = bench.submit(&list) else { panic!("it ran") };
    assert!(detail.contains("smaller workspace"), "{detail}");
}

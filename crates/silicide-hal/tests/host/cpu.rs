//! What only the CPU device has: threads, instruction sets, exact spans, traces.

use crate::contract::kernels::native_program;
use crate::contract::{Bench, LONG, TestKernel};
use crate::rigs::Cpu;
use silicide_hal::cpu::{self, CpuOptions, Isa};
use silicide_hal::{
    Backend, Command, CommandList, HalError, LaunchWords, NativeKernel, NativeVariant, Program, ThreadTimes,
    Ticket, Tile,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

fn bench(threads: usize) -> Bench<Cpu<2>> {
    Bench::new(cpu::open(&CpuOptions::default().threads(threads)).unwrap())
}

#[test]
fn the_device_has_the_threads_and_the_instruction_set_asked_for() {
    let device = cpu::open(&CpuOptions::default()).unwrap();
    let info = device.info();
    assert_eq!((info.backend, info.id.as_str(), info.isa), (Backend::Cpu, "cpu", Some(Isa::best())));
    assert!(info.threads >= 1 && info.threads <= 64);
    assert!(info.features.unified_memory && info.features.host_import && info.features.timestamps);
    for (asked, expected) in [(0, 1), (1, 1), (3, 3), (1000, 64)] {
        assert_eq!(cpu::info(&CpuOptions::default().threads(asked)).unwrap().threads, expected);
    }
}

/// Two dispatches of one tile each wait for each other, so they finish only when they run at the same time.
#[test]
fn commands_of_a_group_run_at_the_same_time() {
    static ARRIVED: AtomicU32 = AtomicU32::new(0);
    fn meet(_: &Tile<'_>) {
        ARRIVED.fetch_add(1, Ordering::SeqCst);
        let started = Instant::now();
        while ARRIVED.load(Ordering::SeqCst) < 2 {
            assert!(started.elapsed() < LONG, "the other dispatch did not start");
            std::thread::yield_now();
        }
    }
    let bench = bench(2);
    let pipeline = bench.compile_program(&native_program!("meet", meet)).unwrap();
    let mut list = CommandList::default();
    list.dispatch(pipeline, [1, 1, 1], &[], &[]);
    list.dispatch(pipeline, [1, 1, 1], &[], &[]);
    bench.run(&list);
}

/// Sleeps for as many microseconds as parameter 0 says.
fn sleep(tile: &Tile<'_>) {
    std::thread::sleep(Duration::from_micros(u64::from(tile.param(0))));
}

#[test]
fn spans_are_exact_and_leave_no_gaps() {
    let bench = bench(2);
    let pipeline = bench.compile_program(&native_program!("sleep", sleep)).unwrap();
    let mut list = CommandList::default();
    list.dispatch(pipeline, [1, 1, 1], &[], &[1000]);
    list.commands.push(Command::Mark { label: "one" });
    list.dispatch(pipeline, [2, 1, 1], &[], &[4000]);
    list.commands.push(Command::Mark { label: "two" });
    list.commands.push(Command::Mark { label: "three" });
    list.dispatch(pipeline, [1, 1, 1], &[], &[8000]);
    let spans = bench.device.spans(bench.run(&list));
    assert!(spans[0].duration_ns >= 4_000_000 && spans[2].duration_ns >= 8_000_000, "{spans:?}");
    assert!(spans.windows(2).all(|pair| pair[1].start_ns == pair[0].start_ns + pair[0].duration_ns));
}

#[test]
fn a_traced_list_has_the_times_of_each_thread() {
    let bench = bench(2);
    let one = bench.compile_program(&native_program!("one", sleep)).unwrap();
    let two = bench.compile_program(&native_program!("two", sleep)).unwrap();
    let data = bench.bind(&[1u32; 64]);
    let mut list = CommandList { traced: true, ..CommandList::default() };
    list.commands.push(Command::Mark { label: "both" });
    // Two commands of one group: a thread that has run its own tiles steals those of the other.
    list.dispatch(one, [20, 1, 1], &[], &[500]);
    list.dispatch(two, [20, 1, 1], &[], &[500]);
    list.commands.push(Command::Mark { label: "alone" });
    list.dispatch(one, [1, 1, 1], &[], &[500]);
    list.commands.push(Command::Barrier);
    list.commands.push(Command::Fill { dst: data, value: 3 });
    let baked = bench.bake(&list);
    for _ in 0..3 {
        let ticket = bench.replay(baked);
        let times = bench.device.thread_times(ticket);
        assert_eq!(times.dropped, 0);
        let spans = bench.device.spans(ticket);
        let end = spans.iter().map(|span| span.start_ns + span.duration_ns).max().unwrap();
        for thread in [0, 1] {
            let lane: Vec<_> = times.spans.iter().filter(|span| span.thread == thread).collect();
            assert!(lane.iter().any(|span| span.duration_ns >= 500_000), "{times:?}");
            let ordered = |pair: &[&silicide_hal::ThreadSpan]| {
                pair[0].start_ns + pair[0].duration_ns <= pair[1].start_ns
            };
            assert!(lane.windows(2).all(ordered), "{times:?}");
            assert!(lane.iter().all(|span| span.start_ns + span.duration_ns <= end), "{times:?}");
        }
        for label in ["one", "two", "fill"] {
            assert!(times.spans.iter().any(|span| span.label == label), "{label} in {times:?}");
        }
        assert!(times.spans.len() < 20, "one span for consecutive tiles: {times:?}");
    }
    list.traced = false;
    let ticket = bench.run(&list);
    assert_eq!(bench.device.spans(ticket).len(), 2);
    assert_eq!(bench.device.thread_times(ticket), ThreadTimes::default(), "not traced");
}

#[test]
fn instruction_sets_can_be_forced() {
    /// # Safety
    /// One u32 is bound, and one tile runs.
    unsafe fn store_0(tile: &Tile<'_>) {
        // SAFETY: one u32 is bound.
        unsafe { tile.write::<u32>(0, 0..1)[0] = 100 };
    }
    /// # Safety
    /// As for `store_0`.
    unsafe fn store_1(tile: &Tile<'_>) {
        // SAFETY: one u32 is bound.
        unsafe { tile.write::<u32>(0, 0..1)[0] = 101 };
    }
    const VARIANTS: &[NativeVariant] = &[
        NativeVariant { isa: Isa::Avx2, entry: store_1 },
        NativeVariant { isa: Isa::Neon, entry: store_1 },
        NativeVariant { isa: Isa::Portable, entry: store_0 },
    ];
    // SAFETY: `needs` accepts no launch; the test binds one word and dispatches one tile.
    static KERNEL: NativeKernel = unsafe { NativeKernel::new("two", |_| None, VARIANTS) };
    for isa in Isa::ALL {
        let device = cpu::open(&CpuOptions::default().threads(1).isa(isa));
        if !isa.is_available() {
            let Err(HalError::Unavailable { backend: "cpu", detail, .. }) = device else { panic!("{isa}") };
            assert!(detail.contains(isa.name()) && detail.contains("portable"), "{detail}");
            continue;
        }
        let bench = Bench::<Cpu<1>>::new(device.unwrap());
        assert_eq!(bench.device.info().isa, Some(isa));
        assert!(bench.device.info().fingerprint.contains(isa.name()));
        let pipeline = bench.compile_program(&Program::Native(&KERNEL)).unwrap();
        let data = bench.bind(&[0u32]);
        let mut list = CommandList::default();
        list.dispatch(pipeline, [1, 1, 1], &[data], &[]);
        bench.run(&list);
        assert_eq!(bench.read::<u32>(data), [if isa == Isa::Portable { 100 } else { 101 }]);
    }
}

#[test]
fn submissions_from_many_threads_are_serialised() {
    let bench = bench(3);
    let pipeline = bench.compile(TestKernel::Affine);
    let data = bench.bind(&[0u32; 500]);
    let mut list = CommandList::default();
    for _ in 0..5 {
        list.dispatch(pipeline, [500, 1, 1], &[data], &[0, 1, 1, 500, 1]);
        list.commands.push(Command::Barrier);
    }
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
                    // The order of the tickets does not matter to this list.
                    bench.submit_as(&list, ticket).unwrap();
                }
            });
        }
    });
    let rounds = 4 * 50 * 5;
    assert!((0..).zip(bench.read::<u32>(data)).all(|(i, word)| word == rounds * (1 + i)));
}

/// Adds 1 to every byte that is bound.
fn count_bytes(tile: &Tile<'_>) {
    // SAFETY: the bytes of the binding, in the only tile.
    unsafe { tile.write::<u8>(0, 0..tile.bytes(0)) }.iter_mut().for_each(|byte| *byte += 1);
}

#[test]
fn a_live_launch_sees_the_lengths_of_its_launch_words() {
    let bench = bench(2);
    let pipeline = bench.compile_program(&native_program!("count_bytes", count_bytes)).unwrap();
    let (x, words) = (bench.bind(&[0u8; 8]), bench.bind(&[0u32; 5]));
    let mut list = CommandList::default();
    list.dispatch(pipeline, [1, 1, 1], &[x], &[]);
    list.make_live(words);
    let baked = bench.bake(&list);
    for length in [3, 8, 1] {
        let mut launch = Vec::new();
        LaunchWords::write(&[], [1, 1, 1], [length], &mut launch);
        bench.bytes(words).copy_from_slice(bytemuck::cast_slice(&launch));
        bench.device.wait(bench.replay(baked), LONG).unwrap();
    }
    assert_eq!(bench.read::<u8>(x), [3, 2, 2, 1, 1, 1, 1, 1]);
}

//! Marks and the spans between them.

use super::{Bench, LONG, Rig, TestKernel};
use silicide_hal::{Command, CommandList, Span, Ticket};

fn timed<R: Rig>() -> Bench<R> {
    let bench = Bench::<R>::new(R::open_timed().unwrap());
    assert!(bench.device.info().features.timestamps);
    bench
}

/// Short work after one mark, long work after another.
fn marked<R: Rig>(bench: &Bench<R>) -> CommandList {
    let (pipeline, x) = (bench.compile(TestKernel::Spin), bench.bind(&[0u32; 100]));
    let mut list = CommandList::default();
    for (label, rounds) in [("short", 1), ("long", 60_000)] {
        list.commands.push(Command::Mark { label });
        list.dispatch(pipeline, [100, 1, 1], &[x], &[0, rounds]);
        list.commands.push(Command::Barrier);
    }
    list
}

fn labels(spans: &[Span]) -> Vec<&str> {
    spans.iter().map(|span| span.label).collect()
}

pub(crate) fn every_mark_has_a_span<R: Rig>(_: &Bench<R>) {
    let bench = timed::<R>();
    let spans = bench.device.spans(bench.run(&marked(&bench)));
    assert_eq!(labels(&spans), ["short", "long"]);
    assert_eq!(spans[0].start_ns, 0);
    assert!(spans[1].start_ns >= spans[0].duration_ns, "{spans:?}");
    assert!(spans[1].duration_ns > 0, "{spans:?}");
    // More than fit into one pool of timestamps.
    let mut many = CommandList::default();
    many.commands.extend([Command::Mark { label: "tick" }; 300]);
    assert_eq!(bench.device.spans(bench.run(&many)).len(), 300);
}

pub(crate) fn a_list_without_marks_has_no_spans<R: Rig>(bench: &Bench<R>) {
    let x = bench.bind(&[0u32; 4]);
    let mut list = CommandList::default();
    list.commands.push(Command::Fill { dst: x, value: 1 });
    assert_eq!(bench.device.spans(bench.run(&list)), []);
    assert_eq!(bench.device.spans(Ticket(99)), [], "never submitted");
}

pub(crate) fn spans_of_the_last_64_lists_are_kept<R: Rig>(_: &Bench<R>) {
    let bench = timed::<R>();
    let mut list = CommandList::default();
    list.commands.push(Command::Mark { label: "mark" });
    let tickets: Vec<Ticket> = (0..65).map(|_| bench.run(&list)).collect();
    let kept = |ticket: Ticket| bench.device.spans(ticket).len();
    assert_eq!((kept(tickets[0]), kept(tickets[1]), kept(tickets[64])), (0, 1, 1));
    // Lists without marks take no place.
    for _ in 0..65 {
        bench.run(&CommandList::default());
    }
    assert_eq!((kept(tickets[1]), kept(tickets[64])), (1, 1));
}

pub(crate) fn every_replay_has_spans_of_its_own<R: Rig>(_: &Bench<R>) {
    let bench = timed::<R>();
    let baked = bench.bake(&marked(&bench));
    let tickets: Vec<Ticket> = (0..5).map(|_| bench.replay(baked)).collect();
    bench.device.wait(tickets[4], LONG).unwrap();
    for ticket in tickets {
        let spans = bench.device.spans(ticket);
        assert_eq!(labels(&spans), ["short", "long"], "{ticket:?}");
        assert!(spans[1].duration_ns > 0, "{spans:?}");
    }
}

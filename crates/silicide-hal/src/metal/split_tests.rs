use super::*;
use crate::{Binding, RawBlock};
use proptest::prelude::*;

fn fill(weight: u32) -> Command {
    Command::Fill { dst: Binding { block: RawBlock(0), offset: 0, bytes: 4 }, value: weight }
}

fn weigh(command: &Command) -> u64 {
    match command {
        Command::Fill { value, .. } => u64::from(*value),
        _ => 0,
    }
}

fn list(commands: Vec<Command>) -> CommandList {
    CommandList { commands, ..CommandList::default() }
}

#[test]
fn a_short_list_is_one_pass_whatever_it_holds() {
    let list = list(vec![fill(1), Command::Barrier, Command::Mark { label: "a" }, fill(1)]);
    let pieces = cut(&list, MarkRule::Name, 1000, weigh);
    assert_eq!(pieces, [Piece { commands: 0..4, label: None, buffer: 0, weight: 2 }]);
    assert_eq!(cut(&CommandList::default(), MarkRule::Pass, 1, weigh).len(), 1);
}

#[test]
fn timed_marks_open_passes() {
    let marks = |label| Command::Mark { label };
    let list = list(vec![marks("a"), fill(1), marks("b"), fill(2), Command::Barrier, fill(3)]);
    for (rule, buffers) in [(MarkRule::Pass, [0, 0, 0]), (MarkRule::Buffer, [0, 1, 2])] {
        let pieces = cut(&list, rule, 1000, weigh);
        let labels: Vec<_> = pieces.iter().map(|piece| piece.label).collect();
        assert_eq!(labels, [None, Some("a"), Some("b")]);
        assert_eq!(pieces.iter().map(|piece| piece.buffer).collect::<Vec<_>>(), buffers);
        assert_eq!(pieces.iter().map(|piece| piece.weight).collect::<Vec<_>>(), [0, 1, 5]);
    }
}

#[test]
fn much_work_is_cut_at_the_next_barrier() {
    let mut commands = vec![fill(10); 20];
    commands.push(Command::Barrier);
    commands.extend(vec![fill(10); 5]);
    let pieces = cut(&list(commands), MarkRule::Name, 150, weigh);
    assert_eq!(
        pieces.iter().map(|piece| (piece.commands.clone(), piece.buffer)).collect::<Vec<_>>(),
        [(0..20, 0), (20..26, 1)]
    );
}

#[test]
fn a_group_without_end_is_cut_too() {
    let pieces = cut(&list(vec![fill(10); 100]), MarkRule::Name, 200, weigh);
    assert_eq!(pieces.iter().map(|piece| piece.weight).collect::<Vec<_>>(), [400, 400, 200]);
}

#[test]
fn few_heavy_commands_stay_together() {
    let commands = vec![fill(1_000_000), Command::Barrier, fill(1_000_000), Command::Barrier, fill(1)];
    assert_eq!(cut(&list(commands), MarkRule::Name, 10, weigh).len(), 1);
}

#[test]
fn buffers_and_passes_have_an_end() {
    let marks = vec![Command::Mark { label: "a" }; 10_000];
    let pieces = cut(&list(marks), MarkRule::Buffer, 1, weigh);
    assert_eq!(pieces.len(), MOST_PASSES);
    assert_eq!(pieces.last().map(|piece| piece.buffer), Some(MOST_BUFFERS - 1));
}

#[test]
fn the_pace_learns_slowness_at_once_and_speed_little_by_little() {
    let mut pace = Pace::default();
    assert_eq!(pace.limit(), FIRST_LIMIT);
    for nonsense in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        pace.observe(1 << 20, nonsense);
    }
    pace.observe(1, 1e9);
    assert_eq!(pace.limit(), FIRST_LIMIT);
    pace.observe(1 << 20, (1 << 20) as f64 * 10.0);
    assert_eq!(pace.limit(), 4_000_000);
    pace.observe(1 << 20, (1 << 20) as f64);
    assert!(pace.limit() > 4_000_000 && pace.limit() < 8_000_000, "{}", pace.limit());
    pace.observe(1 << 20, 1e30);
    assert_eq!(pace.limit(), LEAST_WEIGHT);
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![(0..100u32).prop_map(fill), Just(Command::Barrier), Just(Command::Mark { label: "a" }),]
}

proptest! {
    #[test]
    fn pieces_cover_the_list_in_order(
        commands in proptest::collection::vec(command(), 0..200),
        rule in prop_oneof![Just(MarkRule::Name), Just(MarkRule::Pass), Just(MarkRule::Buffer)],
        limit in 1..500u64,
    ) {
        let list = list(commands);
        let pieces = cut(&list, rule, limit, weigh);
        prop_assert_eq!(pieces.first().map(|piece| (piece.commands.start, piece.buffer)), Some((0, 0)));
        prop_assert_eq!(pieces.last().map(|piece| piece.commands.end), Some(list.commands.len()));
        for pair in pieces.windows(2) {
            prop_assert_eq!(pair[0].commands.end, pair[1].commands.start);
            prop_assert!(pair[1].buffer == pair[0].buffer || pair[1].buffer == pair[0].buffer + 1);
        }
        let total: u64 = list.commands.iter().map(weigh).sum();
        prop_assert_eq!(pieces.iter().map(|piece| piece.weight).sum::<u64>(), total);
        let marks = list.commands.iter().filter(|c| matches!(c, Command::Mark { .. })).count();
        let labelled = pieces.iter().filter(|piece| piece.label.is_some()).count();
        prop_assert_eq!(labelled, if rule == MarkRule::Name { 0 } else { marks });
    }
}

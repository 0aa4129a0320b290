use super::*;
use proptest::prelude::*;

fn range(storage: u64, start: u64, end: u64, access: Access) -> BufferRange {
    BufferRange { storage: StorageId::of(storage), start, end, access }
}

#[test]
fn touching_ranges_and_other_storages_do_not_conflict() {
    let write = range(1, 0, 10, Access::Write);
    assert!(!write.conflicts_with(&range(1, 10, 20, Access::Write)));
    assert!(!range(1, 10, 20, Access::Write).conflicts_with(&write));
    assert!(!write.conflicts_with(&range(2, 0, 10, Access::Write)));
    assert!(write.conflicts_with(&range(1, 9, 10, Access::Read)));
    let read = range(1, 0, 10, Access::Read);
    assert!(!read.conflicts_with(&read));
}

fn access() -> impl Strategy<Value = Access> {
    prop_oneof![Just(Access::Read), Just(Access::Write), Just(Access::ReadWrite)]
}

fn commands() -> impl Strategy<Value = Vec<Vec<BufferRange>>> {
    let one = (0..3u64, 0..40u64, 1..12u64, access())
        .prop_map(|(storage, start, len, access)| range(storage, start, start + len, access));
    proptest::collection::vec(proptest::collection::vec(one, 1..4), 1..40)
}

fn conflict(a: &[BufferRange], b: &[BufferRange]) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.conflicts_with(y)))
}

/// Whether every conflicting pair has a barrier between its members.
fn separated(commands: &[Vec<BufferRange>], barriers: &[usize]) -> bool {
    (0..commands.len()).all(|later| {
        (0..later).all(|earlier| {
            !conflict(&commands[earlier], &commands[later])
                || barriers.iter().any(|&barrier| earlier < barrier && barrier <= later)
        })
    })
}

proptest! {
    #[test]
    fn every_conflicting_pair_is_separated_and_no_barrier_is_idle(commands in commands()) {
        let barriers = place(commands.iter().map(Vec::as_slice));
        prop_assert!(separated(&commands, &barriers));
        for idle in 0..barriers.len() {
            let mut fewer = barriers.clone();
            fewer.remove(idle);
            prop_assert!(!separated(&commands, &fewer), "barrier before {} is not needed", barriers[idle]);
        }
    }

    #[test]
    fn conflicts_are_symmetric(a in commands(), b in commands()) {
        for (x, y) in a.iter().flatten().zip(b.iter().flatten()) {
            prop_assert_eq!(x.conflicts_with(y), y.conflicts_with(x));
        }
    }

    #[test]
    fn the_tracker_agrees_with_the_definition(commands in commands()) {
        let mut tracker = MemRanges::new();
        let mut seen: Vec<Vec<BufferRange>> = Vec::new();
        for command in commands {
            let allowed = !seen.iter().any(|earlier| conflict(earlier, &command));
            prop_assert_eq!(tracker.allows(&command), allowed);
            tracker.record(&command);
            seen.push(command);
        }
    }
}

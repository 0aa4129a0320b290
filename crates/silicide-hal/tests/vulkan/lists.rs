//! Lists that the validation layer refuses, and lists that need more than one pool of descriptor sets.

use crate::contract::{LONG, TestKernel};
use crate::{bench, options};
use silicide_hal::{Command, CommandList, HalError};

#[test]
fn a_missing_barrier_fails_the_submission() {
    let bench = bench(&options());
    let pipeline = bench.compile(TestKernel::Affine);
    let x = bench.bind(&[5u32]);
    let mut list = CommandList::default();
    list.dispatch(pipeline, [1, 1, 1], &[x], &[0, 1, 1, 1, 1]);
    bench.run(&list);
    let mut wrong = list.clone();
    wrong.commands.push(Command::Fill { dst: x, value: 9 });
    let (ticket, outcome) = bench.submit(&wrong);
    let error = outcome.unwrap_err();
    assert!(matches!(&error, HalError::Validation { message } if message.contains("SYNC-HAZARD")), "{error}");
    // Every wait reports it, the timeline goes on, and nothing of the list ran.
    for _ in 0..2 {
        assert_eq!(bench.device.wait(ticket, LONG), Err(error.clone()));
    }
    assert_eq!(bench.device.reached(), Ok(ticket));
    assert_eq!(bench.device.validation_messages().len(), 1);
    bench.run(&list);
    assert_eq!(bench.read::<u32>(x), [7]);
}

#[test]
fn a_list_may_need_more_descriptor_sets_than_a_pool_has() {
    let bench = bench(&options().push_descriptors(false));
    let pipeline = bench.compile(TestKernel::Affine);
    let x = bench.bind(&[0u32]);
    let mut list = CommandList::default();
    for _ in 0..1500 {
        list.dispatch(pipeline, [1, 1, 1], &[x], &[0, 1, 2, 1, 1]);
        list.commands.push(Command::Barrier);
    }
    // Twice, so that pools are emptied and used again.
    bench.run(&list);
    bench.run(&list);
    assert_eq!(bench.read::<u32>(x), [6000]);
}

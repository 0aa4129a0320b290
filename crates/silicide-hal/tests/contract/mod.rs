//! The contract of a backend as tests. Every backend runs every test that it can.
//!
//! A test program implements [`Rig`] for its backend and calls `contract_tests!` with it. A test that a backend cannot run
//! stands in [`Rig::CANNOT`] with the reason, which is printed in place of the test.
//!
//! | file | what |
//! |---|---|
//! | `bench.rs` | a device under test, with what was made on it |
//! | `kernels.rs` | kernels in WGSL and as native functions, with the same bindings and parameters |
//! | `reasons.rs` | why a backend cannot run a test |
//! | `open.rs` | the description of a device; opening, dropping, captures |
//! | `memory.rs` | blocks: allocated, mapped, imported |
//! | `lists.rs` | dispatches, copies, fills, barriers, tickets |
//! | `replays.rs` | baked lists |
//! | `live.rs` | dispatches whose launch words lie in memory |
//! | `marks.rs` | marks and spans |
//! | `programs.rs` | compiling, binaries, refusals |
//! | `wgsl.rs` | arithmetic that only WGSL kernels have |

pub(crate) mod bench;
pub(crate) mod kernels;
pub(crate) mod lists;
pub(crate) mod live;
pub(crate) mod marks;
pub(crate) mod memory;
pub(crate) mod open;
pub(crate) mod programs;
pub(crate) mod reasons;
pub(crate) mod replays;
pub(crate) mod wgsl;

pub(crate) use bench::{Bench, LONG, binding};
pub(crate) use kernels::TestKernel;
use silicide_hal::{DeviceInfo, Program, RawDevice, Result};
use std::io::Write;
use std::sync::Arc;

/// A backend under test.
pub(crate) trait Rig {
    /// Names of tests that the backend cannot run, each with the reason.
    const CANNOT: &'static [(&'static str, &'static str)];

    /// Opens device `index` with as much validation as there is.
    fn open(index: usize) -> Result<Arc<dyn RawDevice>>;

    /// Opens device 0 with marks timed. Differs from `open` where timing is an option.
    fn open_timed() -> Result<Arc<dyn RawDevice>> {
        Self::open(0)
    }

    /// Returns what the backend lists, in the order of the indices of `open`.
    fn list() -> Vec<DeviceInfo>;

    /// Returns a test kernel in the language of the backend: WGSL, unless it runs native kernels.
    fn program(kernel: TestKernel) -> Program {
        Program::Wgsl(kernels::wgsl(kernel))
    }

    /// Returns a program that does not compile, and a word that the error must contain.
    fn broken() -> (Program, &'static str) {
        (kernels::broken_wgsl(), "missing")
    }

    /// Returns a program in a language that the backend does not run.
    fn foreign() -> Program {
        kernels::native(TestKernel::Affine)
    }

    /// Returns false, after printing why, on a developer's machine that lacks what the backend needs.
    fn is_here() -> bool {
        true
    }
}

/// Runs one test on a fresh device, or prints why the backend cannot run it.
pub(crate) fn check<R: Rig>(name: &str, test: fn(&Bench<R>)) {
    if let Some((_, reason)) = R::CANNOT.iter().find(|(test, _)| *test == name) {
        // Written directly: the harness shows only what failed tests print.
        let rig = std::any::type_name::<R>();
        let mut stderr = std::io::stderr();
        let _ = writeln!(stderr, "not run by {rig}: {name}: {reason}");
    } else if R::is_here() {
        test(&Bench::new(R::open(0).unwrap()));
    }
}

/// Makes a `#[test]` of every test of the contract for a [`Rig`].
macro_rules! contract_tests {
    ($rig:ty) => {
        $crate::contract::contract_tests! { $rig:
            open {
                a_device_describes_itself
                a_listed_device_opens_as_it_is_listed
                a_device_that_does_not_exist_is_refused
                a_device_that_is_dropped_can_be_opened_again
                a_capture_is_written_or_refused_with_advice
            }
            memory {
                a_shared_block_is_mapped_with_all_its_bytes
                freed_blocks_do_not_disturb_live_ones
                a_private_block_is_reached_by_copies
                a_binding_can_be_as_large_as_the_limit
                a_mapped_file_is_read_in_place
                writable_host_memory_is_written_in_place
            }
            lists {
                ticket_zero_is_always_reached
                tickets_may_leave_gaps
                an_empty_list_is_reached
                a_barrier_orders_two_dispatches
                parameters_belong_to_their_dispatch
                every_position_of_a_grid_runs_once
                bindings_begin_at_their_offset
                copies_and_fills_touch_only_their_bytes
                copies_and_fills_work_at_every_size
                submissions_follow_each_other_without_waiting
                a_wait_times_out_while_its_list_runs
            }
            replays {
                baking_runs_nothing
                a_replay_computes_what_a_submission_computes
                a_replay_reads_what_the_host_has_written
                replays_follow_each_other_without_waiting
                baked_lists_and_submissions_can_be_mixed
            }
            live {
                a_live_dispatch_reads_its_launch_words_at_every_replay
                a_live_dispatch_can_be_submitted_once
                live_and_fixed_dispatches_share_a_group
            }
            marks {
                every_mark_has_a_span
                a_list_without_marks_has_no_spans
                spans_of_the_last_64_lists_are_kept
                every_replay_has_spans_of_its_own
            }
            programs {
                pipelines_compiled_at_once_are_distinct
                a_damaged_binary_is_not_used
                a_program_that_does_not_compile_is_named
                a_program_in_another_language_is_refused
            }
            wgsl {
                f16_values_are_stored_and_computed
                subgroups_of_any_size_sum_a_row
                kernels_run_in_subgroups_of_the_size_that_they_require
            }
        }
    };
    ($rig:ty: $($group:ident { $($test:ident)+ })+) => {
        $($(
            #[test]
            fn $test() {
                $crate::contract::check::<$rig>(stringify!($test), $crate::contract::$group::$test);
            }
        )+)+

        #[test]
        fn every_exception_names_a_test_of_the_contract() {
            let tests = [$($(stringify!($test)),+),+];
            for (name, _) in <$rig as $crate::contract::Rig>::CANNOT {
                assert!(tests.contains(name), "{name} is not a test");
            }
        }
    };
}
pub(crate) use contract_tests;

//! The rigs of the backends that run on the host.

use crate::contract::reasons::{NO_TIMESTAMPS, ONE_DEVICE, RUNS_INSIDE_SUBMIT};
use crate::contract::{Rig, TestKernel, kernels};
use silicide_hal::cpu::{self, CpuOptions};
use silicide_hal::null::{self, NullOptions};
use silicide_hal::{DeviceInfo, Forward, Program, RawDevice, Result};
use std::sync::Arc;

const LIMIT_OF_ADDRESSES: &str = "the limit is the address space, which no machine has memory for";
const NO_WGSL: &str = "it runs native kernels only";
const RUNS_NOTHING: &str = "it records lists and runs nothing";
const TAKES_ALL_PROGRAMS: &str = "it takes every program and compiles none";

/// The CPU with a number of threads.
pub(crate) struct Cpu<const THREADS: usize>;

impl<const THREADS: usize> Rig for Cpu<THREADS> {
    const CANNOT: &'static [(&'static str, &'static str)] = &[
        ("a_device_that_does_not_exist_is_refused", ONE_DEVICE),
        ("a_binding_can_be_as_large_as_the_limit", LIMIT_OF_ADDRESSES),
        ("a_wait_times_out_while_its_list_runs", RUNS_INSIDE_SUBMIT),
        ("f16_values_are_stored_and_computed", NO_WGSL),
        ("subgroups_of_any_size_sum_a_row", NO_WGSL),
        ("kernels_run_in_subgroups_of_the_size_that_they_require", NO_WGSL),
    ];

    fn open(_index: usize) -> Result<Arc<dyn RawDevice>> {
        cpu::open(&CpuOptions::default().threads(THREADS))
    }

    fn list() -> Vec<DeviceInfo> {
        vec![cpu::info(&CpuOptions::default().threads(THREADS)).unwrap()]
    }

    fn program(kernel: TestKernel) -> Program {
        kernels::native(kernel)
    }

    fn broken() -> (Program, &'static str) {
        (kernels::native_without_variants(), "no variant")
    }

    fn foreign() -> Program {
        Program::Wgsl(kernels::wgsl(TestKernel::Affine))
    }
}

/// The CPU inside a wrapper that overrides nothing.
pub(crate) struct Forwarded;

struct Wrapper(Arc<dyn RawDevice>);

// SAFETY: no verb is overridden, and the inner device is always the same.
unsafe impl Forward for Wrapper {
    fn inner(&self) -> &dyn RawDevice {
        &*self.0
    }
}

impl Rig for Forwarded {
    const CANNOT: &'static [(&'static str, &'static str)] = Cpu::<2>::CANNOT;

    fn open(index: usize) -> Result<Arc<dyn RawDevice>> {
        Ok(Arc::new(Wrapper(Cpu::<2>::open(index)?)))
    }

    fn list() -> Vec<DeviceInfo> {
        Cpu::<2>::list()
    }

    fn program(kernel: TestKernel) -> Program {
        Cpu::<2>::program(kernel)
    }

    fn broken() -> (Program, &'static str) {
        Cpu::<2>::broken()
    }

    fn foreign() -> Program {
        Cpu::<2>::foreign()
    }
}

/// The null device.
pub(crate) struct Null;

impl Rig for Null {
    const CANNOT: &'static [(&'static str, &'static str)] = &[
        ("a_listed_device_opens_as_it_is_listed", "it is for tests, and not listed"),
        ("a_device_that_does_not_exist_is_refused", ONE_DEVICE),
        ("a_device_that_is_dropped_can_be_opened_again", RUNS_NOTHING),
        ("a_private_block_is_reached_by_copies", RUNS_NOTHING),
        ("a_binding_can_be_as_large_as_the_limit", RUNS_NOTHING),
        ("a_mapped_file_is_read_in_place", RUNS_NOTHING),
        ("writable_host_memory_is_written_in_place", RUNS_NOTHING),
        ("a_barrier_orders_two_dispatches", RUNS_NOTHING),
        ("parameters_belong_to_their_dispatch", RUNS_NOTHING),
        ("every_position_of_a_grid_runs_once", RUNS_NOTHING),
        ("bindings_begin_at_their_offset", RUNS_NOTHING),
        ("copies_and_fills_touch_only_their_bytes", RUNS_NOTHING),
        ("copies_and_fills_work_at_every_size", RUNS_NOTHING),
        ("submissions_follow_each_other_without_waiting", RUNS_NOTHING),
        ("a_wait_times_out_while_its_list_runs", RUNS_NOTHING),
        ("a_replay_computes_what_a_submission_computes", RUNS_NOTHING),
        ("a_replay_reads_what_the_host_has_written", RUNS_NOTHING),
        ("replays_follow_each_other_without_waiting", RUNS_NOTHING),
        ("baked_lists_and_submissions_can_be_mixed", RUNS_NOTHING),
        ("a_live_dispatch_reads_its_launch_words_at_every_replay", RUNS_NOTHING),
        ("a_live_dispatch_can_be_submitted_once", RUNS_NOTHING),
        ("live_and_fixed_dispatches_share_a_group", RUNS_NOTHING),
        ("every_mark_has_a_span", NO_TIMESTAMPS),
        ("spans_of_the_last_64_lists_are_kept", NO_TIMESTAMPS),
        ("every_replay_has_spans_of_its_own", NO_TIMESTAMPS),
        ("pipelines_compiled_at_once_are_distinct", RUNS_NOTHING),
        ("a_damaged_binary_is_not_used", RUNS_NOTHING),
        ("a_program_that_does_not_compile_is_named", TAKES_ALL_PROGRAMS),
        ("a_program_in_another_language_is_refused", TAKES_ALL_PROGRAMS),
        ("f16_values_are_stored_and_computed", RUNS_NOTHING),
        ("subgroups_of_any_size_sum_a_row", RUNS_NOTHING),
        ("kernels_run_in_subgroups_of_the_size_that_they_require", RUNS_NOTHING),
    ];

    fn open(_index: usize) -> Result<Arc<dyn RawDevice>> {
        Ok(null::open(&NullOptions::default())?)
    }

    fn list() -> Vec<DeviceInfo> {
        Vec::new()
    }
}

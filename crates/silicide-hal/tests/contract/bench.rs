//! A device under test, with what was made on it.

use super::{Rig, TestKernel};
use silicide_hal::{
    Binding, BlockDesc, CommandList, HostRegion, Imported, MemoryKind, Program, RawBaked, RawBlock,
    RawDevice, RawPipeline, Result, Ticket,
};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longer than any list of a test takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A device, its next ticket, and the handles to give back. At its end all work is waited for, handles are freed, and the
/// validation layer must have said nothing.
pub(crate) struct Bench<R> {
    pub(crate) device: Arc<dyn RawDevice>,
    tickets: AtomicU64,
    made: Mutex<Handles>,
    rig: PhantomData<fn() -> R>,
}

#[derive(Default)]
struct Handles {
    blocks: Vec<RawBlock>,
    pipelines: Vec<RawPipeline>,
    baked: Vec<RawBaked>,
}

impl<R: Rig> Bench<R> {
    /// Compiles a test kernel.
    pub(crate) fn compile(&self, kernel: TestKernel) -> RawPipeline {
        self.compile_program(&R::program(kernel)).unwrap()
    }
}

impl<R> Bench<R> {
    pub(crate) fn new(device: Arc<dyn RawDevice>) -> Bench<R> {
        Bench { device, tickets: AtomicU64::new(0), made: Mutex::default(), rig: PhantomData }
    }

    /// Compiles a program, whose kernel must stay inside the bindings of the test's lists.
    pub(crate) fn compile_program(&self, program: &Program) -> Result<RawPipeline> {
        self.compile_binary(program, None)
    }

    /// Compiles a program from a binary.
    pub(crate) fn compile_binary(&self, program: &Program, binary: Option<&[u8]>) -> Result<RawPipeline> {
        // SAFETY: kernels of tests stay inside the bindings that the tests give them.
        let pipeline = unsafe { self.device.compile(program.name(), program, binary) }?;
        self.made.lock().unwrap().pipelines.push(pipeline);
        Ok(pipeline)
    }

    pub(crate) fn alloc(&self, bytes: usize, kind: MemoryKind) -> RawBlock {
        // SAFETY: tests ask for at least one byte, and for no more than the limits allow.
        let block = unsafe { self.device.alloc(&BlockDesc { bytes, kind }) }.unwrap();
        self.made.lock().unwrap().blocks.push(block);
        block
    }

    /// A binding over a new shared block that holds `data`.
    pub(crate) fn bind<T: bytemuck::NoUninit>(&self, data: &[T]) -> Binding {
        let block = self.alloc(size_of_val(data), MemoryKind::Shared);
        let binding = binding(block, 0, size_of_val(data) as u64);
        self.bytes(binding).copy_from_slice(bytemuck::cast_slice(data));
        binding
    }

    /// The bytes of a binding of a shared block. Tests touch them only while no list that uses them runs.
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn bytes(&self, binding: Binding) -> &mut [u8] {
        let start = binding.offset as usize;
        // SAFETY: the block is live until the bench is dropped, and the device does not touch it now.
        let block = unsafe { self.device.map(binding.block).unwrap().as_mut() };
        &mut block[start..start + binding.bytes as usize]
    }

    /// The elements of a binding of a shared block.
    pub(crate) fn read<T: bytemuck::AnyBitPattern>(&self, binding: Binding) -> Vec<T> {
        self.bytes(binding).chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
    }

    /// Imports host memory, or returns `None` where the device refuses it. The test frees the block.
    pub(crate) fn import(&self, region: HostRegion) -> Option<Imported> {
        // SAFETY: tests keep the memory alive, and do not touch it, until they free the block.
        unsafe { self.device.import(region) }.unwrap()
    }

    /// Frees a block that no list in flight uses.
    pub(crate) fn free(&self, block: RawBlock) {
        self.made.lock().unwrap().blocks.retain(|other| *other != block);
        // SAFETY: live until now, and tests wait for the lists that use a block before they free it.
        unsafe { self.device.free(block) };
    }

    /// Submits a list with the next ticket.
    pub(crate) fn submit(&self, list: &CommandList) -> (Ticket, Result<()>) {
        let ticket = self.next_ticket();
        (ticket, self.submit_as(list, ticket))
    }

    /// Submits a list with a ticket that is greater than all before.
    pub(crate) fn submit_as(&self, list: &CommandList, ticket: Ticket) -> Result<()> {
        self.tickets.fetch_max(ticket.0, Ordering::SeqCst);
        // SAFETY: handles live until the bench is dropped, tests place barriers, and one thread submits.
        unsafe { self.device.submit(list, ticket) }
    }

    /// Submits a list and waits for it.
    pub(crate) fn run(&self, list: &CommandList) -> Ticket {
        self.try_run(list).unwrap();
        Ticket(self.tickets.load(Ordering::SeqCst))
    }

    /// Submits a list and returns how it went.
    pub(crate) fn try_run(&self, list: &CommandList) -> Result<()> {
        let (ticket, submitted) = self.submit(list);
        submitted?;
        self.device.wait(ticket, LONG)
    }

    pub(crate) fn bake(&self, list: &CommandList) -> RawBaked {
        // SAFETY: handles live until the bench is dropped, and tests place barriers.
        let baked = unsafe { self.device.bake(list) }.unwrap();
        self.made.lock().unwrap().baked.push(baked);
        baked
    }

    /// Replays a baked list with the next ticket.
    pub(crate) fn replay(&self, baked: RawBaked) -> Ticket {
        let ticket = self.next_ticket();
        // SAFETY: baked and not unbaked yet; one thread submits.
        unsafe { self.device.replay(baked, ticket) }.unwrap();
        ticket
    }

    /// Unbakes a list whose replays were reached.
    pub(crate) fn unbake(&self, baked: RawBaked) {
        self.made.lock().unwrap().baked.retain(|other| *other != baked);
        // SAFETY: live until now, and tests wait for its replays before.
        unsafe { self.device.unbake(baked) };
    }

    fn next_ticket(&self) -> Ticket {
        Ticket(self.tickets.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

impl<R> Drop for Bench<R> {
    fn drop(&mut self) {
        // A failed test may have left the device in any state: it then keeps everything.
        if std::thread::panicking() {
            return;
        }
        // Lists that fail on purpose are reached too.
        let _ = self.device.wait(Ticket(self.tickets.load(Ordering::SeqCst)), LONG);
        let Handles { blocks, pipelines, baked } = std::mem::take(&mut *self.made.lock().unwrap());
        // SAFETY: made by this bench, given back once, and all tickets were reached.
        unsafe {
            baked.into_iter().for_each(|baked| self.device.unbake(baked));
            pipelines.into_iter().for_each(|pipeline| self.device.discard(pipeline));
            blocks.into_iter().for_each(|block| self.device.free(block));
        }
        assert_eq!(self.device.validation_messages(), Vec::<String>::new());
    }
}

/// A range of a block.
pub(crate) fn binding(block: RawBlock, offset: u64, bytes: u64) -> Binding {
    Binding { block, offset, bytes }
}

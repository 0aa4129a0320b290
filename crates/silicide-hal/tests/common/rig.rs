//! A device under test: allocates, submits and waits, and at its end looks for validation messages.

use silicide_hal::{
    Binding, BlockDesc, CommandList, MemoryKind, Program, RawBaked, RawBlock, RawDevice, RawPipeline, Result,
    Ticket, WgslKernel,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) struct Rig {
    pub(crate) device: Arc<dyn RawDevice>,
    tickets: AtomicU64,
}

impl Rig {
    pub(crate) fn over(device: Arc<dyn RawDevice>) -> Rig {
        Rig { device, tickets: AtomicU64::new(0) }
    }

    pub(crate) fn alloc(&self, bytes: usize) -> RawBlock {
        let desc = BlockDesc { bytes, kind: MemoryKind::Shared };
        // SAFETY: tests ask for sizes within the limits.
        unsafe { self.device.alloc(&desc) }.unwrap()
    }

    pub(crate) fn alloc_with<T: bytemuck::NoUninit>(&self, data: &[T]) -> RawBlock {
        let block = self.alloc(size_of_val(data));
        self.bytes(block).copy_from_slice(bytemuck::cast_slice(data));
        block
    }

    /// The bytes of a shared block; tests touch them only while the device is idle.
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn bytes(&self, block: RawBlock) -> &mut [u8] {
        // SAFETY: the block is live and shared, and nothing runs.
        unsafe { self.device.map(block).unwrap().as_mut() }
    }

    pub(crate) fn read<T: bytemuck::AnyBitPattern>(&self, block: RawBlock) -> Vec<T> {
        self.bytes(block).chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
    }

    pub(crate) fn compile(&self, kernel: WgslKernel) -> RawPipeline {
        // SAFETY: tests dispatch what their kernels expect.
        unsafe { self.device.compile(kernel.name, &Program::Wgsl(kernel.clone()), None) }.unwrap()
    }

    pub(crate) fn submit(&self, list: &CommandList) -> (Ticket, Result<()>) {
        let ticket = Ticket(self.tickets.fetch_add(1, Ordering::SeqCst) + 1);
        // SAFETY: handles are live, ranges lie in their blocks, one thread submits.
        (ticket, unsafe { self.device.submit(list, ticket) })
    }

    pub(crate) fn replay(&self, baked: RawBaked) -> Ticket {
        let ticket = Ticket(self.tickets.fetch_add(1, Ordering::SeqCst) + 1);
        // SAFETY: baked by the test, which keeps handles live.
        unsafe { self.device.replay(baked, ticket) }.unwrap();
        ticket
    }

    pub(crate) fn run(&self, list: &CommandList) -> Ticket {
        let (ticket, outcome) = self.submit(list);
        outcome.unwrap();
        self.device.wait(ticket, LONG).unwrap();
        ticket
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.device.validation_messages(), Vec::<String>::new());
        }
    }
}

pub(crate) fn range(block: RawBlock, offset: u64, bytes: u64) -> Binding {
    Binding { block, offset, bytes }
}

//! Limits to claim and failures to inject.

/// How to open a null device. Calls are counted from 1.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NullOptions {
    /// The largest block to claim; more than the machine has is fine.
    pub max_block: usize,
    /// The largest binding to claim.
    pub max_binding: usize,
    /// The binding alignment to claim.
    pub binding_alignment: usize,
    /// Memory to claim, in bytes. Not enforced.
    pub memory: usize,
    /// This allocation (imports are not counted) runs out of memory.
    pub fail_alloc: Option<u64>,
    /// The number of allocations that run out of memory, from `fail_alloc` on.
    pub failing_allocs: u64,
    /// This compilation fails, once.
    pub fail_compile: Option<u64>,
    /// At this submission the device is lost, for good.
    pub lose_at_submit: Option<u64>,
    /// Submitted tickets are not reached until released.
    pub hold: bool,
    /// How many of the last lists are kept for inspection.
    pub keep_lists: usize,
}

impl Default for NullOptions {
    fn default() -> NullOptions {
        NullOptions {
            max_block: 64 << 30,
            max_binding: 4 << 30,
            binding_alignment: 16,
            memory: 64 << 30,
            fail_alloc: None,
            failing_allocs: 1,
            fail_compile: None,
            lose_at_submit: None,
            hold: false,
            keep_lists: 16,
        }
    }
}

impl NullOptions {
    /// Sets the largest block and the largest binding to claim.
    pub fn limits(mut self, max_block: usize, max_binding: usize) -> NullOptions {
        (self.max_block, self.max_binding) = (max_block, max_binding);
        self
    }

    /// Makes the `n`-th allocation run out of memory.
    pub fn fail_alloc(mut self, n: u64) -> NullOptions {
        self.fail_alloc = Some(n);
        self
    }

    /// Makes `count` allocations run out of memory, from the first that fails on.
    pub fn failing_allocs(mut self, count: u64) -> NullOptions {
        self.failing_allocs = count;
        self
    }

    /// Makes the `n`-th compilation fail.
    pub fn fail_compile(mut self, n: u64) -> NullOptions {
        self.fail_compile = Some(n);
        self
    }

    /// Loses the device at the `n`-th submission.
    pub fn lose_at_submit(mut self, n: u64) -> NullOptions {
        self.lose_at_submit = Some(n);
        self
    }

    /// Keeps submitted work in flight until it is released.
    pub fn hold(mut self) -> NullOptions {
        self.hold = true;
        self
    }

    /// Sets how many of the last lists are kept.
    pub fn keep_lists(mut self, count: usize) -> NullOptions {
        self.keep_lists = count;
        self
    }
}

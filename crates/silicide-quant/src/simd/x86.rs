//! AVX2 and AVX-512: what they need, and the doors to code compiled for them.

use super::Task;
use std::arch::is_x86_feature_detected;

pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}

pub(super) fn has_avx512() -> bool {
    has_avx2()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn run_avx2(task: impl Task) {
    task.run();
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn run_avx512(task: impl Task) {
    task.run();
}

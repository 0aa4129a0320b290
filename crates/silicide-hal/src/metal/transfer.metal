// Copies and fills inside a compute pass: leaving it for a blit pass would cost more than they do. Buffers are bound at
// multiples of 4; bytes begin `first` and `second` bytes later. Counts beyond 32 bits are fine.
#include <metal_stdlib>
using namespace metal;

struct Transfer {
    ulong count;
    uint first;
    uint second;
};

kernel void copy_words(device const uint* from [[buffer(0)]], device uint* to [[buffer(1)]],
                       constant Transfer& transfer [[buffer(2)]], uint3 at [[thread_position_in_grid]],
                       uint3 groups [[threadgroups_per_grid]], uint3 size [[threads_per_threadgroup]]) {
    for (ulong i = at.x; i < transfer.count; i += groups.x * size.x) {
        to[i] = from[i];
    }
}

kernel void copy_bytes(device const uchar* from [[buffer(0)]], device uchar* to [[buffer(1)]],
                       constant Transfer& transfer [[buffer(2)]], uint3 at [[thread_position_in_grid]],
                       uint3 groups [[threadgroups_per_grid]], uint3 size [[threads_per_threadgroup]]) {
    for (ulong i = at.x; i < transfer.count; i += groups.x * size.x) {
        to[transfer.second + i] = from[transfer.first + i];
    }
}

// The word is in `first`.
kernel void fill_words(device uint* to [[buffer(1)]], constant Transfer& transfer [[buffer(2)]],
                       uint3 at [[thread_position_in_grid]], uint3 groups [[threadgroups_per_grid]],
                       uint3 size [[threads_per_threadgroup]]) {
    for (ulong i = at.x; i < transfer.count; i += groups.x * size.x) {
        to[i] = transfer.first;
    }
}

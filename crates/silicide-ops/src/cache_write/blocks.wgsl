// A cache of blocks. Blocks of two invocations may share a word, so words are written whole where they are of one block, and by atomics
// elsewhere. `put_item` of an encoder calls `begin_block`, `put_byte` for each byte in order, and `end_block`.
@group(0) @binding($BINDING) var<storage, read_write> $NAME: array<atomic<u32>>;

// The byte after the last that was put, the bytes of its word so far, and which they are.
var<private> next_byte: u32;
var<private> pending: u32;
var<private> pending_mask: u32;

// Begins the block at byte `at`; the offset of compressed types counts bytes.
fn begin_block(at: u32) {
    next_byte = p.$NAME_offset + at;
    pending = 0u;
    pending_mask = 0u;
}

fn end_block() {
    if pending_mask != 0u {
        atomicAnd(&$NAME[(next_byte - 1u) >> 2u], ~pending_mask);
        atomicOr(&$NAME[(next_byte - 1u) >> 2u], pending);
    }
}

fn put_byte(byte: u32) {
    let shift = (next_byte & 3u) << 3u;
    pending |= (byte & 255u) << shift;
    pending_mask |= 255u << shift;
    next_byte += 1u;
    if shift == 24u {
        if pending_mask == 0xffffffffu {
            atomicStore(&$NAME[(next_byte - 1u) >> 2u], pending);
        } else {
            end_block();
        }
        pending = 0u;
        pending_mask = 0u;
    }
}

fn put_pair(bits: u32) {
    put_byte(bits);
    put_byte(bits >> 8u);
}

fn put_half(value: f32) {
    put_pair(narrow_$NAME(clamp(value, -65504.0, 65504.0)));
}

// 1 / x, or 0 for 0: the inverse scale of a block of zeros.
fn inverse(x: f32) -> f32 {
    return select(1.0 / x, 0.0, x == 0.0);
}

// The least and the greatest of the 32 elements from `first` on.
fn extremes(first: u32) -> vec2<f32> {
    var found = vec2<f32>(load_rows(first));
    for (var i = 1u; i < 32u; i++) {
        let value = load_rows(first + i);
        found = vec2<f32>(min(found.x, value), max(found.y, value));
    }
    return found;
}

// The element of the greatest magnitude, the first if there are several.
fn extreme(first: u32) -> f32 {
    let found = extremes(first);
    if found.y != -found.x {
        return select(found.x, found.y, found.y > -found.x);
    }
    var value = 0.0;
    for (var i = 0u; i < 32u && abs(value) != found.y; i++) {
        value = load_rows(first + i);
    }
    return value;
}

// The last `width - 1` inputs of a channel of a sequence. The new state may be the old one: place k is written after place
// tokens + k is read, and places are taken in order.
struct Params {
    x_offset: u32,
    state_offset: u32,
    new_state_offset: u32,
    count: u32,
    tokens: u32,
    channels: u32,
    width: u32,
}
var<immediate> p: Params;

fn element(i: u32) {
    let kept = p.width - 1u;
    let sequence = i / p.channels;
    let channel = i % p.channels;
    for (var k = 0u; k < kept; k++) {
        let t = p.tokens + k;
        var x = 0.0;
        if t < kept {
            x = load_state(i * kept + t);
        } else {
            x = load_x((sequence * p.tokens + t - kept) * p.channels + channel);
        }
        store_new_state(i * kept + k, x);
    }
}

// y[s][t][c] = act(sum over k of weights[c][k] * x[s][t + k - (width - 1)][c]); tokens before the first are the state.
struct Params {
    x_offset: u32,
    weights_offset: u32,
    state_offset: u32,
    y_offset: u32,
    count: u32,
    tokens: u32,
    channels: u32,
    width: u32,
    silu: u32,
}
var<immediate> p: Params;

fn element(i: u32) {
    let row = i / p.channels;
    let channel = i % p.channels;
    let sequence = row / p.tokens;
    let token = row % p.tokens;
    let kept = p.width - 1u;
    var sum = 0.0;
    for (var k = 0u; k < p.width; k++) {
        let t = token + k;
        var x = 0.0;
        if t < kept {
            x = load_state((sequence * p.channels + channel) * kept + t);
        } else {
            x = load_x((sequence * p.tokens + t - kept) * p.channels + channel);
        }
        sum += load_weights(channel * p.width + k) * x;
    }
    if p.silu != 0u {
        sum = silu_of(sum);
    }
    store_y(i, sum);
}

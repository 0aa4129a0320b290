// y = activation(gate) * up; `kind` is `Activation::code`.
struct Params { gate_offset: u32, up_offset: u32, y_offset: u32, count: u32, kind: u32 }
var<immediate> p: Params;

fn element(i: u32) {
    store_y(i, activate(p.kind, load_gate(i)) * load_up(i));
}

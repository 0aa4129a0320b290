// Eight elements in a row, one by one.
fn eight_$NAME(at: u32) -> mat2x4<f32> {
    return mat2x4<f32>(
        load_$NAME(at), load_$NAME(at + 1u), load_$NAME(at + 2u), load_$NAME(at + 3u),
        load_$NAME(at + 4u), load_$NAME(at + 5u), load_$NAME(at + 6u), load_$NAME(at + 7u),
    );
}

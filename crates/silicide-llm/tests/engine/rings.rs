//! Layers with a window keep a ring of positions: what falls off is seen no more, and what is left can be gone back to.

use crate::common::{devices, exact_session, floats, logits, nmse};
use samples::testdata;

/// Gemma's local layers see 32 positions. In passes of at most 8 tokens their rings hold 64, so that a text of 96 goes
/// round, by any size of pass.
#[test]
fn a_ring_goes_round() {
    let golden = std::fs::read_to_string(testdata("models/gemma3.json")).unwrap();
    let golden: serde_json::Value = serde_json::from_str(&golden).unwrap();
    let tokens: Vec<u32> = serde_json::from_value(golden["sequences"][2]["tokens"].clone()).unwrap();
    assert_eq!(tokens.len(), 96);
    let truth = floats(&testdata("models/gemma3.s96.ref64.f32.bin"));
    for device in devices() {
        let mut session = exact_session(&device, &testdata("models/gemma3.gguf"), 8);
        for size in [96, 7] {
            let got = logits(&mut session, &tokens, size);
            // The golden has the logits of the last rows where it does not have all.
            let error = nmse(&got[got.len() - truth.len()..], &truth);
            assert!(error < 1e-8, "{} by {size}: {error:e}", device.info().id);
        }
        // Positions 32 to 95 are in the rings. The query of position 95 looks back to 64, that of 64 to 33; that of 40
        // would look back to 9, which is lost.
        assert_eq!(session.rewind(95), 95);
        assert_eq!(session.rewind(64), 64);
        assert_eq!(session.rewind(40), 0);
        assert!(session.tokens().is_empty());
    }
}

//! What is counted before loading is what is taken.

use crate::common::{devices, exact_session, logits};
use samples::testdata;
use silicide::Purpose;

#[test]
fn a_model_takes_what_was_counted() {
    for device in devices() {
        let mut session = exact_session(&device, &testdata("models/gemma3.gguf"), 64);
        let fit = *session.model().fit();
        let usage = device.usage();
        assert_eq!(usage.of(Purpose::Cache).bytes as u64, fit.cache);
        let tokens: Vec<u32> = (0..64).collect();
        session
            .feed(&tokens, silicide_llm::engine::Wanted::Last, &silicide::CancelToken::new(), &mut |_, _| {
                Ok(())
            })
            .unwrap();
        logits(&mut session, &tokens[..1], 1);
        let usage = device.usage();
        let working = usage.of(Purpose::Activations).peak;
        assert!(working as u64 <= fit.activations, "{}: {working} of {}", device.info().id, fit.activations);
        // A count that is far too large would refuse what fits.
        assert!(
            working as u64 * 3 > fit.activations,
            "{}: {working} of {}",
            device.info().id,
            fit.activations
        );
    }
}

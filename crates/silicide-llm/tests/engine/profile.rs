//! Profiles: timed passes give the same logits, and every kernel of them is accounted for.

use crate::common::{devices, logits, nmse};
use samples::testdata;
use silicide_llm::ModelOptions;
use silicide_llm::engine::Session;

#[test]
fn timed_passes_give_the_same_logits_and_name_their_kernels() {
    for device in devices() {
        let mut options = ModelOptions::default();
        (options.context, options.chunk) = (Some(128), 16);
        let path = testdata("models/llama-tied-q8_0.gguf");
        let model = options.device(&device).open(&path).unwrap();
        let tokens: Vec<u32> = (0..20).map(|i| (i * 37 + 5) % 300).collect();
        let expected = logits(&mut Session::new(&model).unwrap(), &tokens, 1);
        let mut session = Session::new(&model).unwrap();
        assert!(session.profile().is_none());
        session.start_profile();
        let error = nmse(&logits(&mut session, &tokens, 1), &expected);
        let id = &device.info().id;
        assert!(error < 1e-8, "{id}: {error:e}");
        let profile = session.profile().unwrap();
        assert!(profile.replays() >= 5, "{id}: {}", profile.replays());
        let kernels = profile.kernels();
        assert!(kernels.iter().any(|row| row.name.contains("linear")), "{id}: {kernels:?}");
        assert!(kernels.iter().any(|row| row.name.contains("attention")), "{id}: {kernels:?}");
        let calls: u64 = kernels.iter().map(|row| row.calls).sum();
        assert_eq!(calls, profile.scopes().iter().map(|row| row.calls).sum::<u64>(), "{id}");
        assert!(kernels.iter().all(|row| row.bytes > 0), "{id}: {kernels:?}");
        let (on_device, in_all) = profile.times();
        assert!(!on_device.is_zero() && on_device <= in_all, "{id}: {on_device:?} of {in_all:?}");
        let (commands, barriers) = profile.commands();
        assert!(barriers < commands && commands >= calls, "{id}: {commands} {barriers} {calls}");
    }
}

#[test]
fn work_of_attention_depends_on_the_keys_that_rows_see_and_not_on_the_cache() {
    let tokens: Vec<u32> = (0..40).map(|i| (i * 37 + 5) % 300).collect();
    for device in devices() {
        let work = |context: usize| {
            let options = ModelOptions::default().device(&device).context(context);
            let model = options.open(testdata("models/llama-tied-q8_0.gguf")).unwrap();
            let mut session = Session::new(&model).unwrap();
            session.start_profile();
            logits(&mut session, &tokens, 40);
            let kernels = session.profile().unwrap().kernels();
            let row = kernels.iter().find(|row| row.name.contains("attention")).unwrap();
            (row.calls, row.bytes, row.flops)
        };
        assert_eq!(work(64), work(1024), "{}", device.info().id);
    }
}

//! Progress events of a prompt.

use crate::common::{devices, exact_session};
use samples::testdata;
use silicide_llm::engine::{GenerateOptions, PromptEvent, generate};
use std::sync::{Arc, Mutex};

#[test]
fn progress_is_reported_before_the_prompt_and_after_each_pass() {
    for device in devices() {
        let mut session = exact_session(&device, &testdata("models/llama-tied.gguf"), 16);
        let prompt: Vec<u32> = (0..50).map(|i| (i * 31 + 7) % 300).collect();
        let events = Arc::new(Mutex::new(Vec::new()));
        let mut options = GenerateOptions::default();
        (options.max_tokens, options.ignore_end) = (Some(3), true);
        let seen = Arc::clone(&events);
        options.progress = Some(Arc::new(move |event: &PromptEvent| {
            seen.lock().unwrap().push((event.done, event.total));
        }));
        generate(&mut session, &prompt, &options, &mut |_| ()).unwrap();
        let reported = std::mem::take(&mut *events.lock().unwrap());
        assert_eq!(reported, [(0, 50), (16, 50), (32, 50), (48, 50), (50, 50)]);
        // The session keeps what both prompts begin with.
        let next = [&prompt[..40], &[5, 6, 7]].concat();
        generate(&mut session, &next, &options, &mut |_| ()).unwrap();
        assert_eq!(*events.lock().unwrap(), [(40, 43), (43, 43)], "{}", device.info().id);
    }
}

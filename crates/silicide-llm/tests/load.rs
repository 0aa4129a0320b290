//! Weight files that change while a model is loaded.
#![allow(clippy::unwrap_used)]

use silicide_core::Device;
use silicide_llm::Model;
use silicide_llm::engine::{GenerateOptions, Session, generate};
use silicide_weights::Load;

#[test]
fn a_model_that_was_copied_survives_the_truncation_of_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    for repack in [true, false] {
        std::fs::copy(samples::testdata("models/llama-tied.gguf"), &path).unwrap();
        let device = Device::cpu().unwrap();
        let model = Model::options().device(&device).files(Load::Copy).repack(repack).open(&path).unwrap();
        // A mapping would end here with SIGBUS: no page of the file is left.
        std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        let mut session = Session::new(&model).unwrap();
        let mut options = GenerateOptions::default();
        options.max_tokens = Some(4);
        let generation = generate(&mut session, &[1, 2, 3], &options, &mut |_| ()).unwrap();
        assert!(!generation.tokens.is_empty());
    }
}

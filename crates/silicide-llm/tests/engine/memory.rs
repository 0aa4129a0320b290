//! The memory estimate equals the memory that a session allocates.

use crate::common::{devices, exact_session, logits};
use samples::testdata;
use silicide_core::{CancelToken, Device, DeviceOptions, Purpose};
use silicide_llm::engine::{LogitsFrom, Session, capture_pass};
use silicide_llm::{Error, Model, ModelOptions};
use silicide_weights::Source;

#[test]
fn a_model_takes_what_was_counted() {
    for (device, name) in
        devices().into_iter().chain(devices()).zip(["gemma3", "gemma3", "qwen3moe", "qwen3moe"])
    {
        let mut session = exact_session(&device, &testdata(&format!("models/{name}.gguf")), 64);
        let fit = *session.model().memory_estimate();
        let usage = device.usage();
        assert_eq!(usage.of(Purpose::Cache).bytes as u64, fit.cache);
        let tokens: Vec<u32> = (0..64).collect();
        session.feed(&tokens, LogitsFrom::Last, &CancelToken::new(), &mut |_, _| Ok(())).unwrap();
        logits(&mut session, &tokens[..1], 1);
        let usage = device.usage();
        let working = usage.of(Purpose::Activations).peak;
        assert!(working as u64 <= fit.activations, "{}: {working} of {}", device.info().id, fit.activations);
        // One kernel of these passes has the largest workspace, whichever pass ran.
        assert_eq!(usage.workspaces as u64, fit.workspaces, "{}", device.info().id);
        assert_eq!(usage.workspaces > 0, device.info().threads > 0);
        // A count that is far too large would refuse what fits.
        assert!(
            working as u64 * 3 > fit.activations,
            "{}: {working} of {}",
            device.info().id,
            fit.activations
        );
    }
}

#[test]
fn two_thousand_tokens_take_no_more_than_two_hundred() {
    let device = crate::common::cpu(2);
    let mut options = ModelOptions::default();
    options.context = Some(2048);
    let model = options.device(&device).open(testdata("models/llama-tied.gguf")).unwrap();
    let planned = model.memory_estimate().activations;
    let mut session = Session::new(&model).unwrap();
    let mut feed = |count: usize| {
        for token in 0..count as u32 {
            let sink = &mut |_: usize, _: &[f32]| Ok(());
            session.feed(&[token % 300], LogitsFrom::Last, &CancelToken::new(), sink).unwrap();
        }
        device.usage()
    };
    let early = feed(200);
    let late = feed(1800);
    for purpose in [Purpose::Cache, Purpose::Weights] {
        assert_eq!(late.of(purpose).peak, early.of(purpose).peak, "{purpose:?}");
    }
    // Attention over more keys works in more pieces, each with a few numbers of its own: all of that is in the plan.
    let working = late.of(Purpose::Activations).peak;
    assert!(working as u64 <= planned, "{working} of {planned}");
    let grown = late.total().saturating_sub(early.total());
    assert!(grown < 64 << 10, "{grown}");
}

/// Opens a model of which the token table is the output projection too, within a budget.
fn tied(budget: Option<usize>) -> Model {
    let mut options = DeviceOptions::default();
    (options.threads, options.memory_budget) = (Some(1), budget);
    let device = Device::open_with("cpu", &options).unwrap();
    let mut options = ModelOptions::default();
    options.context = Some(64);
    options.device(&device).open(testdata("models/llama-tied-f16.gguf")).unwrap()
}

#[test]
fn the_token_table_is_the_first_weight_that_is_not_repacked() {
    let source = Source::open(testdata("models/llama-tied-f16.gguf")).unwrap();
    let table = source.entry("token_embd.weight").unwrap().bytes().unwrap();
    let all = tied(None);
    let needed = all.memory_estimate().needed();
    let part = tied(Some(needed as usize - 1));
    assert_eq!((all.rearranged().not_interleaved, part.rearranged().not_interleaved), (0, table));
    assert_eq!(part.rearranged().bytes + table, all.rearranged().bytes);
    assert_eq!(part.memory_estimate().needed() + table, needed);
    let tokens: Vec<u32> = (0..20).collect();
    let of = |model: &Model| logits(&mut Session::new(model).unwrap(), &tokens, 7);
    assert!(of(&all) == of(&part));
}

#[test]
fn weights_that_are_there_twice_while_they_are_repacked_are_counted() {
    let all = *tied(None).memory_estimate();
    let source = Source::open(testdata("models/llama-tied-f16.gguf")).unwrap();
    let matrices =
        source.entries().filter(|entry| entry.name().starts_with("blk.") && entry.shape().rank() == 2);
    // All of them together are one batch.
    assert_eq!(all.loading, matrices.map(|entry| entry.bytes().unwrap()).sum::<u64>());
    let mut larger = all;
    larger.loading = all.cache + all.activations + all.workspaces + 1;
    assert_eq!(larger.needed(), all.needed() + 1);
}

/// All passes of a session share one arena, the largest of all classes, and each has parameters and launch words of its own.
#[test]
fn all_executors_take_little_more_than_the_largest() {
    let Some(path) = samples::model() else { return };
    for (context, chunk) in [(512, 512), (2048, 64), (4096, 512)] {
        let device = crate::common::cpu(2);
        let options = ModelOptions::default().context(context).chunk(chunk).device(&device);
        let model = options.open(&path).unwrap();
        let fit = *model.memory_estimate();
        let mut session = Session::new(&model).unwrap();
        let tokens: Vec<u32> = (0..context as u32).collect();
        for length in [chunk, 40, 10, 3, 1] {
            session.rewind(0);
            session
                .feed(&tokens[..length], LogitsFrom::Last, &CancelToken::new(), &mut |_, _| Ok(()))
                .unwrap();
        }
        let taken = device.usage().of(Purpose::Activations).peak as u64;
        assert!(taken <= fit.activations, "{taken} of {}", fit.activations);
        let bytes = |rows| {
            let source = Source::open(&path).unwrap();
            let [executor] = &capture_pass(&source, &options, rows).unwrap()[..] else { unreachable!() };
            executor.arena_bytes() + executor.session_bytes()
        };
        let largest = [1, 4, 16, 64, chunk].map(bytes).into_iter().max().unwrap() as u64;
        // Launch words do not shrink with the passes: small ones take a larger part for them.
        let most = if chunk == 512 { 105 } else { 125 };
        assert!(
            fit.activations * 100 <= largest * most,
            "-c {context} -ub {chunk}: {} of {largest}",
            fit.activations
        );
        // The estimate is no smaller than what one pass needs.
        assert!(fit.activations >= largest, "-c {context} -ub {chunk}: {} of {largest}", fit.activations);
    }
}

#[test]
fn logits_of_many_tokens_are_counted() {
    let device = crate::common::cpu(1);
    let options = ModelOptions::default().context(138).chunk(64).device(&device);
    let model = options.open(testdata("models/llama-tied.gguf")).unwrap();
    let counted = model.memory_estimate().activations + model.logits_bytes().unwrap();
    let mut session = Session::new(&model).unwrap();
    // Two passes of 64 rows and one of the ten that are left, which is of another class.
    let tokens: Vec<u32> = (0..138).collect();
    session.feed(&tokens, LogitsFrom::Token(0), &CancelToken::new(), &mut |_, _| Ok(())).unwrap();
    let taken = device.usage().of(Purpose::Activations).bytes as u64;
    assert!(taken > model.memory_estimate().activations && taken <= counted, "{taken} of {counted}");
}

#[test]
fn the_largest_context_that_fits_is_named() {
    let path = testdata("models/llama-tied.gguf");
    let open = |budget: Option<u64>, context: usize| {
        let mut options = DeviceOptions::default();
        (options.threads, options.memory_budget) = (Some(1), budget.map(|bytes| bytes as usize));
        let device = Device::open_with("cpu", &options).unwrap();
        ModelOptions::default().context(context).chunk(64).device(&device).open(&path)
    };
    // Below the rows of a pass, where passes grow with the context, and above them.
    for context in [40, 700] {
        let needed = open(None, context).unwrap().memory_estimate().needed();
        let fits = match open(Some(needed + 100), 2000) {
            Err(Error::DoesNotFit { fits, context: 2000, .. }) => fits,
            other => panic!("{:?}", other.map(|model| *model.memory_estimate())),
        };
        assert!(fits >= context, "{fits} of {context}");
        open(Some(needed + 100), fits).unwrap();
        let refused = open(Some(needed + 100), fits + 1);
        assert!(matches!(refused, Err(Error::DoesNotFit { fits: again, .. }) if again == fits), "{fits}");
    }
}

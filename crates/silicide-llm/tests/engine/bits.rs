//! On the CPU the logits of a token depend on the tokens before it and on nothing else: not on threads, on the rows of a pass, on how
//! a prompt is cut, on a reused prefix, or on the size of the context. All comparisons are of bits.

use crate::common::{cpu_with, logits};
use crate::random::RandomModel;
use samples::testdata;
use silicide_core::{CancelToken, Isa};
use silicide_llm::ModelOptions;
use silicide_llm::cache::CacheType;
use silicide_llm::engine::{GenerateOptions, LogitsFrom, Session, generate};
use silicide_quant::{DType, Format};
use std::path::Path;

/// How a text is read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    threads: usize,
    context: usize,
    /// The most tokens of a pass.
    chunk: usize,
    /// The types of keys and of values.
    cache: [CacheType; 2],
}

const F16: CacheType = CacheType::Element(DType::F16);

impl Reading {
    const USUAL: Reading = Reading { threads: 2, context: 2048, chunk: 512, cache: [F16; 2] };

    fn session(self, isa: Isa, path: &Path) -> Session {
        let options = ModelOptions::default().device(&cpu_with(isa, Some(self.threads)));
        let options =
            options.context(self.context).chunk(self.chunk).key_type(self.cache[0]).value_type(self.cache[1]);
        Session::new(&options.open(path).unwrap()).unwrap()
    }
}

fn text(length: usize) -> Vec<u32> {
    (0..length as u32).map(|i| (i * i % 251 + i * 7) % 300).collect()
}

fn bits(logits: &[f32]) -> Vec<u32> {
    assert!(logits.iter().all(|logit| logit.is_finite()));
    logits.iter().map(|logit| logit.to_bits()).collect()
}

/// The bits of the logits of every token, fed in pieces of `size`.
fn by(session: &mut Session, tokens: &[u32], size: usize) -> Vec<u32> {
    bits(&logits(session, tokens, size))
}

/// Returns the bits of the logits of the last token, with logits for that token alone in the pass.
fn last(session: &mut Session, tokens: &[u32]) -> Vec<u32> {
    let mut row = Vec::new();
    let sink = &mut |_: usize, logits: &[f32]| {
        row = bits(logits);
        Ok(())
    };
    session.feed(tokens, LogitsFrom::Last, &CancelToken::new(), sink).unwrap();
    row
}

/// Compares readings of a text of 150 tokens, which crosses edges of blocks of keys, with one pass on one thread.
fn check_cuts(name: &str, path: &Path) {
    let tokens = text(150);
    for isa in Isa::available() {
        let usual = Reading { context: 192, ..Reading::USUAL };
        let whole = by(&mut Reading { threads: 1, ..usual }.session(isa, path), &tokens, tokens.len());
        let mut session = usual.session(isa, path);
        for size in [tokens.len(), 64, 16, 7, 5, 1] {
            assert!(by(&mut session, &tokens, size) == whole, "{name} on {isa}: by {size}");
        }
        let mut other = Reading { threads: 3, context: 400, chunk: 23, ..usual }.session(isa, path);
        assert!(by(&mut other, &tokens, tokens.len()) == whole, "{name} on {isa}: other context and chunk");
        // Prefixes that are kept, with another text between.
        for kept in [149, 100, 64, 3] {
            assert_eq!(session.rewind(kept), kept);
            last(&mut session, &text(30)[10..]);
            assert_eq!(session.rewind(kept), kept);
            let row = last(&mut session, &tokens[kept..]);
            assert!(whole.ends_with(&row), "{name} on {isa}: after a prefix of {kept}");
        }
    }
}

fn check_formats(formats: impl Iterator<Item = DType>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    for dtype in formats {
        RandomModel::llama(dtype, 1).write(&path);
        check_cuts(&dtype.to_string(), &path);
    }
}

#[test]
fn elements_give_the_same_bits_however_a_prompt_is_cut() {
    check_formats([DType::F32, DType::F16, DType::BF16].into_iter());
}

#[test]
fn half_of_the_block_formats_give_the_same_bits_however_a_prompt_is_cut() {
    check_formats(Format::ALL.iter().step_by(2).map(|format| DType::Block(*format)));
}

#[test]
fn the_other_block_formats_give_the_same_bits_however_a_prompt_is_cut() {
    check_formats(Format::ALL.iter().skip(1).step_by(2).map(|format| DType::Block(*format)));
}

#[test]
fn planes_of_mlx_give_the_same_bits_however_a_prompt_is_cut() {
    // Layers of 4 bits with a token table and a head of 8.
    for name in ["llama-4bit", "qwen3moe-4bit", "llama-bf16"] {
        check_cuts(name, &testdata(&format!("models/mlx/{name}")));
    }
}

#[test]
fn mixtures_give_the_same_bits_however_a_prompt_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let blocks = |format| DType::Block(format);
    for (weights, router) in [
        (DType::F32, DType::F32),
        (DType::F16, DType::F32),
        (DType::BF16, DType::BF16),
        (blocks(Format::Q4_0), DType::F32),
        (blocks(Format::Q4K), blocks(Format::Q8_0)),
        (blocks(Format::Iq2Xs), DType::F16),
    ] {
        RandomModel { architecture: "qwen3moe", layers: 2, weights, router }.write(&path);
        check_cuts(&format!("experts of {weights}, router of {router}"), &path);
    }
}

/// More threads than the machine has cores: tiles are stolen from threads that do not run, in another order each time.
#[test]
fn eight_to_thirty_two_threads_give_the_bits_of_one() {
    let (folder, tokens) = (tempfile::tempdir().unwrap(), text(70));
    let path = folder.path().join("model.gguf");
    let dense = [DType::F16, DType::Block(Format::Q4_0), DType::Block(Format::Q6K)]
        .map(|dtype| RandomModel::llama(dtype, 1));
    let weights = DType::Block(Format::Q8_0);
    let experts = RandomModel { architecture: "qwen3moe", layers: 1, weights, router: DType::F32 };
    for model in dense.into_iter().chain([experts]) {
        model.write(&path);
        for isa in Isa::available() {
            let of = |threads: usize| {
                let mut session = Reading { threads, context: 128, ..Reading::USUAL }.session(isa, &path);
                [70, 9, 1].map(|size| by(&mut session, &tokens, size))
            };
            let one = of(1);
            for threads in [8, 16, 32] {
                assert!(of(threads) == one, "{} on {isa} with {threads} threads", model.weights);
            }
        }
    }
}

/// Compares readings of 1,300 tokens.
fn check_long(name: &str, path: &Path, caches: &[[CacheType; 2]], sizes: &[usize]) {
    let tokens = text(1300);
    for isa in Isa::available() {
        for &cache in caches {
            let usual = Reading { cache, ..Reading::USUAL };
            let mut session = usual.session(isa, path);
            let whole = by(&mut session, &tokens, tokens.len());
            for &size in sizes {
                assert!(by(&mut session, &tokens, size) == whole, "{name} on {isa}, {cache:?}: by {size}");
            }
            let mut other = Reading { threads: 1, context: 1301, chunk: 64, cache }.session(isa, path);
            assert!(
                by(&mut other, &tokens, tokens.len()) == whole,
                "{name} on {isa}, {cache:?}: other context"
            );
            // One row of logits in passes of 512 tokens.
            session.rewind(0);
            let row = last(&mut session, &tokens);
            assert!(whole.ends_with(&row), "{name} on {isa}, {cache:?}: the last token alone");
        }
    }
}

/// Texts of a model with heads of 64 elements.
fn check_caches(caches: &[[CacheType; 2]], sizes: &[usize]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    RandomModel::llama(DType::Block(Format::Q4_0), 1).write(&path);
    check_long("q4_0", &path, caches, sizes);
}

#[test]
fn long_texts_give_the_same_bits_with_plain_and_block_caches() {
    let element = CacheType::ALL.into_iter().filter(|of| matches!(of, CacheType::Element(_)));
    let (blocks, plain): (Vec<_>, Vec<_>) =
        element.map(|of| [of; 2]).partition(|[of, _]| of.name().contains('_'));
    check_caches(&plain, &[64, 7]);
    check_caches(&blocks, &[37]);
}

#[test]
fn long_texts_give_the_same_bits_with_compressed_caches() {
    let turbo = |name| CacheType::from_name(name).unwrap();
    let (tq4, tq3) = (turbo("tq4"), turbo("tq3"));
    let same = ["tq8", "tq6", "tq5", "tq2.25", "tq2"].map(|name| [turbo(name); 2]);
    let mixed = [[tq4, tq3], [F16, tq4], [tq4, F16], [turbo("q4_0"), tq3]];
    check_caches(&[same.as_slice(), &mixed].concat(), &[37]);
}

#[test]
fn windows_give_the_same_bits_when_rings_wrap() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    // The window is 48: rings of 576 slots wrap twice in passes of 512 tokens, those of 128 ten times in passes of 64.
    let weights = DType::Block(Format::Q4_0);
    RandomModel { architecture: "gemma3", layers: 6, weights, router: weights }.write(&path);
    check_long(
        "gemma3",
        &path,
        &[[F16; 2], [CacheType::from_name("q8_0").unwrap(); 2], [CacheType::from_name("tq4").unwrap(); 2]],
        &[37],
    );
}

#[test]
fn token_by_token_gives_the_bits_of_passes_of_512() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    RandomModel::llama(DType::Block(Format::Q4K), 1).write(&path);
    check_long("q4_k", &path, &[[F16; 2]], &[1]);
}

#[test]
fn passes_of_512_rows_give_the_same_bits_with_dense_weights_and_experts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    RandomModel::llama(DType::F16, 1).write(&path);
    check_long("f16", &path, &[[F16; 2]], &[37]);
    let (weights, router) = (DType::Block(Format::Q4K), DType::F32);
    RandomModel { architecture: "qwen3moe", layers: 1, weights, router }.write(&path);
    check_long("experts", &path, &[[F16; 2]], &[37]);
}

#[test]
fn passes_of_512_rows_give_the_same_bits_with_planes_of_mlx() {
    check_long("mlx", &testdata("models/mlx/llama-4bit"), &[[F16; 2]], &[37]);
}

#[test]
fn an_answer_is_the_same_for_the_same_seed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    RandomModel::llama(DType::Block(Format::Q4_0), 1).write(&path);
    for isa in Isa::available() {
        let mut session = Reading::USUAL.session(isa, &path);
        let mut options = GenerateOptions::default().max_tokens(40).temperature(1.0).seed(11);
        options.ignore_end = true;
        let prompt = text(70);
        let first = generate(&mut session, &prompt, &options, &mut |_| ()).unwrap();
        // All but the last token of the prompt is in the cache now.
        let again = generate(&mut session, &prompt, &options, &mut |_| ()).unwrap();
        assert_eq!(first.tokens, again.tokens, "{isa}");
        let other = generate(&mut session, &prompt, &options.clone().seed(12), &mut |_| ()).unwrap();
        assert_ne!(first.tokens, other.tokens, "{isa}: the seed has an effect");
    }
}

//! The cost of types of the KV cache for a model: perplexity of a text, and how far the logits are from those with a cache of f16.
//!
//! The text is cut into windows, as `silicide perplexity` cuts it, and the second half of each is scored. All caches read the same tokens
//! in the same passes, so their differences are exact. Prints a table, or with `--json` a line for each cache.

use anyhow::Context;
use serde_json::json;
use silicide_core::{CancelToken, Device};
use silicide_llm::cache::CacheType;
use silicide_llm::engine::{LogitsFrom, Session};
use silicide_llm::tokenizer::Special;
use silicide_llm::{Error, Model, ModelOptions};
use std::path::{Path, PathBuf};

/// Tokens of a pass: as many rows of logits are kept.
const PASS: usize = 128;

/// A type of keys and of values, and whether block formats are rotated.
#[derive(Clone, Copy, Debug)]
struct Cache {
    keys: CacheType,
    values: CacheType,
    rotate: bool,
}

impl Cache {
    /// The name of a type: `q4_0+h` if it is rotated without being TurboQuant.
    fn name(of: CacheType, rotate: bool) -> String {
        let is_block = of.name().contains('_');
        format!("{of}{}", if rotate && is_block { "+h" } else { "" })
    }

    fn parse(name: &str) -> anyhow::Result<(CacheType, bool)> {
        let (name, rotate) = name.strip_suffix("+h").map_or((name, false), |name| (name, true));
        Ok((CacheType::from_name(name).with_context(|| format!("known are {}", CacheType::names()))?, rotate))
    }
}

/// The predictions of a text with a cache.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    surprise: f64,
    divergence: f64,
    /// Tokens whose likeliest successor is that of f16.
    agreed: usize,
    scored: usize,
}

/// A model with one of the caches.
struct Reader {
    cache: Cache,
    session: Session,
    score: Score,
}

impl Reader {
    fn open(path: &Path, context: usize, cache: Cache) -> anyhow::Result<Reader> {
        // Not repacked: all models are the one mapped file.
        let options = ModelOptions::default().device(&Device::cpu()?).context(context).repack(false);
        let options = options.key_type(cache.keys).value_type(cache.values).cache_rotate(cache.rotate);
        let session = Session::new(&options.open(path)?)?;
        Ok(Reader { cache, session, score: Score::default() })
    }

    fn feed(
        &mut self,
        tokens: &[u32],
        from: usize,
        mut row: impl FnMut(&mut Score, usize, &[f32]),
    ) -> anyhow::Result<()> {
        let (start, score) = (self.session.tokens().len(), &mut self.score);
        self.session.feed(
            tokens,
            LogitsFrom::Token(from),
            &CancelToken::new(),
            &mut |position, logits| {
                row(score, position - start, logits);
                Ok::<(), Error>(())
            },
        )?;
        Ok(())
    }
}

/// Logarithms of probabilities.
fn log_softmax(logits: &[f32], out: &mut Vec<f32>) {
    let largest = logits.iter().copied().fold(f32::MIN, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from((logit - largest).exp())).sum();
    let shift = largest + sum.ln() as f32;
    out.clear();
    out.extend(logits.iter().map(|logit| logit - shift));
}

fn likeliest(logs: &[f32]) -> usize {
    logs.iter().enumerate().fold((0, f32::MIN), |best, (i, x)| if *x > best.1 { (i, *x) } else { best }).0
}

/// Which model reads which text, with which caches.
#[derive(clap::Args)]
pub(crate) struct Reading {
    /// A GGUF file, such as the one that scripts/fetch-model names.
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// Files that make up the text.
    #[arg(long = "text", value_name = "FILE", required = true, num_args = 1..)]
    texts: Vec<PathBuf>,
    /// Types, each as keys, as values and as both; +h rotates block formats.
    #[arg(long, value_delimiter = ',')]
    types: Vec<String>,
    /// More types, of keys and of values: tq6/tq4.
    #[arg(long, value_delimiter = ',')]
    pairs: Vec<String>,
    /// Tokens of a window.
    #[arg(long, default_value_t = 512)]
    context: usize,
    /// Windows at most.
    #[arg(long, default_value_t = usize::MAX)]
    windows: usize,
}

/// Scores each of the types as keys, as values and as both, beside f16.
pub(crate) fn run(reading: &Reading, json: bool) -> anyhow::Result<()> {
    let Reading { model, texts, types, pairs, context, windows } = reading;
    let (context, windows) = (*context, *windows);
    let f16 = CacheType::from_name("f16").context("f16 is a type")?;
    let mut caches = vec![Cache { keys: f16, values: f16, rotate: false }];
    for name in types {
        let (of, rotate) = Cache::parse(name)?;
        caches.extend([(of, of), (of, f16), (f16, of)].map(|(keys, values)| Cache { keys, values, rotate }));
    }
    for pair in pairs {
        let (keys, values) = pair.split_once('/').context("a pair is KEYS/VALUES")?;
        let ((keys, first), (values, second)) = (Cache::parse(keys)?, Cache::parse(values)?);
        caches.push(Cache { keys, values, rotate: first || second });
    }
    let open = |cache: &Cache| Reader::open(model, context, *cache);
    let mut readers = caches.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    let mut text = Vec::new();
    for path in texts {
        text.extend(std::fs::read(path).with_context(|| path.display().to_string())?);
    }
    let of: &Model = readers[0].session.model();
    let tokens = of.tokenizer().encode_prompt(&text, Special::Plain);
    let bos = of.tokenizer().special().bos.filter(|_| of.tokenizer().adds_bos());
    let mut logs = Vec::new();
    for window in tokens.chunks_exact(context).take(windows) {
        let mut fed = window.to_vec();
        if let (Some(bos), Some(first)) = (bos, fed.first_mut()) {
            *first = bos;
        }
        readers.iter_mut().for_each(|reader| _ = reader.session.rewind(0));
        for start in (0..context).step_by(PASS) {
            let part = &fed[start..(start + PASS).min(context - 1)];
            let from = if start < context / 2 { part.len() - 1 } else { 0 };
            // Logarithms of f16, row after row.
            let mut exact: Vec<Vec<f32>> = Vec::new();
            for reader in &mut readers {
                reader.feed(part, from, |score, row, logits| {
                    if start < context / 2 {
                        return;
                    }
                    log_softmax(logits, &mut logs);
                    if exact.len() <= row {
                        exact.push(logs.clone());
                    }
                    let exact = &exact[row];
                    score.surprise -= f64::from(logs[window[start + row + 1] as usize]);
                    score.divergence += exact
                        .iter()
                        .zip(&logs)
                        .map(|(exact, log)| f64::from(exact.exp()) * f64::from(exact - log))
                        .sum::<f64>();
                    score.agreed += usize::from(likeliest(exact) == likeliest(&logs));
                    score.scored += 1;
                })?;
            }
        }
        eprintln!("{} tokens of a window scored", readers[0].score.scored);
    }
    let exact = readers[0].score.surprise;
    if !json {
        println!("{}, context {context}, {} tokens scored", model.display(), readers[0].score.scored);
        println!(
            "{:10} {:10} {:>12} {:>10} {:>8} {:>9} {:>8}",
            "keys", "values", "bytes/token", "ppl", "", "kl", "agreed"
        );
    }
    for Reader { cache, session, score } in &readers {
        let scored = score.scored as f64;
        let bytes = session.model().memory_estimate().cache as f64 / context as f64;
        let ratio = ((score.surprise - exact) / scored).exp();
        let [keys, values] = [cache.keys, cache.values].map(|of| Cache::name(of, cache.rotate));
        let (ppl, kl) = ((score.surprise / scored).exp(), score.divergence / scored);
        let agreed = score.agreed as f64 / scored;
        if json {
            let row = json!({
                "model": model, "keys": keys, "values": values, "context": context, "scored": score.scored,
                "bytes": bytes, "ppl": ppl, "ratio": ratio, "kl": kl, "agreed": agreed,
            });
            println!("{row}");
        } else {
            let (change, agreed) = ((ratio - 1.0) * 100.0, agreed * 100.0);
            println!(
                "{keys:10} {values:10} {bytes:>12.0} {ppl:>10.4} {change:>+7.2}% {kl:>9.5} {agreed:>7.2}%"
            );
        }
    }
    Ok(())
}

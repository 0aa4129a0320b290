//! Perplexity: how surprised a model is by a text, as llama.cpp's tool computes it by default.
//!
//! The text is cut into windows of the context's size that do not overlap, each fed from nothing (its first token
//! replaced by BOS if the model uses one). Only the second half of each window is scored, so that every scored token has
//! at least half a window before it. What does not fill a window is left out.

use super::session::{LogitsFrom, Session};
use crate::error::{Error, Result};
use silicide_core::CancelToken;

/// How surprised a model was.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Perplexity {
    /// The exponential of the mean surprise.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
    /// Tokens that were scored.
    pub scored: usize,
    /// Windows fed so far.
    pub windows: usize,
    /// Windows in all.
    pub total: usize,
}

/// Scores `tokens` in windows of `window`; `progress` is called with the state after each.
pub fn perplexity(
    session: &mut Session,
    tokens: &[u32],
    window: usize,
    cancel: &CancelToken,
    progress: &mut dyn FnMut(&Perplexity),
) -> Result<Perplexity> {
    let total = tokens.len().checked_div(window).unwrap_or(0);
    if window < 4 {
        let (expected, got) = ("windows of at least 4 tokens".to_owned(), window.to_string());
        return Err(Error::BadOption { option: "ctx-size", expected, got });
    }
    if total == 0 {
        return Err(Error::TextTooShort { tokens: tokens.len(), needed: window });
    }
    let tokenizer = session.model().tokenizer();
    let bos = tokenizer.special().bos.filter(|_| tokenizer.adds_bos());
    let (mut sum, mut squares, mut scored) = (0f64, 0f64, 0usize);
    let mut state = Perplexity { value: f64::NAN, error: f64::NAN, scored, windows: 0, total };
    for piece in tokens.chunks_exact(window) {
        session.rewind(0);
        let mut fed = piece.to_vec();
        if let (Some(bos), Some(first)) = (bos, fed.first_mut()) {
            *first = bos;
        }
        let half = window / 2;
        // The last token's logits predict nothing that is there.
        fed.truncate(window - 1);
        session.feed(&fed, LogitsFrom::Token(half), cancel, &mut |position, logits| {
            let next = piece.get(position + 1).copied().unwrap_or(0);
            let surprise = surprise(logits, next).ok_or(Error::NotANumber { position })?;
            sum += surprise;
            squares += surprise * surprise;
            scored += 1;
            Ok(())
        })?;
        let mean = sum / scored as f64;
        let variance = (squares / scored as f64 - mean * mean).max(0.0);
        state.value = mean.exp();
        state.error = state.value * (variance / (scored as f64 - 1.0).max(1.0)).sqrt();
        (state.scored, state.windows) = (scored, state.windows + 1);
        progress(&state);
    }
    session.rewind(0);
    Ok(state)
}

/// Minus the logarithm of a token's probability.
fn surprise(logits: &[f32], token: u32) -> Option<f64> {
    let chosen = f64::from(*logits.get(token as usize)?);
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - highest).exp()).sum();
    let surprise = sum.ln() + f64::from(highest) - chosen;
    surprise.is_finite().then_some(surprise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surprise_is_minus_the_log_of_the_probability() {
        let logits = [8f32, 4.0, 2.0, 2.0].map(f32::ln);
        for (token, probability) in [(0, 0.5f64), (1, 0.25), (3, 0.125)] {
            assert!((surprise(&logits, token).unwrap() + probability.ln()).abs() < 1e-6);
        }
        assert_eq!(surprise(&logits, 4), None);
        assert_eq!(surprise(&[f32::NAN, 0.0], 1), None);
    }
}

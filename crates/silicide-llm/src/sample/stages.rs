//! The stages of the chain. Each removes candidates; the most likely one always stays.

/// A token that may be sampled, and its logit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) token: u32,
    pub(super) logit: f32,
}

/// Compares by logit, highest first, then by id, lowest first.
fn order(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token))
}

/// Sorts the candidates and keeps the `k` most likely; all of them for 0.
pub(super) fn top_k(candidates: &mut Vec<Candidate>, k: usize) {
    if k > 0 && k < candidates.len() {
        candidates.select_nth_unstable_by(k - 1, order);
        candidates.truncate(k);
    }
    candidates.sort_unstable_by(order);
}

/// Keeps the first of sorted candidates whose probabilities together reach `p`.
pub(super) fn top_p(candidates: &mut Vec<Candidate>, p: f32) {
    if p >= 1.0 {
        return;
    }
    let weights = weights(candidates, 1.0);
    let enough = weights.iter().sum::<f64>() * f64::from(p);
    let mut sum = 0.0;
    let reached = weights.iter().position(|weight| {
        sum += weight;
        sum >= enough
    });
    candidates.truncate(reached.map_or(usize::MAX, |at| at + 1));
}

/// Keeps sorted candidates that are at least `p` times as likely as the first.
pub(super) fn min_p(candidates: &mut Vec<Candidate>, p: f32) {
    if p <= 0.0 {
        return;
    }
    let Some(first) = candidates.first() else { return };
    let least = first.logit + p.ln();
    let kept = candidates.iter().take_while(|candidate| candidate.logit >= least).count();
    candidates.truncate(kept.max(1));
}

/// Returns the probabilities of sorted candidates, up to a common factor.
pub(super) fn weights(candidates: &[Candidate], temperature: f32) -> Vec<f64> {
    let highest = candidates.first().map_or(0.0, |first| first.logit);
    let scaled = |logit: f32| f64::from(logit - highest) / f64::from(temperature);
    candidates.iter().map(|candidate| scaled(candidate.logit).exp()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(logits: &[f32]) -> Vec<Candidate> {
        (0..).zip(logits).map(|(token, &logit)| Candidate { token, logit }).collect()
    }

    fn tokens(candidates: &[Candidate]) -> Vec<u32> {
        candidates.iter().map(|candidate| candidate.token).collect()
    }

    #[test]
    fn the_likeliest_come_first_and_lower_ids_of_equals() {
        let mut all = candidates(&[1.0, 3.0, 2.0, 3.0]);
        top_k(&mut all, 3);
        assert_eq!(tokens(&all), [1, 3, 2]);
        let mut all = candidates(&[1.0, 3.0, 2.0]);
        top_k(&mut all, 0);
        assert_eq!(tokens(&all), [1, 2, 0]);
    }

    #[test]
    fn top_p_keeps_just_enough() {
        // Probabilities 0.5, 0.25, 0.125, 0.125.
        let logits = [8f32, 4.0, 2.0, 2.0].map(f32::ln);
        for (p, kept) in [(0.0, 1), (0.49, 1), (0.6, 2), (0.8, 3), (1.0, 4)] {
            let mut all = candidates(&logits);
            top_k(&mut all, 0);
            top_p(&mut all, p);
            assert_eq!(all.len(), kept, "{p}");
        }
    }

    #[test]
    fn min_p_goes_by_the_likeliest() {
        let logits = [8f32, 4.0, 1.0].map(f32::ln);
        for (p, kept) in [(0.0, 3), (0.1, 3), (0.3, 2), (0.9, 1), (1.0, 1)] {
            let mut all = candidates(&logits);
            top_k(&mut all, 0);
            min_p(&mut all, p);
            assert_eq!(all.len(), kept, "{p}");
        }
    }
}

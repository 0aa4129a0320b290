//! Spans of the last lists that had marks.

use crate::Span;
use std::collections::VecDeque;

/// Lists whose spans are kept.
const KEPT: usize = 64;

/// Spans by ticket, oldest first.
#[derive(Default)]
pub(crate) struct History {
    lists: VecDeque<(u64, Vec<Span>)>,
}

impl History {
    /// Keeps the spans of a list and drops the oldest. `read` fills a cleared vector.
    pub(crate) fn keep(&mut self, ticket: u64, read: impl FnOnce(&mut Vec<Span>)) {
        let mut spans = match self.lists.len() < KEPT {
            true => Vec::new(),
            false => self.lists.pop_front().map(|(_, spans)| spans).unwrap_or_default(),
        };
        spans.clear();
        read(&mut spans);
        self.lists.push_back((ticket, spans));
    }

    /// Returns the spans of a list.
    pub(crate) fn spans(&self, ticket: u64) -> Vec<Span> {
        let found = self.lists.iter().find(|(of, _)| *of == ticket);
        found.map(|(_, spans)| spans.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_the_oldest_list_are_dropped() {
        let mut history = History::default();
        let span = |ticket| Span { label: "a", start_ns: 0, duration_ns: ticket };
        (1..=KEPT as u64 + 1).for_each(|ticket| history.keep(ticket, |spans| spans.push(span(ticket))));
        assert!(history.spans(1).is_empty());
        assert_eq!(history.spans(2), [span(2)]);
        assert_eq!(history.spans(KEPT as u64 + 1), [span(KEPT as u64 + 1)]);
    }
}

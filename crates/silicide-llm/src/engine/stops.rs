//! Stop strings: text is held back while it might become one.

/// Looks for stop strings in text that comes in pieces.
#[derive(Clone, Debug)]
pub(super) struct Stops {
    strings: Vec<String>,
    held: String,
}

impl Stops {
    /// Stops at any of these; empty ones never stop anything.
    pub(super) fn new(strings: &[String]) -> Stops {
        let strings = strings.iter().filter(|string| !string.is_empty()).cloned().collect();
        Stops { strings, held: String::new() }
    }

    /// Appends `text`. Returns the text that cannot be part of a stop string, and whether a stop string was found. Text from
    /// the first stop string on is dropped.
    pub(super) fn push(&mut self, text: &str) -> (String, bool) {
        self.held.push_str(text);
        let found = self.strings.iter().filter_map(|string| self.held.find(string.as_str())).min();
        if let Some(at) = found {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let holds = |at: usize| {
            let rest = self.held.get(at..).unwrap_or_default();
            self.strings.iter().any(|string| string.starts_with(rest))
        };
        // The first place from which what follows could still grow into a stop string.
        let keep =
            self.held.char_indices().map(|(at, _)| at).find(|&at| holds(at)).unwrap_or(self.held.len());
        let rest = self.held.split_off(keep);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// Returns the text that was held back, at the end.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_held_while_it_may_stop() {
        let mut stops = Stops::new(&["</end>".to_owned(), String::new()]);
        assert_eq!(stops.push("a <"), ("a ".to_owned(), false));
        assert_eq!(stops.push("b </e"), ("<b ".to_owned(), false));
        assert_eq!(stops.push("nd> c"), (String::new(), true));
        assert_eq!(stops.finish(), "");
        let mut stops = Stops::new(&["xyz".to_owned()]);
        assert_eq!(stops.push("äxy"), ("ä".to_owned(), false));
        assert_eq!(stops.finish(), "xy");
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "[ab]{0,20}", stop in "[ab]{1,3}", cuts in prop::collection::vec(1usize..4, 20)) {
            let expected = text.split_once(&stop).map_or(text.as_str(), |(before, _)| before);
            let mut stops = Stops::new(&[stop]);
            let (mut out, mut rest, mut stopped) = (String::new(), text.as_str(), false);
            for cut in cuts {
                let (piece, more) = rest.split_at(cut.min(rest.len()));
                rest = more;
                let (text, found) = stops.push(piece);
                out += &text;
                stopped = found;
                if stopped { break }
            }
            if !stopped { out += &stops.finish() }
            prop_assert_eq!(out, expected);
        }
    }
}

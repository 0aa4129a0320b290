//! Text as a terminal gets it.

use super::*;
use proptest::prelude::*;

const OPTIONS: DisplayOptions =
    DisplayOptions { terminal: true, wrap: true, markdown: true, colour: true, columns: || Some(24) };

/// Shows pieces of text, with every style named in angle brackets.
fn shown(pieces: &[&str], options: DisplayOptions) -> String {
    let mut bytes = Vec::new();
    let mut display = TextDisplay::new(&mut bytes, options);
    pieces.iter().for_each(|piece| display.print(piece).unwrap());
    display.finish().unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let tints = [("", ""), (";33", "code"), (";2", "dim"), (";36", "cyan")];
    let faces = [("", ""), (";1", "b"), (";3", "i"), (";1;3", "bi")];
    tints.into_iter().flat_map(|tint| faces.map(|face| (face, tint))).fold(text, |text, (face, tint)| {
        let name = [face.1, tint.1].join(" ");
        text.replace(&format!("\u{1b}[0{}{}m", face.0, tint.0), &format!("<{}>", name.trim()))
    })
}

#[track_caller]
fn shows(text: &str, expected: &str) {
    assert_eq!(shown(&[text], OPTIONS), expected);
}

#[test]
fn markers_become_styles() {
    shows("a **b** *c* ***d***", "a <b>b <i>c <bi>d<>");
    shows("**a `b` c**", "<b>a <b code>b <b>c<>");
    shows("*`a`*", "<i code>a<>");
    shows("call `f(*x)` now", "call <code>f(*x) <>now");
    shows("# Big\n## Less\ntext", "<b cyan>Big\nLess\n<>text");
    shows("> quoted", "<dim>│ <i>quoted<>");
    shows("a\n---\nb", &format!("a\n<dim>{}\n<>b", "─".repeat(24)));
}

#[test]
fn text_that_only_looks_like_markdown_stays() {
    for text in [
        "2 * 3 * 4",
        "a*b*c",
        "f(*args, **kwargs)",
        "snake_case __init__",
        "#tag",
        "1.5",
        "\\(x\\)",
        "**",
        "`",
    ] {
        shows(text, text);
    }
    shows("**open\nnext* line", "**open\nnext* line");
    shows(r"\*not\*", "*not*");
}

#[test]
fn items_hang_and_code_is_not_wrapped() {
    shows("- one two three four five six", "<dim>• <>one two three four\n  five six");
    shows("10. one two three four five", "<dim>10. <>one two three four\n    five");
    shows("  * deep item that is wrapped", "  <dim>• <>deep item that is\n    wrapped");
    let code = "let long = \"a line of code that is long\";";
    shows(
        &format!("```rust\n{code}\n  x\n```\n**b**"),
        &format!("<dim>```rust\n<code>{code}\n  x\n<dim>```\n<b>b<>"),
    );
    shows("| a | **b** | and a long row |", "| a | **b** | and a long row |");
}

#[test]
fn long_spans_are_shown_with_their_markers() {
    let long = format!("*{}*", "word ".repeat(60).trim_end());
    let visible: String = shown(&[&long], OPTIONS).replace('\n', " ");
    assert_eq!(visible, long);
}

#[test]
fn control_characters_are_escaped_on_terminals_only() {
    shows(
        "\u{1b}[2Jx\r\ny\rz\u{202e}",
        r"\u{1b}[2Jx
y\u{d}z\u{202e}",
    );
    let plain = DisplayOptions { wrap: false, markdown: false, ..OPTIONS };
    assert_eq!(shown(&["\u{1b}[2J **x**\r", "\n"], plain), "\\u{1b}[2J **x**\n");
    let pipe = DisplayOptions { terminal: false, colour: false, ..plain };
    assert_eq!(shown(&["\u{7}\r", "\n **x**"], pipe), "\u{7}\r\n **x**");
}

#[test]
fn without_colour_markers_stay_and_words_are_wrapped() {
    let options = DisplayOptions { colour: false, markdown: false, ..OPTIONS };
    assert_eq!(
        shown(&["- one **two** three four five\n# Head"], options),
        "- one **two** three four\n  five\n# Head"
    );
}

#[test]
fn the_width_of_a_resized_terminal_is_used_at_once() {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static WIDTH: AtomicUsize = AtomicUsize::new(20);
    let options = DisplayOptions { columns: || Some(WIDTH.load(Relaxed)), ..OPTIONS };
    let mut bytes = Vec::new();
    let mut display = TextDisplay::new(&mut bytes, options);
    display.print("one two three four five\n").unwrap();
    WIDTH.store(10, Relaxed);
    display.print("one two three four five\n").unwrap();
    assert!(display.finish().unwrap());
    let text = String::from_utf8(bytes).unwrap();
    assert_eq!(text, "one two three four\nfive\none two\nthree four\nfive\n");
}

#[test]
fn columns_of_the_programs_own_text_hang() {
    let text = "name  what it does in words\n\nother text that is long";
    assert_eq!(wrapped(text, &OPTIONS), "name  what it does in\n      words\n\nother text that is long");
    let pipe = DisplayOptions { wrap: false, ..OPTIONS };
    assert_eq!(wrapped(text, &pipe), text);
}

/// Text that is rich in markers.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z]{1,9} ?",
        2 => Just("\n".to_owned()),
        3 => "[*`\\\\#>|+ 1.~-]{1,4}",
        1 => "[漢字かな。👍é\u{301}\u{1b}\r\t\u{202e}]{1,3}",
        1 => Just("```\n".to_owned()),
        1 => Just("**b `c` d** ".to_owned()),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn text_is_shown_the_same_for_any_chunks(text in text(), cuts in proptest::collection::vec(1usize..7, 1..20), markdown in any::<bool>()) {
        let options = DisplayOptions { markdown, colour: markdown, ..OPTIONS };
        let whole = shown(&[&text], options);
        let characters: Vec<char> = text.chars().collect();
        let (mut rest, mut pieces, mut cut) = (&characters[..], Vec::new(), cuts.iter().cycle());
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(rest.len().min(*cut.next().unwrap()));
            pieces.push(piece.iter().collect::<String>());
            rest = later;
        }
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        prop_assert_eq!(shown(&pieces, options), whole);
    }

    #[test]
    fn no_character_is_lost_without_markdown(text in "[a-z*`#> \n-]{0,200}") {
        let options = DisplayOptions { markdown: false, colour: false, ..OPTIONS };
        let compact = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        prop_assert_eq!(compact(&shown(&[&text], options)), compact(&text));
    }

    #[test]
    fn words_of_flowing_text_stay_inside_the_width(text in "([a-z]{1,12} ){1,40}") {
        for line in shown(&[&text], OPTIONS).lines() {
            prop_assert!(line.chars().count() <= 24, "{line:?}");
            prop_assert!(line.split(' ').all(|word| text.split(' ').any(|whole| whole == word)), "{line:?}");
        }
    }

    #[test]
    fn terminals_get_no_control_sequence_but_styles(text in any::<String>()) {
        let rest = shown(&[&text], OPTIONS);
        prop_assert!(!rest.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{rest:?}");
    }
}

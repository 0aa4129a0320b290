//! One prompt, one text.

use super::report::{Report, ending, summary};
use super::{AfterWaiting, Run, Waiting, warn_of_fallback};
use crate::chat::Interrupts;
use crate::common::note_kernels;
use crate::display::{Style, TextDisplay, styled};
use crate::error::Error;
use crate::output::{is_quiet, warning};
use crate::terminal;
use serde_json::json;
use silicide_llm::Model;
use silicide_llm::chat::message;
use silicide_llm::engine::{Finish, generate};
use silicide_llm::tokenizer::Special;
use std::io::{self, IsTerminal, Write, stdout};

/// Generates after a prompt, streaming, then prints figures.
pub(super) fn answer(run: &Run, prompt: &str) -> Result<(), Error> {
    let mut options = run.options()?;
    let interrupts = Interrupts::listen();
    options.cancel = interrupts.begin();
    let mut session = run.model.session(&options.cancel)?;
    run.profile.begin(&mut session);
    let model = session.model().clone();
    for text in model.warnings() {
        warning(terminal::for_stderr(&text));
    }
    let tokens = match run.raw {
        true => model.tokenizer().encode_prompt(prompt, Special::Parse),
        false => chat_tokens(&model, run.system_prompt.as_deref(), prompt)?,
    };
    if tokens.is_empty() {
        return Err(Error::Usage("the model has no tokens for the prompt; give another text".to_owned()));
    }
    let waiting = Waiting::default();
    options.progress = Some(waiting.progress());
    let mut output = Output::new(run, &waiting);
    let mut failed = None;
    let hidden = interrupts.hide_keys();
    let capture = run.capture.as_ref().map(|path| model.device().capture(path)).transpose()?;
    waiting.start(model.device());
    let generation = generate(&mut session, &tokens, &options, &mut |text| {
        if failed.is_none() {
            failed = output.piece(text).err();
            if failed.is_some() {
                // The output is closed.
                options.cancel.cancel();
            }
        }
    });
    waiting.stop();
    drop(hidden);
    let generation = generation?;
    if let Some(capture) = capture {
        capture.finish()?;
    }
    if let Some(error) = failed {
        return Err(Error::Output(error));
    }
    // Without a text there is no line to end.
    let is_empty = generation.text.is_empty();
    if !is_empty {
        output.finish()?;
    }
    if run.json || run.json_stream {
        let mut out = stdout().lock();
        serde_json::to_writer(&mut out, &Report::new(&model, &tokens, &generation))?;
        writeln!(out)?;
    } else if !is_quiet() {
        let ending = ending(&generation, session.context(), "-n").map(|ending| format!("[{ending}]\n"));
        let figures = summary(&model, &generation.timings);
        let colour = run.color().applies(io::stderr().is_terminal());
        let gap = if is_empty { "" } else { "\n" };
        eprintln!("{gap}{}", styled(&(ending.unwrap_or_default() + &figures), Style::DIM, colour));
    }
    note_kernels(&model);
    run.profile.finish(&session)?;
    if generation.finish == Finish::Cancelled { Err(Error::Interrupted) } else { Ok(()) }
}

/// Where generated text goes.
enum Output {
    /// Standard output, as text.
    Text { display: Box<TextDisplay<AfterWaiting<io::Stdout>>>, terminal: bool },
    /// Standard output, a JSON object for each piece.
    Pieces(Waiting),
    /// Nowhere: it is printed at the end.
    Later(Waiting),
}

impl Output {
    fn new(run: &Run, waiting: &Waiting) -> Output {
        if run.json_stream {
            return Output::Pieces(waiting.clone());
        }
        if run.json {
            return Output::Later(waiting.clone());
        }
        let options = run.display();
        let display = Box::new(TextDisplay::new(waiting.before(stdout()), options));
        Output::Text { display, terminal: options.terminal }
    }

    fn piece(&mut self, text: &str) -> io::Result<()> {
        match self {
            Output::Text { display, .. } => display.print(text),
            Output::Pieces(waiting) => {
                waiting.stop();
                if text.is_empty() {
                    return Ok(());
                }
                let mut out = stdout().lock();
                writeln!(out, "{}", json!({ "piece": text }))?;
                out.flush()
            }
            Output::Later(waiting) => {
                waiting.stop();
                Ok(())
            }
        }
    }

    /// Ends the text, and its line.
    fn finish(&mut self) -> io::Result<()> {
        let Output::Text { display, terminal } = self else { return Ok(()) };
        let ended_line = display.finish()?;
        if ended_line && *terminal { Ok(()) } else { writeln!(stdout()) }
    }
}

/// The tokens of a conversation with one question.
fn chat_tokens(model: &Model, system: Option<&str>, prompt: &str) -> Result<Vec<u32>, Error> {
    let mut messages = Vec::new();
    messages.extend(system.map(|text| message("system", text)));
    messages.push(message("user", prompt));
    warn_of_fallback(model.template()?);
    Ok(model.chat_tokens(&messages)?)
}

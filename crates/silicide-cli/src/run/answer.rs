//! One prompt, one text.

use super::report::{Report, ending, summary};
use super::{Run, warn_of_fallback};
use crate::common::cancel_on_interrupt;
use crate::error::Error;
use silicide_llm::Model;
use silicide_llm::chat::message;
use silicide_llm::engine::{Finish, generate};
use silicide_llm::tokenizer::Special;
use std::io::Write;

/// Generates after a prompt, streaming, then prints figures.
pub(super) fn answer(run: &Run, prompt: &str) -> Result<(), Error> {
    let mut options = run.options()?;
    options.cancel = cancel_on_interrupt();
    let mut session = run.model.session(&options.cancel)?;
    run.profile.begin(&mut session);
    let model = session.model().clone();
    for warning in model.warnings() {
        eprintln!("warning: {warning}");
    }
    let tokens = match run.raw {
        true => model.tokenizer().encode_prompt(prompt, Special::Parse),
        false => chat_tokens(&model, run.system_prompt.as_deref(), prompt)?,
    };
    let mut failed = None;
    let generation = generate(&mut session, &tokens, &options, &mut |text| {
        if !run.json && failed.is_none() {
            let mut out = std::io::stdout().lock();
            failed = out.write_all(text.as_bytes()).and_then(|()| out.flush()).err();
            if failed.is_some() {
                // Nobody reads any more.
                options.cancel.cancel();
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(Error::Output(error));
    }
    let mut out = std::io::stdout().lock();
    if run.json {
        serde_json::to_writer(&mut out, &Report::new(&model, &tokens, &generation))?;
        writeln!(out)?;
    } else {
        writeln!(out)?;
        drop(out);
        if let Some(ending) = ending(&generation.finish, session.context()) {
            eprintln!("\n[{ending}]");
        }
        eprintln!("\n{}", summary(&model, &generation.timings));
    }
    run.profile.finish(&session)?;
    if generation.finish == Finish::Cancelled { Err(Error::Interrupted) } else { Ok(()) }
}

/// The tokens of a conversation with one question.
fn chat_tokens(model: &Model, system: Option<&str>, prompt: &str) -> Result<Vec<u32>, Error> {
    let mut messages = Vec::new();
    messages.extend(system.map(|text| message("system", text)));
    messages.push(message("user", prompt));
    warn_of_fallback(model.template()?);
    Ok(model.chat_tokens(&messages)?)
}

//! Answers from a model.

use super::{ChatPartner, Interrupts, Reply};
use crate::error::Error;
use crate::run::{Waiting, ending, summary};
use serde_json::Value;
use silicide_llm::engine::{GenerateOptions, Session, generate};
use silicide_llm::tokenizer::Special;

/// A model that answers, with the session that remembers the conversation.
#[derive(Debug)]
pub(crate) struct ModelPartner {
    session: Session,
    options: GenerateOptions,
    interrupts: Interrupts,
    waiting: Waiting,
}

impl ModelPartner {
    /// Returns a partner whose `waiting` shows the progress of prompts.
    pub(crate) fn new(
        session: Session,
        options: GenerateOptions,
        interrupts: Interrupts,
        waiting: Waiting,
    ) -> ModelPartner {
        ModelPartner { session, options, interrupts, waiting }
    }
}

impl ChatPartner for ModelPartner {
    fn say(&mut self, messages: &[Value], sink: &mut dyn FnMut(&str)) -> Result<Reply, Error> {
        let model = self.session.model().clone();
        let prompt = model.chat_tokens(messages)?;
        self.options.cancel = self.interrupts.begin();
        self.options.progress = Some(self.waiting.progress());
        let _hidden = self.interrupts.hide_keys();
        self.waiting.start(model.device());
        let generation = generate(&mut self.session, &prompt, &self.options, sink);
        self.waiting.stop();
        // Another seed for each answer. Otherwise the same question would have the same answer.
        self.options.sampler.seed = self.options.sampler.seed.wrapping_add(1);
        let generation = generation.map_err(|error| match error {
            silicide_llm::Error::ContextFull { .. } => {
                Error::Usage(format!("{error}; /clear begins a new chat"))
            }
            error => error.into(),
        })?;
        Ok(Reply {
            note: ending(&generation, self.session.context(), "/set n"),
            figures: summary(&model, &generation.timings),
            text: generation.text,
        })
    }

    fn options(&mut self) -> &mut GenerateOptions {
        &mut self.options
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.session.model().tokenizer().encode(text, Special::Plain).len()
    }

    fn context(&self) -> usize {
        self.session.context()
    }
}

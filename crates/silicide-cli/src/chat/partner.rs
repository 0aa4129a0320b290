//! Answers from a model.

use super::{Reply, Talk};
use crate::error::{Error, Exit};
use crate::run::{ending, summary};
use serde_json::Value;
use silicide::CancelToken;
use silicide_llm::engine::{GenerateOptions, Session, generate};
use std::sync::{Arc, Mutex, PoisonError};

/// Ctrl-C stops what is going on; a second one before anything new began ends the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupts {
    current: Arc<Mutex<CancelToken>>,
}

impl Interrupts {
    /// Listens to Ctrl-C from now on.
    pub(crate) fn listen() -> Interrupts {
        let interrupts = Interrupts::default();
        let current = Arc::clone(&interrupts.current);
        // Where no handler can be set, Ctrl-C just ends the program.
        let _ = ctrlc::set_handler(move || {
            let token = current.lock().unwrap_or_else(PoisonError::into_inner);
            if token.is_cancelled() {
                std::process::exit(Exit::Interrupted as i32);
            }
            token.cancel();
        });
        interrupts
    }

    /// A token for what begins now.
    pub(crate) fn begin(&self) -> CancelToken {
        let token = CancelToken::new();
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = token.clone();
        token
    }
}

/// A model that answers, and remembers what it read.
#[derive(Debug)]
pub(crate) struct ModelPartner {
    session: Session,
    options: GenerateOptions,
    interrupts: Interrupts,
}

impl ModelPartner {
    pub(crate) fn new(session: Session, options: GenerateOptions, interrupts: Interrupts) -> ModelPartner {
        ModelPartner { session, options, interrupts }
    }
}

impl Talk for ModelPartner {
    fn say(&mut self, messages: &[Value], sink: &mut dyn FnMut(&str)) -> Result<Reply, Error> {
        let model = self.session.model().clone();
        let prompt = model.chat_tokens(messages)?;
        self.options.cancel = self.interrupts.begin();
        let generation = generate(&mut self.session, &prompt, &self.options, sink);
        // Each answer draws anew, or asking again would give the same one.
        self.options.sampler.seed = self.options.sampler.seed.wrapping_add(1);
        let generation = generation.map_err(|error| match error {
            silicide_llm::Error::ContextFull { .. } => {
                Error::Usage(format!("{error}; or begin anew with /clear"))
            }
            error => error.into(),
        })?;
        Ok(Reply {
            note: ending(&generation.finish, self.session.context()),
            figures: summary(&model, &generation.timings),
            text: generation.text,
        })
    }
}

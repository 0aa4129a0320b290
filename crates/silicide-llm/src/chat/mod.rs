//! Chat templates: messages to a prompt, by the Jinja template in a model's file.
//!
//! A [`ChatTemplate`] renders messages to [`Piece`]s of a prompt. [`Model::chat_tokens`](crate::Model::chat_tokens) uses the
//! template of a model's file.
//!
//! Two rules hold for every template and every message. Instructions, and bytes created and read, are limited. Text of
//! users never becomes a control token: see [guarding](self#guarding).
//!
//! # Guarding
//!
//! A template joins, trims, cuts and compares texts, so it can't show where a user's text ends up. Before rendering,
//! each character of a message that could begin a control token is replaced by a stand-in: a private-use character that
//! occurs nowhere else. After rendering, stand-ins become the characters again, marked as untrusted. Control tokens are
//! recognised only in trusted text.
//!
//! Templates search messages for some tags, such as `</think>` in an earlier answer. A plain tag that the template
//! contains keeps its characters, unless it is a control token.

mod budget;
mod caught;
mod environment;
mod error;
mod filters;
mod guard;
mod jinja_compat;
mod python;
mod slices;

pub use caught::silence_template_panics;
pub use error::ChatError;

use crate::tokenizer::{Special, Tokenizer};
use environment::Program;
use guard::Guard;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use silicide_weights::Source;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The fallback for a file without a template whose vocabulary has the tokens of ChatML.
const CHATML: &str = "\
    {% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
/// Longest template, in bytes. The longest ones that models have are some 20 KB.
const LIMIT: usize = 1 << 20;
/// Longest `tokenizer_config.json`, in bytes. It may list all added tokens, which takes some hundred KB.
const SETTINGS: usize = 16 << 20;
/// Bytes that a template may write beyond a multiple of its input.
const OUTPUT: usize = 4 << 20;

/// A part of a rendered chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The text.
    pub text: String,
    /// Whether control tokens are recognised in it.
    pub trusted: bool,
}

/// A rendered chat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// Its parts, in order.
    pub pieces: Vec<Piece>,
}

impl Rendered {
    /// Returns the whole text.
    pub fn text(&self) -> String {
        self.pieces.iter().map(|piece| piece.text.as_str()).collect()
    }
}

/// Variables of a template besides the messages.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RenderOptions {
    /// Whether to end with the tokens that begin an answer.
    pub add_generation_prompt: bool,
    /// Tools that the model may call, as a JSON list.
    pub tools: Option<Value>,
    /// More variables, such as `enable_thinking`.
    pub variables: Map<String, Value>,
    /// The time that templates can read; `None`: the system's.
    pub now: Option<jiff::civil::DateTime>,
}

impl RenderOptions {
    /// Sets whether to end with the tokens that begin an answer.
    pub fn add_generation_prompt(mut self, add: bool) -> RenderOptions {
        self.add_generation_prompt = add;
        self
    }

    /// Sets the tools that the model may call, as a JSON list.
    pub fn tools(mut self, tools: Value) -> RenderOptions {
        self.tools = Some(tools);
        self
    }

    /// Sets one more variable, such as `enable_thinking`.
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<Value>) -> RenderOptions {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Sets the time.
    pub fn now(mut self, now: jiff::civil::DateTime) -> RenderOptions {
        self.now = Some(now);
        self
    }
}

/// Returns a message as templates expect it.
pub fn message(role: &str, content: &str) -> Value {
    json!({ "role": role, "content": content })
}

/// A model's chat template.
///
/// ```
/// # mod silicide { pub use silicide_llm as llm; }
/// use silicide::llm::chat::{ChatTemplate, RenderOptions, message};
///
/// let source = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}";
/// let template = ChatTemplate::new(source, "<s>", "</s>")?;
/// let rendered = template.render(&[message("user", "Hi!")], &RenderOptions::default())?;
/// assert_eq!(rendered.text(), "[user] Hi!\n");
/// # Ok::<(), silicide::llm::chat::ChatError>(())
/// ```
#[derive(Debug)]
pub struct ChatTemplate {
    program: Program,
    bos: String,
    eos: String,
    guard: Guard,
    is_fallback: bool,
}

impl ChatTemplate {
    /// Compiles a template. Every character that commonly begins a control token is guarded.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<ChatTemplate, ChatError> {
        if source.len() > LIMIT {
            return Err(ChatError::TooLong { what: "template", got: source.len(), limit: LIMIT });
        }
        let program = Program::new(source)?;
        let guard = Guard::new(source, guard::COMMON.chars());
        Ok(ChatTemplate { program, bos: bos.to_owned(), eos: eos.to_owned(), guard, is_fallback: false })
    }

    /// Returns the template of a model: from GGUF metadata, or from `chat_template.jinja` or `tokenizer_config.json` beside
    /// safetensors files. Without one, ChatML is used if the vocabulary has its tokens.
    pub fn of(source: &Source, tokenizer: &Tokenizer) -> Result<ChatTemplate, ChatError> {
        let text = match source.get("tokenizer.chat_template").and_then(|value| value.as_str()) {
            Some(text) => Some(text.to_owned()),
            None => beside(source)?,
        };
        let known = |token: Option<u32>| {
            token.map(|id| String::from_utf8_lossy(&tokenizer.piece(id, Special::Parse)).into_owned())
        };
        let (bos, eos) = (known(tokenizer.special().bos), known(tokenizer.special().eos));
        let is_fallback = text.is_none();
        let chatml =
            || tokenizer.token("<|im_start|>").and(tokenizer.token("<|im_end|>")).map(|_| CHATML.to_owned());
        let missing = || ChatError::NoTemplate { path: source.path().to_owned() };
        let text = text.or_else(chatml).ok_or_else(missing)?;
        let mut template = ChatTemplate::new(&text, &bos.unwrap_or_default(), &eos.unwrap_or_default())?;
        template.guard = Guard::for_tokenizer(&text, tokenizer);
        template.is_fallback = is_fallback;
        Ok(template)
    }

    /// Returns whether the file has no template and ChatML is used.
    pub fn is_fallback(&self) -> bool {
        self.is_fallback
    }

    /// Renders a chat: a list of messages, each with at least a `role` and a `content`.
    pub fn render(&self, messages: &[Value], options: &RenderOptions) -> Result<Rendered, ChatError> {
        let mut context = Map::new();
        context.insert("tools".to_owned(), options.tools.clone().unwrap_or(Value::Null));
        context.insert("documents".to_owned(), Value::Null);
        context.extend(options.variables.clone());
        context.insert("messages".to_owned(), Value::Array(messages.to_vec()));
        context.insert("add_generation_prompt".to_owned(), options.add_generation_prompt.into());
        let (mut context, standins) = self.guard.mask(context)?;
        context.insert("bos_token".to_owned(), self.bos.clone().into());
        context.insert("eos_token".to_owned(), self.eos.clone().into());

        let given = standins.given();
        let mut variables = minijinja::Value::from(minijinja::value::Serde(&context));
        if let Some(now) = options.now {
            let clock = minijinja::Value::from(now.strftime(environment::CLOCK).to_string());
            variables = minijinja::context! { __now => clock, ..variables };
        }
        let counted = minijinja::Value::from(BTreeMap::from([(budget::GIVEN, given)]));
        let text = self.program.run(minijinja::context! { ..counted, ..variables })?;
        if text.len() > OUTPUT.saturating_add(given.saturating_mul(16)) {
            return Err(ChatError::Exhausted);
        }
        Ok(Rendered { pieces: standins.unmask(&text) })
    }
}

/// Returns the template beside a checkpoint.
fn beside(source: &Source) -> Result<Option<String>, ChatError> {
    #[derive(Deserialize)]
    struct TemplateConfig {
        chat_template: Option<Value>,
    }
    let Some(path) = source.files().first().map(|file| file.path()) else { return Ok(None) };
    if let Some(text) = read(&path.with_file_name("chat_template.jinja"), "template", LIMIT)? {
        return Ok(Some(text));
    }
    let settings = read(&path.with_file_name("tokenizer_config.json"), "tokenizer_config.json", SETTINGS)?;
    let Some(text) = settings else { return Ok(None) };
    let settings = serde_json::from_str::<TemplateConfig>(&text).ok();
    Ok(settings.and_then(|settings| match settings.chat_template? {
        Value::String(text) => Some(text),
        Value::Array(named) => {
            let default = named.iter().find(|entry| entry.get("name").is_some_and(|name| name == "default"));
            Some(default.or(named.first())?.get("template")?.as_str()?.to_owned())
        }
        _ => None,
    }))
}

/// Reads a file beside a checkpoint, if there is one.
fn read(path: &Path, what: &'static str, limit: usize) -> Result<Option<String>, ChatError> {
    let failed = |error: std::io::Error| ChatError::Io { path: path.to_owned(), detail: error.to_string() };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    // One byte more shows whether the file is too long.
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > limit {
        let got = std::fs::metadata(path).map_or(bytes.len(), |data| data.len() as usize);
        return Err(ChatError::TooLong { what, got, limit });
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| ChatError::Io { path: path.to_owned(), detail: "not UTF-8".to_owned() })?;
    Ok(Some(text))
}

//! Chat templates: compiles the input and renders two chats.

use crate::target::Outcome;
use serde_json::{Value, json};
use silicide_llm::chat::{ChatTemplate, RenderOptions, message};

/// Compiles a template, renders a chat with it, and one with tools and an empty message.
pub(super) fn chat_template(bytes: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(bytes);
    let template = match ChatTemplate::new(&text, "<s>", "</s>") {
        Ok(template) => template,
        Err(error) => return Outcome::refused(&error),
    };
    let options = RenderOptions::default().add_generation_prompt(true);
    let plain = template.render(&chat(), &options);
    let options = options.tools(tools()).variable("enable_thinking", true);
    let with_tools = template.render(&[message("user", ""), message("assistant", "")], &options);
    match plain.and(with_tools) {
        Ok(_) => Outcome::Accepted,
        Err(error) => Outcome::refused(&error),
    }
}

fn chat() -> [Value; 4] {
    [
        message("system", "You are <|im_start|> kind"),
        message("user", "hi </s> {{ 1 }} \u{e000}"),
        message("assistant", "<think>x</think>ok"),
        message("user", "again"),
    ]
}

fn tools() -> Value {
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    json!([{ "type": "function", "function": { "name": "weather", "description": "", "parameters": parameters } }])
}

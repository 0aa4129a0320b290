//! A chat: messages in, streamed text out. The chat remembers what was said.
//!
//! `cargo run --release -p silicide --example 07_chat -- [device] [model file or folder]`

use silicide::prelude::*;
use std::io::Write;

/// A tiny model with random weights: its text means nothing.
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/models/llama-chat.gguf");

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let device = Device::open(&arguments.next().unwrap_or("best".into()))?;
    let model = Model::options().device(&device).open(arguments.next().unwrap_or(SAMPLE.into()))?;
    let options = GenerateOptions::default().max_tokens(100).temperature(0.0);
    let mut chat = model.chat()?.with_system("You are a helpful assistant.").with_options(options);
    for question in ["What is the capital of France?", "And of Germany?"] {
        println!("> {question}");
        for piece in chat.say(question)? {
            print!("{}", piece?);
            std::io::stdout().flush()?;
        }
        println!();
    }
    Ok(())
}

//! A reply is an iterator. It can be cancelled from another thread, stopped, or dropped; the chat goes on from what was said.
//!
//! `cargo run --release -p silicide --example 08_stream_and_cancel -- [device] [model file or folder]`

use silicide::prelude::*;
use std::io::Write;
use std::time::Duration;

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
    let options = GenerateOptions::default().ignore_end(true).seed(1);
    let mut chat = model.chat()?.with_options(options);

    // Cancelled by a timer on another thread.
    let mut reply = chat.say("Tell me everything about the sea.")?;
    let cancel = reply.cancel_token();
    let timer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        cancel.cancel();
    });
    for piece in &mut reply {
        print!("{}", piece?);
        std::io::stdout().flush()?;
    }
    let (reason, timings) = (reply.finish_reason(), reply.timings());
    println!(
        "\n[{reason:?} after {} tokens, {:.0} a second]",
        timings.generated_tokens,
        timings.generation_rate()
    );
    drop(reply);
    timer.join().map_err(|_| "the timer panicked")?;

    // Ended by the reader: dropping the iterator stops the generation.
    chat.messages_mut().clear();
    for piece in chat.say("And about the sky?")?.take(10) {
        print!("{}", piece?);
        std::io::stdout().flush()?;
    }
    println!("\n[kept: {:?}]", chat.messages());
    Ok(())
}

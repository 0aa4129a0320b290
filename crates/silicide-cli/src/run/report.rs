//! The figures after a run.

use crate::facts::LayerFacts;
use crate::memory::peak_memory;
use indicatif::HumanBytes;
use serde::Serialize;
use silicide::Device;
use silicide_llm::Model;
use silicide_llm::engine::{Finish, Generation, MemoryEstimate, Timings};
use std::time::Duration;

/// One run, for programs.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    prompt_tokens: &'a [u32],
    tokens: &'a [u32],
    text: &'a str,
    finish: &'static str,
    timings: Figures,
    device: &'a str,
    layers: LayerFacts,
    memory: Memory<'a>,
}

/// Seconds and rates.
#[derive(Debug, Serialize)]
struct Figures {
    load_seconds: f64,
    rearrange_seconds: f64,
    prompt_tokens: usize,
    prompt_seconds: f64,
    prompt_tokens_per_second: f64,
    generated_tokens: usize,
    generation_seconds: f64,
    generation_tokens_per_second: f64,
    first_token_seconds: f64,
}

/// Bytes.
#[derive(Debug, Serialize)]
struct Memory<'a> {
    weights: u64,
    rearranged: u64,
    not_rearranged: u64,
    cache: u64,
    activations: u64,
    workspaces: u64,
    process: u64,
    /// The estimate of `peak`.
    estimate: u64,
    /// The same for each device.
    devices: Vec<DeviceMemory<'a>>,
    peak: Option<u64>,
}

/// Bytes on a device.
#[derive(Debug, Serialize)]
struct DeviceMemory<'a> {
    device: &'a str,
    weights: u64,
    cache: u64,
    activations: u64,
    workspaces: u64,
    needed: u64,
    available: u64,
}

impl<'a> Report<'a> {
    pub(super) fn new(model: &'a Model, prompt: &'a [u32], generation: &'a Generation) -> Report<'a> {
        let (timings, fit) = (&generation.timings, model.memory_estimate());
        Report {
            prompt_tokens: prompt,
            tokens: &generation.tokens,
            text: &generation.text,
            finish: generation.finish.name(),
            timings: Figures {
                load_seconds: model.load_time().as_secs_f64(),
                rearrange_seconds: model.rearranged().time.as_secs_f64(),
                prompt_tokens: timings.prompt_tokens,
                prompt_seconds: timings.prompt.as_secs_f64(),
                prompt_tokens_per_second: timings.prompt_rate(),
                generated_tokens: timings.generated_tokens,
                generation_seconds: timings.generation.as_secs_f64(),
                generation_tokens_per_second: timings.generation_rate(),
                first_token_seconds: timings.first_token.as_secs_f64(),
            },
            device: &model.device().info().id,
            layers: LayerFacts::of(model),
            memory: Memory {
                weights: fit.weights,
                rearranged: model.rearranged().bytes,
                not_rearranged: model.rearranged().not_interleaved,
                cache: fit.cache,
                activations: fit.activations,
                workspaces: fit.workspaces,
                process: fit.process,
                estimate: fit.peak(),
                devices: model.devices().iter().zip(model.device_memory()).map(DeviceMemory::of).collect(),
                peak: peak_memory(),
            },
        }
    }
}

impl<'a> DeviceMemory<'a> {
    fn of((device, fit): (&'a Device, &MemoryEstimate)) -> DeviceMemory<'a> {
        DeviceMemory {
            device: &device.info().id,
            weights: fit.weights,
            cache: fit.cache,
            activations: fit.activations,
            workspaces: fit.workspaces,
            needed: fit.needed(),
            available: fit.available,
        }
    }
}

/// Returns the line that greets in a chat: the model, its size, the device and the context.
pub(super) fn greeting(model: &Model) -> String {
    let path = model.path();
    let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
    format!(
        "{} · {} · {} · {} · context {} tokens",
        name.unwrap_or(path.as_os_str()).to_string_lossy(),
        model.description().architecture,
        HumanBytes(size(model)),
        place(model),
        model.cache_options().context,
    )
}

/// Returns the bytes of the model's file; of its tensors, where these lie in several files.
fn size(model: &Model) -> u64 {
    let path = model.path();
    let is_part = path.file_stem().is_some_and(|name| name.to_string_lossy().contains("-of-"));
    let file = std::fs::metadata(path).ok().filter(|file| file.is_file() && !is_part);
    file.map_or(model.description().bytes, |file| file.len())
}

/// Returns the devices with their layers, and the threads of the CPU.
fn place(model: &Model) -> String {
    let facts = LayerFacts::of(model);
    let place = facts.text().unwrap_or_else(|| facts.devices_text());
    match model.devices().iter().map(|device| device.info().threads).max().unwrap_or(0) {
        0 => place,
        1 => format!("{place}, 1 thread"),
        threads => format!("{place}, {threads} threads"),
    }
}

/// The figures in two lines, for people.
pub(crate) fn summary(model: &Model, timings: &Timings) -> String {
    let place = place(model);
    let reused = match timings.reused_tokens {
        0 => String::new(),
        reused => format!(" ({reused} of them cached)"),
    };
    let copied = model.rearranged();
    let left = match copied.not_interleaved {
        0 => String::new(),
        left => format!("{} MiB not repacked for lack of memory", left >> 20),
    };
    let rearranged = match (copied.bytes, left.as_str()) {
        (0, "") => String::new(),
        (0, left) => format!(" ({left})"),
        (bytes, left) => {
            let comma = if left.is_empty() { "" } else { ", " };
            match copied.mapped {
                0 => format!(
                    " ({} for repacking {} MiB of weights{comma}{left})",
                    time(copied.time),
                    bytes >> 20
                ),
                mapped => format!(" ({} MiB of repacked weights mapped{comma}{left})", mapped >> 20),
            }
        }
    };
    let memory = peak_memory().map_or(String::new(), |bytes| format!(" · peak memory {} MiB", bytes >> 20));
    let first = match timings.generated_tokens {
        0 => String::new(),
        _ => format!(" · first token {}", time(timings.first_token)),
    };
    format!(
        "load {}{rearranged}{first} · {place}{memory}\nprompt {} tokens{reused}, {:.1} tokens/s{}",
        time(model.load_time()),
        timings.prompt_tokens,
        timings.prompt_rate(),
        generated(timings),
    )
}

/// Returns the figures of generation. The first token comes with the prompt, so one token has no rate.
fn generated(timings: &Timings) -> String {
    match timings.generated_tokens {
        0 => String::new(),
        1 => " · generated 1 token".to_owned(),
        tokens => format!(" · generated {tokens} tokens, {:.1} tokens/s", timings.generation_rate()),
    }
}

/// Returns a note about the end of a text, if there is one. `limit` names the flag that sets the limit of tokens.
pub(crate) fn ending(generation: &Generation, context: usize, limit: &str) -> Option<String> {
    let tokens = generation.tokens.len();
    match generation.finish {
        Finish::ContextFull => Some(format!(
            "the context of {context} tokens is full, so the text ends here; a larger one: -c {}",
            context * 2
        )),
        Finish::MaxTokens if tokens == 0 => {
            Some(format!("{limit} 0: the prompt was read, nothing generated"))
        }
        Finish::MaxTokens => Some(format!(
            "stopped after {tokens} {}; more: {limit} {}, no limit: {limit} -1",
            if tokens == 1 { "token" } else { "tokens" },
            tokens.saturating_mul(2)
        )),
        Finish::Cancelled => Some("stopped".to_owned()),
        Finish::End if generation.text.is_empty() => {
            Some("no text: the first token of the model ends it; --ignore-eos generates past it".to_owned())
        }
        Finish::Stop if generation.text.is_empty() => {
            Some("no text: the answer begins with a stop text".to_owned())
        }
        _ => None,
    }
}

fn time(duration: Duration) -> String {
    match duration.as_secs_f64() {
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds => format!("{:.0} ms", seconds * 1e3),
    }
}

//! Models on two devices: right at every split, counted on each device, and errors where a device fails.

use crate::common::{cpu, exact_session, label, logits, nmse, vulkan};
use crate::goldens::{Truth, truths};
use samples::testdata;
use silicide_core::hal::vulkan::VulkanOptions;
use silicide_core::hal::{
    self, BlockDesc, CommandList, Forward, HalError, RawBaked, RawBlock, RawDevice, Ticket,
};
use silicide_core::{CancelToken, Device, DeviceOptions, Purpose};
use silicide_llm::engine::{GenerateOptions, LogitsFrom, Session, capture_pass, generate};
use silicide_llm::sample::SamplerOptions;
use silicide_llm::{Error, Model, ModelOptions};
use silicide_quant::DType;
use silicide_weights::Source;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Options of a model on `device` and on the CPU, with a cache of f32.
fn exact(device: &Device, chunk: usize) -> ModelOptions {
    let options = ModelOptions::default().device(device).cpu(&cpu(2)).context(128).chunk(chunk);
    options.key_type(DType::F32).value_type(DType::F32)
}

fn session(options: &ModelOptions, path: &Path) -> Session {
    Session::new(&options.open(path).unwrap()).unwrap()
}

/// The layers and the layers with experts on the CPU.
fn on_cpu(model: &Model) -> (usize, usize) {
    let part = model.placement().cpu_part();
    (part.cpu_layers, part.cpu_experts)
}

/// Checks a text in one pass and token by token.
fn check(options: &ModelOptions, truth: &Truth) -> Session {
    let mut session = session(options, &truth.path);
    for size in [truth.tokens.len(), 1] {
        let got = logits(&mut session, &truth.tokens, size);
        // A golden may have the logits of its last rows alone.
        let error = nmse(&got[got.len() - truth.logits.len()..], &truth.logits);
        let place = (truth.path.display(), on_cpu(session.model()));
        assert!(error < truth.tolerance, "{} {:?} by {size}: {error:e}", place.0, place.1);
    }
    session
}

#[test]
fn logits_are_right_at_every_split() {
    let device = vulkan();
    for truth in truths() {
        let layers = exact(&device, 64).open(&truth.path).unwrap().description().layers.len();
        for count in 0..=layers + 2 {
            let session = check(&exact(&device, 64).gpu_layers(count), &truth);
            let model = session.model();
            let ids: Vec<&str> = model.devices().iter().map(|device| device.info().id.as_str()).collect();
            let expected: &[&str] = match count {
                0 => &["cpu"],
                _ if count > layers => &["vulkan:0"],
                _ => &["vulkan:0", "cpu"],
            };
            assert_eq!(ids, expected, "{} with {count} of {layers} layers", truth.path.display());
            let is_split = expected.len() > 1;
            assert_eq!(on_cpu(model), (if is_split { layers + 1 - count } else { 0 }, 0));
        }
    }
}

#[test]
fn experts_on_the_cpu_give_the_same_logits() {
    let device = vulkan();
    for truth in truths() {
        let name = truth.path.display().to_string();
        let is_mixture = name.contains("moe") || name.contains("mixtral");
        for count in 1..=3 {
            let options = exact(&device, 64).gpu_layers(usize::MAX).cpu_experts(count);
            let session = check(&options, &truth);
            let model = session.model();
            let layers = model.description().layers.len();
            assert_eq!(on_cpu(model), (0, if is_mixture { count.min(layers) } else { 0 }), "{name}");
            // The pass stops once in front of the experts of a layer, and once behind them.
            let source = Source::open(&truth.path).unwrap();
            let segments = capture_pass(&source, &options, 1).unwrap();
            let expected = if is_mixture { 1 + 2 * count.min(layers) } else { 1 };
            assert_eq!(segments.len(), expected, "{name}");
        }
        if is_mixture {
            let session = check(&exact(&device, 64).gpu_layers(2).cpu_experts(2), &truth);
            assert_eq!(on_cpu(session.model()), (1, 2), "{name}");
        }
    }
}

#[test]
fn no_layers_on_the_gpu_give_the_bits_of_the_cpu() {
    let device = vulkan();
    for truth in truths() {
        let expected = logits(&mut exact_session(&cpu(2), &truth.path, 64), &truth.tokens, 7);
        let got = logits(&mut session(&exact(&device, 64).gpu_layers(0), &truth.path), &truth.tokens, 7);
        assert!(got == expected, "{}", truth.path.display());
    }
}

#[test]
fn prefixes_are_reused_and_rings_go_round_over_a_split() {
    let device = vulkan();
    for (name, layers, experts) in [("gemma3", 4, 0), ("qwen3moe", 2, 0), ("qwen3moe", 9, 1)] {
        let path = testdata(&format!("models/{name}.gguf"));
        let tokens: Vec<u32> = (0..96).map(|i| (i * 37 + 5) % 300).collect();
        let options = exact(&device, 8).gpu_layers(layers).cpu_experts(experts);
        let mut session = session(&options, &path);
        assert_eq!(session.model().devices().len(), 2);
        let whole = logits(&mut session, &tokens, 96);
        let vocabulary = whole.len() / tokens.len();
        for kept in [95, 70, 64] {
            let is_kept = session.rewind(kept);
            assert_eq!(is_kept, kept, "{name}");
            let mut rest = Vec::new();
            let sink = &mut |_: usize, row: &[f32]| {
                rest.extend_from_slice(row);
                Ok(())
            };
            session.feed(&tokens[kept..], LogitsFrom::Token(0), &CancelToken::new(), sink).unwrap();
            let error = nmse(&rest, &whole[kept * vocabulary..]);
            assert!(error < 1e-9, "{name} after {kept}: {error:e}");
        }
        assert_eq!(session.reuse(&tokens), 95);
    }
}

#[test]
fn short_prompts_after_long_ones_are_right() {
    let device = vulkan();
    let path = testdata("models/qwen3moe.gguf");
    for (layers, experts) in [(1, 0), (2, 0), (9, 2)] {
        let options = exact(&device, 64).gpu_layers(layers).cpu_experts(experts);
        let model = options.open(&path).unwrap();
        let mut used = Session::new(&model).unwrap();
        for length in [64, 17, 40, 5, 13, 2, 1] {
            let tokens: Vec<u32> = (0..length).map(|i| (i * 37 + 5) % 300).collect();
            let got = logits(&mut used, &tokens, 64);
            let fresh = logits(&mut Session::new(&model).unwrap(), &tokens, 64);
            assert!(got == fresh, "{length} tokens");
        }
    }
}

#[test]
fn each_device_takes_what_was_counted() {
    for (name, layers, experts) in [("gemma3", 4, 0), ("qwen3moe", 2, 0), ("qwen3moe", 9, 1)] {
        let devices = [vulkan(), cpu(2)];
        let options = ModelOptions::default().device(&devices[0]).cpu(&devices[1]).context(128).chunk(64);
        let options = options.gpu_layers(layers).cpu_experts(experts);
        let mut session = session(&options, &testdata(&format!("models/{name}.gguf")));
        let tokens: Vec<u32> = (0..64).collect();
        for length in [64, 1] {
            session
                .feed(&tokens[..length], LogitsFrom::Last, &CancelToken::new(), &mut |_, _| Ok(()))
                .unwrap();
        }
        let model = session.model();
        let counted = model.device_memory();
        assert_eq!(counted.len(), 2);
        for (device, memory) in devices.iter().zip(counted) {
            let (usage, id) = (device.usage(), label(device));
            assert_eq!(usage.of(Purpose::Cache).bytes as u64, memory.cache, "{name} on {id}");
            let working = usage.of(Purpose::Activations).peak as u64;
            let most = memory.activations;
            assert!(working <= most && working * 3 > most, "{name} on {id}: {working} of {most}");
            assert_eq!(usage.workspaces as u64, memory.workspaces, "{name} on {id}");
            assert!(memory.weights > 0 && memory.needed() <= memory.available, "{name} on {id}");
        }
        let sum = model.memory_estimate();
        assert_eq!(sum.weights, counted[0].weights + counted[1].weights);
        assert_eq!(sum.cache, counted[0].cache + counted[1].cache);
        // What is loaded on a device is what was counted there, but for norms, which are f32 wherever they are.
        let source = Source::open(model.path()).unwrap();
        let file: u64 = source.entries().map(|entry| entry.bytes().unwrap()).sum();
        let tied = source.entry("token_embd.weight").unwrap().bytes().unwrap();
        assert!(sum.weights >= file && sum.weights <= file + tied, "{name}: {} of {file}", sum.weights);
    }
}

/// A GPU with at most these bytes.
fn vulkan_with(budget: u64) -> Device {
    let options = DeviceOptions::default().memory_budget(budget as usize);
    Device::open_with("vulkan:0", &options).unwrap()
}

#[test]
fn layers_that_do_not_fit_run_on_the_cpu() {
    for truth in truths().into_iter().filter(|truth| truth.path.ends_with("gemma3.gguf")) {
        let of = |budget: u64, options: &dyn Fn(ModelOptions) -> ModelOptions| {
            options(exact(&vulkan_with(budget), 64)).open(&truth.path)
        };
        let needed = |layers: usize| {
            let model = exact(&vulkan(), 64).gpu_layers(layers).open(&truth.path).unwrap();
            model.device_memory()[0].needed()
        };
        let layers = 7;
        let all = needed(layers + 1);
        assert_eq!(on_cpu(&of(all, &|options| options).unwrap()), (0, 0));
        for count in [1, 3, layers] {
            // Mapped files and memory come in whole pages.
            let budget = needed(count).midpoint(needed(count + 1));
            // Exactly as many layers as fit, and the others on the CPU.
            let model = of(budget, &|options| options).unwrap();
            assert_eq!(on_cpu(&model), (layers + 1 - count, 0), "{count} layers");
            assert!(model.device_memory()[0].needed() <= budget);
            let got = logits(&mut Session::new(&model).unwrap(), &truth.tokens, truth.tokens.len());
            assert!(nmse(&got[got.len() - truth.logits.len()..], &truth.logits) < truth.tolerance);
            // A number that is given is kept.
            let refused = of(budget, &|options| options.gpu_layers(count + 1));
            assert!(matches!(&refused, Err(Error::DoesNotFit { device, .. }) if device == "vulkan:0"));
        }
        // Where not even the output projection fits, the CPU has all.
        let model = of(needed(1) - 1, &|options| options).unwrap();
        assert_eq!(model.device().info().id, "cpu");
    }
}

#[test]
fn experts_leave_a_full_device_first() {
    let path = testdata("models/qwen3moe.gguf");
    let needed = |experts: usize| {
        let options = exact(&vulkan(), 64).gpu_layers(9).cpu_experts(experts);
        options.open(&path).unwrap().device_memory()[0].needed()
    };
    for experts in [1, 2] {
        let budget = needed(experts).midpoint(needed(experts - 1));
        let model = exact(&vulkan_with(budget), 64).open(&path).unwrap();
        assert_eq!(on_cpu(&model), (0, experts));
    }
}

/// A GPU that is lost at a submission, or has no memory from an allocation on. Calls are counted from 1.
struct Failing {
    inner: Arc<dyn RawDevice>,
    lost_at: u64,
    full_at: u64,
    submissions: AtomicU64,
    allocations: AtomicU64,
    last: AtomicU64,
}

impl Failing {
    fn open(lost_at: u64, full_at: u64) -> Device {
        let inner = silicide_core::hal::vulkan::open(0, &VulkanOptions::default()).unwrap();
        let [submissions, allocations, last] = [(); 3].map(|()| AtomicU64::new(0));
        let raw = Failing { inner, lost_at, full_at, submissions, allocations, last };
        // SAFETY: the backend was just opened, and nothing else submits to it.
        unsafe { Device::with_backend(Arc::new(raw), &DeviceOptions::default()) }
    }

    fn check(&self) -> hal::Result<()> {
        match self.submissions.load(Relaxed) >= self.lost_at {
            true => Err(HalError::DeviceLost { detail: "injected loss".to_owned() }),
            false => Ok(()),
        }
    }

    /// Counts a submission. Nothing is in flight on a device that is lost.
    fn count(&self, ticket: Ticket) -> hal::Result<()> {
        if self.submissions.fetch_add(1, Relaxed) + 1 >= self.lost_at {
            self.inner.wait(Ticket(self.last.load(Relaxed)), Duration::from_secs(60))?;
        }
        self.check()?;
        self.last.store(ticket.0, Relaxed);
        Ok(())
    }
}

// SAFETY: a lost device waits for its work, and then refuses calls; others are those of the inner device.
unsafe impl Forward for Failing {
    fn inner(&self) -> &dyn RawDevice {
        &*self.inner
    }

    fn wait(&self, ticket: Ticket, timeout: Duration) -> hal::Result<()> {
        self.check()?;
        self.inner.wait(ticket, timeout)
    }

    fn reached(&self) -> hal::Result<Ticket> {
        self.check()?;
        self.inner.reached()
    }

    unsafe fn alloc(&self, desc: &BlockDesc) -> hal::Result<RawBlock> {
        self.check()?;
        if self.allocations.fetch_add(1, Relaxed) + 1 >= self.full_at {
            return Err(HalError::OutOfMemory { requested: desc.bytes });
        }
        // SAFETY: the same call, with the same conditions.
        unsafe { self.inner.alloc(desc) }
    }

    unsafe fn submit(&self, list: &CommandList, ticket: Ticket) -> hal::Result<()> {
        self.count(ticket)?;
        // SAFETY: the same call, with the same conditions.
        unsafe { self.inner.submit(list, ticket) }
    }

    unsafe fn replay(&self, baked: RawBaked, ticket: Ticket) -> hal::Result<()> {
        self.count(ticket)?;
        // SAFETY: the same call, with the same conditions.
        unsafe { self.inner.replay(baked, ticket) }
    }
}

#[test]
fn a_device_that_is_lost_or_out_of_memory_is_an_error() {
    let path = testdata("models/qwen3moe.gguf");
    let run = |device: &Device, layers: usize, experts: usize| -> silicide_llm::Result<()> {
        let options = exact(device, 64).gpu_layers(layers).cpu_experts(experts);
        let mut session = Session::new(&options.open(&path)?)?;
        for token in 0..6 {
            let fed = session.feed(&[token], LogitsFrom::Last, &CancelToken::new(), &mut |_, _| Ok(()));
            if fed.is_err() {
                assert!(session.tokens().is_empty(), "it is unknown what is in the cache");
            }
            fed?;
        }
        Ok(())
    };
    const NEVER: u64 = u64::MAX;
    for (layers, experts) in [(1, 0), (2, 0), (9, 2)] {
        run(&Failing::open(NEVER, NEVER), layers, experts).unwrap();
        for number in [1, 2, 3, 5] {
            let lost = run(&Failing::open(number, NEVER), layers, experts);
            assert!(
                matches!(lost, Err(Error::Device(_))),
                "{layers} {experts}: submission {number}: {lost:?}"
            );
        }
        let full = run(&Failing::open(NEVER, 1), layers, experts);
        assert!(matches!(full, Err(Error::Device(_))), "{layers} {experts}: {full:?}");
    }
}

#[test]
fn a_profile_of_a_split_names_the_kernels_of_both_devices() {
    let device = vulkan();
    let model = exact(&device, 64).gpu_layers(2).open(testdata("models/llama-tied-q8_0.gguf")).unwrap();
    let mut session = Session::new(&model).unwrap();
    let tokens: Vec<u32> = (0..6).collect();
    let expected = logits(&mut session, &tokens, 1);
    session.start_profile();
    assert!(nmse(&logits(&mut session, &tokens, 1), &expected) < 1e-8);
    let (all, by_device) = (session.profile().unwrap(), session.device_profiles());
    assert_eq!(all.replays(), 6);
    assert_eq!(by_device.len(), 2);
    let calls = |profile: &silicide_core::Profile| profile.kernels().iter().map(|row| row.calls).sum::<u64>();
    assert_eq!(calls(all), by_device.iter().map(|(_, profile)| calls(profile)).sum::<u64>());
    for (device, profile) in by_device {
        assert_eq!(profile.replays(), 6, "{}", device.info().id);
        assert!(calls(profile) > 0, "{}", device.info().id);
    }
}

#[test]
fn greedy_text_over_a_split_is_that_of_one_device() {
    let path = testdata("models/qwen3.gguf");
    let text = |options: &ModelOptions| {
        let mut session = session(options, &path);
        let mut options = GenerateOptions::default().max_tokens(24);
        (options.ignore_end, options.sampler) = (true, SamplerOptions::greedy());
        generate(&mut session, &[5, 17, 101, 42], &options, &mut |_| ()).unwrap().tokens
    };
    let expected = text(&exact(&cpu(2), 64));
    for layers in 1..=2 {
        assert_eq!(text(&exact(&vulkan(), 64).gpu_layers(layers)), expected, "{layers} layers");
    }
}

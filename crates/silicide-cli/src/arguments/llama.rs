//! The flags of llama.cpp's `llama-cli` that silicide does not have under the same name.
//!
//! Every flag is accepted under another name, dropped with or without a note, or refused with advice. No flag is misread:
//! `-hf` is not `-h -f`. [`super::translate`](super::translate()) applies the table, and its test holds the table against the
//! whole list of flags. A flag that a command has itself never reaches this table.

use self::Treatment::{Ignored, Neutral, Refused, Same, SameValue, Unneeded};
use self::Values::{None, One, Switch, Two};

/// How many values follow a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    None,
    One,
    Two,
    /// One value if the next argument is `on`, `off`, `auto` or another word for one of these.
    Switch,
}

/// What becomes of a flag.
#[derive(Clone, Copy, Debug)]
pub(super) enum Treatment {
    /// Replaced by this flag of silicide.
    Same(&'static str),
    /// Replaced by this flag of silicide with the value that corresponds. Refused if no value does.
    SameValue(&'static str, &'static [ForeignValue]),
    /// Dropped: silicide always behaves so.
    Unneeded,
    /// Dropped with a note that says why it has no effect. Results do not change.
    Ignored(&'static str),
    /// Dropped if the value is the first text, which turns the feature off. Refused with the second text otherwise.
    Neutral(&'static str, &'static str),
    /// Refused with advice.
    Refused(&'static str),
}

/// A value of a flag, and the value of silicide that corresponds.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForeignValue {
    pub(super) theirs: &'static str,
    /// `None` if the flag is dropped, because the default of silicide corresponds.
    pub(super) ours: Option<&'static str>,
    /// Says what part of the value has no effect.
    pub(super) note: Option<&'static str>,
}

/// Flags with one meaning.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForeignFlag {
    pub(super) names: &'static [&'static str],
    pub(super) values: Values,
    pub(super) treatment: Treatment,
}

/// Returns the row of a flag, by any of its names.
pub(super) fn find(name: &str) -> Option<&'static ForeignFlag> {
    TABLE.iter().find(|flag| flag.names.contains(&name))
}

const fn flag(names: &'static [&'static str], values: Values, treatment: Treatment) -> ForeignFlag {
    ForeignFlag { names, values, treatment }
}

const fn value(theirs: &'static str, ours: Option<&'static str>, note: Option<&'static str>) -> ForeignValue {
    ForeignValue { theirs, ours, note }
}

/// The values of `--load-mode`. `None` of the standard library is hidden by [`Values::None`] here.
const LOAD_MODES: &[ForeignValue] = &[
    value("auto", Option::None, Option::None),
    value("mmap", Some("map"), Option::None),
    value("none", Some("copy"), Option::None),
    value("mmap+mlock", Some("map"), Some(NOT_LOCKED)),
    value("mlock", Some("copy"), Some(NOT_LOCKED)),
    value("dio", Some("copy"), Some("files are read through the page cache")),
];
const NOT_LOCKED: &str = "weights are not locked in memory; --mlock locks them";
const HUB: &str =
    "models come from files, not yet from hubs or addresses; download the file and give its path with -m";
const ONE_DEVICE: &str = "layers run on one GPU and on the CPU; --device chooses the GPU";
const PINNING: &str =
    "threads are not pinned or prioritised; use the system's tools, such as taskset and nice";
const SAMPLER: &str =
    "there is no such sampler; --temp, --top-k, --top-p, --min-p and the penalties choose tokens";
const NO_SAMPLER: &str = "the sampler that it belongs to does not exist";
const CONSTRAINED: &str =
    "output cannot be constrained yet; leave it out, and ask for the form in the prompt";
const ROPE: &str = "RoPE settings are those of the model file; `silicide inspect` shows them. Leave it out, or edit the file";
const ADAPTERS: &str = "merge adapters into the model first";
const TEXT_ONLY: &str = "models take text only; leave it out";
const SPECULATIVE: &str = "there is no speculative decoding; the text is the same without it";
const REASONING: &str =
    "the chat template decides about reasoning, and its text is shown as it comes; leave it out";
const TEMPLATE: &str =
    "the model's own chat template is used; --raw continues the prompt without one. Leave it out";
const SERVER: &str = "it is for a server that keeps several conversations";
const PROMPT_CACHE: &str =
    "a prompt is not kept between runs; a chat (no prompt, on a terminal) keeps what it has read";
const LOGS: &str = "silicide has no log; -v prints more on standard error";

/// Every flag that needs a rule, in groups.
#[rustfmt::skip]
pub(super) const TABLE: &[ForeignFlag] = &[
    // Other names.
    flag(&["-dev"], One, Same("--device")),
    flag(&["-ctk"], One, Same("--cache-type-k")),
    flag(&["-ctv"], One, Same("--cache-type-v")),
    flag(&["-ub"], One, Same("--ubatch-size")),
    flag(&["-nr"], None, Same("--no-repack")),
    flag(&["-sys"], One, Same("--system-prompt")),
    flag(&["-sysf"], One, Same("--system-prompt-file")),
    flag(&["-ngl"], One, Same("--gpu-layers")),
    flag(&["-ncmoe"], One, Same("--n-cpu-moe")),
    flag(&["-cmoe"], None, Same("--cpu-moe")),
    flag(&["-r"], One, Same("--stop")),
    flag(&["-bf", "--binary-file"], One, Same("--file")),
    flag(&["-no-cnv", "--no-conversation"], None, Same("--raw")),
    flag(&["-lm", "--load-mode"], One, SameValue("--load", LOAD_MODES)),
    flag(&["--usage"], None, Same("--help")),
    flag(&["--log-verbose"], None, Same("--verbose")),
    flag(&["--log-disable", "--no-perf", "--no-show-timings"], None, Same("--quiet")),
    // What silicide does anyway.
    flag(&["--perf", "--show-timings", "--no-display-prompt", "--no-escape", "--no-context-shift"], None, Unneeded),
    flag(&["--warmup", "--no-warmup", "--repack", "--mmap", "--jinja", "--simple-io"], None, Unneeded),
    flag(&["-st", "--single-turn", "--no-mmproj", "--no-mmproj-auto", "--mmproj-auto"], None, Unneeded),
    flag(&["-kvo", "--kv-offload", "--op-offload", "-ndio", "--no-direct-io"], None, Unneeded),
    flag(&["--no-log-prefix", "--no-log-timestamps"], None, Unneeded),
    flag(&["-co", "--color", "--log-colors"], Switch, Unneeded),
    // Speed, placement and logs: no effect on the text.
    flag(&["-fa", "--flash-attn"], Switch, Ignored("attention never stores its scores: there is one kind only")),
    flag(&["-b", "--batch-size"], One, Ignored("-ub alone sets the tokens of one pass")),
    flag(&["-tb", "--threads-batch"], One, Ignored("-t is for prompts and for generation")),
    flag(&["-np", "--parallel"], One, Ignored("one sequence is run")),
    flag(&["-C", "--cpu-mask", "-Cr", "--cpu-range", "--cpu-strict", "--prio", "--poll"], One, Ignored(PINNING)),
    flag(&["-Cb", "--cpu-mask-batch", "-Crb", "--cpu-range-batch"], One, Ignored(PINNING)),
    flag(&["--cpu-strict-batch", "--prio-batch", "--poll-batch"], One, Ignored(PINNING)),
    flag(&["--numa"], One, Ignored("memory is not placed by node; use numactl")),
    flag(&["-dio", "--direct-io"], None, Ignored("files are mapped, or copied through the page cache")),
    flag(&["--no-host", "-bs", "--backend-sampling", "--no-op-offload"], None, Ignored("there is one way only")),
    flag(&["-nkvo", "--no-kv-offload"], None, Ignored("the KV cache is on the device that runs the layers")),
    flag(&["-sm", "--split-mode", "-ts", "--tensor-split"], One, Ignored(ONE_DEVICE)),
    flag(&["-ot", "--override-tensor"], One, Ignored("-ngl and --n-cpu-moe choose what runs on the CPU")),
    flag(&["-mg", "--main-gpu"], One, Neutral("0", "choose the GPU with --device, such as --device vulkan:1")),
    flag(&["-fit", "--fit", "-fitt", "--fit-target", "-fitc", "--fit-ctx"], One, Ignored(
        "memory is counted before loading, and layers that do not fit the GPU run on the CPU",
    )),
    flag(&["--check-tensors"], None, Ignored("file structure is always checked, and NaN logits are an error")),
    flag(&["--swa-full"], None, Ignored("layers with a window keep the window")),
    flag(&["--keep"], One, Ignored("a full context ends the text; nothing is dropped from it")),
    flag(&["-ctxcp", "--ctx-checkpoints", "--swa-checkpoints", "-cram", "--cache-ram"], One, Ignored(SERVER)),
    flag(&["-dt", "--defrag-thold"], One, Ignored("the KV cache never fragments")),
    flag(&["-ptc", "--print-token-count"], One, Ignored("the figures after the text count tokens")),
    flag(&["--verbose-prompt", "--display-prompt"], None, Ignored(
        "the prompt is not printed; `silicide tokenize` shows its tokens",
    )),
    flag(&["-cnv", "--conversation", "-i", "--interactive", "-if", "--interactive-first"], None, Ignored(
        "a chat begins when no prompt is given on a terminal",
    )),
    flag(&["-mli", "--multiline-input"], None, Ignored("\"\"\" begins and ends several lines in a chat")),
    flag(&["-lv", "--verbosity", "--log-verbosity"], One, Ignored(LOGS)),
    flag(&["--log-prefix", "--log-timestamps"], None, Ignored(LOGS)),
    flag(&["--mmproj-offload", "--no-mmproj-offload"], None, Ignored(TEXT_ONLY)),
    flag(&["--reasoning-format"], One, Ignored("reasoning is shown as the model writes it")),
    // Samplers.
    flag(&["--top-nsigma", "--top-n-sigma"], One, Neutral("-1", SAMPLER)),
    flag(&["--xtc-probability", "--dry-multiplier", "--dynatemp-range", "--mirostat"], One, Neutral("0", SAMPLER)),
    flag(&["--typical", "--typical-p"], One, Neutral("1", SAMPLER)),
    flag(&["--adaptive-target"], One, Neutral("-1", SAMPLER)),
    flag(&["--xtc-threshold", "--dynatemp-exp", "--mirostat-lr", "--mirostat-ent"], One, Ignored(NO_SAMPLER)),
    flag(&["--adaptive-decay", "--dry-base", "--dry-allowed-length"], One, Ignored(NO_SAMPLER)),
    flag(&["--dry-penalty-last-n", "--dry-sequence-breaker"], One, Ignored(NO_SAMPLER)),
    flag(&["--samplers", "--sampler-seq", "--sampling-seq"], One, Refused(
        "the order is fixed: penalties, top-k, top-p, min-p, temperature; leave it out",
    )),
    flag(&["-l", "--logit-bias"], One, Refused("logits cannot be biased; leave it out")),
    flag(&["--grammar", "--grammar-file", "-j", "--json-schema", "-jf", "--json-schema-file"], One, Refused(
        CONSTRAINED,
    )),
    // RoPE.
    flag(&["--rope-scaling"], One, Refused(ROPE)),
    flag(&["--rope-scale"], One, Neutral("1", ROPE)),
    flag(&["--rope-freq-base", "--rope-freq-scale", "--yarn-orig-ctx"], One, Neutral("0", ROPE)),
    flag(&["--yarn-ext-factor", "--yarn-attn-factor"], One, Neutral("-1", ROPE)),
    flag(&["--yarn-beta-slow", "--yarn-beta-fast"], One, Neutral("-1", ROPE)),
    flag(&["-gan", "--grp-attn-n"], One, Neutral("1", "leave grouped self-extension out")),
    flag(&["-gaw", "--grp-attn-w"], One, Ignored("there is no grouped self-extension")),
    // Models from elsewhere, and other files.
    flag(&["-hf", "-hfr", "--hf-repo", "-hff", "--hf-file", "-hft", "--hf-token"], One, Refused(HUB)),
    flag(&["-mu", "--model-url", "-dr", "--docker-repo"], One, Refused(HUB)),
    flag(&["--gpt-oss-20b-default", "--gpt-oss-120b-default"], None, Refused(HUB)),
    flag(&["--vision-gemma-4b-default", "--vision-gemma-12b-default"], None, Refused(HUB)),
    flag(&["--offline"], None, Refused(
        "leave it out: a path, or a name that `silicide list` shows, needs no network",
    )),
    flag(&["--lora", "--lora-scaled", "--control-vector", "--control-vector-scaled"], One, Refused(ADAPTERS)),
    flag(&["--control-vector-layer-range"], Two, Refused(ADAPTERS)),
    flag(&["-mm", "--mmproj", "-mmu", "--mmproj-url", "-mmdev", "--mmproj-device"], One, Refused(TEXT_ONLY)),
    flag(&["--image", "--audio", "--video", "--image-min-tokens", "--image-max-tokens"], One, Refused(TEXT_ONLY)),
    flag(&["--override-kv"], One, Refused("metadata cannot be overridden; edit the file")),
    flag(&["--rpc", "--server-base"], One, Refused("models run on this machine only; leave it out")),
    flag(&["-o", "--output", "--output-file"], One, Refused("redirect standard output instead: > FILE")),
    flag(&["--log-file"], One, Refused("redirect standard error instead: 2> FILE")),
    flag(&["--log-prompts-dir"], One, Refused("prompts are not logged; leave it out")),
    flag(&["--prompt-cache"], One, Refused(PROMPT_CACHE)),
    flag(&["--prompt-cache-all", "--prompt-cache-ro"], None, Refused(PROMPT_CACHE)),
    // Chat and text.
    flag(&["--chat-template", "--chat-template-file", "--chat-template-kwargs"], One, Refused(TEMPLATE)),
    flag(&["--no-jinja", "--skip-chat-parsing", "--no-skip-chat-parsing"], None, Refused(TEMPLATE)),
    flag(&["-rea", "--reasoning"], Switch, Refused(REASONING)),
    flag(&["--reasoning-effort", "--reasoning-budget-message"], One, Refused(REASONING)),
    flag(&["--reasoning-budget"], One, Neutral("-1", REASONING)),
    flag(&["--reasoning-preserve", "--no-reasoning-preserve"], None, Refused(REASONING)),
    flag(&["-e", "--escape"], None, Refused("escapes in prompts are not processed; in a shell write $'a\\nb'")),
    flag(&["--context-shift"], None, Refused("a full context ends the text; give a larger one with -c")),
    flag(&["-sp", "--special"], None, Refused("control tokens are not printed; --json has the ids of all tokens")),
    flag(&["--in-prefix-bos"], None, Refused(TEMPLATE)),
    flag(&["--in-prefix", "--in-suffix"], One, Refused(TEMPLATE)),
    // Other programs of llama.cpp are commands here.
    flag(&["--list-devices"], None, Refused("it is a command: silicide devices")),
    flag(&["-cl", "--cache-list"], None, Refused("it is a command: silicide list")),
    flag(&["--completion-bash"], None, Refused("it is a command: silicide completions bash")),
    flag(&["--version"], None, Refused("it stands alone: silicide --version")),
    // Draft models.
    flag(&["--spec-draft-model", "-md", "--model-draft", "--spec-draft-hf", "-hfd", "-hfrd"], One, Ignored(SPECULATIVE)),
    flag(&["--hf-repo-draft", "--spec-draft-threads", "-td", "--threads-draft"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-draft-threads-batch", "-tbd", "--threads-batch-draft"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-draft-cpu-mask", "-Cd", "--cpu-mask-draft"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-draft-cpu-range", "-Crd", "--cpu-range-draft"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-draft-cpu-strict", "--cpu-strict-draft", "--spec-draft-prio", "--prio-draft"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-draft-poll", "--poll-draft", "--spec-draft-cpu-mask-batch", "-Cbd"], One, Ignored(SPECULATIVE)),
    flag(&["--cpu-mask-batch-draft", "--spec-draft-cpu-strict-batch"], One, Ignored(SPECULATIVE)),
    flag(&["--cpu-strict-batch-draft", "--spec-draft-prio-batch", "--prio-batch-draft"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-draft-poll-batch", "--poll-batch-draft", "--spec-draft-type-k", "-ctkd"], One, Ignored(SPECULATIVE)),
    flag(&["--cache-type-k-draft", "--spec-draft-type-v", "-ctvd", "--cache-type-v-draft"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-draft-override-tensor", "-otd", "--override-tensor-draft"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-draft-cpu-moe", "-cmoed", "--cpu-moe-draft"], None, Ignored(SPECULATIVE)),
    flag(&["--spec-draft-n-cpu-moe", "--spec-draft-ncmoe", "-ncmoed", "--n-cpu-moe-draft"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-draft-n-max", "--spec-draft-n-min", "--spec-draft-p-split", "--draft-p-split"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-draft-p-min", "--draft-p-min", "--spec-draft-device", "-devd", "--device-draft"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-draft-backend-sampling", "--no-spec-draft-backend-sampling", "--spec-default"], None, Ignored(SPECULATIVE)),
    flag(&["--spec-draft-ngl", "-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-type", "--spec-ngram-mod-n-min", "--spec-ngram-mod-n-max"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-ngram-mod-n-match", "--spec-ngram-simple-size-n"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-ngram-simple-size-m", "--spec-ngram-simple-min-hits"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-ngram-map-k-size-n", "--spec-ngram-map-k-size-m", "--spec-ngram-map-k-min-hits"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-ngram-map-k4v-size-n", "--spec-ngram-map-k4v-size-m"], One, Ignored(SPECULATIVE)),
    flag(&["--spec-ngram-map-k4v-min-hits"], One, Ignored(SPECULATIVE)),
    flag(&["--draft", "--draft-n", "--draft-max", "--draft-min", "--draft-n-min"], One, Ignored(SPECULATIVE)),
];

//! `/set`: the settings that can change during a chat.

use crate::display::DisplayOptions;
use crate::error::Error;
use silicide_llm::engine::GenerateOptions;
use std::str::FromStr;

/// The settings, with their effects.
pub(super) const SETTINGS: [(&str, &str); 13] = [
    ("temp", "sampling temperature; 0 picks the most likely token"),
    ("top-k", "sample from the K most likely tokens; 0 for all"),
    ("top-p", "sample from the most likely tokens with this total probability"),
    ("min-p", "sample from tokens at least this fraction as likely as the most likely"),
    ("repeat-penalty", "penalty for recent tokens; 1 is off"),
    ("repeat-last-n", "number of recent tokens; -1 for all"),
    ("frequency-penalty", "penalty for each occurrence of a recent token"),
    ("presence-penalty", "penalty for a recent token"),
    ("seed", "random seed of the next answer"),
    ("n", "maximum tokens of an answer; -1 for no limit"),
    ("system", "system message; setting it begins a new conversation"),
    ("markdown", "on or off: show markdown as colours"),
    ("wrap", "on or off: wrap words at the right edge"),
];

/// Returns the value of a setting as `/set` shows it. `system` is not among these: the conversation has it.
pub(super) fn get(name: &str, options: &GenerateOptions, display: &DisplayOptions) -> Option<String> {
    let sampler = &options.sampler;
    Some(match name {
        "temp" => sampler.temperature.to_string(),
        "top-k" => sampler.top_k.to_string(),
        "top-p" => sampler.top_p.to_string(),
        "min-p" => sampler.min_p.to_string(),
        "repeat-penalty" => sampler.repeat_penalty.to_string(),
        "repeat-last-n" => count(Some(sampler.repeat_last)),
        "frequency-penalty" => sampler.frequency_penalty.to_string(),
        "presence-penalty" => sampler.presence_penalty.to_string(),
        "seed" => sampler.seed.to_string(),
        "n" => count(options.max_tokens),
        "markdown" => on_off(display.markdown),
        "wrap" => on_off(display.wrap),
        _ => return None,
    })
}

/// Changes a setting; nothing changes if the value makes no sense.
pub(super) fn set(
    name: &str,
    value: &str,
    options: &mut GenerateOptions,
    display: &mut DisplayOptions,
) -> Result<(), Error> {
    let mut changed = options.clone();
    let sampler = &mut changed.sampler;
    match name {
        "temp" => sampler.temperature = number(name, value)?,
        "top-k" => sampler.top_k = limit(name, value)?.unwrap_or(0),
        "top-p" => sampler.top_p = number(name, value)?,
        "min-p" => sampler.min_p = number(name, value)?,
        "repeat-penalty" => sampler.repeat_penalty = number(name, value)?,
        "repeat-last-n" => sampler.repeat_last = limit(name, value)?.unwrap_or(usize::MAX),
        "frequency-penalty" => sampler.frequency_penalty = number(name, value)?,
        "presence-penalty" => sampler.presence_penalty = number(name, value)?,
        "seed" => sampler.seed = number(name, value)?,
        "n" => changed.max_tokens = limit(name, value)?,
        "markdown" => display.markdown = switch(name, value)?,
        "wrap" => display.wrap = switch(name, value)?,
        _ => return Err(unknown(name)),
    }
    changed.sampler.check()?;
    *options = changed;
    Ok(())
}

/// Returns the error for a setting that does not exist.
pub(super) fn unknown(name: &str) -> Error {
    let names: Vec<&str> = SETTINGS.iter().map(|(name, _)| *name).collect();
    Error::Usage(format!("there is no setting {name}; the settings are {}", names.join(", ")))
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, Error> {
    value.parse().map_err(|_| Error::Usage(format!("{name}: expected a number, got {value:?}")))
}

fn limit(name: &str, value: &str) -> Result<Option<usize>, Error> {
    if value == "-1" { Ok(None) } else { number(name, value).map(Some) }
}

fn switch(name: &str, value: &str) -> Result<bool, Error> {
    match value {
        "on" | "yes" | "true" | "1" => Ok(true),
        "off" | "no" | "false" | "0" => Ok(false),
        _ => Err(Error::Usage(format!("{name}: expected on or off, got {value:?}"))),
    }
}

fn on_off(value: bool) -> String {
    if value { "on" } else { "off" }.to_owned()
}

fn count(value: Option<usize>) -> String {
    value.filter(|&count| count < usize::MAX).map_or_else(|| "-1".to_owned(), |count| count.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::ColorChoice;

    #[test]
    fn every_setting_but_the_system_message_can_be_read_and_set() {
        let mut options = GenerateOptions::default();
        let mut display = DisplayOptions::stdout(ColorChoice::Never, false);
        for (name, _) in SETTINGS.iter().filter(|(name, _)| *name != "system") {
            let value = if matches!(*name, "markdown" | "wrap") { "on" } else { "1" };
            set(name, value, &mut options, &mut display).unwrap();
            assert_eq!(get(name, &options, &display).as_deref(), Some(value), "{name}");
        }
        set("n", "-1", &mut options, &mut display).unwrap();
        assert_eq!((options.max_tokens, get("n", &options, &display).as_deref()), (None, Some("-1")));
    }

    #[test]
    fn invalid_values_are_refused_and_change_nothing() {
        let mut options = GenerateOptions::default();
        let mut display = DisplayOptions::stdout(ColorChoice::Never, false);
        for (name, value, said) in [
            ("temp", "hot", "expected a number"),
            ("temp", "-1", "temp"),
            ("top-p", "2", "top-p"),
            ("n", "-5", "expected a number"),
            ("wrap", "maybe", "on or off"),
            ("mood", "1", "temp, top-k"),
        ] {
            let error = set(name, value, &mut options, &mut display).unwrap_err().to_string();
            assert!(error.contains(said), "{name} {value}: {error}");
        }
        assert_eq!(options.sampler.temperature, GenerateOptions::default().sampler.temperature);
    }
}

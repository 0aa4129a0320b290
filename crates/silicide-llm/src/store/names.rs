//! Misspelled names of models, and names of hubs.

/// Returns whether a name is a URL, or a repository such as `user/model`.
pub(super) fn is_remote(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    if lower.contains("://") || lower.starts_with("hf.co/") || lower.starts_with("huggingface.co/") {
        return true;
    }
    let plain = |part: &str| {
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(word)
    };
    let file = [".gguf", ".safetensors", ".bin", ".pt"].iter().any(|extension| lower.ends_with(extension));
    match name.split_once('/') {
        Some((user, repository)) => !file && plain(user) && plain(repository),
        None => false,
    }
}

/// Returns the nearest name of `all`: equal up to case and a tag (`smollm2:135m`), or at most two edits away.
pub(super) fn nearest<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_ascii_lowercase();
    let plain = lower.split(':').next().unwrap_or_default();
    let mistakes = (plain.chars().count() / 3).min(2);
    let near = all.map(|known| (distance(plain, &known.to_ascii_lowercase()), known));
    near.filter(|(distance, _)| *distance <= mistakes).min().map(|(_, known)| known)
}

/// Returns the Levenshtein distance: insertions, deletions and replacements of characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let (mut diagonal, mut left) = (i, i + 1);
        for (slot, to) in row.iter_mut().skip(1).zip(&b) {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = *slot;
            left = replaced.min(*slot + 1).min(left + 1);
            *slot = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_repositories_are_told_from_paths() {
        for remote in [
            "HuggingFaceTB/SmolLM2-135M-Instruct-GGUF",
            "user/repo:Q4_K_M",
            "https://example.com/model.gguf",
            "hf.co/user/repo",
        ] {
            assert!(is_remote(remote), "{remote}");
        }
        for local in ["smollm2", "./model", "../x/y", "/a/b", "models/m.gguf", "a/b/c", "a b/c", "model.gguf"]
        {
            assert!(!is_remote(local), "{local}");
        }
    }

    #[test]
    fn names_with_mistakes_find_the_name_that_was_meant() {
        let near = |name: &str| nearest(name, ["smollm2", "mine"].into_iter());
        for name in ["smolm2", "SmolLM2", "smollm2:135m", "smollm", "smolllm2", "smolml2"] {
            assert_eq!(near(name), Some("smollm2"), "{name}");
        }
        assert_eq!(near("mime"), Some("mine"));
        for name in ["gpt-17", "llama3", "", "m"] {
            assert_eq!(near(name), None, "{name}");
        }
        assert_eq!((distance("", "abc"), distance("kitten", "sitting"), distance("ab", "ab")), (3, 3, 0));
    }
}

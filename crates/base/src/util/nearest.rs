//! The known name that an unknown one may stand for.

/// The least likeness of such a name, from 0 to 1.
const LIKENESS: f64 = 0.85;

/// Returns ` (did you mean NAME?)` for the likest of the known names; empty where none is like it.
pub fn did_you_mean<'a>(unknown: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let folded = unknown.to_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&folded, &name.to_lowercase());
    let likely = names.into_iter().map(|name| (likeness(name), name));
    let likely = likely.filter(|(likeness, _)| *likeness >= LIKENESS);
    let nearest = likely.max_by(|one, other| one.0.total_cmp(&other.0));
    nearest.map_or_else(String::new, |(_, name)| {
        format!(" (did you mean `{name}`?)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likest_name_is_proposed_and_none_that_is_another_word() {
        let names = ["claude-code", "codex", "copilot", "develop", "strict"];
        for (unknown, meant) in [
            ("claude", "claude-code"),
            ("Codx", "codex"),
            ("stict", "strict"),
            ("devlop", "develop"),
        ] {
            let words = format!(" (did you mean `{meant}`?)");
            assert_eq!(did_you_mean(unknown, names), words);
        }
        for unknown in ["", "network", "x", "zsh"] {
            assert_eq!(did_you_mean(unknown, names), "", "{unknown}");
        }
    }
}

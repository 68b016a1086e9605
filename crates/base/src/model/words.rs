//! A command's words as one line.

use std::ffi::OsString;

/// Joins program and arguments to the command's text in the allowlist. Returns `None` if they are not UTF-8.
///
/// The quoting is that of Python's `shlex.join`, character by character: a runtime compares these texts.
/// Text that is not UTF-8 is not rendered with replacement characters: two commands would share one consent.
#[must_use]
pub fn command_line(argv: &[OsString]) -> Option<String> {
    let words: Option<Vec<_>> = argv.iter().map(|word| word.to_str().map(quoted)).collect();
    Some(words?.join(" "))
}

fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r#"'"'"'"#))
}

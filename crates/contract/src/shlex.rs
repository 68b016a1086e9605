//! Splits command lines that no shell runs.

use std::ffi::OsString;

use hookjail_base::model::InvalidField;

/// Splits a command line into words as Python's `shlex` does, which reyn uses.
///
/// That differs from a shell. `#` starts no comment, a backslash between double quotes escapes only itself and the quote, and
/// a backslash before a newline keeps the newline.
pub(super) fn split(text: &str) -> Result<Vec<OsString>, InvalidField> {
    let invalid = |problem| InvalidField::new("hook.shell.script", problem);
    let mut words: Vec<OsString> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take().map(OsString::from)),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars
                        .next()
                        .ok_or_else(|| invalid("has a quotation that is not closed"))?
                    {
                        end if end == c => break,
                        '\\' if c == '"' => match chars.next() {
                            Some(escaped @ ('"' | '\\')) => word.push(escaped),
                            Some(other) => word.extend(['\\', other]),
                            None => return Err(invalid("has a quotation that is not closed")),
                        },
                        other => word.push(other),
                    }
                }
            }
            '\\' => {
                let escaped = chars
                    .next()
                    .ok_or_else(|| invalid("ends in a backslash that escapes nothing"))?;
                word.get_or_insert_default().push(escaped);
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word.map(OsString::from));
    if words.first().is_none_or(|program| program.is_empty()) {
        return Err(invalid("names no program"));
    }
    Ok(words)
}

//! Expands lines of settings that are one command, as the runtime's shell does.

/// Special characters of shells. Variables, tildes and quotes are checked separately.
const SHELLS: &[char] = &[
    '|', '&', ';', '<', '>', '(', ')', '`', '\\', '*', '?', '[', ']', '!', '#', '\n', '\r',
];

/// Splits a line that is one command like its shell; otherwise returns `None`. Also `None` where only the shell can
/// expand it, as a value without quotes that is several words or a pattern. `value` looks up variables.
pub fn words(line: &str, value: impl Fn(&str) -> Option<String>) -> Option<Vec<String>> {
    let has_variables = line.contains(['$', '~']);
    // In single quotes variables are not expanded.
    if line.contains(SHELLS) || has_variables && line.contains('\'') || line.contains("\"~") {
        return None;
    }
    // Here no quote is within another, and none is escaped.
    let mut unquoted = line.split('"').step_by(2);
    let is_one =
        |value: &String| !value.is_empty() && !value.contains([' ', '\t', '\n', '*', '?', '[']);
    let one = |name: &str| value(name).filter(is_one);
    if has_variables && unquoted.any(|part| expand(part, &one).is_none()) {
        return None;
    }
    let words = shlex::split(line)?;
    let words: Option<Vec<_>> = words.iter().map(|word| expand(word, &value)).collect();
    let words = words?;
    // An assignment before a command is the shell's.
    words
        .first()
        .filter(|word| !word.is_empty() && !word.contains('='))?;
    Some(words)
}

/// Expands variables in a word. `None` where a variable is unknown, or a brace is left.
fn expand(word: &str, value: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut out = String::new();
    let mut rest = word;
    if let Some(below) = rest.strip_prefix('~') {
        if !below.is_empty() && !below.starts_with('/') {
            return None;
        }
        out.push_str(&value("HOME")?);
        rest = below;
    }
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (name, after) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => {
                let end = after.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
                after.split_at(end.unwrap_or(after.len()))
            }
        };
        out.push_str(&value(name)?);
        rest = after;
    }
    if out.contains(['{', '}']) || rest.contains(['{', '}']) {
        return None;
    }
    out.push_str(rest);
    Some(out)
}

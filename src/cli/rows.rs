//! Text for people in rows: a label, and what it is about.

use std::{
    borrow::Cow,
    ffi::OsStr,
    fmt::{Debug, Display},
};

use hookjail_base::model::Lines;
use hookjail_client::output::{self, Style};

/// Rows of text, each on one line even if its value has line breaks.
pub(super) struct Rows {
    indent: &'static str,
    /// The style of labels; `None` = as other text.
    labels: Option<Style>,
    text: Lines,
    /// The columns of a label.
    width: usize,
}

impl Rows {
    /// Begins a text with plain labels of a width, behind an indent.
    pub(super) fn plain(indent: &'static str, width: usize) -> Self {
        Self {
            indent,
            labels: None,
            text: Lines::default(),
            width,
        }
    }

    /// Begins a text with strong labels.
    pub(super) fn strong(style: Style) -> Self {
        Self {
            labels: Some(style),
            ..Self::plain("", 12)
        }
    }

    /// Adds a line as it is, without indent and label.
    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        self.text.add(line);
    }

    /// Adds a row.
    pub(super) fn row(&mut self, label: &str, value: impl Display) {
        // Padding counts bytes, so it comes before the colour.
        let label = format!("{label:<width$}", width = self.width);
        let label = match self.labels {
            Some(style) => style.strong(&label),
            None => label,
        };
        self.text.add(format!("{}{label}{value}", self.indent));
    }

    /// Adds a row, unless its value is empty.
    pub(super) fn some(&mut self, label: &str, value: &str) {
        self.each(label, Some(value).filter(|value| !value.is_empty()));
    }

    /// Adds a row for each value.
    pub(super) fn each(&mut self, label: &str, values: impl IntoIterator<Item = impl Display>) {
        for value in values {
            self.row(label, value);
        }
    }

    /// Adds a row for each value, of which the first alone has the label.
    pub(super) fn list(&mut self, label: &str, values: impl IntoIterator<Item = impl Display>) {
        for (index, value) in values.into_iter().enumerate() {
            self.row(if index == 0 { label } else { "" }, value);
        }
    }

    /// Returns the text.
    pub(super) fn as_str(&self) -> &str {
        self.text.as_str()
    }

    /// Writes the text to stdout.
    pub(super) fn print(&self) {
        output::text(self.as_str());
    }
}

/// Renders the words of a command, each in quotes.
pub(super) fn quoted(words: &[impl Debug]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
    words.join(" ")
}

/// Renders a command as a shell reads it, for people to type.
pub(super) fn shell_line(words: &[impl AsRef<OsStr>]) -> String {
    let words = words.iter().enumerate();
    let words = words.map(|(index, word)| {
        let word = word.as_ref().to_string_lossy();
        // The shell takes a first word with `=` for a variable, and zsh one that begins so for a program's path.
        let is_special = word.starts_with('=') || index == 0 && word.contains('=');
        let is_plain =
            |letter: char| letter.is_ascii_alphanumeric() || "%+,-./:=@_".contains(letter);
        match !word.is_empty() && !is_special && word.chars().all(is_plain) {
            true => Ok(word.into_owned()),
            false => shlex::try_quote(&word).map(Cow::into_owned),
        }
    });
    let words: Result<Vec<_>, _> = words.collect();
    words.map_or_else(|_| "CMD".to_owned(), |words| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_command_has_quotes_where_a_shell_needs_them_alone() {
        for (words, line) in [
            (
                &["hookjail", "--as=claude-code", "a@b:1%", "--", "x,y"][..],
                "hookjail --as=claude-code a@b:1% -- x,y",
            ),
            (&["a=b", "c=d"], "'a=b' c=d"),
            (&["a", "=b", "", "~/c", "d e"], "a '=b' '' '~/c' 'd e'"),
            (&["sh", "-c", "echo $HOME"], "sh -c 'echo $HOME'"),
            (&["{a,b}", "*", "é"], "'{a,b}' '*' 'é'"),
            (&["a\0b"], "CMD"),
        ] {
            let shown = shell_line(words);
            let read = shlex::split(&shown);
            assert!(
                line == "CMD" || read.is_some_and(|read| read == words),
                "{shown}"
            );
            assert_eq!(shown, line);
        }
    }
}

//! Text for people in rows: a label, and what it is about.

use std::{
    ffi::OsString,
    fmt::{Debug, Display},
};

use hookjail_base::model::Lines;
use hookjail_client::output::{self, Style};

/// Rows of text. Each is one line, whatever its value contains.
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

    /// Adds a row, unless there is nothing to say.
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

/// Renders a command as a shell reads it.
pub(super) fn shell_line(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let line = shlex::try_join(words.iter().map(AsRef::as_ref));
    line.unwrap_or_else(|_| "CMD".to_owned())
}

//! Scripts that look for files by the place where they lie.

use std::os::unix::fs::FileExt;

use super::{Script, only_roots};

/// Maximum size of a script that is searched, bytes.
const MOST: usize = 1 << 20;

/// Expressions of the common languages for a script's own path.
const EXPRESSIONS: [&[u8]; 10] = [
    b"$0\"",
    b"${0%",
    b"BASH_SOURCE",
    b"FindBin",
    b"__DIR__",
    b"__FILE__",
    b"__dirname",
    b"__file__",
    b"dirname $0",
    b"import.meta",
];

impl Script {
    /// Returns whether the text asks for its own place, which is that of a copy where a run has no view of its own. Root's scripts are
    /// not copied.
    pub fn asks_for_its_place(&self) -> bool {
        if only_roots(&self.path, &self.file).as_ref() == Some(&self.path) {
            return false;
        }
        let mut text = vec![0; MOST];
        let read = self.file.read_at(&mut text, 0).unwrap_or(0);
        asks(&text[..read])
    }
}

fn asks(text: &[u8]) -> bool {
    let mut found = EXPRESSIONS.iter();
    found.any(|it| text.windows(it.len()).any(|window| window == *it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_asks_for_its_place_is_known_in_each_language() {
        for text in [
            "cd \"$(dirname \"$0\")\"",
            "here=$(dirname $0)",
            "cd ${0%/*}",
            "source \"${BASH_SOURCE[0]%/*}/lib.sh\"",
            "root = Path(__file__).parent",
            "path.join(__dirname, 'x')",
            "new URL('.', import.meta.url)",
            "use FindBin;",
            "require __DIR__ . '/x.php';",
        ] {
            assert!(asks(text.as_bytes()), "{text}");
        }
        assert!(!asks(b"#!/bin/sh\nread -r event\necho \"$1\" $00\n"));
    }
}

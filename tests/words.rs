//! The words of the code, its messages and its documents: the rules of CONTRIBUTING.md, held at zero.
//!
//! `cargo test --test words -- --nocapture` prints each place that breaks a rule. With `WORDS=crates/base`, only places below
//! that folder are looked at.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and this one is also read"
)]

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use proc_macro2::{Span, TokenStream, TokenTree};
use regex::Regex;
use syn::visit::{self, Visit};

/// Longest sentence of a document, in words.
const DOCUMENT: usize = 30;
/// Longest sentence of a message or a line of help, in words.
const MESSAGE: usize = 20;

/// Subjects that leave out the noun.
static SUBJECT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(what|who|whoever|whatever|nobody|it|those)\b(?:[^?]*$|[^?]*\.)").unwrap()
});
/// Pronouns that have no place anywhere in prose.
static PRONOUN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)\b(whoever|whatever|nobody)\b").unwrap());
/// Verbs of speech and thought, which programs, files and values have none of.
static SPEECH: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(tell|tells|told|say|says|said|knows?|knew|hears?|heard|wants?|wanted)\b")
        .unwrap()
});
/// Phrases in the place of a noun of the field, which is the second of each pair.
const FIELD: &[(&str, &str)] = &[
    (r"so\smany", "number of"),
    (r"so\slong", "duration"),
    (r"none\sthat\sthere\sis", "unknown"),
    (r"all\sthere\smay\sbe", "maximum"),
    (r"turned\saway", "rejected"),
    (r"asked\sagain", "retried"),
    (r"ask\sagain", "retry"),
    (r"a\sbalancer", "a load balancer"),
    (r"the\sbalancer", "the load balancer"),
    (r"system\scall", "syscall"),
    (r"may\snot\sask", "not an allowed caller"),
    (r"is\snone\sof", "is not one of"),
    (r"thrown\saway", "discarded"),
];
/// Names of relations, which name no thing.
const RELATIONS: &[&str] = &[
    "asked", "at", "beside", "by", "come", "given", "here", "in_", "of", "off", "on", "over",
    "own", "said", "there", "to", "told", "under",
];

/// Heads of the second part of a message, which is the fix: `configuration has no hooks; add one`.
const FIXES: &[&str] = &[
    "add",
    "allow",
    "answer",
    "apply",
    "call",
    "change",
    "check",
    "choose",
    "close",
    "compare",
    "configure",
    "confine",
    "convert",
    "copy",
    "correct",
    "create",
    "declare",
    "delegate",
    "delete",
    "describe",
    "disable",
    "enable",
    "end",
    "enlarge",
    "export",
    "free",
    "give",
    "grant",
    "import",
    "increase",
    "install",
    "keep",
    "leave",
    "let",
    "limit",
    "link",
    "list",
    "lower",
    "make",
    "mount",
    "move",
    "name",
    "narrow",
    "pass",
    "print",
    "put",
    "quote",
    "raise",
    "read",
    "register",
    "reload",
    "remove",
    "rename",
    "repair",
    "replace",
    "restart",
    "restore",
    "retry",
    "run",
    "see",
    "send",
    "set",
    "shorten",
    "sign",
    "split",
    "start",
    "stop",
    "take",
    "test",
    "try",
    "unset",
    "update",
    "upgrade",
    "use",
    "wait",
    "watch",
    "write",
];

/// A place that breaks a rule.
struct Breach {
    path: String,
    line: usize,
    rule: &'static str,
    text: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            rule,
            text,
        } = self;
        write!(f, "{path}:{line}: {rule}: {text}")
    }
}

/// Kinds of prose, by the length of their sentences.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Comment,
    Document,
    Message,
}

/// Collects the breaches of one file.
struct Reader<'a> {
    path: &'a str,
    breaches: Vec<Breach>,
}

impl Reader<'_> {
    fn breach(&mut self, line: usize, rule: &'static str, text: &str) {
        self.breaches.push(Breach {
            path: self.path.to_owned(),
            line,
            rule,
            text: text.chars().take(160).collect(),
        });
    }

    /// Holds a text without line ends against the rules; `line` is its first.
    fn prose(&mut self, kind: Kind, line: usize, text: &str) {
        static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new("`[^`]*`").unwrap());
        static QUOTE: LazyLock<Regex> = LazyLock::new(|| Regex::new("\"[^\"]*\"").unwrap());
        static LINK: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"\]\([^)]*\)|<https?:[^>]*>|https?:\S+").unwrap());
        static END: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[.?!](?: |$)").unwrap());
        static CLAUSE: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"[;:] |[.?!](?: |$)").unwrap());
        let text = CODE.replace_all(text, "`x`");
        let text = QUOTE.replace_all(&text, "\"x\"");
        let text = LINK.replace_all(&text, "");
        for clause in CLAUSE.split(&text) {
            let bare = clause.trim_start_matches(['-', '*', ' ', '(', '|', '#', '>']);
            if SUBJECT.is_match(bare) {
                self.breach(line, "subject without a noun", bare);
            }
        }
        for (words, rule) in [
            (&PRONOUN, "pronoun for a noun"),
            (&SPEECH, "verb of speech"),
        ] {
            if let Some(found) = words.find(&text) {
                let before = text[..found.start()].char_indices().rev().nth(40);
                self.breach(line, rule, &text[before.map_or(0, |(index, _)| index)..]);
            }
        }
        static PHRASES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
            let phrases = FIELD.iter();
            phrases
                .map(|(phrase, noun)| (Regex::new(&format!("(?i){phrase}")).unwrap(), *noun))
                .collect()
        });
        for (phrase, noun) in &*PHRASES {
            if let Some(found) = phrase.find(&text) {
                let instead = format!("`{}` for `{noun}`", found.as_str());
                self.breach(line, "phrase for a noun of the field", &instead);
            }
        }
        let program = ["src/", "crates/"]
            .iter()
            .any(|start| self.path.starts_with(start))
            && !self.path.contains("tests");
        if kind == Kind::Message && program {
            for fix in text.split("; ").skip(1) {
                let head = fix.split(' ').next().unwrap_or_default();
                if !head.starts_with(['`', '{'])
                    && !FIXES.contains(&head.trim_end_matches([':', ',']))
                {
                    self.breach(line, "message whose fix is no imperative", fix);
                }
            }
        }
        let limit = match kind {
            Kind::Comment | Kind::Document => DOCUMENT,
            Kind::Message => MESSAGE,
        };
        for sentence in END.split(&text) {
            let words = sentence
                .split_whitespace()
                .filter(|word| word.chars().any(char::is_alphanumeric))
                .count();
            if words > limit {
                self.breach(line, "long sentence", &format!("({words}) {sentence}"));
            }
        }
    }

    /// Reads the comments that stand on lines of their own, each after one of the marks.
    fn comments(&mut self, text: &str, marks: &[&str]) {
        let mut block = String::new();
        let mut first = 0;
        let mut fence = false;
        for (number, line) in text.lines().chain(Some("")).enumerate() {
            let line = line.trim_start();
            let comment = marks.iter().find_map(|mark| line.strip_prefix(mark));
            let words = comment.unwrap_or_default().trim();
            if words.starts_with("```") {
                fence = !fence;
            }
            let ends = words.is_empty()
                || fence
                || ["```", "|", "#", "!", "shellcheck "]
                    .iter()
                    .any(|mark| words.starts_with(mark));
            let item = words.starts_with("- ") || words.starts_with("* ");
            if (ends || item) && !block.is_empty() {
                self.prose(Kind::Comment, first, &std::mem::take(&mut block));
            }
            if !ends {
                if block.is_empty() {
                    first = number + 1;
                } else {
                    block.push(' ');
                }
                block.push_str(words);
            }
            if comment.is_none() {
                fence = false;
            }
        }
    }

    /// Reads the paragraphs, items and cells of a page.
    fn page(&mut self, text: &str) {
        let mut block = String::new();
        let mut first = 0;
        let mut fence = false;
        static ITEM: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"^(?:[-*] |\d+\. |> )").unwrap());
        for (number, line) in text.lines().chain(Some("")).enumerate() {
            let words = line.trim();
            if words.starts_with("```") {
                fence = !fence;
            }
            let ends = words.is_empty()
                || fence
                || ["```", "|", "#", "<"]
                    .iter()
                    .any(|mark| words.starts_with(mark));
            if (ends || ITEM.is_match(words)) && !block.is_empty() {
                self.prose(Kind::Document, first, &std::mem::take(&mut block));
            }
            if words.starts_with('|') && !fence {
                for cell in words.split('|') {
                    self.prose(Kind::Document, number + 1, cell.trim());
                }
            }
            if !ends {
                if block.is_empty() {
                    first = number + 1;
                } else {
                    block.push(' ');
                }
                block.push_str(ITEM.replace(words, "").trim());
            }
        }
    }

    /// Reads string literals that have the form of prose.
    fn strings(&mut self, tokens: TokenStream) {
        static PROSE: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"^[\w`'{\x22(][^\n]* [^\n]* [^\n]*$").unwrap());
        static SCRIPT: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"\$|; (?:do|then|fi|done|exit|echo|cat|\})|&&|\|\||#include").unwrap()
        });
        let mut attribute = false;
        for token in tokens {
            match token {
                TokenTree::Group(group) => {
                    let doc = attribute
                        && group
                            .stream()
                            .into_iter()
                            .next()
                            .is_some_and(|first| first.to_string() == "doc");
                    if !doc {
                        self.strings(group.stream());
                    }
                    attribute = false;
                }
                TokenTree::Literal(literal) => {
                    if let Ok(string) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                        let line = literal.span().start().line;
                        for paragraph in string.value().split('\n') {
                            let paragraph = paragraph.trim();
                            if PROSE.is_match(paragraph) && !SCRIPT.is_match(paragraph) {
                                self.prose(Kind::Message, line, paragraph);
                            }
                        }
                    }
                }
                TokenTree::Punct(point) => {
                    attribute = point.as_char() == '#' || attribute && point.as_char() == '!'
                }
                TokenTree::Ident(_) => attribute = false,
            }
        }
    }

    fn name(&mut self, name: &syn::Ident) {
        let text = name.to_string();
        if RELATIONS.contains(&text.as_str()) {
            let line = Span::start(&name.span()).line;
            self.breach(line, "name of a relation", &text);
        }
    }
}

impl Visit<'_> for Reader<'_> {
    fn visit_pat_ident(&mut self, pattern: &syn::PatIdent) {
        self.name(&pattern.ident);
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_signature(&mut self, signature: &syn::Signature) {
        self.name(&signature.ident);
        visit::visit_signature(self, signature);
    }
}

/// Returns the marks of comments in a file, none for a page; `None` for a file that is not read.
fn marks(path: &Path) -> Option<&'static [&'static str]> {
    let name = path.file_name()?.to_str()?;
    let (_, ending) = name.rsplit_once('.').unwrap_or((name, name));
    match ending {
        "md" => Some(&[]),
        "go" | "proto" | "rs" => Some(&["///", "//!", "//"]),
        "mts" | "ts" => Some(&["/**", "//", "*/", "*"]),
        "example" | "justfile" | "py" | "service" | "sh" | "socket" | "toml" | "yaml" | "yml" => {
            Some(&["#"])
        }
        _ => None,
    }
}

/// Returns the files of the tree that people write, relative to its root.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let name = entry.unwrap().file_name();
            let path = folder.join(&name);
            let kept = (name == ".ci" || !name.to_string_lossy().starts_with('.'))
                && !["target", "node_modules", "fixtures"]
                    .iter()
                    .any(|left| name == *left);
            if kept && root.join(&path).is_dir() {
                folders.push(path);
            } else if kept && marks(&path).is_some() {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn prose_keeps_the_rules() {
    let root = Path::new(".");
    let below = std::env::var("WORDS").unwrap_or_default();
    let mut breaches = Vec::new();
    for path in files(root) {
        let text = fs::read_to_string(root.join(&path)).unwrap();
        let path = path.to_str().unwrap();
        let generated = ["@generated", "Code generated by"];
        let generated = text
            .lines()
            .take(5)
            .any(|line| generated.iter().any(|mark| line.contains(mark)));
        if !path.starts_with(&below) || generated {
            continue;
        }
        let mut reader = Reader {
            path,
            breaches: Vec::new(),
        };
        match marks(Path::new(path)).unwrap() {
            [] => reader.page(&text),
            marks => reader.comments(&text, marks),
        }
        if path.ends_with(".rs") {
            reader.strings(text.parse().unwrap());
            reader.visit_file(&syn::parse_file(&text).unwrap());
        }
        breaches.extend(reader.breaches);
    }
    for breach in &breaches {
        println!("{breach}");
    }
    assert!(
        breaches.is_empty(),
        "{} places break a rule",
        breaches.len()
    );
}

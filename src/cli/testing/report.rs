//! Reports of tests: for people, as TAP and as JUnit's XML.

use hookjail_base::model::visible;
use serde::Serialize;

use super::judge::{Kind, Mismatch};
use crate::cli::rows::Rows;

/// Maximum number of shown lines of a text.
const LINES: usize = 20;

/// Maximum number of shown characters of a line.
const LETTERS: usize = 300;

/// The result of one case under one runtime.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TestResult {
    pub(super) case: String,
    /// The reason why the hook could not be run.
    pub(super) error: Option<String>,
    /// The file of tests.
    pub(super) file: String,
    pub(super) kind: Kind,
    pub(super) millis: u64,
    pub(super) mismatches: Vec<Mismatch>,
    /// A remark on the runs.
    pub(super) note: String,
    /// The accesses that the profile refused the hook: the reason of many a mismatch.
    pub(super) refused: Vec<String>,
    pub(super) runtime: String,
}

impl TestResult {
    pub(super) fn is_passed(&self) -> bool {
        self.error.is_none() && self.mismatches.is_empty()
    }

    /// Returns the case with runtime and kind of run.
    fn title(&self) -> String {
        let bare = match self.kind {
            Kind::Bare => ", bare",
            Kind::Confined => "",
        };
        format!("{} ({}{bare})", self.case, self.runtime)
    }

    /// Returns the problems as people read them: texts of several lines as a difference, and no more than some lines of each.
    fn lines(&self) -> Vec<String> {
        let error = self.error.iter().map(|it| cut(it));
        let mismatches = self.mismatches.iter().flat_map(|it| {
            let Mismatch {
                key,
                expected,
                found,
            } = it;
            if [expected, found].iter().any(|it| it.contains('\n')) {
                let mut lines = difference(expected, found);
                if lines.is_empty() {
                    lines.push("the ends of their lines differ".to_owned());
                }
                let lines = lines.into_iter().map(|line| format!("  {line}"));
                return [format!("{key}:")].into_iter().chain(lines).collect();
            }
            let (expected, found) = (cut(expected), cut(found));
            vec![format!("{key}: expected {expected}, found {found}")]
        });
        let refused = self.refused.iter().map(|it| format!("refused: {it}"));
        error.chain(mismatches).chain(refused).collect()
    }

    /// Returns the problems, a line each.
    fn problems(&self) -> Vec<String> {
        let error = self.error.iter().cloned();
        let mismatches = self.mismatches.iter().map(|it| {
            let Mismatch {
                key,
                expected,
                found,
            } = it;
            format!("{key}: expected {expected}, found {found}")
        });
        let refused = self.refused.iter().map(|it| format!("refused: {it}"));
        error.chain(mismatches).chain(refused).collect()
    }
}

/// Returns the lines that two texts do not share at their begin or end, `-` the expected and `+` the found ones.
fn difference(expected: &str, found: &str) -> Vec<String> {
    let [expected, found] = [expected, found].map(|text| text.lines().collect::<Vec<_>>());
    let both = || expected.iter().zip(&found);
    let begin = both().take_while(|(one, other)| one == other).count();
    let shorter = expected.len().min(found.len()) - begin;
    let ends = expected.iter().rev().zip(found.iter().rev()).take(shorter);
    let end = ends.take_while(|(one, other)| one == other).count();
    let differing = |sign: char, lines: &[&str]| {
        let lines = lines.get(begin..lines.len() - end).unwrap_or_default();
        let more = lines.len().saturating_sub(LINES);
        let more = (more > 0).then(|| format!("{sign} … and {more} more lines"));
        let shown = lines.iter().take(LINES);
        let shown = shown.map(move |line| format!("{sign} {}", cut(line)));
        shown.chain(more).collect::<Vec<_>>()
    };
    let mut all = differing('-', &expected);
    all.extend(differing('+', &found));
    all
}

/// Returns the begin of a long line.
fn cut(line: &str) -> String {
    let mut letters = line.chars();
    let begin: String = letters.by_ref().take(LETTERS).collect();
    match letters.next() {
        Some(_) => begin + "…",
        None => begin,
    }
}

/// Returns the results as people read them.
pub(super) fn for_people(results: &[TestResult]) -> String {
    let mut rows = Rows::plain("", 6);
    let mut file = "";
    for result in results {
        if result.file != file {
            file = &result.file;
            rows.line(file);
        }
        let word = if result.is_passed() { "  ok" } else { "  FAIL" };
        let note = match &*result.note {
            "" => String::new(),
            note => format!(": {note}"),
        };
        rows.row(
            word,
            format!("  {}, {} ms{note}", result.title(), result.millis),
        );
        if !result.is_passed() {
            rows.each("", result.lines().iter().map(|it| format!("      {it}")));
        }
    }
    let failed = results.iter().filter(|it| !it.is_passed()).count();
    rows.line(format!(
        "{} passed, {failed} failed",
        results.len() - failed
    ));
    rows.as_str().to_owned()
}

/// Returns the results as TAP, version 14.
pub(super) fn as_tap(results: &[TestResult]) -> String {
    let mut text = format!("TAP version 14\n1..{}\n", results.len());
    for (index, result) in results.iter().enumerate() {
        let word = if result.is_passed() { "ok" } else { "not ok" };
        let number = index + 1;
        // `#` begins a directive.
        let title = format!("{}: {}", result.file, result.title()).replace('#', "\\#");
        text.push_str(&format!("{word} {number} - {}\n", visible(&title)));
        if !result.is_passed() {
            text.push_str("  ---\n  problems:\n");
            for problem in result.problems() {
                // A string of JSON is one of YAML.
                text.push_str(&format!("    - {}\n", serde_json::Value::from(problem)));
            }
            text.push_str("  ...\n");
        }
    }
    text
}

/// Returns the results as JUnit's XML.
pub(super) fn as_junit(results: &[TestResult]) -> String {
    let failed = results.iter().filter(|it| !it.is_passed()).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"hookjail test\" tests=\"{}\" failures=\"{failed}\">\n",
        results.len()
    );
    for result in results {
        let seconds = result.millis as f64 / 1000.0;
        let (file, title) = (escaped(&result.file), escaped(&result.title()));
        text.push_str(&format!(
            "<testcase classname=\"{file}\" name=\"{title}\" time=\"{seconds:.3}\""
        ));
        if result.is_passed() {
            text.push_str("/>\n");
            continue;
        }
        let problems = result.problems();
        let first = escaped(problems.first().map_or("", String::as_str));
        let all = escaped(&problems.join("\n"));
        text.push_str(&format!(
            ">\n<failure message=\"{first}\">{all}</failure>\n</testcase>\n"
        ));
    }
    text.push_str("</testsuite>\n</testsuites>\n");
    text
}

/// Escapes a text for XML. Characters that XML has no place for are left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {}
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> [TestResult; 2] {
        let result = |case: &str, mismatches| TestResult {
            case: case.to_owned(),
            error: None,
            file: "guard.hooktest.toml".to_owned(),
            kind: Kind::Confined,
            millis: 12,
            mismatches,
            note: String::new(),
            refused: Vec::new(),
            runtime: "codex".to_owned(),
        };
        let other = Mismatch {
            expected: "0".to_owned(),
            found: "2 <\"&\u{1}>".to_owned(),
            key: "exit",
        };
        [
            result("passes", Vec::new()),
            result("#1 fails", vec![other]),
        ]
    }

    #[test]
    fn texts_of_several_lines_are_shown_by_their_differing_lines() {
        let shown = |expected: &str, found: &str| {
            let [mut result, _] = results();
            result.mismatches = vec![Mismatch {
                expected: expected.to_owned(),
                found: found.to_owned(),
                key: "stdout",
            }];
            let [title, difference @ ..] = &result.lines()[..] else {
                panic!("{result:?}");
            };
            assert_eq!(title, "stdout:");
            difference.to_vec()
        };
        assert_eq!(
            shown("a\nb\nc\nd", "a\nB\nc\nd"),
            ["  - b", "  + B"],
            "the same begin and end"
        );
        assert_eq!(shown("a\na", "a\na\na"), ["  + a"]);
        let ends = "  the ends of their lines differ";
        assert_eq!(shown("a\r\nb", "a\nb"), [ends]);
        assert_eq!(shown("a\nb", ""), ["  - a", "  - b"]);
        let long = "x\n".repeat(50) + &"y".repeat(5000);
        let lines = shown("a", &long);
        assert_eq!(lines.len(), 1 + LINES + 1);
        assert_eq!(lines.last().unwrap(), "  + … and 31 more lines");
        let wide = shown("a\nb", &format!("a\n{}", "é".repeat(5000)));
        assert_eq!(wide[1].chars().count(), "  + ".len() + LETTERS + 1);
    }

    #[test]
    fn results_are_written_for_people_and_for_programs() {
        let results = results();
        assert_eq!(
            for_people(&results),
            "guard.hooktest.toml\n  ok    passes (codex), 12 ms\n  FAIL  #1 fails (codex), 12 ms\n            exit: expected 0, found 2 <\"&\u{fffd}>\n1 passed, 1 failed\n"
        );
        assert_eq!(
            as_tap(&results),
            "TAP version 14\n1..2\nok 1 - guard.hooktest.toml: passes (codex)\nnot ok 2 - guard.hooktest.toml: \\#1 fails (codex)\n  ---\n  problems:\n    - \"exit: expected 0, found 2 <\\\"&\\u0001>\"\n  ...\n"
        );
        let junit = as_junit(&results);
        for part in [
            "tests=\"2\" failures=\"1\"",
            "<testcase classname=\"guard.hooktest.toml\" name=\"passes (codex)\" time=\"0.012\"/>",
            "<failure message=\"exit: expected 0, found 2 &lt;&quot;&amp;&gt;\">",
        ] {
            assert!(junit.contains(part), "{part}: {junit}");
        }
    }
}

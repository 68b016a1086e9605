//! Converts a command line of a runtime's settings to a confined one, and back.

use std::{collections::BTreeMap, ffi::OsString, path::Path, time::Duration};

use crate::{
    cli::thin::{THIN, WHOLE},
    policy::units::Span,
};

/// The maximum time by which a hook's timeout precedes the runtime's own timer.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(3);

/// The options of a confined line.
#[derive(Clone, Debug)]
pub(super) struct LineForm<'a> {
    /// The lifecycle point, where the runtime's payloads do not name it.
    pub(super) point: Option<&'a str>,
    pub(super) profile: &'a str,
    /// The confining program and its options.
    pub(super) program: &'a [String],
    pub(super) runtime: &'a str,
    /// The shell that runs the runtime's lines; `None` where the runtime splits them.
    pub(super) shell: Option<&'a str>,
    /// The runtime's own timer, where its settings name one.
    pub(super) timeout: Option<Duration>,
    /// The words that set the entry's variables for the command.
    pub(super) variables: &'a [String],
}

/// Returns the words that set an entry's variables before its command.
///
/// They are part of the allowed command, so no profile has to admit them. A value that the runtime takes from elsewhere
/// is not known here.
pub(super) fn variables(env: &BTreeMap<String, OsString>) -> Vec<String> {
    let known = env
        .iter()
        .filter_map(|(name, value)| Some((name, value.to_str()?)));
    let known = known.filter(|(_, value)| !value.contains('$'));
    let mut words = known
        .map(|(name, value)| format!("{name}={value}"))
        .peekable();
    let env = words.peek().is_some().then(|| "/usr/bin/env".to_owned());
    env.into_iter().chain(words).collect()
}

impl LineForm<'_> {
    /// Returns the arguments of `run --as` before the original command.
    fn options(&self) -> Vec<String> {
        let mut words = ["--as", self.runtime, "--profile", self.profile]
            .map(str::to_owned)
            .to_vec();
        if let Some(own) = self.timeout {
            let span = Span(own.saturating_sub(TIMEOUT_MARGIN.min(own / 10)));
            words.extend(["--timeout".to_owned(), span.to_string()]);
        }
        if let Some(point) = self.point {
            words.extend(["--point".to_owned(), point.to_owned()]);
        }
        words.extend(["--start", "--"].map(str::to_owned));
        words.extend_from_slice(self.variables);
        words
    }

    /// Returns a program and its arguments, confined.
    pub(super) fn of_words(&self, words: &[String]) -> Vec<String> {
        let mut all = self.program.to_vec();
        all.extend(self.options());
        all.extend_from_slice(words);
        all
    }

    /// Returns a confined line: a single command as it is, several by the runtime's shell.
    ///
    /// `None` where the line cannot be passed to a shell.
    pub(super) fn of_line(&self, line: &str, is_one_command: bool) -> Option<String> {
        let program = shlex::try_join(self.program.iter().map(String::as_str)).ok()?;
        let options = shlex::try_join(self.options().iter().map(String::as_str)).ok()?;
        let command = match self.shell.filter(|_| !is_one_command) {
            None => line.to_owned(),
            Some(shell) => in_a_shell(shell, line)?,
        };
        Some(format!("{program} {options} {command}"))
    }
}

/// The shells for lines; the first is the default.
pub(super) const SHELLS: [&str; 2] = ["/bin/sh", "/bin/bash"];

/// Wraps a line in a shell invocation.
fn in_a_shell(shell: &str, line: &str) -> Option<String> {
    Some(format!("{shell} -c {}", shlex::try_quote(line).ok()?))
}

/// Returns whether a confined line may come from this original.
///
/// A shell of the original and one that hookjail added look the same.
pub(super) fn may_have_been(original: &str, before: &str) -> bool {
    let by_a_shell = |shell: &&str| in_a_shell(shell, original).as_deref() == Some(before);
    original == before || SHELLS.iter().any(by_a_shell)
}

/// Returns the original of a confined line; `None` without `hookjail run --as`.
pub(super) fn original(line: &str, variables: &[String]) -> Option<String> {
    if !is_confined(&shlex::split(line)?) {
        return None;
    }
    let (_, command) = line.split_once(" -- ")?;
    let given = shlex::try_join(variables.iter().map(String::as_str)).ok()?;
    let given = format!("{given} ");
    let command = command.strip_prefix(&given).unwrap_or(command);
    let words = shlex::split(command)?;
    if let [shell, option, inner] = words.as_slice()
        && SHELLS.contains(&shell.as_str())
        && option == "-c"
        && in_a_shell(shell, inner).as_deref() == Some(command)
    {
        return Some(inner.clone());
    }
    Some(command.to_owned())
}

/// Returns the original program and arguments of confined words.
pub(super) fn original_words<'a>(
    words: &'a [String],
    variables: &[String],
) -> Option<&'a [String]> {
    if !is_confined(words) {
        return None;
    }
    let dashes = words.iter().position(|word| word == "--")?;
    let command = words.get(dashes + 1..)?;
    Some(command.strip_prefix(variables).unwrap_or(command))
}

/// Returns whether words invoke `hookjail run --as`.
fn is_confined(words: &[String]) -> bool {
    let Some((program, words)) = words.split_first() else {
        return false;
    };
    let name = Path::new(program).file_name();
    let told = match name.and_then(|name| name.to_str()) {
        Some(WHOLE) => words.strip_prefix(&["run".to_owned()]),
        Some(THIN) => Some(words),
        _ => None,
    };
    told.and_then(|words| words.first())
        .is_some_and(|place| place == "--as" || place.starts_with("--as="))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: LineForm<'_> = LineForm {
        point: None,
        profile: "develop",
        program: &[],
        runtime: "claude-code",
        shell: Some("/bin/sh"),
        timeout: Some(Duration::from_secs(60)),
        variables: &[],
    };

    #[test]
    fn a_line_is_confined_and_comes_back_as_it_was() {
        for (program, start) in [
            (
                &["/opt/hook jail/hookjail-run"][..],
                "'/opt/hook jail/hookjail-run'",
            ),
            (
                &["/opt/hook jail/hookjail", "run"],
                "'/opt/hook jail/hookjail' run",
            ),
        ] {
            let program: Vec<_> = program.iter().map(|word| (*word).to_owned()).collect();
            let form = LineForm {
                program: &program,
                ..FORM
            };
            comes_back(&form, start);
        }
    }

    fn comes_back(form: &LineForm<'_>, start: &str) {
        let start = format!("{start} --as claude-code --profile develop --timeout 57s --start -- ");
        for line in [
            "/srv/guard.sh",
            r#""$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh --x 'a b'"#,
            "jq -r '.tool_input.command' | grep -q \"rm -rf\" && exit 2; exit 0",
            "/bin/sh -c 'echo it'\\''s'",
            "echo \u{e4}\n",
        ] {
            for is_one_command in [false, true] {
                let confined = form.of_line(line, is_one_command).unwrap();
                assert!(confined.starts_with(&start), "{confined}");
                let back = original(&confined, &[]).unwrap();
                // What a shell was asked to run a shell for is run by it as well.
                assert!(may_have_been(&back, line), "{back:?} {line:?}");
            }
            assert_eq!(original(line, &[]), None);
        }
        assert_eq!(form.of_line("a\0b", false), None);
        let words = ["python3".to_owned(), "-x".to_owned(), "--".to_owned()];
        let confined = form.of_words(&words);
        assert_eq!(original_words(&confined, &[]), Some(&words[..]));
        assert_eq!(original_words(&words, &[]), None);
    }

    #[test]
    fn other_programs_of_hookjails_confine_nothing() {
        for line in [
            "/opt/hookjail --as codex -- x",
            "/opt/hookjail-run run --as codex -- x",
            "/opt/hookjail-run -- x",
            "/opt/hookjail consent --as codex -- x",
            "/opt/other run --as codex -- x",
            "hookjail-run",
        ] {
            assert_eq!(original(line, &[]), None, "{line}");
        }
    }

    #[test]
    fn a_line_goes_to_the_shell_that_its_runtime_has_or_to_none() {
        let program = ["/opt/hookjail-run".to_owned()];
        let line = "[[ -f .env ]] && exit 2; exit 0";
        let by = |shell| {
            LineForm {
                program: &program,
                shell,
                ..FORM
            }
            .of_line(line, false)
            .unwrap()
        };
        let bash = by(Some("/bin/bash"));
        assert!(
            bash.ends_with(" -- /bin/bash -c '[[ -f .env ]] && exit 2; exit 0'"),
            "{bash}"
        );
        assert_eq!(original(&bash, &[]).as_deref(), Some(line));
        assert!(by(None).ends_with(" -- [[ -f .env ]] && exit 2; exit 0"));
        assert!(!may_have_been(line, "[[ -f .env ]]"));
    }

    #[test]
    fn the_variables_of_an_entry_are_part_of_the_command_and_go_with_it() {
        let env = [("B", "$HOME/x"), ("MODE", "block all"), ("N", "")]
            .map(|(name, value)| (name.to_owned(), value.into()));
        let variables = variables(&BTreeMap::from(env));
        assert_eq!(variables, ["/usr/bin/env", "MODE=block all", "N="]);
        let program = ["/opt/hookjail-run".to_owned()];
        let form = LineForm {
            program: &program,
            variables: &variables,
            ..FORM
        };
        for line in ["./scan.sh -v", "./scan.sh | tee log"] {
            let confined = form.of_line(line, !line.contains('|')).unwrap();
            let words = shlex::split(&confined).unwrap();
            assert!(
                words.windows(variables.len()).any(|it| it == variables),
                "{confined}"
            );
            assert_eq!(original(&confined, &variables).as_deref(), Some(line));
            // The positive control: for an entry without them they are the command's own.
            assert!(
                original(&confined, &[])
                    .unwrap()
                    .starts_with("/usr/bin/env ")
            );
        }
        let words = ["./scan.sh".to_owned()];
        let confined = form.of_words(&words);
        assert_eq!(original_words(&confined, &variables), Some(&words[..]));
        assert_eq!(super::variables(&BTreeMap::new()), [""; 0]);
    }
}

//! Converts a command line of a runtime's settings to a confined one, and back.

use std::{collections::BTreeMap, ffi::OsString, path::Path, time::Duration};

use hookjail_base::util::units::Span;
use hookjail_client::{
    arguments::parse_span,
    thin::{THIN, WHOLE},
};
use hookjail_contract::words::words;

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
        if let Some(limit) = self.timeout {
            let span = Span(limit.saturating_sub(TIMEOUT_MARGIN.min(limit / 10)));
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

/// The relation of a command in settings to what `install` writes.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Reading {
    /// As `install` writes it, for this very program and under this profile.
    Confined(String),
    /// With hookjail in it, and not confined for certain, for this reason.
    Doubtful(String),
    /// Another command.
    Plain,
}

/// Reads commands of settings.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    /// The form of the entry's confined line.
    pub(super) form: &'a LineForm<'a>,
    /// Whether there is a profile of this name.
    pub(super) is_profile: &'a dyn Fn(&str) -> bool,
    /// Whether a path is that of this hookjail, by what lies there.
    pub(super) is_this: &'a dyn Fn(&Path) -> bool,
    /// The value of a variable.
    pub(super) value: &'a dyn Fn(&str) -> Option<String>,
}

impl Reader<'_> {
    /// Reads a line, which a shell runs or the runtime splits.
    pub(super) fn line(&self, line: &str, by_a_shell: bool) -> Reading {
        if !shlex::split(line).is_some_and(|words| is_confined(&words)) {
            return unconfined(line);
        }
        let (head, command) = line.split_once(" -- ").unwrap_or((line, ""));
        let Some(mut program) = shlex::split(head) else {
            return more_than_one();
        };
        // Another spelling may be more than words to a shell.
        if shlex::try_join(program.iter().map(String::as_str)).as_deref() != Ok(head) {
            return more_than_one();
        }
        program.push("--".to_owned());
        let profile = match self.profile(&program) {
            Ok(profile) => profile,
            Err(why) => return Reading::Doubtful(why),
        };
        let variables = shlex::try_join(self.form.variables.iter().map(String::as_str));
        let variables =
            variables.map_or_else(|_| String::new(), |variables| format!("{variables} "));
        let command = command.strip_prefix(&variables).unwrap_or(command);
        let is_one = !by_a_shell
            || within_a_shell(command).is_some()
            || words(command, self.value).is_some();
        if is_one {
            Reading::Confined(profile)
        } else {
            more_than_one()
        }
    }

    /// Reads a program and its arguments.
    pub(super) fn words(&self, words: &[String]) -> Reading {
        if !is_confined(words) {
            return unconfined(&words.join(" "));
        }
        let end = words.iter().position(|word| word == "--");
        let program = end.and_then(|end| words.get(..=end));
        match self.profile(program.unwrap_or(words)) {
            Ok(profile) => Reading::Confined(profile),
            Err(why) => Reading::Doubtful(why),
        }
    }

    /// Returns the profile that the words up to `--` name, where they are of the entry's form, in its order.
    ///
    /// # Errors
    ///
    /// Returns the difference.
    fn profile(&self, words: &[String]) -> Result<String, String> {
        let (program, options) = words.split_first().ok_or("the line is blank")?;
        if !(self.is_this)(Path::new(program)) {
            return Err(format!("`{program}` is not this hookjail"));
        }
        let form = self.form;
        let mut rest = options.iter().map(String::as_str).peekable();
        rest.next_if_eq(&"run");
        let mut value = |name: &str| rest.next_if_eq(&name).and_then(|_| rest.next());
        let [runtime, profile, timeout, point] =
            ["--as", "--profile", "--timeout", "--point"].map(&mut value);
        let others = || "its options are not those that `hookjail install` writes".to_owned();
        let (Some(profile), true) = (profile, runtime == Some(form.runtime)) else {
            return Err(others());
        };
        if !rest.eq(["--start", "--"]) || point.is_some() && form.point.is_none() {
            return Err(others());
        }
        if let Some(expected) = form.point
            && point != Some(expected)
        {
            return Err(format!("its `--point` is not `{expected}`"));
        }
        if !(self.is_profile)(profile) {
            return Err(format!("its profile `{profile}` does not exist"));
        }
        let timeout = timeout.map(parse_span).transpose();
        let timeout = timeout.map_err(|_| others())?;
        let is_in_time = match (timeout, form.timeout) {
            (Some(timeout), Some(limit)) => !timeout.is_zero() && timeout < limit,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        match is_in_time {
            true => Ok(profile.to_owned()),
            false => Err("its `--timeout` and the time of its entry do not match".to_owned()),
        }
    }
}

fn more_than_one() -> Reading {
    Reading::Doubtful("a shell may run more there than hookjail".to_owned())
}

/// Returns the line of a command that hands it to a shell as `install` does.
fn within_a_shell(command: &str) -> Option<String> {
    let words = shlex::split(command)?;
    let [shell, option, inner] = words.as_slice() else {
        return None;
    };
    let is_so = SHELLS.contains(&shell.as_str())
        && option == "-c"
        && in_a_shell(shell, inner).as_deref() == Some(command);
    is_so.then(|| inner.clone())
}

/// Returns the original of a confined line; `None` without `hookjail run --as`.
pub(super) fn original(line: &str, variables: &[String]) -> Option<String> {
    if !is_confined(&shlex::split(line)?) {
        return None;
    }
    let (_, command) = line.split_once(" -- ")?;
    let prefix = shlex::try_join(variables.iter().map(String::as_str)).ok()?;
    let prefix = format!("{prefix} ");
    let command = command.strip_prefix(&prefix).unwrap_or(command);
    Some(within_a_shell(command).unwrap_or_else(|| command.to_owned()))
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

/// Returns the profile that confined words name; `None` without `hookjail run --as`.
pub(super) fn named_profile(words: &[String]) -> Option<String> {
    if !is_confined(words) {
        return None;
    }
    let mut options = words.iter().take_while(|word| *word != "--");
    let is_named = |word: &&String| word.starts_with("--profile");
    let option = options.find(is_named)?;
    match option.split_once('=') {
        Some((_, name)) => Some(name.to_owned()),
        None => options.next().cloned(),
    }
}

/// Reads a text that is not `hookjail run --as`.
fn unconfined(text: &str) -> Reading {
    let is_of_a_word = |letter: char| letter.is_alphanumeric() || "/._-".contains(letter);
    let words = text.split(|letter| !is_of_a_word(letter));
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let runs = |(index, word): (usize, &&str)| {
        let name = Path::new(word).file_name();
        let next = words.get(index + 1);
        match name.and_then(|name| name.to_str()) {
            Some(THIN) => true,
            Some(WHOLE) => next.is_some_and(|next| *next == "run" || next.starts_with('-')),
            _ => false,
        }
    };
    if words.iter().enumerate().any(runs) {
        let why = "the line starts hookjail in another way than `hookjail install` does";
        return Reading::Doubtful(why.to_owned());
    }
    Reading::Plain
}

/// Returns whether words invoke `hookjail run --as`.
pub(super) fn is_confined(words: &[String]) -> bool {
    let Some((program, words)) = words.split_first() else {
        return false;
    };
    let name = Path::new(program).file_name();
    let options = match name.and_then(|name| name.to_str()) {
        Some(WHOLE) => words.strip_prefix(&["run".to_owned()]),
        Some(THIN) => Some(words),
        _ => None,
    };
    options
        .and_then(|words| words.first())
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

    fn confined() -> Reading {
        Reading::Confined("develop".to_owned())
    }

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
                // A shell's command that starts a shell may have been the inner shell's command alone.
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
    fn a_line_is_confined_if_install_writes_it_and_in_no_other_spelling() {
        let program = ["/opt/hook jail/hookjail-run".to_owned()];
        let variables = ["/usr/bin/env", "MODE=a b"].map(str::to_owned);
        let form = LineForm {
            point: Some("PreToolUse"),
            program: &program,
            variables: &variables,
            ..FORM
        };
        let reader = Reader {
            form: &form,
            is_profile: &|name| name == "develop",
            is_this: &|path| path == Path::new("/opt/hook jail/hookjail-run"),
            value: &|name| (name == "CLAUDE_PROJECT_DIR").then(|| "/p".to_owned()),
        };
        let guard = "\"$CLAUDE_PROJECT_DIR\"/guard.sh -x";
        let written = [
            form.of_line(guard, true),
            form.of_line("a | b;c", false),
            LineForm {
                timeout: Some(Duration::from_secs(10)),
                ..form.clone()
            }
            .of_line("ls", true),
        ];
        for line in written.map(Option::unwrap) {
            assert_eq!(reader.line(&line, true), confined(), "{line}");
            for other in [
                format!("{line}; id"),
                format!("{line}\nid"),
                format!("{line} $(id)"),
                format!("{line} \"$OTHER\""),
                line.replacen("--as ", "--as=", 1),
                line.replacen("claude-code", "codex", 1),
                line.replacen("--start", "--observe --start", 1),
                line.replacen("--start ", "", 1),
                line.replacen("develop", "nosuch", 1),
                line.replacen("PreToolUse", "PostToolUse", 1),
                line.replacen("--point PreToolUse ", "", 1),
                line.replacen("--timeout ", "--timeout 1", 1)
                    .replacen("s -", "0s -", 1),
                format!("cd /p && {line}"),
                format!("timeout 5 {line}"),
                format!("exec {line}"),
                format!("/bin/sh -c '{}'", line.replace('\'', "")),
                line.replacen(" --profile", "  --profile", 1),
                line.replacen(" --profile", ";x --profile", 1),
                line.replacen("'/opt/hook jail/", "/other/", 1)
                    .replacen('\'', "", 1),
            ] {
                assert!(
                    matches!(reader.line(&other, true), Reading::Doubtful(_)),
                    "{other}"
                );
            }
        }
        let line = form.of_line("ls", true).unwrap();
        let timed = |time: &str| reader.line(&line.replacen("57s", time, 1), true);
        assert_eq!(timed("59s"), confined());
        for time in ["0s", "60s", "9999h", "x"] {
            assert_ne!(timed(time), confined(), "{time}");
        }
        assert_ne!(timed("57s --timeout 1s"), confined());
        // An entry without a time of its own has the runtime's, which a time of the line's may exceed.
        let [untimed, unnamed] = [
            LineForm {
                timeout: None,
                ..form.clone()
            },
            LineForm {
                point: None,
                ..form.clone()
            },
        ];
        let read_as = |form, line: &str| Reader { form, ..reader }.line(line, true);
        assert_ne!(read_as(&untimed, &line), confined());
        let line = line.replacen("--timeout 57s ", "", 1);
        assert_eq!(read_as(&untimed, &line), confined());
        assert_ne!(read_as(&form, &line), confined());
        // The runtime names the points itself.
        assert_ne!(
            read_as(&unnamed, &form.of_line("ls", true).unwrap()),
            confined()
        );
        assert_eq!(
            read_as(&unnamed, &unnamed.of_line("ls", true).unwrap()),
            confined()
        );
        for plain in [
            "grep hookjail notes",
            "/opt/hookjail doctor",
            "/srv/hookjail/guard.sh",
            "echo no-hookjail-run.sh",
        ] {
            assert_eq!(reader.line(plain, true), Reading::Plain, "{plain}");
        }
        // Words to a runtime that has no shell.
        let split = form.of_line("a ;b", true).unwrap();
        assert_eq!(reader.line(&split, false), confined());
        assert_ne!(reader.line(&split, true), confined());
        let words = form.of_words(&["a;".to_owned(), "--".to_owned()]);
        assert_eq!(reader.words(&words), confined());
        assert_eq!(reader.words(&words[1..]), Reading::Plain);
        let behind = [&["env".to_owned()], &words[..]].concat();
        assert_ne!(reader.words(&behind), Reading::Plain);
        for (index, _) in words.iter().enumerate().take(9).skip(1) {
            let mut other = words.clone();
            other.remove(index);
            assert_ne!(reader.words(&other), confined(), "{other:?}");
        }
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
        let confined_for = |shell| {
            LineForm {
                program: &program,
                shell,
                ..FORM
            }
            .of_line(line, false)
            .unwrap()
        };
        let bash = confined_for(Some("/bin/bash"));
        assert!(
            bash.ends_with(" -- /bin/bash -c '[[ -f .env ]] && exit 2; exit 0'"),
            "{bash}"
        );
        assert_eq!(original(&bash, &[]).as_deref(), Some(line));
        assert!(confined_for(None).ends_with(" -- [[ -f .env ]] && exit 2; exit 0"));
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

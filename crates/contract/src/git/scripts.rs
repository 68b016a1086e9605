//! The files by which git starts its hooks confined: a configuration that names another directory of hooks, and the scripts in it.

use std::{ffi::OsString, path::Path, time::Duration};

use hookjail_base::util::units::Span;

/// The files at the top of a working tree in which managers of hooks define what their scripts run.
const DEFINITIONS: [&str; 14] = [
    ".config/lefthook.yml",
    ".lefthook-local.yml",
    ".lefthook.json",
    ".lefthook.toml",
    ".lefthook.yaml",
    ".lefthook.yml",
    ".pre-commit-config.yaml",
    ".pre-commit-config.yml",
    "lefthook-local.yml",
    "lefthook.json",
    "lefthook.toml",
    "lefthook.yaml",
    "lefthook.yml",
    "prek.toml",
];

/// The included configuration, relative to a working tree whose repository lies in it.
pub const CONFIGURATION: &str = ".git/hookjail/config";

/// The directory of the configuration and the scripts, below the repository.
pub const DIRECTORY: &str = "hookjail";

/// The directory of the scripts, below the repository.
pub const HOOKS: &str = "hookjail/hooks";

/// The section of the repository's configuration that includes the other one.
///
/// Its condition holds always: no program adds its own keys to a section of such a name.
pub const INCLUDE: &str = "[includeIf \"gitdir:/**\"]\n\tpath = hookjail/config\n";

/// The second line of each script.
const MARK: &str = "# Written by hookjail, which runs the hook of this name confined.\n";

/// The name of the script that hands arguments and variables to a hook.
pub const START: &str = "hookjail-start";

/// The points with a script even where there is no hook yet, so that one that is added later is refused and not passed over.
const AWAITED: [&str; 12] = [
    "applypatch-msg",
    "commit-msg",
    "post-checkout",
    "post-commit",
    "post-merge",
    "post-rewrite",
    "pre-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "prepare-commit-msg",
];

/// The points with a script where there is a hook. Their hooks cost time at every operation, or change what git does by being there.
const OTHERS: [&str; 16] = [
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-index-change",
    "post-receive",
    "post-update",
    "pre-auto-gc",
    "pre-receive",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

/// A part of the script that each manager of hooks writes, and its program.
const MANAGERS: [(&str, &str); 3] = [
    ("call_lefthook", "lefthook"),
    ("https://github.com/j178/prek", "prek"),
    ("https://pre-commit.com", "pre-commit"),
];

/// The largest number of arguments of a hook.
const MOST_ARGUMENTS: usize = 9;

/// The variables that git sets for its hooks: places in the repository, and names and dates of a commit. None names a program.
const VARIABLES: [&str; 14] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REFLOG_ACTION",
    "GIT_WORK_TREE",
];

/// Returns git's own name of a point; `None` for other files of a directory of hooks.
pub fn point(name: &str) -> Option<&'static str> {
    let mut known = AWAITED.iter().chain(&OTHERS);
    known.find(|known| **known == name).copied()
}

/// Returns the points that have a script, by the points that have a hook.
pub fn scripted<'a>(hooks: &'a [&'static str]) -> impl Iterator<Item = &'static str> + 'a {
    let is_awaited = |point: &&&str| AWAITED.contains(point);
    let others = hooks.iter().filter(move |point| !is_awaited(point));
    AWAITED.iter().chain(others).copied()
}

/// Returns the included configuration, which names the directory of the scripts.
pub fn configuration(hooks: &str) -> String {
    let quoted = hooks.replace('\\', "\\\\").replace('"', "\\\"");
    let quoted = quoted.replace('\n', "\\n").replace('\t', "\\t");
    format!("[core]\n\thooksPath = \"{quoted}\"\n")
}

/// The shell in whose words the definitions of a hook are named.
const BASH: &str = "/bin/bash";

/// Returns the command of a hook: `start` is the script that hands arguments to it.
///
/// The files in which a manager of hooks defines what the hook runs are named as files that a shell could read first. No
/// script's shell reads them, but a consent is bound to each file that an interpreter's options name. `is_there` returns
/// whether a path is a file.
pub fn command(
    (start, hook): (&Path, &Path),
    top: &Path,
    is_there: impl Fn(&Path) -> bool,
) -> Vec<OsString> {
    let hooks = hook.parent().filter(|it| it.ends_with("_"));
    // husky keeps its own scripts in `_`, and those of its users beside it.
    let of_husky = hooks.and_then(|hooks| {
        let users = hooks.parent()?.join(hook.file_name()?);
        Some([hooks.join("h"), users])
    });
    let at_top = DEFINITIONS.iter().map(|name| top.join(name));
    let all = of_husky.into_iter().flatten().chain(at_top);
    let existing = all.filter(|path| is_there(path));
    let mut words: Vec<OsString> = existing
        .flat_map(|path| ["--rcfile".into(), path.into_os_string()])
        .collect();
    if !words.is_empty() {
        words.insert(0, BASH.into());
    }
    words.extend([start, hook].map(OsString::from));
    words
}

/// The script of one point.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    /// The directory of the hooks, which is relative to where git starts them; `None` = the repository's own.
    pub former: Option<&'a str>,
    /// The profile of the hook.
    pub profile: &'a str,
    /// The words that start hookjail in a hook's place.
    pub program: &'a [String],
    /// The wall time of the hook.
    pub timeout: Duration,
}

impl Script<'_> {
    /// Returns the text; `None` where no shell can have the words.
    ///
    /// A hook's arguments and variables differ at each call, and a consent is to one command. So they are handed over by variables that
    /// every shipped profile admits.
    pub fn text(&self) -> Option<String> {
        let program = shlex::try_join(self.program.iter().map(String::as_str)).ok()?;
        let profile = shlex::try_quote(self.profile).ok()?;
        let timeout = Span(self.timeout);
        let directory = match self.former {
            None => format!("${{0%/{HOOKS}/*}}/hooks"),
            Some(absolute) if absolute.starts_with('/') => shlex::try_quote(absolute).ok()?.into(),
            Some(relative) => format!("$top/{}", shlex::try_quote(relative).ok()?),
        };
        let definitions = DEFINITIONS.map(|name| format!("\"$top/{name}\"")).join(" ");
        let arguments = numbered("HOOK_ARG_{}");
        let variables = VARIABLES.join(" ");
        Some(format!(
            "#!/bin/sh\n{MARK}\
             top=$(pwd -P)\n\
             hooks={directory}\n\
             hook=$hooks/${{0##*/}}\n\
             [ -x \"$hook\" ] || exit 0\n\
             unset {arguments}\n\
             export HOOK_ARGS=\"$#\"\n\
             number=0\n\
             for argument do number=$((number + 1)); export \"HOOK_ARG_$number=$argument\"; done\n\
             for name in {variables}; do\n\
             \x20 unset \"HOOK_$name\"\n\
             \x20 eval \"[ -z \\\"\\${{$name+x}}\\\" ] || export HOOK_$name=\\\"\\${{$name-}}\\\"\"\n\
             done\n\
             set --\n\
             case $hooks in */_) for file in \"$hooks/h\" \"${{hooks%/_}}/${{0##*/}}\"; do [ ! -f \"$file\" ] || set -- \"$@\" --rcfile \"$file\"; done ;; esac\n\
             for file in {definitions}; do [ ! -f \"$file\" ] || set -- \"$@\" --rcfile \"$file\"; done\n\
             [ \"$#\" = 0 ] || set -- {BASH} \"$@\"\n\
             exec {program} --as git --profile {profile} --timeout {timeout} --point \"${{0##*/}}\" --start -- \"$@\" \"${{0%/*}}/{START}\" \"$hook\"\n"
        ))
    }
}

/// Returns the text of the script that hands arguments and variables to a hook.
pub fn start() -> String {
    let arguments = numbered("${HOOK_ARG_{}+\"$HOOK_ARG_{}\"}");
    let variables = VARIABLES.join(" ");
    format!(
        "#!/bin/sh\n{MARK}\
         hook=$1\n\
         set -- {arguments}\n\
         [ \"$#\" = \"$HOOK_ARGS\" ] || {{ echo \"hookjail: $hook has more than {MOST_ARGUMENTS} arguments, or one that is not UTF-8\" >&2; exit 1; }}\n\
         for name in {variables}; do\n\
         \x20 eval \"[ -z \\\"\\${{HOOK_$name+x}}\\\" ] || export $name=\\\"\\${{HOOK_$name-}}\\\"; unset HOOK_$name\"\n\
         done\n\
         unset HOOK_ARGS {}\n\
         exec \"$hook\" \"$@\"\n",
        numbered("HOOK_ARG_{}")
    )
}

/// Returns a word for each argument, with its number in the place of `{}`.
fn numbered(word: &str) -> String {
    let numbers = 1..=MOST_ARGUMENTS;
    let words: Vec<_> = numbers
        .map(|number| word.replace("{}", &number.to_string()))
        .collect();
    words.join(" ")
}

/// Returns the program of the manager that wrote a hook, if one did.
pub fn manager(hook: &str) -> Option<&'static str> {
    let mut managers = MANAGERS.iter();
    let found = managers.find(|(part, _)| hook.contains(part));
    found.map(|(_, program)| *program)
}

/// Returns whether hookjail wrote a script, of any version, profile and hook.
pub fn is_written(text: &[u8]) -> bool {
    let rest = text.strip_prefix(b"#!/bin/sh\n");
    rest.is_some_and(|rest| rest.starts_with(MARK.as_bytes()))
}

/// Returns the profile that a script names.
pub fn profile(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(" --as git --profile ")?;
    rest.split(' ').next()
}

/// Returns a repository's configuration with the section that includes the other one; the same text where it is there.
///
/// A text whose last line has no end still has none.
pub fn included(configuration: &[u8]) -> Vec<u8> {
    if excluded(configuration).is_some() {
        return configuration.to_vec();
    }
    let mut text = configuration.to_vec();
    match text.last() {
        None | Some(b'\n') => text.extend(INCLUDE.as_bytes()),
        Some(_) => {
            text.push(b'\n');
            text.extend(INCLUDE.trim_end().as_bytes());
        }
    }
    text
}

/// Returns a repository's configuration without that section, as it was before; `None` where it is not there.
pub fn excluded(configuration: &[u8]) -> Option<Vec<u8>> {
    let without_end = INCLUDE.trim_end().as_bytes();
    if let Some(before) = configuration.strip_suffix(without_end) {
        return Some(before.strip_suffix(b"\n").unwrap_or(before).to_vec());
    }
    let whole = INCLUDE.as_bytes();
    let mut windows = configuration.windows(whole.len());
    let begin = windows.position(|window| window == whole)?;
    let (before, rest) = configuration.split_at_checked(begin)?;
    let is_line = before.last().is_none_or(|byte| *byte == b'\n');
    let after = rest.get(whole.len()..)?;
    is_line.then(|| [before, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adopt::{Adopted, Stakes};

    #[test]
    fn a_configuration_is_the_same_byte_for_byte_once_the_section_is_taken_away() {
        for before in [
            "",
            "[core]\n\tbare = false\n",
            "[core]\r\n\tbare = false",
            "[core]\n\thooksPath = .husky/_\n\n",
        ] {
            let with = included(before.as_bytes());
            assert_ne!(with, before.as_bytes());
            assert_eq!(included(&with), with);
            assert_eq!(excluded(&with).unwrap(), before.as_bytes());
            assert_eq!(excluded(before.as_bytes()), None);
            // Another program writes its own sections behind it.
            let more = [&with[..], b"\n[user]\n\tname = x\n"].concat();
            let rest = String::from_utf8(excluded(&more).unwrap()).unwrap();
            assert!(rest.ends_with("[user]\n\tname = x\n"), "{rest}");
            assert!(!rest.contains("hookjail"), "{rest}");
        }
    }

    #[test]
    fn every_point_that_stops_nothing_is_one_and_the_others_are_gates() {
        let git = Adopted::all().into_iter().find(|it| it.name == "git");
        let git = git.unwrap();
        for point in git.stops_nothing_at {
            assert_eq!(super::point(point), Some(*point));
            assert_eq!(git.stakes(Some(point)), Stakes::Nothing, "{point}");
        }
        for point in ["pre-commit", "pre-push", "commit-msg", "update", "unknown"] {
            assert_eq!(git.stakes(Some(point)), Stakes::Gate, "{point}");
        }
        assert_eq!(super::point("pre-commit.sample"), None);
    }

    #[test]
    fn a_script_names_its_profile_and_is_known_as_hookjails() {
        let program = ["/opt/hook jail/hookjail-run".to_owned()];
        let script = Script {
            former: Some("a b"),
            profile: "develop",
            program: &program,
            timeout: Duration::from_secs(1800),
        };
        let text = script.text().unwrap();
        assert!(is_written(text.as_bytes()) && is_written(start().as_bytes()));
        assert!(!is_written(b"#!/bin/sh\necho x\n"));
        assert_eq!(profile(&text), Some("develop"));
        assert!(text.contains("hooks=$top/'a b'\n"), "{text}");
        assert!(
            text.contains(
                "exec '/opt/hook jail/hookjail-run' --as git --profile develop --timeout 30m "
            ),
            "{text}"
        );
    }

    #[test]
    fn the_files_of_a_manager_of_hooks_are_named_before_the_hook() {
        let start = Path::new("/p/.git/hookjail/hooks/hookjail-start");
        let words = |hook: &str, existing: &[&str]| {
            let is_there = |path: &Path| existing.iter().any(|it| path == Path::new(it));
            let words = command((start, Path::new(hook)), Path::new("/p"), is_there);
            let words: Vec<_> = words.iter().map(|it| it.to_str().unwrap()).collect();
            words.join(" ")
        };
        let plain = "/p/.git/hooks/pre-commit";
        let start = start.display();
        assert_eq!(words(plain, &[]), format!("{start} {plain}"));
        assert_eq!(
            words(plain, &["/p/lefthook.yml", "/p/other.yml"]),
            format!("/bin/bash --rcfile /p/lefthook.yml {start} {plain}")
        );
        let husky = "/p/.husky/_/pre-commit";
        assert_eq!(
            words(husky, &["/p/.husky/_/h", "/p/.husky/pre-commit"]),
            format!(
                "/bin/bash --rcfile /p/.husky/_/h --rcfile /p/.husky/pre-commit {start} {husky}"
            )
        );
    }

    #[test]
    fn points_without_a_hook_have_a_script_where_a_hook_may_come_later() {
        let scripted: Vec<_> = scripted(&["pre-commit", "pre-receive"]).collect();
        assert_eq!(scripted.len(), AWAITED.len() + 1);
        assert!(scripted.contains(&"pre-receive") && scripted.contains(&"pre-push"));
    }
}

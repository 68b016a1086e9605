//! A project's own program that starts hookjail, for settings that are shared. The program has no user's path, and is a team's
//! answer for members without hookjail.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    env,
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use nix::libc;

use hookjail_client::{Failure, thin::THIN};
use hookjail_contract::{
    Registered,
    adopt::{Adopted, Stakes},
};

use super::{
    line,
    plan::{Planned, own_program},
    settings::{SettingsFile, files_at},
};

/// The name of the program, in the directory of the runtime's hooks, which no confined hook can change.
const NAME: &str = "hooks/hookjail.sh";

/// The name of that directory.
const HOOKS: &str = "hooks";

/// The directories in which it looks for hookjail, below the home or absolute. Directories of `PATH` may be a project's own.
const PLACES: [&str; 5] = [
    "$HOME/.cargo/bin",
    "$HOME/.local/bin",
    "/usr/local/bin",
    "/usr/bin",
    "/opt/homebrew/bin",
];

/// The program's text. Its first argument is the answer for those who have no hookjail.
fn program_text() -> String {
    let places: Vec<_> = PLACES.iter().map(|place| format!("\"{place}\"")).collect();
    format!(
        "#!/bin/sh\n\
         # By `hookjail install`: has the hooks of this project run in a sandbox. Without hookjail they end with $1, or run bare.\n\
         absent=$1\n\
         shift\n\
         for place in {}; do\n\
         \x20   if [ -x \"$place/{THIN}\" ]; then exec \"$place/{THIN}\" \"$@\"; fi\n\
         done\n\
         if [ \"$absent\" = {BARE} ]; then\n\
         \x20   echo 'hookjail is not installed: this hook runs UNCONFINED' >&2\n\
         \x20   while [ $# -gt 0 ] && [ \"$1\" != -- ]; do shift; done\n\
         \x20   shift\n\
         \x20   exec \"$@\"\n\
         fi\n\
         echo 'hookjail is not installed, and the hooks of this project run in it alone; install it' >&2\n\
         exit \"$absent\"\n",
        places.join(" ")
    )
}

/// The first argument with which hooks run without hookjail.
pub(super) const BARE: &str = "bare";

/// The exit code of a hook that denies.
const DENIAL: u8 = 2;

/// The answer of a project's hooks where there is no hookjail.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Absent {
    /// They run without any confinement, with a warning on stderr
    Bare,
    /// Each that guards is a denial
    Deny,
}

impl Absent {
    /// Returns the program's first argument in the line of a hook.
    fn argument(self, runtime: Adopted, point: &str) -> String {
        match self {
            Self::Bare => BARE.to_owned(),
            Self::Deny => match runtime.stakes(Some(point)) {
                Stakes::Gate => DENIAL.to_string(),
                Stakes::GoOn | Stakes::Nothing => runtime.failed(Some(point), "").code.to_string(),
            },
        }
    }
}

/// The projects whose lines start hookjail by a program of their own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Sharing {
    /// Projects whose settings are committed, or name that program already.
    Committed,
    /// All projects.
    Each(Absent),
    /// No project.
    Nowhere,
}

impl Sharing {
    /// Returns the sharing that a user asked for.
    ///
    /// # Errors
    ///
    /// Fails where the program would not find this hookjail.
    pub(super) fn requested(absent: Absent, home: Option<&Path>) -> Result<Self, Failure> {
        match out_of_place(home)? {
            None => Ok(Self::Each(absent)),
            Some(why) => Err(Failure::new(format!("nothing was changed: {why}"))),
        }
    }

    /// Returns the sharing where a user asked for none: the program has to find this hookjail.
    pub(super) fn by_default(home: Option<&Path>) -> Self {
        match out_of_place(home) {
            Ok(None) => Self::Committed,
            Ok(Some(_)) | Err(_) => Self::Nowhere,
        }
    }

    /// Returns the program's first argument in the new line of a hook, if it is to begin with the program.
    pub(super) fn argument(self, file: &SettingsFile, point: &str) -> Option<String> {
        let absent = match self {
            Self::Each(absent) => Some(absent),
            Self::Nowhere => None,
            Self::Committed => {
                let named = SharedProgram::named_answer(file.text());
                named.or_else(|| file.is_committed().then_some(Absent::Deny))
            }
        };
        Some(absent?.argument(file.runtime(), point))
    }

    /// Checks the program's first argument in a confined line, if the line begins with it.
    ///
    /// # Errors
    ///
    /// Returns why the line is not as the user asked for.
    pub(super) fn check(
        self,
        argument: Option<&str>,
        runtime: Adopted,
        point: &str,
    ) -> Result<(), String> {
        let Self::Each(absent) = self else {
            return Ok(());
        };
        let has = match argument {
            None => "names one user's hookjail",
            Some(argument) if argument == absent.argument(runtime, point) => return Ok(()),
            Some(_) => "has another answer where hookjail is not installed",
        };
        Err(format!("its line {has}; put it back first: --uninstall"))
    }
}

/// The program of a project and a runtime.
pub(super) struct SharedProgram {
    /// The place in the project.
    below: String,
    path: PathBuf,
    /// The settings whose lines may begin with it, as the runtime names them.
    settings: Vec<PathBuf>,
    /// The program as a shell's line of the runtime spells it.
    spelled: String,
}

impl SharedProgram {
    /// Returns the program of a file of settings; `None` where they are the user's, or the runtime names no variable for the project.
    pub(super) fn of_settings(file: &SettingsFile, runtime: Adopted) -> Option<Self> {
        let mut program = Self::of_project(&file.project, runtime).filter(|_| file.is_projects)?;
        program.settings.push(file.path.clone());
        Some(program)
    }

    /// Returns the program of a project's settings; `None` where the runtime names no variable for the project.
    pub(super) fn of_project(project: &Path, runtime: Adopted) -> Option<Self> {
        let settings = Path::new(runtime.settings.project.first()?);
        let directory = settings.parent()?;
        let around = match directory.ends_with(HOOKS) {
            true => directory.parent()?,
            false => directory,
        };
        let below = around.join(NAME).to_str()?.to_owned();
        let variable = runtime.project_variables().next()?;
        let all = runtime.settings.project.iter();
        let all = all.map(|name| project.join(name));
        Some(Self {
            path: project.join(&below),
            settings: all.collect(),
            spelled: format!("\"${variable}\"/{below}"),
            below,
        })
    }

    /// Returns its place in the project.
    pub(super) fn below(&self) -> &str {
        &self.below
    }

    /// Returns a line with hookjail's own program instead of this one.
    pub(super) fn without<'a>(&self, line: &'a str, program: &str) -> Cow<'a, str> {
        match self.arguments(line) {
            None => Cow::Borrowed(line),
            Some((_, rest)) => Cow::Owned(format!("{program} {rest}")),
        }
    }

    /// Returns the program's first argument in a line that begins with it.
    pub(super) fn argument<'a>(&self, line: &'a str) -> Option<&'a str> {
        Some(self.arguments(line)?.0)
    }

    /// Checks that a line which begins with this program starts hookjail.
    ///
    /// # Errors
    ///
    /// Returns the reason where it is not as hookjail writes it.
    pub(super) fn check(&self, line: &str) -> Result<(), String> {
        match !line.starts_with(&self.spelled) || (self.begins(line) && self.is_there()) {
            true => Ok(()),
            false => Err(format!(
                "the command is NOT confined for certain: `{}` is not as `hookjail install --shared` writes it; write it again",
                self.path.display()
            )),
        }
    }

    /// Returns a confined line with this program instead of hookjail's own.
    pub(super) fn within(&self, line: &str, program: &str, argument: &str) -> Option<String> {
        let rest = line.strip_prefix(program)?.strip_prefix(' ')?;
        Some(format!("{} {argument} {rest}", self.spelled))
    }

    /// Returns whether a line begins with this program.
    pub(super) fn begins(&self, line: &str) -> bool {
        self.arguments(line).is_some()
    }

    /// Returns the first argument of the program in a line that begins with it, and those of hookjail.
    fn arguments<'a>(&self, line: &'a str) -> Option<(&'a str, &'a str)> {
        let rest = line.strip_prefix(&self.spelled)?.strip_prefix(' ')?;
        let (first, rest) = rest.split_once(' ')?;
        let is_answer = first == BARE || first.parse::<u8>().is_ok();
        is_answer.then_some((first, rest))
    }

    /// Returns the answer that lines of a file with this program have.
    fn named_answer(text: &str) -> Option<Absent> {
        if text.contains(&format!("{NAME} {BARE} ")) {
            return Some(Absent::Bare);
        }
        text.contains(&format!("{NAME} ")).then_some(Absent::Deny)
    }

    /// Returns whether it is there as hookjail writes it, and executable.
    fn is_there(&self) -> bool {
        let mut options = OpenOptions::new();
        let options = options.read(true).custom_flags(libc::O_NOFOLLOW);
        let read = || -> io::Result<bool> {
            let file = options.open(&self.path)?;
            let mode = std::os::unix::fs::MetadataExt::mode(&file.metadata()?);
            let (expected, mut text) = (program_text(), String::new());
            file.take(expected.len() as u64 + 1)
                .read_to_string(&mut text)?;
            Ok(mode & 0o111 != 0 && expected == text)
        };
        read().unwrap_or_default()
    }

    /// Writes it, over one that hookjail wrote and no other file.
    ///
    /// # Errors
    ///
    /// Fails where there is another file, or it cannot be written.
    pub(super) fn write(&self) -> Result<(), Failure> {
        let shown = self.path.display();
        let failed = |error: io::Error| Failure::new(format!("cannot write `{shown}`: {error}"));
        if self.is_there() {
            fs::remove_file(&self.path).map_err(failed)?;
        }
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(&self.path)
            .map_err(failed)?;
        file.write_all(program_text().as_bytes()).map_err(failed)
    }

    /// Returns the programs that the changed lines of plans begin with.
    pub(super) fn needed<'a>(
        planned: impl IntoIterator<Item = &'a Planned>,
        runtime: Adopted,
    ) -> BTreeMap<PathBuf, Self> {
        let needed = planned.into_iter().filter_map(|it| {
            let program = Self::of_settings(&it.file, runtime)?;
            let mut changes = it.changes().filter(|it| !it.edits.is_empty());
            let is_named = changes.any(|it| program.begins(&it.after));
            is_named.then(|| (program.path.clone(), program))
        });
        needed.collect()
    }

    /// Removes it where hookjail wrote it and no line of the project's settings begins with it.
    pub(super) fn remove_unused(&self) {
        let is_in = |settings: &PathBuf| match fs::read_to_string(settings) {
            Ok(text) => text.contains(NAME),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        let is_named = self
            .settings
            .iter()
            .flat_map(|it| files_at(it))
            .any(|it| is_in(&it));
        if !is_named && self.is_there() {
            // A file that cannot be removed stays, and starts nothing.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Returns the command that a confined line of a hook runs, and the profile that the line names; `None` where it is none.
pub(in crate::cli) fn original_line(
    line: &str,
    hook: &Registered,
    (project, runtime): (&Path, Adopted),
) -> Option<(String, Option<String>)> {
    let shared = SharedProgram::of_project(project, runtime).zip(own_program());
    let line = match &shared {
        Some((shared, program)) => shared.without(line, program),
        None => Cow::Borrowed(line),
    };
    let command = line::original(&line, &line::variables(&hook.configured_env))?;
    let profile = shlex::split(&line).and_then(|words| line::named_profile(&words));
    Some((command, profile))
}

/// Returns the program and arguments that confined words of a hook run, and the profile that they name; `None` where they are none.
pub(in crate::cli) fn original_words(
    words: &[String],
    hook: &Registered,
) -> Option<(Vec<String>, Option<String>)> {
    let command = line::original_words(words, &line::variables(&hook.configured_env))?;
    Some((command.to_vec(), line::named_profile(words)))
}

/// Returns why a team's program would not find this hookjail, if so.
fn out_of_place(home: Option<&Path>) -> io::Result<Option<String>> {
    let program = env::current_exe()?.with_file_name(THIN);
    let home = home.map(|home| home.display().to_string());
    let places = PLACES
        .iter()
        .filter_map(|place| match place.strip_prefix("$HOME") {
            Some(below) => home.as_ref().map(|home| format!("{home}{below}")),
            None => Some((*place).to_owned()),
        });
    let mut places = places.map(|place| Path::new(&place).join(THIN));
    let found = places.any(|place| {
        let found = place.canonicalize();
        found.is_ok_and(|found| {
            program
                .canonicalize()
                .is_ok_and(|resolved| resolved == found)
        })
    });
    Ok((!found).then(|| {
        format!(
            "a shared program looks for {THIN} in {}; link this one there: {}",
            PLACES.join(", "),
            program.display()
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(project: &Path) -> SharedProgram {
        SharedProgram {
            below: ".claude/hooks/hookjail.sh".to_owned(),
            path: project.join(".claude/hooks/hookjail.sh"),
            settings: ["a.json", "b.json"].map(|it| project.join(it)).to_vec(),
            spelled: "\"$PROJECT\"/.claude/hooks/hookjail.sh".to_owned(),
        }
    }

    #[test]
    fn a_line_begins_with_the_program_only_where_hookjail_wrote_that() {
        let project = tempfile::tempdir().unwrap();
        let shared = program(project.path());
        let thin = "/usr/bin/hookjail-run";
        let confined = format!("{thin} --as x --start -- ./a.sh");
        for argument in ["2", BARE] {
            let line = shared.within(&confined, thin, argument).unwrap();
            let begin = format!("\"$PROJECT\"/.claude/hooks/hookjail.sh {argument} ");
            assert_eq!(line, format!("{begin}--as x --start -- ./a.sh"));
            assert_eq!(shared.without(&line, thin), confined);
            assert_eq!(shared.argument(&line), Some(argument));
        }
        assert_eq!(shared.without("./a.sh", thin), "./a.sh");
        let line = shared.within(&confined, thin, "2").unwrap();
        shared.check(&line).unwrap_err();
        shared.write().unwrap();
        shared.write().unwrap();
        shared.check(&line).unwrap();
        for other in [
            "",
            " ",
            " deny --as x",
            " --as x --start -- ./a.sh",
            "x 2 --as",
        ] {
            let other = format!("{}{other}", shared.spelled);
            assert!(!shared.begins(&other), "{other}");
            shared.check(&other).unwrap_err();
        }
        // Changed, not executable, or a link.
        let text = program_text();
        fs::write(&shared.path, text.replace("exit ", "echo ")).unwrap();
        shared.check(&line).unwrap_err();
        shared.write().unwrap_err();
        fs::remove_file(&shared.path).unwrap();
        fs::write(project.path().join("other"), &text).unwrap();
        std::os::unix::fs::symlink(project.path().join("other"), &shared.path).unwrap();
        shared.check(&line).unwrap_err();
        fs::remove_file(&shared.path).unwrap();
        fs::write(&shared.path, &text).unwrap();
        shared.check(&line).unwrap_err();
    }

    /// Without hookjail a guard denies, and a hook that can stop nothing, or keeps the agent working, ends as one that failed.
    #[test]
    fn only_a_guard_denies_where_hookjail_is_absent() {
        let of_claude = |point| {
            let runtime = Adopted::all()
                .into_iter()
                .find(|it| it.name == "claude-code");
            Absent::Deny.argument(runtime.unwrap(), point)
        };
        for (point, argument) in [
            ("PreToolUse", "2"),
            ("UserPromptSubmit", "2"),
            ("Stop", "0"),
            ("SubagentStop", "0"),
            ("SessionStart", "125"),
            ("Notification", "125"),
        ] {
            assert_eq!(of_claude(point), argument, "{point}");
        }
        for runtime in Adopted::all() {
            for point in runtime.mode.facts().points {
                let argument = Absent::Deny.argument(runtime, point.name);
                let is_gate = runtime.stakes(Some(point.name)) == Stakes::Gate;
                assert_eq!(argument == "2", is_gate, "{} {}", runtime.name, point.name);
                assert_eq!(Absent::Bare.argument(runtime, point.name), BARE);
            }
        }
    }

    #[test]
    fn it_goes_with_the_last_line_of_the_project_that_names_it() {
        let project = tempfile::tempdir().unwrap();
        let shared = program(project.path());
        shared.write().unwrap();
        fs::write(&shared.settings[0], &shared.spelled).unwrap();
        fs::write(&shared.settings[1], "{}").unwrap();
        shared.remove_unused();
        assert!(shared.is_there());
        fs::remove_file(&shared.settings[0]).unwrap();
        shared.remove_unused();
        assert!(!shared.path.exists());
    }
}

//! A project's own program that starts hookjail, for settings that are shared: it has no user's path, and is a team's answer for
//! those who have no hookjail.

use std::{
    borrow::Cow,
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use nix::libc;

use hookjail_client::{Failure, thin::THIN};
use hookjail_contract::adopt::Adopted;

use super::settings::SettingsFile;

/// The name of the program, in the directory of the runtime's hooks, which no confined hook can change.
const NAME: &str = "hooks/hookjail.sh";

/// The directories in which it looks for hookjail, below the home or absolute. Those of `PATH` may be a project's own.
const PLACES: [&str; 5] = [
    "$HOME/.cargo/bin",
    "$HOME/.local/bin",
    "/usr/local/bin",
    "/usr/bin",
    "/opt/homebrew/bin",
];

/// The answer of a project's hooks where there is no hookjail.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Absent {
    /// They run without any confinement, with a warning on stderr
    Bare,
    /// Each is a denial
    Deny,
}

impl Absent {
    const ALL: [Self; 2] = [Self::Bare, Self::Deny];

    /// Returns the text of the program.
    fn text(self) -> String {
        let (words, end) = match self {
            Self::Bare => (
                "run them unconfined",
                "echo 'hookjail is not installed: this hook runs UNCONFINED' >&2\n\
                 while [ $# -gt 0 ] && [ \"$1\" != -- ]; do shift; done\n\
                 shift\n\
                 exec \"$@\"\n",
            ),
            Self::Deny => (
                "deny",
                "echo 'hookjail is not installed, and the hooks of this project run in it alone; install it' >&2\n\
                 exit 2\n",
            ),
        };
        let places: Vec<_> = PLACES.iter().map(|place| format!("\"{place}\"")).collect();
        format!(
            "#!/bin/sh\n\
             # By `hookjail install --shared`: has the hooks of this project run in a sandbox. Those who have no hookjail {words}.\n\
             for place in {}; do\n\
             \x20   if [ -x \"$place/{THIN}\" ]; then exec \"$place/{THIN}\" \"$@\"; fi\n\
             done\n\
             {end}",
            places.join(" ")
        )
    }
}

/// The program of a project and a runtime.
pub(super) struct SharedProgram {
    path: PathBuf,
    /// The settings whose lines may begin with it.
    settings: Vec<PathBuf>,
    /// The program as a shell's line of the runtime spells it.
    spelled: String,
}

impl SharedProgram {
    /// Returns the program of a file of settings; `None` where they are the user's, or the runtime names no variable for the project.
    pub(super) fn of_settings(file: &SettingsFile, runtime: Adopted) -> Option<Self> {
        let settings = Path::new(runtime.settings.project.first()?);
        let directory = settings.parent().filter(|_| file.is_projects)?;
        let below = directory.join(NAME).to_str()?.to_owned();
        let variable = runtime.project_variables().next()?;
        let all = runtime.settings.project.iter();
        let all = all.map(|name| file.project.join(name));
        Some(Self {
            path: file.project.join(&below),
            settings: all.chain([file.path.clone()]).collect(),
            spelled: format!("\"${variable}\"/{below}"),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a line with hookjail's own program instead of this one.
    pub(super) fn without<'a>(&self, line: &'a str, own: &str) -> Cow<'a, str> {
        match self.arguments(line) {
            None => Cow::Borrowed(line),
            Some(rest) => Cow::Owned(format!("{own} {rest}")),
        }
    }

    /// Checks that a line which begins with this program starts hookjail.
    ///
    /// # Errors
    ///
    /// Returns the reason where it is not as hookjail writes it.
    pub(super) fn check(&self, line: &str) -> Result<(), String> {
        match self.arguments(line).is_none() || self.is_there() {
            true => Ok(()),
            false => Err(format!(
                "it is NOT confined for certain: `{}` is not as `hookjail install --shared` writes it; write it again",
                self.path.display()
            )),
        }
    }

    /// Returns a confined line with this program instead of hookjail's own.
    pub(super) fn within(&self, line: &str, own: &str) -> Option<String> {
        let rest = line.strip_prefix(own)?.strip_prefix(' ')?;
        Some(format!("{} {rest}", self.spelled))
    }

    /// Returns whether a line begins with this program.
    pub(super) fn begins(&self, line: &str) -> bool {
        self.arguments(line).is_some()
    }

    fn arguments<'a>(&self, line: &'a str) -> Option<&'a str> {
        line.strip_prefix(&self.spelled)?.strip_prefix(' ')
    }

    /// Checks that it is not there with another answer.
    ///
    /// # Errors
    ///
    /// Fails where it has another answer for those without hookjail.
    pub(super) fn check_answer(&self, absent: Absent) -> Result<(), Failure> {
        match self.found().is_none_or(|found| found == absent) {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "nothing was changed: `{}` has another answer where hookjail is not installed; put its lines back first: --uninstall",
                self.path.display()
            ))),
        }
    }

    fn is_there(&self) -> bool {
        self.found().is_some()
    }

    /// Returns its answer, if it is there as hookjail writes it, and executable.
    fn found(&self) -> Option<Absent> {
        let mut options = OpenOptions::new();
        let options = options.read(true).custom_flags(libc::O_NOFOLLOW);
        let read = || -> io::Result<Option<Absent>> {
            let file = options.open(&self.path)?;
            let mode = std::os::unix::fs::MetadataExt::mode(&file.metadata()?);
            let mut text = String::new();
            let longest = Absent::ALL.map(|absent| absent.text().len());
            let longest = longest.into_iter().max().unwrap_or_default() as u64 + 1;
            file.take(longest).read_to_string(&mut text)?;
            let mut found = Absent::ALL.into_iter();
            Ok(found.find(|absent| mode & 0o111 != 0 && absent.text() == text))
        };
        read().ok().flatten()
    }

    /// Writes it, over one that hookjail wrote and no other file.
    ///
    /// # Errors
    ///
    /// Fails where there is another file, or it cannot be written.
    pub(super) fn write(&self, absent: Absent) -> Result<(), Failure> {
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
        file.write_all(absent.text().as_bytes()).map_err(failed)
    }

    /// Removes it where hookjail wrote it and no line of the project's settings begins with it.
    pub(super) fn remove_unused(&self) {
        let is_in = |settings: &PathBuf| match fs::read_to_string(settings) {
            Ok(text) => text.contains(NAME),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        let is_named = self.settings.iter().any(is_in);
        if !is_named && self.is_there() {
            // It stays where it cannot be removed, and starts nothing.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Returns why a team's program would not find this hookjail, if so.
pub(super) fn out_of_place(program: &Path, home: Option<&Path>) -> Option<String> {
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
        found.is_ok_and(|found| program.canonicalize().is_ok_and(|own| own == found))
    });
    (!found).then(|| {
        format!(
            "a shared program looks for {THIN} in {}; link this one there: {}",
            PLACES.join(", "),
            program.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(project: &Path) -> SharedProgram {
        SharedProgram {
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
        let line = shared.within(&confined, thin).unwrap();
        assert_eq!(
            line,
            "\"$PROJECT\"/.claude/hooks/hookjail.sh --as x --start -- ./a.sh"
        );
        assert_eq!(shared.without(&line, thin), confined);
        assert_eq!(shared.without("./a.sh", thin), "./a.sh");
        shared.check(&line).unwrap_err();
        for absent in Absent::ALL {
            shared.write(absent).unwrap();
            shared.check(&line).unwrap();
        }
        // Changed, not executable, or a link.
        let text = Absent::Deny.text();
        fs::write(&shared.path, text.replace("exit 2", "exit 0")).unwrap();
        shared.check(&line).unwrap_err();
        shared.write(Absent::Deny).unwrap_err();
        fs::remove_file(&shared.path).unwrap();
        fs::write(project.path().join("other"), &text).unwrap();
        std::os::unix::fs::symlink(project.path().join("other"), &shared.path).unwrap();
        shared.check(&line).unwrap_err();
        fs::remove_file(&shared.path).unwrap();
        fs::write(&shared.path, &text).unwrap();
        shared.check(&line).unwrap_err();
    }

    #[test]
    fn it_goes_with_the_last_line_of_the_project_that_names_it() {
        let project = tempfile::tempdir().unwrap();
        let shared = program(project.path());
        shared.write(Absent::Bare).unwrap();
        fs::write(&shared.settings[0], &shared.spelled).unwrap();
        fs::write(&shared.settings[1], "{}").unwrap();
        shared.remove_unused();
        assert!(shared.is_there());
        fs::remove_file(&shared.settings[0]).unwrap();
        shared.remove_unused();
        assert!(!shared.path.exists());
    }
}

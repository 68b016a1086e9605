//! A repository whose hooks are confined: git's reports of it, and the files that are written in it.

use std::{
    env,
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use nix::unistd::{AccessFlags, access, geteuid};

use hookjail_base::util::trusted_file;
use hookjail_client::Failure;
use hookjail_contract::git::scripts;

/// The names below the repository of the file that git reads, and of the one by which git locks it.
const CONFIGURATION: [&str; 2] = ["config", "config.lock"];

/// A repository, and where git takes its hooks from.
pub(super) struct Repository {
    /// The part that all working trees share.
    pub(super) common: PathBuf,
    /// The directory of hooks without hookjail, as configured; `None` = the repository's own.
    pub(super) former: Option<String>,
    /// Whether git takes its hooks from hookjail's directory.
    pub(super) is_active: bool,
    /// The main working tree, else the one that was named, else the repository.
    pub(super) project: PathBuf,
}

impl Repository {
    /// Finds the repository of a directory, as git does; `None` where git finds none.
    ///
    /// # Errors
    ///
    /// Fails where git cannot be started, or refuses the configuration.
    pub(super) fn find(directory: &Path) -> Result<Option<Self>, Failure> {
        let common = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let Some(common) = line(&ask(directory, &common)?) else {
            return Ok(None);
        };
        let common = common.canonicalize()?;
        let main = common.parent().filter(|_| common.ends_with(".git"));
        let project = match main {
            Some(main) => main.to_owned(),
            None => {
                let top = ["rev-parse", "--show-toplevel"];
                let top = line(&ask(directory, &top)?);
                top.map_or_else(|| Ok(common.clone()), |top| top.canonicalize())?
            }
        };
        let question = [
            "config",
            "--null",
            "--type=path",
            "--get-all",
            "core.hooksPath",
        ];
        let output = ask(directory, &question)?;
        // 1: there is no value.
        if !matches!(output.status.code(), Some(0 | 1)) {
            return Err(failed(&output));
        }
        let values = output.stdout.split(|byte| *byte == 0);
        let values = values.filter(|value| !value.is_empty());
        let values: Vec<_> = values
            .map(|value| Path::new(OsStr::from_bytes(value)))
            .collect();
        let scripts = common.join(scripts::HOOKS);
        let is_active = values.last() == Some(&scripts.as_path());
        let mut others = values.into_iter().filter(|value| *value != scripts);
        let former = others.next_back().map(|value| {
            let text = value.to_str().map(str::to_owned);
            text.ok_or_else(|| Failure::new("`core.hooksPath` is not UTF-8"))
        });
        Ok(Some(Self {
            former: former.transpose()?,
            common,
            is_active,
            project,
        }))
    }

    /// Returns the file whose section includes hookjail's configuration.
    pub(super) fn configuration(&self) -> PathBuf {
        self.common.join(CONFIGURATION[0])
    }

    /// Returns the directory of the scripts that start hooks confined.
    pub(super) fn scripts(&self) -> PathBuf {
        self.common.join(scripts::HOOKS)
    }

    /// Returns the directory of the hooks themselves.
    pub(super) fn hooks(&self) -> PathBuf {
        match &self.former {
            None => self.common.join("hooks"),
            Some(former) => self.project.join(former),
        }
    }

    /// Returns the points that have a hook, which git would start.
    pub(super) fn points(&self) -> Vec<&'static str> {
        let directory = self.hooks();
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let points = entries.filter_map(|entry| scripts::point(entry.file_name().to_str()?));
        let is_started = |point: &&str| {
            let path = directory.join(point);
            path.is_file() && access(&path, AccessFlags::X_OK).is_ok()
        };
        let mut points: Vec<_> = points.filter(is_started).collect();
        points.sort_unstable();
        points
    }

    /// Returns whether hookjail's files are there, in use or not.
    pub(super) fn is_installed(&self) -> bool {
        self.common
            .join(scripts::DIRECTORY)
            .symlink_metadata()
            .is_ok()
    }

    /// Returns a script in the directory of scripts; `None` where it is not there.
    pub(super) fn script(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.scripts().join(name)).ok()
    }

    /// Returns why nothing can be written, if so.
    pub(super) fn why_kept(&self) -> Option<String> {
        let path = self.configuration();
        let shown = path.display();
        let found = match path.symlink_metadata() {
            Ok(found) => found,
            Err(error) => return Some(format!("cannot examine `{shown}`: {error}")),
        };
        if !found.is_file() {
            return Some(format!("`{shown}` is no regular file; put one there"));
        }
        let owner = found.uid();
        (owner != geteuid().as_raw())
            .then(|| format!("`{shown}` belongs to uid {owner}; install as that user"))
    }

    /// Writes the scripts, each with its name and its text, and only then the section that has git use them.
    ///
    /// # Errors
    ///
    /// Fails where a file cannot be written.
    pub(super) fn write(&self, texts: &[(&str, String)]) -> Result<(), Failure> {
        let directory = self.scripts();
        trusted_file::directory(&directory).map_err(|error| unwritten(&directory, &error))?;
        for (name, text) in texts {
            let path = directory.join(name);
            let written = trusted_file::replace(&path, text.as_bytes(), 0o755);
            written.map_err(|error| unwritten(&path, &error))?;
        }
        let shown = directory.to_str();
        let shown = shown.ok_or_else(|| Failure::new("the repository's path is not UTF-8"))?;
        let path = self.common.join(scripts::DIRECTORY).join("config");
        let text = scripts::configuration(shown);
        let written = trusted_file::replace(&path, text.as_bytes(), 0o644);
        written.map_err(|error| unwritten(&path, &error))?;
        self.edit(|before| Some(scripts::included(before)))
    }

    /// Takes the section and hookjail's files away. Returns the files of others that stay.
    ///
    /// # Errors
    ///
    /// Fails where a file cannot be changed or removed.
    pub(super) fn put_back(&self) -> Result<Vec<PathBuf>, Failure> {
        self.edit(scripts::excluded)?;
        let mut stay = Vec::new();
        for entry in fs::read_dir(self.scripts()).into_iter().flatten() {
            let path = entry?.path();
            match fs::read(&path) {
                Ok(text) if scripts::is_written(&text) => fs::remove_file(&path)?,
                Ok(_) | Err(_) => stay.push(path),
            }
        }
        let directory = self.common.join(scripts::DIRECTORY);
        if stay.is_empty() && directory.symlink_metadata().is_ok() {
            for result in [
                fs::remove_file(directory.join("config")),
                fs::remove_dir(self.scripts()),
                fs::remove_dir(&directory),
            ] {
                match result {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(unwritten(&directory, &error));
                    }
                    Ok(()) | Err(_) => {}
                }
            }
        }
        Ok(stay)
    }

    /// Changes the repository's configuration under git's own lock.
    fn edit(&self, change: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Result<(), Failure> {
        let [path, lock] = CONFIGURATION.map(|name| self.common.join(name));
        let edited = || -> io::Result<()> {
            let mode = path.metadata()?.permissions().mode() & 0o777;
            let mut options = OpenOptions::new();
            let options = options.write(true).create_new(true).mode(mode);
            let mut locked = options.open(&lock)?;
            let written = write_changed(&path, &mut locked, change);
            match written {
                Ok(true) => fs::rename(&lock, &path),
                Ok(false) => fs::remove_file(&lock),
                Err(error) => {
                    drop(fs::remove_file(&lock));
                    Err(error)
                }
            }
        };
        edited().map_err(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                let lock = lock.display();
                return Failure::new(format!(
                    "`{lock}` is git's lock; try again, or remove it where no git runs"
                ));
            }
            unwritten(&path, &error)
        })
    }
}

/// Writes the changed text of a file into another. Returns whether it differs.
fn write_changed(
    path: &Path,
    locked: &mut File,
    change: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> io::Result<bool> {
    let before = fs::read(path)?;
    match change(&before) {
        Some(after) if after != before => {
            locked.write_all(&after)?;
            locked.sync_all()?;
            Ok(true)
        }
        Some(_) | None => Ok(false),
    }
}

fn unwritten(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("cannot write `{}`: {error}", path.display()))
}

/// Asks git about a directory. No variable of the caller's but the places of its home reaches it, and it starts nothing of the repository's.
#[expect(
    clippy::disallowed_methods,
    reason = "git, which runs nothing of the project's for this"
)]
fn ask(directory: &Path, question: &[&str]) -> Result<Output, Failure> {
    let kept = ["HOME", "PATH", "XDG_CONFIG_HOME"];
    let kept = kept
        .into_iter()
        .filter_map(|name| Some((name, env::var_os(name)?)));
    let mut git = Command::new("git");
    git.args(["-c", "core.fsmonitor=false"]).args(question);
    git.env_clear().envs(kept).env("LC_ALL", "C");
    git.current_dir(directory).stdin(Stdio::null());
    let output = git.output();
    output.map_err(|error| Failure::new(format!("cannot start git: {error}")))
}

/// Returns the path that git prints; `None` where it fails.
fn line(output: &Output) -> Option<PathBuf> {
    let text = output.stdout.strip_suffix(b"\n");
    let text = text.filter(|text| output.status.success() && !text.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(text)))
}

fn failed(output: &Output) -> Failure {
    let stderr = String::from_utf8_lossy(&output.stderr);
    Failure::new(format!("git refuses the repository: {}", stderr.trim()))
}

//! Reads and writes the files in which runtimes keep their hooks.

use std::{
    cell::OnceCell,
    collections::BTreeSet,
    env,
    ffi::OsStr,
    fs::{self, File, Metadata},
    io,
    ops::Range,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Component, Path, PathBuf},
    process::{self, Stdio},
};

use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag},
    sys::stat::Mode,
    unistd::{AccessFlags, UnlinkatFlags, faccessat, geteuid, mkdtemp, unlinkat},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use hookjail_base::{
    model::json,
    util::trusted_file::{self, Untrusted},
};
use hookjail_client::Failure;
use hookjail_contract::{
    Registered,
    adopt::Adopted,
    hook_file::{MAX_BYTES, Origin, ReadError, Switches, read_each},
    words::words,
};
use hookjail_policy::environment;
use hookjail_sys::{Links, locate, open_beneath};

use super::{
    edit::{self, Edit, Syntax},
    line::may_have_been,
    shared::original_line,
    sources::Unread,
};
use crate::cli::{
    Context,
    declared::{Declarations, files_of},
};
use hookjail_daemon::{
    config::Config,
    hooks::load::{bounded, peek},
};
use hookjail_sandbox as sandbox;

/// A file of settings as it was read.
pub(super) struct SettingsFile {
    /// The directory where relative ones in it start: the project, or the user's home.
    pub(super) base: PathBuf,
    /// The path of its backup, out of the reach of projects and hooks.
    backup: PathBuf,
    /// The directory that the file was read from, and is written to even if another directory has the path later.
    directory: File,
    /// Owner and mode of the file, or of its directory where the file is made.
    metadata: Metadata,
    syntax: Syntax,
    switches: Switches,
    home: Option<PathBuf>,
    /// Whether it is not there yet, and is made.
    is_new: bool,
    pub(super) path: PathBuf,
    /// The text with comments blanked, where the runtime accepts comments.
    plain: String,
    /// The directory of the plugin whose hooks it has, if it is a plugin's file.
    plugin: Option<PathBuf>,
    /// The directory in which `install` was called.
    pub(super) project: PathBuf,
    /// The directory in which its guards are rehearsed: `project`, if that can be a workspace.
    pub(super) rehearsed_in: PathBuf,
    /// Whether the file belongs to that project.
    pub(super) is_projects: bool,
    runtime: Adopted,
    /// Whether git has it in its index, once that is asked for.
    is_committed: OnceCell<bool>,
    text: String,
    /// The backup's text with comments blanked, if there is one.
    was: Option<String>,
}

/// Reads the settings files of a runtime. Adds those that cannot be read to `unread`.
pub(super) fn files(
    runtime: Adopted,
    named: Option<&Path>,
    context: &Context,
    config: &Config,
    (project, unread): (&Path, &mut BTreeSet<Unread>),
) -> Vec<SettingsFile> {
    let home = context.call.paths.home.as_deref();
    let found = if let Some(named) = named {
        let path = project.join(named);
        let mut users = below(home, runtime.settings.user).into_iter();
        // A plugin's hooks run in every project of its user, too.
        let is_users =
            users.any(|place| is_same(&place, &path)) || plugin_of(runtime, &path).is_some();
        vec![(path, (!is_users).then(|| project.to_owned()))]
    } else {
        found(runtime, context, &[project.to_owned()])
    };
    let mut files: Vec<SettingsFile> = Vec::new();
    for (path, of_project) in found {
        match open(runtime, path.clone(), of_project, context, config) {
            // Two links may lead to one file.
            Ok(file) if files.iter().any(|it| it.path == file.path) => {}
            Ok(mut file) => {
                // A user's file is rehearsed here, too.
                project.clone_into(&mut file.project);
                project.clone_into(&mut file.rehearsed_in);
                files.push(file);
            }
            Err(failure) => {
                let why = failure.message;
                unread.insert(Unread { file: path, why });
            }
        }
    }
    files
}

/// Reads the declarations beside the files that the hooks of settings name, and those of plugins.
pub(super) fn declarations(files: &[SettingsFile], config: &Config) -> Declarations {
    let directories = files.iter().flat_map(SettingsFile::directories);
    Declarations::read(&directories.collect(), config)
}

/// Builds the failure where a runtime has no settings.
pub(super) fn none_found(runtime: Adopted, context: &Context, project: &Path) -> Failure {
    let home = context.call.paths.home.as_deref();
    let users = below(home, runtime.settings.user).into_iter();
    let looked = users.chain(below(Some(project), runtime.settings.project));
    let looked: Vec<_> = looked.map(|place| place.display().to_string()).collect();
    let places = match looked.as_slice() {
        [] => "the caller names the places of its hooks".to_owned(),
        looked => format!("no file at {}", looked.join(", ")),
    };
    Failure::new(format!(
        "no settings: {places}; name the file with --settings"
    ))
}

fn below(directory: Option<&Path>, names: &[&str]) -> Vec<PathBuf> {
    let paths = |below: &Path| names.iter().map(|name| below.join(name)).collect();
    directory.map_or_else(Vec::new, paths)
}

/// Returns the settings files of a runtime that are there, each of a project with it: the user's, then those of projects.
pub(super) fn found(
    runtime: Adopted,
    context: &Context,
    projects: &[PathBuf],
) -> Vec<(PathBuf, Option<PathBuf>)> {
    let home = context.call.paths.home.as_deref();
    let settings = runtime.settings;
    let users = below(home, settings.user).into_iter();
    let mut found: Vec<_> = users
        .flat_map(|it| files_at(&it))
        .map(|it| (it, None))
        .collect();
    let projects = projects
        .iter()
        .filter(|project| !home.is_some_and(|home| is_same(home, project)));
    for project in projects {
        let places = below(Some(project), settings.project).into_iter();
        let places = places.flat_map(|it| files_at(&it));
        found.extend(places.map(|it| (it, Some(project.clone()))));
    }
    found
}

/// Returns the nearest directory around one, below the home or the root, with settings of one of these runtimes; else that directory.
pub(in crate::cli) fn project_around(
    context: &Context,
    directory: &Path,
    runtimes: &[Adopted],
) -> PathBuf {
    let home = context.call.paths.home.as_deref();
    let mut around = directory
        .ancestors()
        .take_while(|it| it.parent().is_some() && !home.is_some_and(|home| home.starts_with(it)));
    let has_settings = |project: &&Path| {
        runtimes.iter().any(|runtime| {
            let places = below(Some(project), runtime.settings.project).into_iter();
            places.flat_map(|it| files_at(&it)).next().is_some()
        })
    };
    let found = around.find(has_settings);
    found.unwrap_or(directory).to_owned()
}

/// Reads a settings file, of a project or of the user. A link, or one that it lies behind, may lead to a file of the same owner:
/// for a project to one of the project.
///
/// # Errors
///
/// Fails where it is another link, or cannot be read.
pub(super) fn open(
    runtime: Adopted,
    path: PathBuf,
    project: Option<PathBuf>,
    context: &Context,
    config: &Config,
) -> Result<SettingsFile, Failure> {
    let home = context.call.paths.home.as_deref();
    let path = target(&path, project.as_deref(), home).unwrap_or(path);
    let read = || {
        let directory = directory_of(&path, &bases(project.as_deref(), home))?;
        let (metadata, text) = read_in(&directory, name(&path))?;
        Ok((directory, metadata, text))
    };
    let read = read().map_err(|error| unreadable(&path, &error))?;
    Ok(file(runtime, (path, project), read, context, config))
}

/// Returns the private settings of a project, which are made.
///
/// # Errors
///
/// Fails where they are there and were not read, or their directory is not there.
pub(super) fn local(
    runtime: Adopted,
    project: &Path,
    context: &Context,
    config: &Config,
) -> Result<SettingsFile, Failure> {
    let name = runtime.shell_prefix.map_or("", |it| it.local);
    let path = project.join(name);
    if path.symlink_metadata().is_ok() {
        return Err(Failure::new(format!(
            "`{}` is a link, or is not read; put a regular file there, and install again",
            path.display()
        )));
    }
    let home = context.call.paths.home.as_deref();
    let read = || {
        let directory = directory_of(&path, &bases(Some(project), home))?;
        Ok((directory.metadata()?, directory))
    };
    let (metadata, directory) = read().map_err(|error| unreadable(&path, &error))?;
    let read = (directory, metadata, EMPTY.to_owned());
    let place = (path, Some(project.to_owned()));
    Ok(SettingsFile {
        is_new: true,
        ..file(runtime, place, read, context, config)
    })
}

/// The settings that are made.
const EMPTY: &str = "{}\n";

fn bases<'a>(project: Option<&'a Path>, home: Option<&'a Path>) -> Vec<&'a Path> {
    project.into_iter().chain(home).collect()
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::new(match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ELOOP) => {
            format!("`{path}` is a link, or lies behind one; name what it leads to with --settings")
        }
        _ => format!("cannot read `{path}`: {error}"),
    })
}

/// Builds a file of settings of what was read of it.
fn file(
    runtime: Adopted,
    (path, project): (PathBuf, Option<PathBuf>),
    (directory, metadata, text): (File, Metadata, String),
    context: &Context,
    config: &Config,
) -> SettingsFile {
    let home = context.call.paths.home.clone();
    let backup = backup(config, &path);
    let plain = |text: &str| match runtime.takes_comments {
        true => json::without_comments(text),
        false => text.to_owned(),
    };
    let is_projects = project.is_some();
    let base = project.or_else(|| home.clone()).unwrap_or_default();
    SettingsFile {
        directory,
        metadata,
        syntax: match runtime.keeps_yaml {
            true => Syntax::Yaml,
            false => Syntax::Json,
        },
        switches: context.environment().switches.clone(),
        home,
        is_new: false,
        plain: plain(&text),
        plugin: plugin_of(runtime, &path),
        project: base.clone(),
        rehearsed_in: base.clone(),
        base,
        is_projects,
        runtime,
        is_committed: OnceCell::new(),
        text,
        was: peek(&backup).ok().map(|text| plain(&text)),
        backup,
        path,
    }
}

/// Returns the directory of the plugin whose hooks a file has, where it lies as such files do.
fn plugin_of(runtime: Adopted, path: &Path) -> Option<PathBuf> {
    let is_plugins = path.ends_with("hooks/hooks.json") && runtime.plugin_names().next().is_some();
    let root = path.ancestors().nth(2).filter(|_| is_plugins)?;
    root.canonicalize().ok()
}

/// The extension of the file that describes a changed file, beside its backup.
const CHANGED: &str = "changed";

/// A file that `install` changed.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct ChangedFile {
    /// Whether `install` made it.
    #[serde(default)]
    pub(super) is_new: bool,
    pub(super) path: PathBuf,
    /// The project whose settings it has; `None` = the user's.
    pub(super) project: Option<PathBuf>,
    pub(super) runtime: String,
}

impl ChangedFile {
    /// Writes the description beside a backup.
    fn note(&self, backup: &Path) -> Result<(), Untrusted> {
        trusted_file::directory(backup.parent().unwrap_or(backup))?;
        let changed = serde_json::to_vec(self).map_err(io::Error::from)?;
        let path = backup.with_extension(CHANGED);
        Ok(trusted_file::replace(&path, &changed, 0o600)?)
    }
}

/// Notes that `install` changed a file of a project and a runtime, without a backup.
///
/// # Errors
///
/// Fails where the note cannot be written.
pub(super) fn note_changed(
    config: &Config,
    path: &Path,
    (project, runtime): (&Path, &str),
) -> Result<(), Failure> {
    let changed = ChangedFile {
        is_new: false,
        path: path.to_owned(),
        project: Some(project.to_owned()),
        runtime: runtime.to_owned(),
    };
    let noted = changed.note(&backup(config, path));
    noted.map_err(|error| {
        let path = path.display();
        Failure::new(format!("cannot note that `{path}` is changed: {error}"))
    })
}

/// Removes such a note, where there is one.
///
/// # Errors
///
/// Fails where it cannot be removed.
pub(super) fn forget_changed(config: &Config, path: &Path) -> Result<(), Failure> {
    match fs::remove_file(backup(config, path).with_extension(CHANGED)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns the files that `install` changed, by their paths.
///
/// # Errors
///
/// Fails where the directory of the backups, or a description in it, cannot be read.
pub(super) fn changed(config: &Config) -> Result<Vec<ChangedFile>, Failure> {
    let directory = config.former_settings();
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            let directory = directory.display();
            return Err(Failure::new(format!("cannot read `{directory}`: {error}")));
        }
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|it| it != CHANGED) {
            continue;
        }
        let unreadable = |error: &dyn std::fmt::Display| {
            Failure::new(format!("cannot read `{}`: {error}", path.display()))
        };
        let text = peek(&path).map_err(|error| unreadable(&error))?;
        found.push(serde_json::from_str(&text).map_err(|error| unreadable(&error))?);
    }
    found.sort_by(|one: &ChangedFile, other| one.path.cmp(&other.path));
    Ok(found)
}

/// Returns the file to which a link of settings leads, or behind which they lie; `None` where there is no link, or it is not followed.
///
/// Its owner must be that of the directory that the settings are for: root follows no link of another user's to a file of root's.
fn target(path: &Path, project: Option<&Path>, home: Option<&Path>) -> Option<PathBuf> {
    let base = project.or(home)?;
    let below = path.strip_prefix(base).ok()?;
    let base = base.canonicalize().ok()?;
    let target = path.canonicalize().ok()?;
    if target == base.join(below) || project.is_some() && !target.starts_with(&base) {
        return None;
    }
    let file = target.symlink_metadata().ok()?;
    let is_followed = file.is_file() && file.uid() == base.metadata().ok()?.uid();
    is_followed.then_some(target)
}

/// An empty directory that is removed on drop.
pub(super) struct Empty(PathBuf);

impl Empty {
    pub(super) fn new() -> Result<Self, Failure> {
        let made = mkdtemp(&env::temp_dir().join("hookjail-rehearsal-XXXXXX"));
        let path = made.map_err(|error| {
            let place = env::temp_dir();
            Failure::new(format!(
                "no directory can be made in `{}`: {error}",
                place.display()
            ))
        })?;
        Ok(Self(path.canonicalize()?))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Empty {
    fn drop(&mut self) {
        // Files that a guard left there are removed with it.
        drop(sandbox::remove(&self.0));
    }
}

/// Returns the files that a place stands for.
pub(super) fn files_at(place: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for component in place {
        let any = component.to_str().and_then(|it| it.strip_prefix('*'));
        found = match any.filter(|it| it.is_empty() || *it == ".json") {
            None => found.iter().map(|path| path.join(component)).collect(),
            Some(end) => {
                let entries = found.iter().flat_map(fs::read_dir).flatten().flatten();
                let paths = entries.map(|it| it.path());
                let is_named = |path: &PathBuf| path.to_string_lossy().ends_with(end);
                let mut found: Vec<_> = paths.filter(is_named).collect();
                found.sort();
                found
            }
        };
    }
    found.retain(|path| path.symlink_metadata().is_ok());
    found
}

/// Returns why a file from which a runtime takes variables steers hookjail, if one does.
pub(super) fn steering_environment(runtime: Adopted, project: &Path) -> Option<String> {
    let files = project.ancestors().flat_map(|around| {
        let names = runtime.environments.iter();
        names.map(|name| around.join(name))
    });
    files.into_iter().find_map(|file| {
        let shown = file.display();
        let text = match peek(&file) {
            Ok(text) if text.len() <= MAX_BYTES => text,
            Err(error) if error.kind() != io::ErrorKind::InvalidData => return None,
            Ok(_) | Err(_) => {
                return Some(format!(
                    "`{shown}`, from which the runtime takes variables, is no text of at most {MAX_BYTES} bytes; change it, and install again"
                ));
            }
        };
        let mut names = text.split(['\n', '\r', '\u{2028}', '\u{2029}']).filter_map(assigned);
        let name = names.find(|name| environment::steers_hookjail(name))?;
        Some(format!(
            "`{shown}` sets `{name}` for hookjail itself, too; remove it there, and install again"
        ))
    })
}

/// Returns the variable that a line of such a file sets. The value may begin in a later line.
fn assigned(line: &str) -> Option<&str> {
    let is_blank = |it: char| it.is_whitespace() || it == '\u{feff}';
    let is_named = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '.' | '-');
    let line = line.trim_start_matches(is_blank);
    let exported = line.strip_prefix("export");
    let exported = exported.filter(|rest| rest.starts_with(is_blank));
    let line = exported.map_or(line, |rest| rest.trim_start_matches(is_blank));
    let (name, rest) = line.split_at(line.find(|it| !is_named(it)).unwrap_or(line.len()));
    let rest = rest.trim_start_matches(is_blank);
    (rest.is_empty() || rest.starts_with(['=', ':'])).then_some(name)
}

/// Returns whether two paths lead to the same file.
fn is_same(one: &Path, other: &Path) -> bool {
    let canonical = one.canonicalize();
    one == other || canonical.is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Returns the last component of a path.
fn name(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

/// Returns the path of a file's backup, the same for all links that lead to the file.
fn backup(config: &Config, path: &Path) -> PathBuf {
    let canonical = path.canonicalize();
    let path = canonical.as_deref().unwrap_or(path);
    let id = format!("{:x}", Sha256::digest(path.as_os_str().as_bytes()));
    let name = format!("{}-{}", &id[..32], name(path).display());
    config.former_settings().join(name)
}

/// Opens the directory of a file. Below one of the base directories no link is followed; elsewhere the last directory is none.
fn directory_of(path: &Path, bases: &[&Path]) -> io::Result<File> {
    let parent = path.parent().unwrap_or(path);
    let below = |base: &&Path| Some((base.to_path_buf(), parent.strip_prefix(base).ok()?));
    let goes_down = |(_, below): &(PathBuf, &Path)| {
        let mut components = below.components();
        components.all(|component| matches!(component, Component::Normal(_)))
    };
    let (base, below) = bases
        .iter()
        .filter_map(below)
        .filter(goes_down)
        .min_by_key(|(_, below)| below.as_os_str().len())
        .or_else(|| Some((parent.parent()?.to_owned(), Path::new(parent.file_name()?))))
        .unwrap_or_else(|| (parent.to_owned(), Path::new("")));
    let base = locate(&base, OFlag::O_DIRECTORY, Links::FollowedByName)?;
    // The kernel takes no empty path.
    let below = Path::new(".").join(below);
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    Ok(open_beneath(base, &below, flags, Mode::empty(), Links::Refused)?.into())
}

/// Reads a regular file of a directory, which is no link.
fn read_in(directory: &File, name: &OsStr) -> io::Result<(Metadata, String)> {
    // Without O_NONBLOCK a named pipe in its place would be waited for.
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = open_beneath(
        directory,
        Path::new(name),
        flags,
        Mode::empty(),
        Links::Refused,
    )?;
    let file = File::from(file);
    Ok((file.metadata()?, bounded(trusted_file::regular(file)?)?))
}

impl SettingsFile {
    /// Checks that a hook starts in the project whose settings name its directory.
    ///
    /// # Errors
    ///
    /// Returns why the hook is left as it is.
    pub(super) fn starts_inside(&self, hook: &Registered) -> Result<(), String> {
        let directory = hook.working_dir.as_deref();
        let Some(directory) = directory.filter(|_| self.is_projects) else {
            return Ok(());
        };
        let shown = directory.display();
        let real = directory.canonicalize().map_err(|error| {
            format!("its working directory `{shown}` cannot be opened: {error}")
        })?;
        match real.starts_with(&self.project) {
            true => Ok(()),
            false => Err(format!(
                "its working directory `{}` is outside of the project `{}`; name a directory of the project there, and install again",
                real.display(),
                self.project.display()
            )),
        }
    }

    /// Returns the directories of the files that its hooks name, and its plugin's.
    fn directories(&self) -> BTreeSet<PathBuf> {
        let (hooks, _) = self.hooks().unwrap_or_default();
        let value = |name: &str| self.value(name).or_else(|| env::var(name).ok());
        let files = hooks.iter().flat_map(|hook| {
            let line = hook.action.line();
            let place = (self.project.as_path(), self.runtime);
            let line = original_line(&line, hook, place).map_or(line, |(line, _)| line);
            let line = self.as_run(&line);
            let words = words(&line, value).or_else(|| shlex::split(&line));
            let starts_in = hook.working_dir.as_deref().unwrap_or(&self.project);
            files_of(&words.unwrap_or_default(), starts_in)
        });
        let directories = files.filter_map(|file| file.parent().map(Path::to_owned));
        directories.chain(self.plugin.clone()).collect()
    }

    /// Parses the file's hooks, and the errors of entries that the runtime would not accept.
    ///
    /// # Errors
    ///
    /// Fails where it would not accept the file.
    pub(super) fn hooks(&self) -> Result<(Vec<Registered>, Vec<ReadError>), Failure> {
        Ok(self.hooks_of(&self.plain)?)
    }

    fn hooks_of(&self, text: &str) -> Result<(Vec<Registered>, Vec<ReadError>), ReadError> {
        let name = self.path.display().to_string();
        let origin = Origin {
            base: Some(&self.base),
            name: &name,
        };
        let (read, passed_over) = read_each(self.runtime, text, &origin, &self.switches)?;
        Ok((read.hooks, passed_over))
    }

    /// Parses a text as the file's: its hooks, and why none of them runs.
    ///
    /// # Errors
    ///
    /// Fails where the runtime would not accept it.
    pub(super) fn hooks_and_switch(
        &self,
        text: &str,
    ) -> Result<(Vec<Registered>, Option<String>), Failure> {
        let name = self.path.display().to_string();
        let origin = Origin {
            base: Some(&self.base),
            name: &name,
        };
        let (read, _) = read_each(self.runtime, text, &origin, &self.switches)?;
        Ok((read.hooks, read.disabled))
    }

    /// Returns a remark on the file, if there is one.
    pub(super) fn remark(&self) -> Option<&'static str> {
        let name = self.path.file_name()?.to_str()?;
        let is_shared = self.is_projects && !name.contains(".local.");
        if !is_shared {
            return None;
        }
        Some(match self.runtime.absence_stops() {
            true => {
                "shared settings: each user needs a consent of their own, and hookjail at this path. Without it their guards deny (see --shared)"
            }
            false => {
                "shared settings: each user needs a consent of their own, and hookjail at this path. Without it their guards are OFF (see --shared)"
            }
        })
    }

    /// Returns whether these are a project's settings that are one user's own.
    pub(super) fn is_local(&self) -> bool {
        let local = self.runtime.shell_prefix.map(|it| it.local);
        local.is_some_and(|it| self.is_projects && self.path.ends_with(it))
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether git has the file of a project in its index.
    pub(super) fn is_committed(&self) -> bool {
        let is_indexed =
            || self.ask_git(&self.project, &["ls-files", "--error-unmatch"]) == Some(0);
        self.is_projects && *self.is_committed.get_or_init(is_indexed)
    }

    /// Returns the exit code of a question about the file.
    #[expect(
        clippy::disallowed_methods,
        reason = "git, which runs nothing of the project's for this"
    )]
    fn ask_git(&self, project: &Path, question: &[&str]) -> Option<i32> {
        let mut git = process::Command::new("git");
        git.args(["-c", "core.fsmonitor=false"]).args(question);
        git.arg("--")
            .arg(self.path.as_os_str())
            .current_dir(project);
        git.stdin(Stdio::null());
        git.stdout(Stdio::null()).stderr(Stdio::null());
        git.status().ok()?.code()
    }

    /// Returns a remark on the file where it was made and git would take it into a commit.
    pub(super) fn note(&self, project: &Path) -> Option<String> {
        let ignored = || self.ask_git(project, &["check-ignore", "--no-index", "--quiet"]);
        (self.is_new.then(ignored)? == Some(1)).then(|| {
            let local = self.runtime.shell_prefix.map_or("", |it| it.local);
            format!("git does not ignore `{local}`; add it to `.git/info/exclude`")
        })
    }

    pub(super) const fn runtime(&self) -> Adopted {
        self.runtime
    }

    /// Returns the value that a variable has where its hooks run.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        if name == "HOME" {
            return self.home.as_ref()?.to_str().map(str::to_owned);
        }
        if self.runtime.plugin_names().any(|known| known == name) {
            return self.plugin()?.to_str().map(str::to_owned);
        }
        // For a user's hooks the value differs in each project.
        let is_projects =
            self.is_projects && self.runtime.project_variables().any(|known| known == name);
        is_projects
            .then(|| self.base.to_str().map(str::to_owned))
            .flatten()
    }

    /// Returns the directory of the plugin whose hooks it has.
    pub(super) fn plugin(&self) -> Option<&Path> {
        self.plugin.as_deref()
    }

    /// Returns a line of it as the runtime hands it to a shell.
    pub(super) fn as_run(&self, line: &str) -> String {
        let line = self.runtime.as_read(line, &|name| env::var(name).ok());
        match self.plugin().and_then(Path::to_str) {
            Some(plugin) => self.runtime.line_of_plugin(&line, plugin),
            None => line.into_owned(),
        }
    }

    /// Returns words of it as the runtime hands them to a program.
    pub(super) fn words_as_run(&self, words: &[String]) -> Vec<String> {
        let plugin = self.plugin().and_then(Path::to_str);
        let as_run = |word: &String| match plugin {
            Some(plugin) => self.runtime.word_of_plugin(word, plugin),
            None => word.clone(),
        };
        words.iter().map(as_run).collect()
    }

    /// Returns the edit that replaces a hook's line.
    pub(super) fn edit_line(
        &self,
        hook: &Registered,
        before: &str,
        after: &str,
    ) -> Result<Edit, String> {
        let edit = || {
            let (_, place) = self.place_of_line(hook, before)?;
            let text = json!(after).to_string();
            self.is_read(hook, Edit { place, text }, after)
        };
        edit().ok_or_else(|| by_hand(after))
    }

    /// Returns the edit that restores a line, and the original line.
    pub(super) fn edit_back(
        &self,
        hook: &Registered,
        confined: &str,
        original: String,
    ) -> Result<(Edit, String), String> {
        let (key, place) = self
            .place_of_line(hook, confined)
            .ok_or_else(|| by_hand(&original))?;
        let was = self.was(hook, key).and_then(|(raw, value)| {
            let line = value.as_str()?.to_owned();
            may_have_been(&original, &line).then(|| (raw.to_owned(), line))
        });
        let (text, line) = was.unwrap_or_else(|| (json!(original).to_string(), original));
        let edit = self.is_read(hook, Edit { place, text }, &line);
        Ok((edit.ok_or_else(|| by_hand(&line))?, line))
    }

    /// Returns the edits that replace a hook's program and arguments.
    pub(super) fn edit_words(
        &self,
        hook: &Registered,
        after: &[String],
    ) -> Result<Vec<Edit>, String> {
        let by_hand = || format!("put it there yourself: {}", serde_json::json!(after));
        let key = ["exec", "command"]
            .into_iter()
            .find(|key| self.member(hook, key).is_some());
        let (first, others) = after.split_first().ok_or_else(by_hand)?;
        let values = [(key, json!(first)), (Some("args"), json!(others))];
        let edits = values.into_iter().map(|(key, value)| {
            let key = key?;
            // In the backup's spelling, if the backup has the same value.
            let was = self.was(hook, key).filter(|(_, was)| *was == value);
            Some(Edit {
                place: self.member(hook, key)?.0,
                text: was.map_or_else(|| value.to_string(), |(raw, _)| raw.to_owned()),
            })
        });
        edits.collect::<Option<_>>().ok_or_else(by_hand)
    }

    /// Returns the variable that these settings set for hookjail itself, too, if there is one.
    pub(super) fn steers_hookjail(&self) -> Option<String> {
        let settings: Value = match self.syntax {
            Syntax::Json => serde_json::from_str(&self.plain).ok()?,
            Syntax::Yaml => return None,
        };
        let mut names = settings.get("env")?.as_object()?.keys();
        let name = names.find(|name| environment::steers_hookjail(name))?;
        Some(format!(
            "`env` sets `{name}` for hookjail itself, too; remove it from `{}`, and install again",
            self.path.display()
        ))
    }

    /// Returns the text without comments and byte order mark, in which the places of edits are counted.
    pub(super) fn plain_body(&self) -> &str {
        body(&self.plain)
    }

    /// Returns the backup's text in the same form, if there is one.
    pub(super) fn was_body(&self) -> Option<&str> {
        self.was.as_deref().map(body)
    }

    /// Returns the text that an edit replaces.
    pub(super) fn text_of(&self, edit: &Edit) -> &str {
        body(&self.text).get(edit.place.clone()).unwrap_or_default()
    }

    /// Returns why the file's content cannot be replaced, if so.
    pub(super) fn why_kept(&self) -> Option<String> {
        let may_write = |name: &OsStr| {
            let flags = AtFlags::empty();
            faccessat(&self.directory, name, AccessFlags::W_OK, flags).is_ok()
        };
        // The mode is checked because root can write protected files.
        if !self.is_new && (self.metadata.mode() & 0o222 == 0 || !may_write(name(&self.path))) {
            return Some(
                "the file is read-only; make it writable (`chmod u+w`) to have it changed"
                    .to_owned(),
            );
        }
        let directory = match self.directory.metadata() {
            Ok(metadata) => metadata.uid(),
            Err(error) => return Some(error.to_string()),
        };
        if !may_write(OsStr::new(".")) {
            let directory = self.path.parent().unwrap_or(&self.path).display();
            return Some(format!(
                "nothing can be made in `{directory}`, where it lies"
            ));
        }
        let (user, owner) = (geteuid(), self.metadata.uid());
        if !user.is_root() {
            return (owner != user.as_raw())
                .then(|| format!("the file belongs to uid {owner}, and would be yours then"));
        }
        (owner != directory).then(|| {
            format!("the file belongs to uid {owner}, and its directory to uid {directory}; `chown` one of them")
        })
    }

    /// Applies edits to the file, atomically. Returns an obsolete backup.
    ///
    /// The original is kept as a backup until the file equals it again. Root may edit another user's file; its owner stays.
    ///
    /// # Errors
    ///
    /// Fails where the file has changed meanwhile, or cannot be written.
    pub(super) fn write(
        &self,
        edits: &[Edit],
        keeps_backup: bool,
    ) -> Result<Option<PathBuf>, Failure> {
        let failed = |doing: &str, error: &dyn std::fmt::Display| {
            Failure::new(format!("cannot {doing} `{}`: {error}", self.path.display()))
        };
        let name = name(&self.path);
        let (before, now) = match read_in(&self.directory, name) {
            Err(error) if self.is_new && error.kind() == io::ErrorKind::NotFound => {
                (self.metadata.clone(), self.text.clone())
            }
            Ok(_) if self.is_new => {
                return Err(failed(
                    "make",
                    &"another process made the file meanwhile; try again",
                ));
            }
            read => read.map_err(|error| failed("read", &error))?,
        };
        let owner = (before.uid(), before.gid());
        if now != self.text || owner != (self.metadata.uid(), self.metadata.gid()) {
            return Err(failed(
                "change",
                &"another process changed the file meanwhile; try again",
            ));
        }
        let was = peek(&self.backup).ok();
        if keeps_backup && was.is_none() {
            self.keep_backup()
                .map_err(|error| failed("keep a copy of", &error))?;
        }
        let mark = &self.text[..self.text.len() - body(&self.text).len()];
        let text = format!("{mark}{}", edit::make(body(&self.text), edits));
        let mode = match self.is_new {
            true => 0o600,
            false => before.mode() & 0o777,
        };
        let owner = (Some(owner.0), Some(owner.1));
        let is_removed = !keeps_backup && self.was_made() && is_empty(&text);
        let done = match is_removed {
            true => unlinkat(&self.directory, name, UnlinkatFlags::NoRemoveDir).map_err(Into::into),
            false => trusted_file::replace_in(&self.directory, name, text.as_bytes(), mode, owner),
        };
        done.map_err(|error: io::Error| failed("write", &error))?;
        match was {
            Some(was) if !keeps_backup && (is_removed || was == text) => {
                fs::remove_file(&self.backup)
                    .map_err(|error| failed("remove the backup of", &error))?;
                // There is none for an earlier version's change.
                drop(fs::remove_file(self.backup.with_extension(CHANGED)));
                Ok(None)
            }
            was => Ok(was.filter(|_| !keeps_backup).map(|_| self.backup.clone())),
        }
    }

    /// Returns whether `install` made the file.
    fn was_made(&self) -> bool {
        let changed = peek(&self.backup.with_extension(CHANGED)).ok();
        let changed = changed.and_then(|text| serde_json::from_str::<ChangedFile>(&text).ok());
        changed.is_some_and(|it| it.is_new)
    }

    fn keep_backup(&self) -> Result<(), Untrusted> {
        let changed = ChangedFile {
            is_new: self.is_new,
            path: self.path.clone(),
            project: self.is_projects.then(|| self.base.clone()),
            runtime: self.runtime.name.to_owned(),
        };
        changed.note(&self.backup)?;
        Ok(trusted_file::replace(
            &self.backup,
            self.text.as_bytes(),
            0o600,
        )?)
    }

    /// Returns the range of a hook's line in the file, and its key.
    fn place_of_line(&self, hook: &Registered, line: &str) -> Option<(&'static str, Range<usize>)> {
        self.runtime.line_keys.iter().find_map(|&key| {
            let (place, value) = self.member(hook, key)?;
            (value == line).then_some((key, place))
        })
    }

    /// Returns an edit if the edited file parses to the intended line and otherwise unchanged hooks.
    ///
    /// In YAML the meaning of a scalar depends on its surroundings.
    fn is_read(&self, hook: &Registered, edit: Edit, line: &str) -> Option<Edit> {
        if self.syntax == Syntax::Json {
            return Some(edit);
        }
        let (before, _) = self.hooks_of(&self.plain).ok()?;
        let after = edit::make(body(&self.plain), std::slice::from_ref(&edit));
        let (after, _) = self.hooks_of(&after).ok()?;
        let mut both = before.iter().zip(&after);
        let is_as_it_must = |(before, after): (&Registered, &Registered)| {
            before.source == after.source
                && match before.source == hook.source {
                    true => after.action.line() == line,
                    false => before.action == after.action,
                }
        };
        (before.len() == after.len() && both.all(is_as_it_must)).then_some(edit)
    }

    /// Returns the range and text of a hook entry's member.
    fn member(&self, hook: &Registered, key: &str) -> Option<(Range<usize>, Value)> {
        edit::member(self.syntax, body(&self.plain), entry(hook)?, key)
    }

    /// Returns the spelling and text of a hook entry's member in the backup.
    fn was(&self, hook: &Registered, key: &str) -> Option<(&str, Value)> {
        let was = body(self.was.as_deref()?);
        let (place, value) = edit::member(self.syntax, was, entry(hook)?, key)?;
        Some((&was[place], value))
    }
}

fn by_hand(after: &str) -> String {
    format!("put it there yourself: {after}")
}

/// Returns whether settings have no member.
fn is_empty(text: &str) -> bool {
    let settings: Option<Value> = serde_json::from_str(text).ok();
    settings.is_some_and(|it| it == json!({}))
}

/// Returns a text without its byte order mark.
fn body(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Returns the path of a hook's entry in its file.
fn entry(hook: &Registered) -> Option<&str> {
    hook.source.rsplit_once(": ").map(|(_, entry)| entry)
}

#[cfg(test)]
mod tests {
    use super::assigned;

    #[test]
    fn lines_of_a_file_of_variables_name_what_they_set() {
        for (line, name) in [
            ("A=b", Some("A")),
            (" export\tA = b", Some("A")),
            ("\u{feff}A: b", Some("A")),
            ("exported=b", Some("exported")),
            ("A", Some("A")),
            ("# A=b", None),
            ("a b=c", None),
        ] {
            assert_eq!(assigned(line), name, "{line:?}");
        }
    }
}

//! The files in which runtimes keep their hooks.

use std::{
    env, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::edit::{self, Edit};
use crate::{
    cli::{Context, Failure},
    contract::native::Runtime,
    hooks::{
        Registered,
        load::peek,
        read::{Origin, read},
    },
    trusted,
};

/// What a file is called beside which it is kept as it was.
const BACKUP: &str = "before-hookjail";

/// A file of settings as it was read.
pub(super) struct SettingsFile {
    /// Where relative directories in it start: the project, or the user's home.
    pub(super) base: PathBuf,
    contract: &'static str,
    home: Option<PathBuf>,
    pub(super) path: PathBuf,
    /// The directory in which it was asked for.
    pub(super) project: PathBuf,
    /// Whether it is that project's.
    pub(super) is_projects: bool,
    runtime: Runtime,
    text: String,
}

/// Reads the files that a runtime has here.
///
/// # Errors
///
/// There are none; one is a link, or cannot be read.
pub(super) fn files(
    runtime: Runtime,
    named: Option<&Path>,
    context: &Context,
    project: &Path,
) -> Result<Vec<SettingsFile>, Failure> {
    let home = context.surroundings.home.clone();
    let settings = runtime.settings();
    let places = |below: Option<&Path>, names: &[&str]| -> Vec<PathBuf> {
        below.map_or_else(Vec::new, |below| {
            names.iter().map(|name| below.join(name)).collect()
        })
    };
    let mut found = Vec::new();
    if let Some(named) = named {
        let path = env::current_dir()?.join(named);
        let is_users = places(home.as_deref(), settings.user).contains(&path);
        found.push((path, !is_users));
    } else {
        let is_home = home.as_deref() == Some(project);
        let below = (!is_home).then_some(project);
        let both = [
            (places(home.as_deref(), settings.user), false),
            (places(below, settings.project), true),
        ];
        for (places, is_projects) in &both {
            for place in places {
                found.extend(there(place)?.into_iter().map(|path| (path, *is_projects)));
            }
        }
        if found.is_empty() {
            let looked = both.iter().flat_map(|(places, _)| places);
            let looked: Vec<_> = looked.map(|place| place.display().to_string()).collect();
            let where_ = match looked.as_slice() {
                [] => "where its hooks are is for whoever starts it to say".to_owned(),
                looked => format!("there is none of {}", looked.join(", ")),
            };
            return Err(Failure::new(format!(
                "no settings: {where_}; name the file with --settings"
            )));
        }
    }
    let open = |(path, is_projects): (PathBuf, bool)| {
        refuse_links(&path)?;
        let text = peek(&path)
            .map_err(|error| Failure::new(format!("cannot read `{}`: {error}", path.display())))?;
        Ok(SettingsFile {
            base: if is_projects {
                project.to_owned()
            } else {
                home.clone().unwrap_or_default()
            },
            contract: runtime.mode().contract_name(),
            home: home.clone(),
            path,
            project: project.to_owned(),
            is_projects,
            runtime,
            text,
        })
    };
    found.into_iter().map(open).collect()
}

/// Returns the files that a place stands for.
fn there(place: &Path) -> Result<Vec<PathBuf>, Failure> {
    if place.file_name().is_none_or(|name| name != "*.json") {
        return Ok(place
            .symlink_metadata()
            .map_or_else(|_| Vec::new(), |_| vec![place.to_owned()]));
    }
    let directory = place.parent().unwrap_or(place);
    let Ok(entries) = fs::read_dir(directory) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Refuses a file, or its directory, that is a link: what it leads to may be another's, and would be replaced by a file.
fn refuse_links(path: &Path) -> Result<(), Failure> {
    for part in [Some(path), path.parent()].into_iter().flatten() {
        let is_link = part.symlink_metadata().is_ok_and(|it| it.is_symlink());
        if is_link {
            let message = format!(
                "`{}` is a link; name what it leads to with --settings",
                part.display()
            );
            return Err(Failure::new(message));
        }
    }
    Ok(())
}

impl SettingsFile {
    /// Reads its hooks.
    ///
    /// # Errors
    ///
    /// It is not what its runtime would take.
    pub(super) fn hooks(&self, context: &Context) -> Result<Vec<Registered>, Failure> {
        let name = self.path.display().to_string();
        let origin = Origin {
            base: Some(&self.base),
            name: &name,
        };
        Ok(read(
            self.contract,
            &self.text,
            &origin,
            &context.surroundings.switches,
        )?
        .hooks)
    }

    /// Returns the value that a variable has where its hooks run.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        if name == "HOME" {
            return self.home.as_ref()?.to_str().map(str::to_owned);
        }
        // Of a user's hooks it is another in each project.
        let is_projects = self.is_projects && self.runtime.project_variables().contains(&name);
        is_projects
            .then(|| self.base.to_str().map(str::to_owned))
            .flatten()
    }

    /// Returns the edit that puts a line in the place of a hook's own.
    pub(super) fn edit_line(
        &self,
        hook: &Registered,
        before: &str,
        after: &str,
    ) -> Result<Edit, String> {
        let is_it = |key: &&str| self.member(hook, key).is_some_and(|it| it.1 == before);
        // Copilot's own key goes before the common one.
        let key = ["bash", "command"].into_iter().find(is_it);
        let place = key
            .and_then(|key| self.member(hook, key))
            .map(|(place, _)| place);
        let place = place.ok_or_else(|| format!("put it there yourself: {after}"))?;
        Ok(Edit {
            place,
            text: serde_json::json!(after).to_string(),
        })
    }

    /// Returns the edits that put a program with arguments in the place of a hook's own.
    pub(super) fn edit_words(
        &self,
        hook: &Registered,
        after: &[String],
    ) -> Result<Vec<Edit>, String> {
        let by_hand = || format!("put it there yourself, as words: {}", after.join(" "));
        let key = ["exec", "command"]
            .into_iter()
            .find(|key| self.member(hook, key).is_some());
        let program = key
            .and_then(|key| self.place(hook, key))
            .ok_or_else(by_hand)?;
        let arguments = self.place(hook, "args").ok_or_else(by_hand)?;
        let (first, others) = after.split_first().ok_or_else(by_hand)?;
        Ok(vec![
            Edit {
                place: program,
                text: serde_json::json!(first).to_string(),
            },
            Edit {
                place: arguments,
                text: serde_json::json!(others).to_string(),
            },
        ])
    }

    /// Writes what the edits make of it, in one step. Beside it stays the file as it was when hookjail first changed it.
    ///
    /// # Errors
    ///
    /// Somebody has changed it meanwhile, or it cannot be written.
    pub(super) fn write(&self, edits: &[Edit], keeps_backup: bool) -> Result<(), Failure> {
        let failed = |doing: &str, error: &dyn std::fmt::Display| {
            Failure::new(format!("cannot {doing} `{}`: {error}", self.path.display()))
        };
        let before = self
            .path
            .symlink_metadata()
            .map_err(|error| failed("look at", &error))?;
        let now = peek(&self.path).map_err(|error| failed("read", &error))?;
        if before.is_symlink() || now != self.text {
            return Err(failed(
                "change",
                &"somebody has changed it meanwhile; try again",
            ));
        }
        let mode = before.mode() & 0o777;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let backup = self.path.with_file_name(format!("{name}.{BACKUP}"));
        if keeps_backup && backup.symlink_metadata().is_err() {
            trusted::replace(&backup, self.text.as_bytes(), mode)
                .map_err(|error| failed("keep a copy of", &error))?;
        }
        let mark = &self.text[..self.text.len() - self.body().len()];
        let text = format!("{mark}{}", edit::make(self.body(), edits));
        trusted::replace(&self.path, text.as_bytes(), mode).map_err(|error| failed("write", &error))
    }

    /// Returns its text without what some editors begin one with.
    fn body(&self) -> &str {
        self.text.strip_prefix('\u{feff}').unwrap_or(&self.text)
    }

    /// Returns where a member of a hook's entry stands, and its text.
    fn member(&self, hook: &Registered, key: &str) -> Option<(std::ops::Range<usize>, String)> {
        let place = self.place(hook, key)?;
        let value = serde_json::from_str(&self.body()[place.clone()]).ok()?;
        Some((place, value))
    }

    fn place(&self, hook: &Registered, key: &str) -> Option<std::ops::Range<usize>> {
        let (_, entry) = hook.source.rsplit_once(": ")?;
        edit::member(self.body(), entry, key)
    }
}

//! `hookjail install --shell-prefix`: has a runtime hand every line that it would run by a shell to hookjail, and rewrites none.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use hookjail_base::util::trusted_file;
use hookjail_client::{
    Failure, shell_prefix,
    thin::{THIN, WHOLE},
};
use hookjail_contract::{Registered, adopt::Adopted, settings::Holds};
use hookjail_daemon::{config::Config, daemon::Assembly, hooks::load::peek};
use hookjail_policy::Policy;

use super::{
    super::{
        Context,
        consent::{Book, Standing, Terms},
    },
    InstallArgs,
    edit::{self, Edit, Syntax},
    plan::{Becomes, Planned, Planner, Purpose, SettingsChange},
    settings::SettingsFile,
    sources::{Elsewhere, Loose, Needed, Unread},
};

/// The member of settings with variables.
const ENV: &str = "env";

/// Returns the path of the program that a runtime hands its lines to: it takes no argument but the line.
pub(super) fn path(config: &Config, runtime: Adopted) -> PathBuf {
    let state = config.former_settings();
    state.with_file_name("shell-prefix").join(runtime.name)
}

/// Returns the profile under which a runtime's lines run, where the user's settings hand them to hookjail.
pub(super) fn active(context: &Context, config: &Config, runtime: Adopted) -> Option<String> {
    let variable = runtime.shell_prefix?.variable;
    let home = context.call.paths.home.as_deref()?;
    let path = path(config, runtime);
    let names = |settings: &&str| {
        let text = peek(&home.join(settings)).ok()?;
        let settings: Value = serde_json::from_str(&text).ok()?;
        let prefix = settings.get(ENV)?.get(variable)?.as_str()?;
        (Path::new(prefix) == path).then_some(())
    };
    runtime.settings.user.iter().find_map(names)?;
    let text = peek(&path).ok()?;
    let (_, after) = text.split_once(" --profile ")?;
    after.split_whitespace().next().map(str::to_owned)
}

/// Returns the edit that takes the prefix out of the user's settings; `None` where they have none that `install` wrote.
pub(super) fn taken_back(
    file: &SettingsFile,
    (context, config): (&Context, &Config),
    runtime: Adopted,
) -> Option<Edit> {
    active(context, config, runtime).filter(|_| !file.is_projects)?;
    let value = path(config, runtime).display().to_string();
    removal(
        file.plain_body(),
        (runtime.shell_prefix?.variable, &value),
        file.was_body(),
    )
}

/// A program of a shell that hands a line on.
pub(super) struct Launcher {
    path: PathBuf,
    text: String,
}

impl Launcher {
    /// Writes it where no project and no hook reaches it.
    ///
    /// # Errors
    ///
    /// Fails where it cannot be written.
    pub(super) fn write(&self) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new(format!("cannot write `{}`: {error}", self.path.display()))
        };
        let directory = self.path.parent().unwrap_or(&self.path);
        trusted_file::directory(directory).map_err(|error| failed(&error))?;
        trusted_file::replace(&self.path, self.text.as_bytes(), 0o700)
            .map_err(|error| failed(&error))
    }
}

/// A line that a runtime hands to hookjail.
pub(super) struct PrefixedLine<'a> {
    pub(super) plugin: Option<&'a Path>,
    /// The project that the line is of.
    pub(super) project: Option<&'a Path>,
    pub(super) text: &'a str,
}

impl InstallArgs {
    /// Goes on by the shell prefix where the user's settings have it, under its profile unless another is named.
    ///
    /// # Errors
    ///
    /// Fails where the runtime has none.
    pub(super) fn find_prefix(
        &mut self,
        context: &Context,
        config: &Config,
    ) -> Result<(), Failure> {
        let runtime = self.runtime.runtime;
        if self.shell_prefix && runtime.shell_prefix.is_none() {
            let name = runtime.name;
            return Err(Failure::new(format!(
                "{name} hands its lines to no other program; leave out --shell-prefix"
            )));
        }
        if let Some(profile) = active(context, config, runtime)
            && self.settings.is_none()
            && !self.shell_prefix
        {
            self.shell_prefix = true;
            self.profile = profile;
        }
        Ok(())
    }

    /// Builds the program that the runtime hands its lines to.
    ///
    /// # Errors
    ///
    /// Fails where the runtime would not start it by its path, or `hookjail-run` is not there.
    pub(super) fn launcher(&self, config: &Config) -> Result<Launcher, Failure> {
        let path = path(config, self.runtime.runtime);
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._+@-".contains(letter);
        let shown = path.display().to_string();
        if !shown.chars().all(is_plain) {
            return Err(Failure::new(format!(
                "`{shown}` has letters that a shell reads otherwise; name another directory by XDG_STATE_HOME"
            )));
        }
        let program = std::env::current_exe()?.with_file_name(THIN);
        if !program.is_file() {
            return Err(Failure::new(format!(
                "`{THIN}` does not lie beside `{WHOLE}`; install it there"
            )));
        }
        let program = program.display().to_string();
        let quoted = shlex::try_quote(&program)
            .map_err(|_| Failure::new("the program's path has a NUL byte"))?;
        let (name, profile) = (self.runtime.name, &self.profile);
        let text = format!(
            "#!/bin/sh\n# Written by `hookjail install --shell-prefix`: a hook's line runs confined, another as it is.\n\
             if ! [ -x {quoted} ]; then\n    echo 'hookjail: hookjail-run is gone; install it again' >&2\n    exit 2\nfi\n\
             exec {quoted} --shell-prefix --as {name} --profile {profile} --start -- \"$1\"\n"
        );
        Ok(Launcher { path, text })
    }

    /// Plans the edit of the user's settings, and the consents for what is elsewhere.
    ///
    /// # Errors
    ///
    /// Fails where the user has no settings, or they name another program.
    pub(super) fn plan_prefix(
        &self,
        context: &Context,
        config: &Config,
        (planned, elsewhere): (&mut [Planned], &mut Elsewhere),
        project: &Path,
    ) -> Result<(), Failure> {
        let runtime = self.runtime.runtime;
        let Some(variable) = runtime.shell_prefix.map(|it| it.variable) else {
            return Ok(());
        };
        let launcher = path(config, runtime);
        let own = planned.iter_mut().find(|it| !it.file.is_projects);
        let Some(own) = own else {
            let user = runtime.settings.user.first().copied().unwrap_or_default();
            return Err(Failure::new(format!(
                "`{user}` is not in the home; make it with `{{}}`, and install again"
            )));
        };
        let (body, value) = (own.file.plain_body(), launcher.display().to_string());
        let by_hand =
            || format!("`{variable}` is written otherwise; remove it from `env` yourself");
        let edit = match self.uninstall {
            true => removal(body, (variable, &value), own.file.was_body())
                .map(Some)
                .ok_or_else(by_hand),
            false => insertion(body, variable, &value),
        };
        own.prefix = edit.map_err(Failure::new)?;
        if let Some(why) = own.file.why_kept().filter(|_| own.prefix.is_some()) {
            return Err(Failure::new(why));
        }
        if !self.uninstall {
            self.launcher(config)?;
            let registry = Assembly::registry(config).ok();
            let planner = Planner {
                book: &Book::open(config)?,
                by_prefix: true,
                profile: &self.profile,
                purpose: Purpose::Confine,
                registry: registry.as_ref(),
                runtime: self.runtime,
                shared: None,
            };
            cover(elsewhere, &planner, (&launcher, project), context);
        }
        Ok(())
    }
}

/// Sorts the commands elsewhere that a shell prefix confines, and names settings that switch it off.
pub(super) fn cover(
    elsewhere: &mut Elsewhere,
    planner: &Planner<'_>,
    (launcher, project): (&Path, &Path),
    context: &Context,
) {
    let home = context.call.paths.home.as_deref();
    for mut loose in std::mem::take(&mut elsewhere.loose) {
        let Some(text) = &loose.line else {
            elsewhere.loose.insert(loose);
            continue;
        };
        let line = PrefixedLine {
            plugin: loose.plugin.as_deref(),
            project: loose.project.as_deref(),
            text,
        };
        let argv = planner.argv(&line, project, home);
        match planner.stands(&line, argv, project) {
            Ok(Standing {
                bound,
                refused: None,
            }) => {
                let command = bound.first().map(|it| it.entry.command.clone());
                elsewhere.allowed.extend(command);
            }
            Ok(Standing {
                bound,
                refused: Some(refused),
            }) => elsewhere.needed.push(Needed {
                bound,
                loose,
                refused,
            }),
            Err(why) => {
                loose.why = format!("it cannot be allowed, and is refused: {why}");
                elsewhere.loose.insert(Loose {
                    line: None,
                    ..loose
                });
            }
        }
    }
    let variable = planner
        .runtime
        .runtime
        .shell_prefix
        .map_or("", |it| it.variable);
    for (file, prefix) in &elsewhere.prefixes {
        if Path::new(prefix) != launcher {
            elsewhere.unread.insert(Unread {
                file: file.clone(),
                why: format!(
                    "`env` sets `{variable}` there, so no hook of a session in it need be confined; remove it"
                ),
            });
        }
    }
}

impl Planner<'_> {
    /// Plans for a line of settings that a shell prefix confines: its command is allowed where it would be refused.
    ///
    /// # Errors
    ///
    /// Returns why it cannot be allowed.
    pub(super) fn prefixed(
        &self,
        file: &SettingsFile,
        hook: &Registered,
        text: &str,
    ) -> Result<Becomes, String> {
        let line = PrefixedLine {
            plugin: None,
            project: file.is_projects.then_some(&*file.project),
            text,
        };
        let home = file.value("HOME").map(PathBuf::from);
        let argv = self.argv(&line, &file.project, home.as_deref());
        let standing = self.stands(&line, argv.clone(), &file.project)?;
        Ok(match standing {
            Standing {
                bound,
                refused: None,
            } => {
                let command = bound.first().map(|it| it.entry.command.clone());
                Becomes::Allowed(command.unwrap_or_default())
            }
            Standing {
                bound,
                refused: Some(refused),
            } => Becomes::Changed(Box::new(SettingsChange {
                after: text.to_owned(),
                argv,
                remarks: self.remarks(hook, bound.first()),
                bound,
                edits: Vec::new(),
                fetches: BTreeSet::new(),
                refused: Some(refused),
            })),
        })
    }

    /// Returns the command that a line is run as.
    fn argv(&self, line: &PrefixedLine<'_>, project: &Path, home: Option<&Path>) -> Vec<String> {
        let runtime = self.runtime.runtime;
        let text = |path: &Path| path.to_str().map(str::to_owned);
        let holds = |name: &str| {
            let mut variables = runtime.variables.iter();
            variables.find(|it| it.0 == name).map(|it| it.1)
        };
        let value = |name: &str| match (name, holds(name)) {
            ("HOME", _) => home.and_then(text),
            (_, Some(Holds::Project)) => text(project),
            (_, Some(Holds::Plugin)) => line.plugin.and_then(text),
            (_, Some(Holds::Cwd | Holds::Session) | None) => None,
        };
        let of_plugin = runtime.variables.iter();
        let of_plugin = of_plugin.filter(|(_, holds)| *holds == Holds::Plugin);
        let of_plugin: Vec<_> = of_plugin
            .filter_map(|(name, _)| Some((*name, line.plugin.and_then(text)?)))
            .collect();
        let argv = shell_prefix::command(line.text, &of_plugin, value);
        let argv = argv
            .into_iter()
            .map(|word| word.to_string_lossy().into_owned());
        argv.collect()
    }

    /// Returns whether a line's command is allowed: a project's in the project, as is what names its directory.
    fn stands(
        &self,
        line: &PrefixedLine<'_>,
        argv: Vec<String>,
        project: &Path,
    ) -> Result<Standing, String> {
        let mut names = self.runtime.runtime.project_variables();
        let is_projects = line.project.is_some() || names.any(|name| line.text.contains(name));
        let binds = self
            .policy(self.profile)
            .is_some_and(Policy::needs_workspace);
        let within = (is_projects && binds).then(|| line.project.unwrap_or(project).to_owned());
        let terms = Terms {
            data: Vec::new(),
            profile: self.profile.to_owned(),
            starts_in: None,
            until: None,
            within: within.clone(),
        };
        let argv = argv.into_iter().map(Into::into).collect();
        let standing = self.book.standing(terms, argv, within.as_deref());
        standing.map_err(|failure| failure.message)
    }
}

/// Returns the edit that adds a variable to settings; `None` where they have it.
///
/// # Errors
///
/// Fails where they give it another value, or are no object.
fn insertion(body: &str, name: &str, value: &str) -> Result<Option<Edit>, String> {
    let pair = format!("{}: {}", json!(name), json!(value));
    if let Some((_, now)) = edit::member(Syntax::Json, body, ENV, name) {
        return match now == json!(value) {
            true => Ok(None),
            false => Err(format!(
                "`env` sets `{name}` already; remove it, and install again"
            )),
        };
    }
    let env = edit::member(Syntax::Json, body, "", ENV);
    let (object, start, opens) = match env {
        Some((place, object)) => (object, place.start, pair),
        None => {
            let settings: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
            let start = body.find('{').unwrap_or_default();
            (settings, start, format!("\"{ENV}\": {{{pair}}}"))
        }
    };
    let members = object
        .as_object()
        .ok_or("`env` is no object; make it one")?;
    let text = match members.is_empty() {
        true => opens,
        false => format!("{opens}, "),
    };
    let place = start + 1..start + 1;
    Ok(Some(Edit { place, text }))
}

/// Returns the edit that takes a variable out of settings as [`insertion`] put it there; `None` where it is not there so.
///
/// `was` is the text as it was: where the variable was the first of an empty `env`, that stays.
fn removal(body: &str, (name, value): (&str, &str), was: Option<&str>) -> Option<Edit> {
    let (_, now) = edit::member(Syntax::Json, body, ENV, name)?;
    if now != json!(value) {
        return None;
    }
    let pair = format!("{}: {}", json!(name), json!(value));
    let whole = format!("\"{ENV}\": {{{pair}}}");
    let spellings = [format!("{whole}, "), whole, format!("{pair}, "), pair];
    let found = spellings.iter().filter_map(|text| {
        let start = body.find(text.as_str())?;
        Some(Edit {
            place: start..start + text.len(),
            text: String::new(),
        })
    });
    let found: Vec<_> = found.collect();
    let as_it_was =
        |edit: &&Edit| was.is_some_and(|was| edit::make(body, std::slice::from_ref(*edit)) == was);
    found
        .iter()
        .find(as_it_was)
        .or_else(|| found.first())
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_comes_and_goes_and_all_else_stays() {
        for before in [
            "{}",
            "{ }\n",
            "{\n  \"a\": 1\n}",
            "{\"env\": {}}",
            "{\"a\":[{\"env\":1}],\n\t\"env\" : { \"X\": \"y\" }}",
        ] {
            let edit = insertion(before, "P", "/p").unwrap().unwrap();
            let after = edit::make(before, &[edit]);
            let settings: Value = serde_json::from_str(&after).unwrap();
            assert_eq!(settings["env"]["P"], "/p", "{after}");
            assert_eq!(insertion(&after, "P", "/p"), Ok(None));
            assert!(insertion(&after, "P", "/other").is_err());
            let edit = removal(&after, ("P", "/p"), Some(before)).unwrap();
            assert_eq!(edit::make(&after, &[edit]), before);
            assert_eq!(removal(before, ("P", "/p"), None), None);
        }
    }
}

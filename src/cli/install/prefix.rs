//! `hookjail install --shell-prefix` and `--local`: has a runtime hand every line that it would run by a shell to hookjail, and rewrites none.

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
use hookjail_contract::{
    Registered,
    adopt::Adopted,
    settings::{Holds, Settings},
};
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
    shared::Sharing,
    sources::{Elsewhere, Loose, Needed, Unread},
};

/// The member of settings with variables.
const ENV: &str = "env";

/// Returns the path of the program to which a runtime hands its lines, each as the only argument.
///
/// Private settings of projects have one for each profile.
fn path(config: &Config, runtime: Adopted, local: Option<&str>) -> PathBuf {
    let name = match local {
        None => runtime.name.to_owned(),
        Some(profile) => format!("{}-{profile}", runtime.name),
    };
    let state = config.former_settings();
    state.with_file_name("shell-prefix").join(name)
}

/// Returns whether a program is one that `install` writes.
fn is_own(config: &Config, runtime: Adopted, program: &Path) -> bool {
    program.parent() == path(config, runtime, None).parent()
}

/// A shell prefix of hookjail's that counts.
pub(super) struct Prefix {
    /// Whether it stands in private settings of a project.
    pub(super) is_local: bool,
    /// The program that the runtime hands its lines to.
    pub(super) launcher: PathBuf,
    pub(super) profile: String,
}

impl Prefix {
    /// Finds the one of a project's sessions: its private settings outrank the user's.
    pub(super) fn find(
        context: &Context,
        config: &Config,
        runtime: Adopted,
        project: Option<&Path>,
    ) -> Option<Self> {
        let settings = runtime.shell_prefix?;
        let home = context.call.paths.home.as_deref()?;
        let local = project.map(|project| (project.join(settings.local), true));
        let user = runtime.settings.user.iter();
        let user = user.map(|file| (home.join(file), false));
        local.into_iter().chain(user).find_map(|(file, is_local)| {
            let body: Value = serde_json::from_str(&peek(&file).ok()?).ok()?;
            let launcher = body.get(ENV)?.get(settings.variable)?.as_str()?;
            let launcher = Some(PathBuf::from(launcher));
            let launcher = launcher.filter(|it| is_own(config, runtime, it))?;
            let text = peek(&launcher).ok()?;
            let (_, after) = text.split_once(" --profile ")?;
            let profile = after.split_whitespace().next()?;
            let expected = path(config, runtime, is_local.then_some(profile));
            (launcher == expected).then(|| Self {
                is_local,
                launcher,
                profile: profile.to_owned(),
            })
        })
    }

    /// Returns whether settings with another prefix are switched off by this one.
    fn outranks(&self, runtime: Adopted, file: &Path) -> bool {
        let Settings { project, user } = runtime.settings;
        let mut lower = project.iter().chain(user);
        let is_local = runtime
            .shell_prefix
            .is_some_and(|it| file.ends_with(it.local));
        self.is_local && !is_local && lower.any(|name| file.ends_with(name))
    }
}

/// Returns the edit that takes the prefix out of settings; `None` where they have none that `install` wrote.
///
/// # Errors
///
/// Fails where it is there in another form.
pub(super) fn taken_back(file: &SettingsFile, config: &Config) -> Result<Option<Edit>, String> {
    let runtime = file.runtime();
    let Some(prefix) = runtime.shell_prefix else {
        return Ok(None);
    };
    let value = edit::member(Syntax::Json, file.plain_body(), ENV, prefix.variable);
    let is_own = |value: &Value| {
        let value = value.as_str().map(Path::new);
        value.is_some_and(|it| is_own(config, runtime, it))
    };
    if !value.is_some_and(|(_, value)| is_own(&value)) {
        return Ok(None);
    }
    let edit = removal(file.plain_body(), prefix.variable, file.was_body());
    edit.map(Some).ok_or_else(|| {
        format!(
            "`{}` is written otherwise; remove it from `{ENV}` yourself",
            prefix.variable
        )
    })
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
    /// Goes on by the shell prefix that counts in a project, under its profile unless another is named.
    ///
    /// # Errors
    ///
    /// Fails where the runtime has none.
    pub(super) fn find_prefix(
        &mut self,
        context: &Context,
        config: &Config,
        project: &Path,
    ) -> Result<(), Failure> {
        let runtime = self.runtime.runtime;
        if (self.shell_prefix || self.local) && runtime.shell_prefix.is_none() {
            let name = runtime.name;
            let instead = match self.local {
                true => "use --shared, or leave out --local",
                false => "leave out --shell-prefix",
            };
            return Err(Failure::new(format!(
                "{name} hands its lines to no other program; {instead}"
            )));
        }
        if self.local && context.call.paths.home.as_deref() == Some(project) {
            return Err(Failure::new(
                "the home is no project; use --shell-prefix for all projects",
            ));
        }
        let is_unnamed = self.settings.is_none() && !self.shell_prefix && !self.local;
        if let Some(prefix) = Prefix::find(context, config, runtime, Some(project))
            && is_unnamed
            && !self.uninstall
        {
            self.local = prefix.is_local;
            self.shell_prefix = true;
            self.profile = prefix.profile;
        }
        self.shell_prefix |= self.local;
        Ok(())
    }

    /// Returns the prefix that is written.
    fn prefix(&self, config: &Config) -> Prefix {
        let local = self.local.then_some(&*self.profile);
        Prefix {
            is_local: self.local,
            launcher: path(config, self.runtime.runtime, local),
            profile: self.profile.clone(),
        }
    }

    /// Builds the program that the runtime hands its lines to.
    ///
    /// # Errors
    ///
    /// Fails where the runtime would not start it by its path, or `hookjail-run` is not there.
    pub(super) fn launcher(&self, config: &Config) -> Result<Launcher, Failure> {
        let path = self.prefix(config).launcher;
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

    /// Plans the edit of the user's settings, or of the private ones of a project, and the consents for what is elsewhere.
    ///
    /// # Errors
    ///
    /// Fails where the user has no settings, they name another program, or a line would be confined twice.
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
        let prefix = self.prefix(config);
        let is_place = |it: &&mut Planned| match self.local {
            true => it.file.is_local(),
            false => !it.file.is_projects,
        };
        let Some(place) = planned.iter_mut().find(is_place) else {
            let user = runtime.settings.user.first().copied().unwrap_or_default();
            return Err(Failure::new(match self.local {
                true => {
                    "the project's private settings are not read; repair them, and install again"
                        .to_owned()
                }
                false => {
                    format!("`{user}` is not in the home; make it with `{{}}`, and install again")
                }
            }));
        };
        let is_replaced = |now: &Path| is_own(config, runtime, now);
        let value = prefix.launcher.display().to_string();
        let edit = insertion(place.file.plain_body(), (variable, &value), is_replaced);
        place.prefix = edit.map_err(Failure::new)?;
        if place.prefix.is_some() {
            if let Some(why) = place.file.why_kept() {
                return Err(Failure::new(why));
            }
            let mut twice = planned.iter().filter(|it| it.is_confined_twice());
            if let Some(planned) = twice.next() {
                return Err(Failure::new(format!(
                    "`{}` has lines that confine themselves, which would be refused; put them back first: --uninstall",
                    planned.file.path.display()
                )));
            }
        }
        self.launcher(config)?;
        let registry = Assembly::registry(config).ok();
        let planner = Planner {
            book: &Book::open(config)?,
            by_prefix: true,
            declared: None,
            profile: &self.profile,
            purpose: Purpose::Confine,
            registry: registry.as_ref(),
            runtime: self.runtime,
            sharing: Sharing::Nowhere,
        };
        cover(elsewhere, &planner, (&prefix, project), context);
        Ok(())
    }
}

/// Sorts the commands elsewhere that a shell prefix confines, and names settings that switch it off.
pub(super) fn cover(
    elsewhere: &mut Elsewhere,
    planner: &Planner<'_>,
    (counts, project): (&Prefix, &Path),
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
                loose.why = format!("refused, as it cannot be allowed: {why}");
                elsewhere.loose.insert(Loose {
                    line: None,
                    ..loose
                });
            }
        }
    }
    let runtime = planner.runtime.runtime;
    let variable = runtime.shell_prefix.map_or("", |it| it.variable);
    for (file, prefix) in &elsewhere.prefixes {
        if Path::new(prefix) != counts.launcher && !counts.outranks(runtime, file) {
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
                remarks: self.remarks(hook, bound.first(), self.profile),
                bound,
                declares: None,
                edits: Vec::new(),
                is_bare: false,
                fetches: BTreeSet::new(),
                line: text.to_owned(),
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

/// Returns the edit that gives a variable of settings its value; `None` where they have it.
///
/// # Errors
///
/// Fails where they give it another value that is not to be replaced, or are no object.
fn insertion(
    body: &str,
    (name, value): (&str, &str),
    is_replaced: impl Fn(&Path) -> bool,
) -> Result<Option<Edit>, String> {
    let pair = format!("{}: {}", json!(name), json!(value));
    if let Some((place, now)) = edit::member(Syntax::Json, body, ENV, name) {
        if now == json!(value) {
            return Ok(None);
        }
        return match now.as_str().is_some_and(|now| is_replaced(Path::new(now))) {
            true => Ok(Some(Edit {
                place,
                text: json!(value).to_string(),
            })),
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

/// Returns the edit that takes a variable out of settings, with an `env` that has no other; `None` where it is not there.
///
/// `was` is the text as it was: where the variable was the first of an empty `env`, that stays.
fn removal(body: &str, name: &str, was: Option<&str>) -> Option<Edit> {
    let pair = without(body, ENV, name)?;
    let (_, env) = edit::member(Syntax::Json, body, "", ENV)?;
    let is_last = env.as_object()?.len() == 1;
    let stays = was.is_some_and(|was| edit::make(body, std::slice::from_ref(&pair)) == was);
    match is_last && !stays {
        true => without(body, "", ENV),
        false => Some(pair),
    }
}

/// Returns the edit that takes a member out of an object, with its comma.
fn without(body: &str, object: &str, key: &str) -> Option<Edit> {
    let (value, _) = edit::member(Syntax::Json, body, object, key)?;
    let key = json!(key).to_string();
    let before = &body[..value.start];
    let start = before.rfind(&key)?;
    if before[start + key.len()..].trim() != ":" {
        return None;
    }
    let rest = &body[value.end..];
    let place = match (
        rest.trim_start().strip_prefix(','),
        body[..start].trim_end(),
    ) {
        // With the one space that `install` writes behind the comma, or the line's end and the indentation.
        (Some(next), _) => {
            let end = match next.strip_prefix(' ') {
                Some(next) => next,
                None => next.trim_start(),
            };
            start..body.len() - end.len()
        }
        (None, earlier) if earlier.ends_with(',') => earlier.len() - 1..value.end,
        (None, _) => start..value.end,
    };
    let text = String::new();
    Some(Edit { place, text })
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
            let none = |_: &Path| false;
            let edit = insertion(before, ("P", "/p"), none).unwrap().unwrap();
            let after = edit::make(before, &[edit]);
            let settings: Value = serde_json::from_str(&after).unwrap();
            assert_eq!(settings["env"]["P"], "/p", "{after}");
            assert_eq!(insertion(&after, ("P", "/p"), none), Ok(None));
            assert!(insertion(&after, ("P", "/other"), none).is_err());
            let edit = insertion(&after, ("P", "/other"), |now| now == Path::new("/p"));
            let other = edit::make(&after, &[edit.unwrap().unwrap()]);
            assert_eq!(other, after.replace("/p", "/other"));
            let edit = removal(&after, "P", Some(before)).unwrap();
            assert_eq!(edit::make(&after, &[edit]), before);
            assert_eq!(removal(before, "P", None), None);
        }
    }

    #[test]
    fn a_variable_goes_from_settings_that_the_runtime_has_written_again() {
        let all = json!({"a": [1], "env": {"O": "o", "P": "/p", "Q": "q"}, "z": {"P": 1}});
        for others in [&["O", "Q"][..], &["O"], &["Q"], &[]] {
            let mut before = all.clone();
            let env = before["env"].as_object_mut().unwrap();
            env.retain(|name, _| name == "P" || others.contains(&name.as_str()));
            for text in [
                before.to_string(),
                serde_json::to_string_pretty(&before).unwrap(),
            ] {
                let edit = removal(&text, "P", Some("{}\n")).unwrap();
                let after = edit::make(&text, &[edit]);
                let after: Value = serde_json::from_str(&after).unwrap();
                let mut expected = before.clone();
                expected["env"].as_object_mut().unwrap().remove("P");
                if others.is_empty() {
                    expected.as_object_mut().unwrap().remove("env");
                }
                assert_eq!(after, expected, "{text}");
            }
        }
    }
}

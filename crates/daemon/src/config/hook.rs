//! Reads `[[hook]]`, a command's settings and its lifecycle point, and `[[hooks_file]]`.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    mem,
    path::{Path, PathBuf},
};

use hookjail_base::model::{
    Command, InvalidField, OnFailure, ProfileName, is_plain, variable::settable,
};
use hookjail_contract::{CommandStyle, Entry, Mode, Stop, hook_file::contracts};
use hookjail_sandbox::{CgroupPlace, HookUsers, RunAs};

use super::{
    ConfigProblem, ConfiguredHook,
    file::{CommandWords, HookEntry, HooksFileEntry, RuleEntry},
};
use crate::hooks::{
    Action, Matcher, Owner, Registered, Supplied, Template, load::HooksFile, rule::Rule,
};

/// Reads as whom a root daemon's hooks run.
///
/// # Errors
///
/// Names the key that is wrong, and its value.
pub(super) fn users(
    default: &str,
    profiles: &BTreeMap<String, String>,
) -> Result<HookUsers, ConfigProblem> {
    let read = |key, text: &str| {
        let mut all = RunAs::ALL.into_iter();
        all.find(|run_as| run_as.as_str() == text).ok_or_else(|| {
            ConfigProblem::key(key, format!("`{text}` is neither `caller` nor `pool`"))
        })
    };
    let of_profile = |(name, text): (&String, &String)| {
        let key = "hooks.run_as_profiles";
        let profile = ProfileName::parse(name)
            .ok_or_else(|| ConfigProblem::key(key, format!("`{name}` is no name of a profile")))?;
        Ok((profile, read(key, text)?))
    };
    Ok(HookUsers {
        default: read("hooks.run_as", default)?,
        profiles: profiles
            .iter()
            .map(of_profile)
            .collect::<Result<_, ConfigProblem>>()?,
    })
}

/// Reads where the cgroups of runs are made.
///
/// # Errors
///
/// Says what the value must be.
pub(super) fn cgroup(text: &str) -> Result<CgroupPlace, ConfigProblem> {
    let key = "hooks.cgroup";
    match text {
        "auto" => Ok(CgroupPlace::Auto),
        "none" => Ok(CgroupPlace::None),
        path if is_plain(Path::new(path)) => match cfg!(target_os = "linux") {
            true => Ok(CgroupPlace::Below(path.into())),
            false => Err(ConfigProblem::key(
                key,
                "is a path, and only Linux has cgroups",
            )),
        },
        other => Err(ConfigProblem::key(
            key,
            format!(
                "is `{other}`; it can be \"auto\", \"none\" or an absolute path without `.` and `..`"
            ),
        )),
    }
}

/// Reads an entry: settings of its command, and a hook if it has a point.
///
/// # Errors
///
/// Names the key that is wrong, and the entry.
pub(super) fn read(
    index: usize,
    mut entry: HookEntry,
) -> Result<(Option<ConfiguredHook>, Option<Registered>), ConfigProblem> {
    let name = match entry.name.as_str() {
        "" => format!("hook[{index}]"),
        name => name.to_owned(),
    };
    let (profile, profiles) = profiles(&entry, &name)?;
    let timeout = entry.timeout.map(|span| span.0);
    let (contract, point) = match (entry.contract.clone(), entry.point.clone()) {
        (Some(contract), Some(point)) => (contract, point),
        (None, Some(_)) => {
            return Err(ConfigProblem::of(
                "hook.contract",
                &name,
                "must say whose rules hold at the `point`",
            ));
        }
        (None, None) if is_statement(&entry) => {
            let Some(CommandWords::Argv(command)) = entry.command else {
                let problem = "must be program and arguments as a list where there is no `contract` to say which shell \
                               runs a line";
                return Err(ConfigProblem::of("hook.command", &name, problem));
            };
            not_empty(&command).map_err(|error| error.of(&name))?;
            let statement = ConfiguredHook {
                command,
                profiles,
                timeout,
            };
            return Ok((Some(statement), None));
        }
        (_, None) => {
            return Err(ConfigProblem::of(
                "hook.point",
                &name,
                "must say when the hook runs",
            ));
        }
    };
    let mode = mode(&contract, &entry).map_err(|error| error.of(&name))?;
    let stop = mode
        .stop_at(&point)
        .map_err(|error| ConfigProblem::of("hook.point", &name, error.problem))?;
    let matcher = Matcher::parse(mode, &point, &entry.matcher)
        .map_err(|error| ConfigProblem::of("hook.matcher", &name, error.problem))?;
    let on_failure = on_failure(entry.on_failure.as_deref(), stop)
        .map_err(|problem| ConfigProblem::of("hook.on_failure", &name, problem))?;
    let scheme = scheme(&mut entry).map_err(|error| error.of(&name))?;
    let (action, argv) = action(mode, &point, scheme).map_err(|error| error.of(&name))?;
    let working_dir = entry.working_dir.as_deref();
    if let Some(path) = working_dir.filter(|path: &&Path| !is_plain(path)) {
        let problem = format!(
            "`{}` is not an absolute path without `.` and `..`",
            path.display()
        );
        return Err(ConfigProblem::of("hook.working_dir", &name, problem));
    }
    let mut configured_env = BTreeMap::new();
    for (variable, value) in entry.env {
        settable(&variable).map_err(|problem| {
            ConfigProblem::of("hook.env", &name, format!("`{variable}` {problem}"))
        })?;
        configured_env.insert(variable, OsString::from(value));
    }
    let runs_after_block = match entry.after_block.as_deref() {
        None | Some("skip") => false,
        Some("run") => true,
        Some(other) => {
            let problem = format!("is `{other}`; it can be `run` or `skip`");
            return Err(ConfigProblem::of("hook.after_block", &name, problem));
        }
    };
    let advisory = is_advisory(entry.kind.as_deref(), entry.on_failure.as_deref())
        .map_err(|problem| ConfigProblem::of("hook.kind", &name, problem))?;
    let registered = Registered {
        action,
        base: None,
        configured_env,
        entry: Entry {
            advisory: advisory == Some(true),
            on_failure,
            priority: entry.priority,
            timeout,
            ..Entry::default()
        },
        env: BTreeMap::new(),
        filter: None,
        is_listed: false,
        matcher,
        matching: entry.matcher,
        mode,
        name,
        owner: Owner::Operator,
        point,
        runs_after_block,
        // For a command its settings (`ConfiguredHook::profiles`) grant the profile.
        profile_granted: false,
        profile,
        source: format!("hook[{index}]"),
        user: None,
        working_dir: entry.working_dir,
    };
    let statement = argv.map(|command| ConfiguredHook {
        command,
        profiles,
        timeout,
    });
    let is_enabled = entry.enabled.unwrap_or(true);
    Ok((statement, is_enabled.then_some(registered)))
}

/// Reads a `[[hooks_file]]`.
///
/// # Errors
///
/// Names the key that is wrong, and the file.
pub(super) fn file(entry: HooksFileEntry) -> Result<HooksFile, ConfigProblem> {
    let shown = entry.path.display().to_string();
    let read = contracts();
    if !read.contains(&entry.contract.as_str()) {
        let problem = format!(
            "is `{}`; files are read of {}",
            entry.contract,
            read.join(", ")
        );
        return Err(ConfigProblem::of("hooks_file.contract", &shown, problem));
    }
    let paths = [
        ("hooks_file.path", Some(&entry.path)),
        ("hooks_file.base", entry.base.as_ref()),
    ];
    for (key, path) in paths {
        if path.is_some_and(|path: &PathBuf| !is_plain(path)) {
            let problem = "is not an absolute path without `.` and `..`";
            return Err(ConfigProblem::of(key, &shown, problem));
        }
    }
    let of_models = Mode::contracts(|mode| !mode.facts().is_process);
    let judge = entry.judge.map(|words| {
        let problem = match words.first() {
            _ if !of_models.contains(&entry.contract.as_str()) => {
                format!("is for files of {} alone", quoted(&of_models))
            }
            None => "names no program".to_owned(),
            Some(program) if program.trim().is_empty() => "names no program".to_owned(),
            Some(_) => return Ok(Command::Argv(words.into_iter().map(Into::into).collect())),
        };
        Err(ConfigProblem::of("hooks_file.judge", &shown, problem))
    });
    let owner = match (entry.agent, entry.plugin, entry.skill) {
        (None, None, None) => Owner::Operator,
        (Some(name), None, None) => Owner::Agent(name),
        (None, Some(name), None) => Owner::Plugin(name),
        (None, None, Some(name)) => Owner::Skill(name),
        _ => {
            let problem = "excludes `plugin` and `skill`, and they each other";
            return Err(ConfigProblem::of("hooks_file.agent", &shown, problem));
        }
    };
    let profile = entry.profile.as_ref();
    let profile = profile.map(|name| profile_name("hooks_file.profile", &shown, name));
    let rules = entry.rule.into_iter();
    let rules = rules.map(|it| rule(it, &entry.contract, &shown));
    let user = entry
        .user
        .as_ref()
        .map(|user| super::users::of_file(user, &shown));
    Ok(HooksFile {
        base: entry.base,
        judge: judge.transpose()?,
        profile: profile.transpose()?,
        rules: rules.collect::<Result<_, _>>()?,
        contract: entry.contract,
        owner,
        path: entry.path,
        user: user.transpose()?,
    })
}

/// Reads a `[[hooks_file.rule]]`.
fn rule(entry: RuleEntry, contract: &str, shown: &str) -> Result<Rule, ConfigProblem> {
    const KEY: &str = "hooks_file.rule";
    let RuleEntry {
        command,
        kind,
        name,
        on_failure: failure,
        point,
        profile,
        timeout,
    } = entry;
    if name.is_none() && point.is_none() && command.is_none() {
        let problem = "must say which hooks it is for: by `name`, `point` or `command`; for all of them the file has `profile`";
        return Err(ConfigProblem::of(KEY, shown, problem));
    }
    if profile.is_none() && timeout.is_none() && failure.is_none() && kind.is_none() {
        let problem = "must say something about them: `profile`, `timeout`, `on_failure` or `kind`";
        return Err(ConfigProblem::of(KEY, shown, problem));
    }
    let advisory = is_advisory(kind.as_deref(), failure.as_deref())
        .map_err(|problem| ConfigProblem::of("hooks_file.rule.kind", shown, problem))?;
    let stop = match (Mode::any_of(contract), &point) {
        (Some(mode), Some(point)) => mode
            .stop_at(point)
            .map_err(|error| ConfigProblem::of("hooks_file.rule.point", shown, error.problem))?,
        // A rule without a point may match hooks before a tool call.
        _ => Stop::Call,
    };
    let key = "hooks_file.rule.on_failure";
    let on_failure = failure.map(|text| match on_failure(Some(&text), stop) {
        Err(problem) if point.is_none() => Err(ConfigProblem::of(
            key,
            shown,
            format!("{problem}; name the `point`"),
        )),
        read => read.map_err(|problem| ConfigProblem::of(key, shown, problem)),
    });
    let profile = profile.map(|name| profile_name("hooks_file.rule.profile", shown, &name));
    Ok(Rule {
        advisory,
        command: command.map(|text| text.trim().to_owned()),
        name,
        on_failure: on_failure.transpose()?,
        point,
        profile: profile.transpose()?,
        timeout: timeout.map(|span| span.0),
    })
}

/// A key and its problem.
struct Wrong {
    key: &'static str,
    problem: String,
}

impl Wrong {
    fn new(key: &'static str, problem: impl Into<String>) -> Self {
        Self {
            key,
            problem: problem.into(),
        }
    }

    fn of(self, name: &str) -> ConfigProblem {
        ConfigProblem::of(self.key, name, self.problem)
    }
}

/// Returns whether an entry has nothing but settings of a command.
fn is_statement(entry: &HookEntry) -> bool {
    entry.after_block.is_none()
        && entry.args.is_empty()
        && entry.builtin.is_none()
        && entry.enabled.is_none()
        && entry.env.is_empty()
        && entry.matcher.is_empty()
        && entry.mode.is_empty()
        && entry.on_failure.is_none()
        && entry.priority.is_none()
        && entry.template_push.is_none()
        && entry.working_dir.is_none()
}

fn profile_name(key: &'static str, of: &str, name: &str) -> Result<ProfileName, ConfigProblem> {
    let problem = || ConfigProblem::of(key, of, format!("`{name}` is no profile name"));
    ProfileName::parse(name).ok_or_else(problem)
}

/// Returns the hook's profile, and those that the operator grants it, which include the former.
fn profiles(
    entry: &HookEntry,
    of: &str,
) -> Result<(Option<ProfileName>, Vec<ProfileName>), ConfigProblem> {
    let profile = entry
        .profile
        .as_ref()
        .map(|name| profile_name("hook.profile", of, name))
        .transpose()?;
    let granted = entry
        .profiles
        .iter()
        .map(|name| profile_name("hook.profiles", of, name));
    let mut granted = granted.collect::<Result<Vec<_>, _>>()?;
    granted.extend(profile.clone());
    Ok((profile, granted))
}

fn mode(contract: &str, entry: &HookEntry) -> Result<Mode, Wrong> {
    let parsed = match Mode::any_of(contract) {
        // A template has a mode of its own, and no command.
        Some(mode) if entry.template_push.is_some() && entry.mode.is_empty() => {
            Ok(mode.of_templates().unwrap_or(mode))
        }
        _ => Mode::parse(contract, &entry.mode),
    };
    parsed.map_err(|error| Wrong::new("hook.contract", error.to_string()))
}

fn on_failure(text: Option<&str>, stop: Stop) -> Result<OnFailure, String> {
    match text {
        None | Some("contract") => Ok(OnFailure::Contract),
        Some("closed") => Ok(OnFailure::Closed),
        Some("open") if stop == Stop::Call => {
            Err("cannot be `open` where a tool call or permission is decided".to_owned())
        }
        Some("open") => Ok(OnFailure::Open),
        Some(other) => Err(format!(
            "is `{other}`; it can be `contract`, `closed` or `open`"
        )),
    }
}

/// Returns whether a hook is advisory, if set. A hook whose failures stop something is not.
fn is_advisory(kind: Option<&str>, on_failure: Option<&str>) -> Result<Option<bool>, String> {
    match (kind, on_failure) {
        (None, _) => Ok(None),
        (Some("policy"), _) => Ok(Some(false)),
        (Some("advisory"), Some("closed")) => {
            Err("cannot be `advisory` with `on_failure = \"closed\"`, which stops".to_owned())
        }
        (Some("advisory"), _) => Ok(Some(true)),
        (Some(other), _) => Err(format!("is `{other}`; it can be `advisory` or `policy`")),
    }
}

/// The action of a hook, as its entry spells it.
enum Scheme {
    Builtin { args: Vec<String>, name: String },
    Command(CommandWords),
    Template(serde_json::Map<String, serde_json::Value>),
}

/// Takes the hook's scheme out of an entry.
fn scheme(entry: &mut HookEntry) -> Result<Scheme, Wrong> {
    let args = mem::take(&mut entry.args);
    if entry.builtin.is_none() && !args.is_empty() {
        let problem = "are a `builtin`'s; those of a command stand in `command`";
        return Err(Wrong::new("hook.args", problem));
    }
    match (
        entry.builtin.take(),
        entry.command.take(),
        entry.template_push.take(),
    ) {
        (Some(name), None, None) => Ok(Scheme::Builtin { args, name }),
        (Some(_), _, _) => Err(Wrong::new(
            "hook.builtin",
            "excludes `command` and `template_push`; give one of them",
        )),
        (None, Some(command), None) => Ok(Scheme::Command(command)),
        (None, None, Some(template)) => Ok(Scheme::Template(template)),
        (None, Some(_), Some(_)) => Err(Wrong::new(
            "hook.template_push",
            "excludes `command`; give one of them",
        )),
        (None, None, None) => Err(Wrong::new("hook.command", "is missing")),
    }
}

/// Returns a hook's action, and its command as a consent names it.
fn action(mode: Mode, point: &str, scheme: Scheme) -> Result<(Action, Option<Vec<String>>), Wrong> {
    match scheme {
        Scheme::Builtin { args, name } => {
            let action = builtin(mode, point, &name, &args)?;
            let argv = action.supplied().map(Supplied::argv);
            Ok((action, argv))
        }
        Scheme::Template(_) if mode.of_templates().is_none() => {
            let contracts = Mode::contracts(|mode| mode.of_templates().is_some());
            let problem = format!("is a scheme of {} alone", quoted(&contracts));
            Err(Wrong::new("hook.template_push", problem))
        }
        Scheme::Template(template) => {
            let template =
                Template::parse(&template).map_err(|InvalidField { field, problem }| {
                    Wrong::new(
                        "hook.template_push",
                        format!("is wrong: `{field}` {problem}"),
                    )
                })?;
            let supplied = Supplied::Template(template);
            let argv = supplied.argv();
            Ok((Action::Supplied(supplied), Some(argv)))
        }
        Scheme::Command(CommandWords::Argv(argv)) => {
            not_empty(&argv)?;
            let words = argv.iter().map(OsString::from).collect();
            Ok((Action::Command(Command::Argv(words)), Some(argv)))
        }
        Scheme::Command(CommandWords::Line(text)) if text.trim().is_empty() => {
            Err(Wrong::new("hook.command", "is blank"))
        }
        Scheme::Command(CommandWords::Line(text)) => {
            let argv = match mode.defaults(point).command {
                CommandStyle::Argv => {
                    let words = mode.split(&text);
                    let words = words.map_err(|error| Wrong::new("hook.command", error.problem))?;
                    let word = |word: OsString| word.to_string_lossy().into_owned();
                    words.into_iter().map(word).collect()
                }
                CommandStyle::Shell { program, option } => {
                    vec![program.to_owned(), option.to_owned(), text.clone()]
                }
            };
            let command = Command::Line { shell: None, text };
            Ok((Action::Command(command), Some(argv)))
        }
    }
}

/// Returns names for people.
fn quoted(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

fn builtin(mode: Mode, point: &str, name: &str, args: &[String]) -> Result<Action, Wrong> {
    if !mode.facts().has_builtins {
        let contracts = Mode::contracts(|mode| mode.facts().has_builtins);
        let problem = format!("is a scheme of {} commands alone", quoted(&contracts));
        return Err(Wrong::new("hook.builtin", problem));
    }
    let action = Action::builtin(name, args).map_err(|InvalidField { field, problem }| {
        let key = if field == "args" {
            "hook.args"
        } else {
            "hook.builtin"
        };
        Wrong::new(key, problem)
    })?;
    if let Some((_, _, points)) = action.as_builtin()
        && !points.contains(&point)
    {
        let problem = format!(
            "`{name}` does nothing at `{point}`, but at {}",
            points.join(", ")
        );
        return Err(Wrong::new("hook.point", problem));
    }
    Ok(action)
}

fn not_empty(argv: &[String]) -> Result<(), Wrong> {
    if argv.first().is_none_or(String::is_empty) {
        let problem = "is empty; give program and arguments as a list";
        return Err(Wrong::new("hook.command", problem));
    }
    Ok(())
}

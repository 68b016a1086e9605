//! Reads `[[hook]]`, a command's settings and its lifecycle point, `[[required]]` and `[[hooks_file]]`.

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use hookjail_base::model::{
    Command, InvalidField, OnFailure, ProfileName, is_plain, variable::settable,
};
use hookjail_contract::{CommandStyle, Entry, Mode, Stop, hook_file::contracts};

use super::{
    ConfigProblem, ConfiguredHook, choice,
    file::{CommandWords, HookEntry, HooksFileEntry, RuleEntry},
    managed::REQUIRED,
    not_plain,
};
use crate::hooks::{
    Action, Matcher, Owner, Registered, Supplied, Template, load::HooksFile, rule::Rule,
};

/// Reads an entry: settings of its command, and a hook if it has a point.
///
/// # Errors
///
/// Names the key that is wrong, and the entry.
pub(super) fn read(
    index: usize,
    mut entry: HookEntry,
) -> Result<(Option<ConfiguredHook>, Option<Registered>), ConfigProblem> {
    if entry.name.is_empty() {
        entry.name = format!("hook[{index}]");
    }
    let name = entry.name.clone();
    let found = match (entry.contract.take(), entry.point.take()) {
        (Some(contract), Some(point)) => registered(index, entry, &contract, point),
        (None, Some(_)) => {
            let problem = "must name the contract whose rules hold at the `point`";
            Err(ConfigProblem::key("hook.contract", problem))
        }
        (None, None) if is_statement(&entry) => {
            statement(entry).map(|statement| (Some(statement), None))
        }
        (_, None) => {
            let problem = "must name the point at which the hook runs";
            Err(ConfigProblem::key("hook.point", problem))
        }
    };
    found.map_err(|problem| problem.in_entry(&name))
}

/// The longest name of a required hook, characters.
const REQUIRED_NAME: usize = 64;

/// Reads a required hook of one of the administrator's files.
///
/// Its command is a list of words, program first: of a shell's line not every file could be found. The hook fails closed unless
/// the entry has another `on_failure` or is advisory.
///
/// # Errors
///
/// Names the key that is wrong, and the entry.
pub(super) fn required(file: &Path, mut entry: HookEntry) -> Result<Registered, ConfigProblem> {
    let name = entry.name.clone();
    let read = move || {
        let is_plain_name = (1..=REQUIRED_NAME).contains(&entry.name.len())
            && !entry.name.starts_with('-')
            && (entry.name.chars()).all(|it| it.is_ascii_alphanumeric() || "._-".contains(it));
        if !is_plain_name {
            let problem = format!("must be 1 to {REQUIRED_NAME} letters, digits, `.`, `_` and `-`");
            return Err(ConfigProblem::key("hook.name", problem));
        }
        let is_absolute = |words: &Vec<String>| words.first().is_some_and(|it| it.starts_with('/'));
        match &entry.command {
            Some(CommandWords::Argv(words)) if is_absolute(words) => {}
            Some(_) | None => {
                let problem = "must be a list of words, of which the first is an absolute path";
                return Err(ConfigProblem::key("hook.command", problem));
            }
        }
        for (key, is_there) in [
            ("hook.enabled", entry.enabled.is_some()),
            ("hook.priority", entry.priority.is_some()),
            ("hook.profiles", !entry.profiles.is_empty()),
        ] {
            if is_there {
                let problem = "is not for required hooks, which always run first; take it out";
                return Err(ConfigProblem::key(key, problem));
            }
        }
        if entry.on_failure.is_none() && entry.kind.as_deref() != Some("advisory") {
            entry.on_failure = Some("closed".to_owned());
        }
        let (Some(contract), Some(point)) = (entry.contract.take(), entry.point.take()) else {
            let problem = "and `contract` must name the point at which the hook runs";
            return Err(ConfigProblem::key("hook.point", problem));
        };
        // Without the settings of a command, which would count for requests of users too.
        let (_, hook) = registered(0, entry, &contract, point)?;
        let hook = hook.ok_or_else(|| ConfigProblem::key("hook.enabled", "is false"))?;
        if !hook.mode.facts().is_process {
            let problem = "has no hooks that are processes; name another contract";
            return Err(ConfigProblem::key("hook.contract", problem));
        }
        Ok(Registered {
            owner: Owner::Required,
            profile_granted: true,
            source: format!("{}: {}", file.display(), hook.name),
            ..hook
        })
    };
    read().map_err(|problem| of_required(problem).in_entry(&name))
}

/// Names a problem's key as the administrator's file has it.
fn of_required(problem: ConfigProblem) -> ConfigProblem {
    match problem {
        ConfigProblem::Key { key, problem } => ConfigProblem::Key {
            key: match key.strip_prefix("hook.") {
                Some(rest) => format!("{REQUIRED}.{rest}"),
                None => key,
            },
            problem,
        },
        other @ (ConfigProblem::NoPlace { .. }
        | ConfigProblem::Read(_)
        | ConfigProblem::Syntax(_)
        | ConfigProblem::Untrusted(_)) => other,
    }
}

/// Reads settings of a command that is no hook.
fn statement(entry: HookEntry) -> Result<ConfiguredHook, ConfigProblem> {
    let (_, profiles) = profiles(&entry)?;
    let Some(CommandWords::Argv(command)) = entry.command else {
        let problem =
            "must be a list of program and arguments where no `contract` names the shell of a line";
        return Err(ConfigProblem::key("hook.command", problem));
    };
    not_empty(&command)?;
    Ok(ConfiguredHook {
        command,
        profiles,
        timeout: entry.timeout.map(|span| span.0),
    })
}

/// Reads a hook of a point, and the settings of its command.
fn registered(
    index: usize,
    mut entry: HookEntry,
    contract: &str,
    point: String,
) -> Result<(Option<ConfiguredHook>, Option<Registered>), ConfigProblem> {
    let (profile, profiles) = profiles(&entry)?;
    let timeout = entry.timeout.map(|span| span.0);
    let mode = mode(contract, &entry)?;
    let stop = mode.stop_at(&point).map_err(of_field("hook.point"))?;
    let point = mode.spelled(&point).to_owned();
    let matcher = Matcher::parse(mode, &point, &entry.matcher).map_err(of_field("hook.matcher"))?;
    let on_failure = on_failure("hook.on_failure", entry.on_failure.as_deref(), stop)?;
    let (action, argv) = action(mode, &point, &mut entry)?;
    if let Some(path) = entry.working_dir.as_ref().filter(|path| !is_plain(path)) {
        return Err(ConfigProblem::key("hook.working_dir", not_plain(path)));
    }
    let mut configured_env = BTreeMap::new();
    for (variable, value) in entry.env {
        settable(&variable)
            .map_err(|problem| ConfigProblem::key("hook.env", format!("`{variable}` {problem}")))?;
        configured_env.insert(variable, OsString::from(value));
    }
    let runs_after_block = match entry.after_block.as_deref() {
        None => false,
        Some(word) => choice(word, [("run", true), ("skip", false)])
            .map_err(|problem| ConfigProblem::key("hook.after_block", problem))?,
    };
    let failure = entry.on_failure.as_deref();
    let advisory = is_advisory("hook.kind", entry.kind.as_deref(), failure)?;
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
        name: entry.name,
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
    hooks_file(entry).map_err(|problem| problem.in_entry(&shown))
}

fn hooks_file(entry: HooksFileEntry) -> Result<HooksFile, ConfigProblem> {
    let read = contracts();
    if !read.contains(&entry.contract.as_str()) {
        let problem = format!(
            "is `{}`; files are read of {}",
            entry.contract,
            read.join(", ")
        );
        return Err(ConfigProblem::key("hooks_file.contract", problem));
    }
    let paths = [
        ("hooks_file.path", Some(&entry.path)),
        ("hooks_file.base", entry.base.as_ref()),
    ];
    for (key, path) in paths {
        if path.is_some_and(|path| !is_plain(path)) {
            let problem = "is not an absolute path without `.` and `..`";
            return Err(ConfigProblem::key(key, problem));
        }
    }
    let judge = entry.judge.map(|words| judge(words, &entry.contract));
    let owner = match (entry.agent, entry.plugin, entry.skill) {
        (None, None, None) => Owner::Operator,
        (Some(name), None, None) => Owner::Agent(name),
        (None, Some(name), None) => Owner::Plugin(name),
        (None, None, Some(name)) => Owner::Skill(name),
        _ => {
            let problem = "excludes `plugin` and `skill`, and they each other";
            return Err(ConfigProblem::key("hooks_file.agent", problem));
        }
    };
    let rules = entry.rule.into_iter().map(|it| rule(it, &entry.contract));
    Ok(HooksFile {
        base: entry.base,
        judge: judge.transpose()?,
        profile: profile_name("hooks_file.profile", entry.profile.as_deref())?,
        rules: rules.collect::<Result<_, _>>()?,
        contract: entry.contract,
        owner,
        path: entry.path,
        user: (entry.user.as_ref().map(super::users::of_file)).transpose()?,
    })
}

/// Reads the command in the place of models.
fn judge(words: Vec<String>, contract: &str) -> Result<Command, ConfigProblem> {
    let of_models = Mode::contracts(|mode| !mode.facts().is_process);
    let problem = match words.first() {
        _ if !of_models.contains(&contract) => {
            format!("is for files of {} alone", quoted(&of_models))
        }
        Some(program) if !program.trim().is_empty() => {
            return Ok(Command::Argv(words.into_iter().map(Into::into).collect()));
        }
        Some(_) | None => "names no program".to_owned(),
    };
    Err(ConfigProblem::key("hooks_file.judge", problem))
}

/// Reads a `[[hooks_file.rule]]`.
fn rule(entry: RuleEntry, contract: &str) -> Result<Rule, ConfigProblem> {
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
        let problem = "must name its hooks by `name`, `point` or `command`; set `profile` of the file for all of them";
        return Err(ConfigProblem::key(KEY, problem));
    }
    if profile.is_none() && timeout.is_none() && failure.is_none() && kind.is_none() {
        let problem = "must set `profile`, `timeout`, `on_failure` or `kind`";
        return Err(ConfigProblem::key(KEY, problem));
    }
    let advisory = is_advisory("hooks_file.rule.kind", kind.as_deref(), failure.as_deref())?;
    let mode = Mode::any_of(contract);
    let stop = match (mode, &point) {
        (Some(mode), Some(point)) => mode
            .stop_at(point)
            .map_err(of_field("hooks_file.rule.point"))?,
        // A rule without a point may match hooks before a tool call.
        _ => Stop::Call,
    };
    let on_failure = failure.map(|text| {
        let read = on_failure("hooks_file.rule.on_failure", Some(&text), stop);
        read.map_err(|problem| match point.is_none() {
            true => problem.with("; name the `point`"),
            false => problem,
        })
    });
    Ok(Rule {
        advisory,
        command: command.map(|text| text.trim().to_owned()),
        name,
        on_failure: on_failure.transpose()?,
        point: point.map(|name| mode.map_or(name.clone(), |mode| mode.spelled(&name).to_owned())),
        profile: profile_name("hooks_file.rule.profile", profile.as_deref())?,
        timeout: timeout.map(|span| span.0),
    })
}

/// Returns the problem of a key, of a request's field that has it.
fn of_field(key: &'static str) -> impl Fn(InvalidField) -> ConfigProblem {
    move |error| ConfigProblem::key(key, error.problem)
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

fn profile_name(
    key: &'static str,
    name: Option<&str>,
) -> Result<Option<ProfileName>, ConfigProblem> {
    let read = |name| {
        let problem = || ConfigProblem::key(key, format!("`{name}` is no profile name"));
        ProfileName::parse(name).ok_or_else(problem)
    };
    name.map(read).transpose()
}

/// Returns the hook's profile, and those that the operator grants it, which include the former.
fn profiles(entry: &HookEntry) -> Result<(Option<ProfileName>, Vec<ProfileName>), ConfigProblem> {
    let profile = profile_name("hook.profile", entry.profile.as_deref())?;
    let mut granted = Vec::new();
    for name in &entry.profiles {
        granted.extend(profile_name("hook.profiles", Some(name))?);
    }
    granted.extend(profile.clone());
    Ok((profile, granted))
}

fn mode(contract: &str, entry: &HookEntry) -> Result<Mode, ConfigProblem> {
    let parsed = match Mode::any_of(contract) {
        // A template has a mode of its own, and no command.
        Some(mode) if entry.template_push.is_some() && entry.mode.is_empty() => {
            Ok(mode.of_templates().unwrap_or(mode))
        }
        _ => Mode::parse(contract, &entry.mode),
    };
    parsed.map_err(|error| ConfigProblem::key("hook.contract", error.to_string()))
}

fn on_failure(
    key: &'static str,
    word: Option<&str>,
    stop: Stop,
) -> Result<OnFailure, ConfigProblem> {
    let all = [
        ("contract", OnFailure::Contract),
        ("closed", OnFailure::Closed),
        ("open", OnFailure::Open),
    ];
    let on_failure = choice(word.unwrap_or("contract"), all)
        .map_err(|problem| ConfigProblem::key(key, problem))?;
    if on_failure == OnFailure::Open && stop == Stop::Call {
        let problem = "cannot be `open` where a tool call or permission is decided";
        return Err(ConfigProblem::key(key, problem));
    }
    Ok(on_failure)
}

/// Returns whether a hook is advisory, if set. A hook whose failures stop something is not.
fn is_advisory(
    key: &'static str,
    kind: Option<&str>,
    on_failure: Option<&str>,
) -> Result<Option<bool>, ConfigProblem> {
    let read = |word| {
        choice(word, [("advisory", true), ("policy", false)])
            .map_err(|problem| ConfigProblem::key(key, problem))
    };
    match (kind.map(read).transpose()?, on_failure) {
        (Some(true), Some("closed")) => {
            let problem = "cannot be `advisory` with `on_failure = \"closed\"`, which stops";
            Err(ConfigProblem::key(key, problem))
        }
        (advisory, _) => Ok(advisory),
    }
}

/// Takes the hook's action out of an entry. Returns its command as a consent names it, too.
fn action(
    mode: Mode,
    point: &str,
    entry: &mut HookEntry,
) -> Result<(Action, Option<Vec<String>>), ConfigProblem> {
    if entry.builtin.is_none() && !entry.args.is_empty() {
        let problem = "are for a `builtin`; put arguments of a command into `command`";
        return Err(ConfigProblem::key("hook.args", problem));
    }
    let (key, problem) = match (
        entry.builtin.take(),
        entry.command.take(),
        entry.template_push.take(),
    ) {
        (Some(name), None, None) => {
            let action = builtin(mode, point, &name, &entry.args)?;
            let argv = action.supplied().map(Supplied::argv);
            return Ok((action, argv));
        }
        (None, Some(words), None) => {
            let (command, argv) = command(mode, point, words)?;
            return Ok((Action::Command(command), Some(argv)));
        }
        (None, None, Some(written)) => {
            let supplied = template(mode, &written)?;
            let argv = supplied.argv();
            return Ok((Action::Supplied(supplied), Some(argv)));
        }
        (Some(_), _, _) => (
            "hook.builtin",
            "excludes `command` and `template_push`; give one of them",
        ),
        (None, Some(_), Some(_)) => ("hook.template_push", "excludes `command`; give one of them"),
        (None, None, None) => ("hook.command", "is missing"),
    };
    Err(ConfigProblem::key(key, problem))
}

fn template(
    mode: Mode,
    written: &serde_json::Map<String, serde_json::Value>,
) -> Result<Supplied, ConfigProblem> {
    let problem = if mode.of_templates().is_none() {
        let contracts = Mode::contracts(|mode| mode.of_templates().is_some());
        format!("is a scheme of {} alone", quoted(&contracts))
    } else {
        match Template::parse(written) {
            Ok(template) => return Ok(Supplied::Template(template)),
            Err(InvalidField { field, problem }) => format!("is wrong: `{field}` {problem}"),
        }
    };
    Err(ConfigProblem::key("hook.template_push", problem))
}

/// Reads a command, and its words as a consent names them.
fn command(
    mode: Mode,
    point: &str,
    words: CommandWords,
) -> Result<(Command, Vec<String>), ConfigProblem> {
    match words {
        CommandWords::Argv(argv) => {
            not_empty(&argv)?;
            let words = argv.iter().map(OsString::from).collect();
            Ok((Command::Argv(words), argv))
        }
        CommandWords::Line(text) if text.trim().is_empty() => {
            Err(ConfigProblem::key("hook.command", "is blank"))
        }
        CommandWords::Line(text) => {
            let argv = match mode.defaults(point).command {
                CommandStyle::Argv => {
                    let words = mode.split(&text).map_err(of_field("hook.command"))?;
                    let word = |word: OsString| word.to_string_lossy().into_owned();
                    words.into_iter().map(word).collect()
                }
                CommandStyle::Shell { program, option } => {
                    vec![program.to_owned(), option.to_owned(), text.clone()]
                }
            };
            Ok((Command::Line { shell: None, text }, argv))
        }
    }
}

/// Returns names for people.
fn quoted(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

fn builtin(mode: Mode, point: &str, name: &str, args: &[String]) -> Result<Action, ConfigProblem> {
    if !mode.facts().has_builtins {
        let contracts = Mode::contracts(|mode| mode.facts().has_builtins);
        let problem = format!("is a scheme of {} commands alone", quoted(&contracts));
        return Err(ConfigProblem::key("hook.builtin", problem));
    }
    let action = Action::builtin(name, args).map_err(|InvalidField { field, problem }| {
        let key = if field == "args" {
            "hook.args"
        } else {
            "hook.builtin"
        };
        ConfigProblem::key(key, problem)
    })?;
    if let Some((_, _, points)) = action.as_builtin()
        && !points.contains(&point)
    {
        let problem = format!(
            "`{name}` does nothing at `{point}`, but at {}",
            points.join(", ")
        );
        return Err(ConfigProblem::key("hook.point", problem));
    }
    Ok(action)
}

fn not_empty(argv: &[String]) -> Result<(), ConfigProblem> {
    if argv.first().is_none_or(String::is_empty) {
        let problem = "is empty; give program and arguments as a list";
        return Err(ConfigProblem::key("hook.command", problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(text: &str) -> Result<Registered, String> {
        let text = format!("contract = \"claude_code\"\npoint = \"PreToolUse\"\n{text}");
        let entry: HookEntry = toml::from_str(&text).unwrap();
        super::required(Path::new("/m"), entry).map_err(|problem| problem.to_string())
    }

    #[test]
    fn a_required_hook_fails_closed_and_names_its_program_by_words() {
        const COMMAND: &str = "name = \"g\"\ncommand = [\"/opt/g\"]\n";
        let hook = required(COMMAND).unwrap();
        assert_eq!(hook.owner, Owner::Required);
        assert_eq!(hook.entry.on_failure, OnFailure::Closed);
        assert!(hook.profile_granted);
        let advisory = required(&format!("{COMMAND}kind = \"advisory\"\n")).unwrap();
        assert!(advisory.entry.advisory);
        for (text, key) in [
            ("command = [\"/opt/g\"]", "required.name"),
            ("name = \"-g\"\ncommand = [\"/opt/g\"]", "required.name"),
            ("name = \"a b\"\ncommand = [\"/opt/g\"]", "required.name"),
            ("name = \"g\"", "required.command"),
            ("name = \"g\"\ncommand = \"/opt/g\"", "required.command"),
            ("name = \"g\"\ncommand = [\"g\"]", "required.command"),
            (&format!("{COMMAND}enabled = false"), "required.enabled"),
            (&format!("{COMMAND}priority = 1.0"), "required.priority"),
            (
                &format!("{COMMAND}profiles = [\"open\"]"),
                "required.profiles",
            ),
            (
                &format!("{COMMAND}on_failure = \"open\""),
                "required.on_failure",
            ),
        ] {
            let error = required(text).unwrap_err();
            assert!(error.contains(&format!("`{key}`")), "{text}: {error}");
        }
    }
}

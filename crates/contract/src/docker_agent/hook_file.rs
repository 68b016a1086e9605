//! docker-agent: the map `hooks:` of an agent file in YAML, for all agents or below one of them. Tool events hold
//! groups with a matcher, the others flat lists.

use super::builtin::shorthand;
use crate::{
    Entry, Mode,
    hook_file::{
        Action, Gathered, HookFile, Item, Layout, Owner, ReadError, Registered, Syntax, groups,
        line, tolerant_matcher, yaml::Version,
    },
};

/// The events whose hooks are in groups.
const TOOL_EVENTS: [&str; 6] = [
    "permission_request",
    "post_tool_use",
    "pre_tool_use",
    "tool_guard",
    "tool_input_transform",
    "tool_response_transform",
];

/// Built-in hooks that decide nothing and are left to the runtime. Run as unsupported hooks they would deny calls.
const LEFT: [(&str, &str); 2] = [
    (
        "snapshot",
        "the hook decides nothing, and no copies of a project are kept here",
    ),
    (
        "unload",
        "the hook decides nothing, and nothing is sent to a model's server from here",
    ),
];

/// The name of a judging model's output schema. Replies in any other cannot be interpreted.
const JUDGEMENT: &str = "pre_tool_use_decision";

pub(super) const HOOK_FILE: HookFile = HookFile {
    syntax: Syntax::Yaml(Version::V1_2),
    ..HookFile::with(Layout::Own(read))
};

fn read(file: &mut Gathered<'_>, root: &Item<'_>) -> Result<(), ReadError> {
    if root.value().is_null() {
        return Ok(());
    }
    root.map()?;
    let settings = root.down("settings");
    if settings.map_or(Ok(false), |settings| settings.is_set("snapshot"))? {
        leave(file, "snapshot");
    }
    if let Some(hooks) = root.down("hooks") {
        events(file, &hooks, &Owner::Operator)?;
    }
    let agents = root.down("agents");
    for (name, agent) in agents.map_or(Ok(Vec::new()), |agents| agents.down_all())? {
        let owner = Owner::Agent(name.to_owned());
        if let Some(hooks) = agent.down("hooks") {
            events(file, &hooks, &owner)?;
        }
        flags(file, &agent, &owner)?;
        warn_of_both(file, &agent, &owner);
    }
    Ok(())
}

/// Warns of built-in hooks that an agent has by both flag and entry. Their precedence is not known here.
fn warn_of_both(file: &mut Gathered<'_>, agent: &Item<'_>, owner: &Owner) {
    let hooks = &file.read.hooks;
    let is_flag = |hook: &Registered| {
        let builtin = hook.action.as_builtin();
        builtin.is_some_and(|(name, ..)| hook.name == name) && hook.owner == *owner
    };
    let is_entry_of = |entry: &Registered, flag: &Registered| {
        (&entry.action, &entry.point) == (&flag.action, &flag.point)
            && (entry.owner == *owner || entry.owner == Owner::Operator)
            && !is_flag(entry)
    };
    let flags = hooks.iter().filter(|hook| is_flag(hook));
    let twice = flags.filter(|flag| hooks.iter().any(|entry| is_entry_of(entry, flag)));
    let twice = twice.map(|flag| {
        format!(
            "`{}` stands for a built-in hook at `{}` that an entry has as well; leave one of them out",
            flag.name, flag.point
        )
    });
    let twice: Vec<_> = twice.collect();
    for problem in twice {
        file.warn(agent, &problem);
    }
}

/// Registers the built-in hooks for flags of an agent and its toolsets. The limit on tool results needs no flag: every
/// agent has it.
fn flags(file: &mut Gathered<'_>, agent: &Item<'_>, owner: &Owner) -> Result<(), ReadError> {
    let mut set = Vec::new();
    for flag in ["add_date", "add_environment_info", "redact_secrets"] {
        if agent.is_set(flag)? {
            set.push(flag);
        }
    }
    let toolsets = agent.down("toolsets");
    for toolset in toolsets.map_or(Ok(Vec::new()), |toolsets| toolsets.entries())? {
        if toolset.is_set("safer")? && !set.contains(&"safer") {
            set.push("safer");
        }
    }
    set.push("limit_large_tool_results");
    for flag in set {
        for (point, action) in shorthand(flag).into_iter().flatten() {
            of_flag(file, agent, owner, flag, point, action);
        }
    }
    prompt_files(file, agent, owner)
}

/// Registers the built-in hook for an agent's list of prompt files.
fn prompt_files(file: &mut Gathered<'_>, agent: &Item<'_>, owner: &Owner) -> Result<(), ReadError> {
    const FLAG: &str = "add_prompt_files";

    let Some(list) = agent.field(FLAG) else {
        return Ok(());
    };
    let names: Vec<_> = list.texts()?.into_iter().map(str::to_owned).collect();
    if names.is_empty() {
        return Ok(());
    }
    match Action::builtin(FLAG, &names) {
        Ok(action) => of_flag(file, agent, owner, FLAG, "turn_start", action),
        Err(error) => {
            let problem = format!(
                "`{FLAG}` is left to the runtime: its names {}",
                error.problem
            );
            file.warn(agent, &problem);
        }
    }
    Ok(())
}

fn of_flag(
    file: &mut Gathered<'_>,
    agent: &Item<'_>,
    owner: &Owner,
    flag: &str,
    point: &str,
    action: Action,
) {
    let preempt = matches!(&action, Action::Builtin(builtin) if builtin.preempts());
    let hook = file.hook(agent, point, action);
    file.push(Registered {
        entry: Entry {
            preempt,
            ..hook.entry
        },
        name: flag.to_owned(),
        owner: owner.clone(),
        ..hook
    });
}

fn events(file: &mut Gathered<'_>, hooks: &Item<'_>, owner: &Owner) -> Result<(), ReadError> {
    for (event, list) in hooks.down_all()? {
        file.check_point(&list, event)?;
        for item in list.entries()? {
            if is_left(file, &item) {
                continue;
            }
            if TOOL_EVENTS.contains(&event) {
                group(file, &item, event, owner)?;
            } else {
                let hook = hook(file, &item, event)?;
                file.push(Registered {
                    owner: owner.clone(),
                    ..hook
                });
            }
        }
    }
    Ok(())
}

fn group(
    file: &mut Gathered<'_>,
    group: &Item<'_>,
    event: &str,
    owner: &Owner,
) -> Result<(), ReadError> {
    group.only(&["hooks", "matcher", "preempt_yolo"])?;
    let preempt = group.is_set("preempt_yolo")?;
    let mut entries = groups::members(group)?;
    entries.retain(|entry| !is_left(file, entry));
    let hooks = entries.iter().map(|entry| hook(file, entry, event));
    let hooks: Vec<_> = hooks.collect::<Result<_, _>>()?;
    let (matcher, matching) = tolerant_matcher(file, group, event)?;
    for hook in hooks {
        let mut entry = hook.entry;
        entry.preempt = preempt;
        file.push(Registered {
            entry,
            matcher: matcher.clone(),
            matching: matching.clone(),
            owner: owner.clone(),
            ..hook
        });
    }
    Ok(())
}

/// Returns whether an entry is left to the runtime, and warns once for all.
fn is_left(file: &mut Gathered<'_>, entry: &Item<'_>) -> bool {
    let text = |key| entry.field(key).and_then(|field| field.value().as_str());
    let left = (text("type") == Some("builtin"))
        .then(|| text("command"))
        .flatten();
    left.is_some_and(|name| leave(file, name))
}

/// Returns whether a built-in hook is left to the runtime, and warns of it.
fn leave(file: &mut Gathered<'_>, name: &str) -> bool {
    let Some((_, why)) = LEFT.iter().find(|(left, _)| *left == name) else {
        return false;
    };
    let warning = format!(
        "{}: `{name}` is left to the runtime: {why}",
        file.origin.name
    );
    if !file.read.warnings.contains(&warning) {
        file.read.warnings.push(warning);
    }
    true
}

fn hook(file: &Gathered<'_>, entry: &Item<'_>, event: &str) -> Result<Registered, ReadError> {
    entry.only(&file.keys())?;
    let action = match entry.required("type")? {
        "builtin" => {
            let name = entry.required("command")?;
            let args = entry.field("args").map(|args| args.texts()).transpose()?;
            let args: Vec<_> = args
                .unwrap_or_default()
                .into_iter()
                .map(str::to_owned)
                .collect();
            Action::builtin(name, &args).unwrap_or_else(|error| {
                Action::Unsupported(format!("`{name}`: `{}` {}", error.field, error.problem))
            })
        }
        "command" => Action::Command(line(&entry.present("command")?)?),
        "model" => {
            let model = entry
                .field("model")
                .map(|model| model.filled())
                .transpose()?;
            let model = model.unwrap_or("the agent's");
            let what = match is_judgement(entry)? {
                true => "`judge` of the `[[hooks_file]]` can name one",
                false => "`judge` is for the schema `pre_tool_use_decision`",
            };
            Action::Unsupported(format!("model `{model}` judges, and no command; {what}"))
        }
        other => {
            let problem = format!("is `{other}`; use `command`, `builtin` or `model`");
            return Err(entry.wrong_at("type", problem));
        }
    };
    let env = entry.field("env").map(|env| env.variables()).transpose()?;
    let env = env.unwrap_or_default();
    let expands = |value: &std::ffi::OsString| value.to_string_lossy().contains("${");
    let action = match env.iter().find(|(_, value)| expands(value)) {
        None => action,
        // Running it with the unexpanded text would use a wrong value.
        Some((name, _)) => Action::Unsupported(format!(
            "its variable `{name}` takes a value from the runtime's environment, which no hook inherits"
        )),
    };
    let base = file.origin.base;
    let directory = entry.field("working_dir").map(|item| item.directory(base));
    let is_judge = is_judgement(entry)? && !env.values().any(expands);
    let hook = Registered {
        configured_env: env,
        ..file.whole(entry, event, action)?
    };
    let hook = Registered {
        working_dir: directory.transpose()?,
        ..hook
    };
    if is_judge {
        judgement(entry, hook)
    } else {
        Ok(hook)
    }
}

/// Returns whether an entry is a model's judgement with a readable reply.
fn is_judgement(entry: &Item<'_>) -> Result<bool, ReadError> {
    let is = |key, value| {
        let field = entry.field(key).map(|field| field.text()).transpose()?;
        Ok::<_, ReadError>(field == Some(value))
    };
    Ok(is("type", "model")? && is("schema", JUDGEMENT)?)
}

/// Replaces a model's judgement by a command, once the operator configures one.
///
/// The command has the model's prompt in its environment, and its output is interpreted as the model's reply.
fn judgement(entry: &Item<'_>, hook: Registered) -> Result<Registered, ReadError> {
    let mut configured_env = hook.configured_env;
    for (key, name) in [("model", "HOOK_MODEL"), ("prompt", "HOOK_PROMPT")] {
        let text = entry.field(key).map(|field| field.text()).transpose()?;
        configured_env.insert(name.to_owned(), text.unwrap_or_default().into());
    }
    Ok(Registered {
        configured_env,
        mode: Mode::DockerAgentModel,
        ..hook
    })
}

//! GitHub Copilot: hooks in JSON, version 1, a flat list of entries for each event.

use hookjail_base::model::Command;

use super::Copilot;
use crate::hook_file::{
    Action, Gathered, HookFile, Item, ReadError, Registered, Switches, line, posted,
    tolerant_matcher, version,
};

/// The keys of an entry that runs a command.
const KEYS: [&str; 13] = [
    "args",
    "bash",
    "command",
    "comment",
    "cwd",
    "env",
    "exec",
    "matcher",
    "name",
    "powershell",
    "timeout",
    "timeoutSec",
    "type",
];

/// The keys that entries with a command and posted ones share.
const COMMON: [&str; 6] = [
    "comment",
    "matcher",
    "name",
    "timeout",
    "timeoutSec",
    "type",
];

impl HookFile for Copilot {
    fn read(
        &self,
        file: &mut Gathered<'_>,
        root: &Item<'_>,
        _switches: &Switches,
    ) -> Result<(), ReadError> {
        read(file, root)
    }
}

fn read(file: &mut Gathered<'_>, root: &Item<'_>) -> Result<(), ReadError> {
    root.map()?;
    version(root)?;
    if root.is_set("disableAllHooks")? {
        file.disable("`disableAllHooks` is true");
    }
    let Some(hooks) = root.down("hooks") else {
        return Ok(());
    };
    for (event, list) in hooks.down_all()? {
        file.check_point(&list, event)?;
        for entry in list.entries()? {
            let hook = hook(file, &entry, event)?;
            let (matcher, matching) = tolerant_matcher(file, &entry, event)?;
            file.push(Registered {
                matcher,
                matching,
                ..hook
            });
        }
    }
    Ok(())
}

fn hook(file: &mut Gathered<'_>, entry: &Item<'_>, event: &str) -> Result<Registered, ReadError> {
    let kind = entry.field("type");
    let kind = kind.map_or(Ok("command"), |kind| kind.filled())?;
    let action = match kind {
        "command" => {
            file.warn_of_others(entry, &KEYS)?;
            command(entry)?
        }
        "http" => {
            file.warn_of_others(entry, &[&posted::KEYS[..], &COMMON].concat())?;
            posted::post(file, entry)?
        }
        "prompt" => Action::Unsupported(format!("its type is `{kind}`, which runs no command")),
        other => {
            let problem = format!("is `{other}`; it can be `command`, `http` or `prompt`");
            return Err(entry.wrong_at("type", problem));
        }
    };
    let runs = matches!(action, Action::Command(_));
    let env = entry.field("env").filter(|_| runs);
    let env = env.map(|env| env.variables()).transpose()?;
    let base = file.origin.base;
    let directory = entry.field("cwd").filter(|_| runs);
    let directory = directory.map(|item| item.directory(base)).transpose()?;
    let hook = file.hook(entry, event, action);
    let is_timed = runs || kind == "http";
    let keys: &[_] = match (entry.field("timeoutSec"), entry.field("timeout")) {
        _ if !is_timed => &[],
        (Some(_), Some(_)) => {
            let problem = "says the same as `timeoutSec`; give one of them";
            return Err(entry.wrong_at("timeout", problem));
        }
        (_, _) => &["timeout", "timeoutSec"],
    };
    Ok(Registered {
        configured_env: env.unwrap_or_default(),
        entry: entry.reading(file.mode, keys)?,
        name: entry.own_name()?.unwrap_or(hook.name),
        working_dir: directory,
        ..hook
    })
}

/// Parses an entry's command. On this system `bash` goes before `command`, and `powershell` is another system's.
fn command(entry: &Item<'_>) -> Result<Action, ReadError> {
    if let Some(exec) = entry.field("exec") {
        let program = exec.filled()?;
        let args = entry.field("args").map(|args| args.texts()).transpose()?;
        if let Some(other) = ["bash", "command", "powershell"]
            .into_iter()
            .find(|other| entry.field(other).is_some())
        {
            let problem = "excludes `exec`; give one of them";
            return Err(entry.wrong_at(other, problem));
        }
        let words = std::iter::once(program).chain(args.unwrap_or_default());
        return Ok(Action::Command(Command::Argv(
            words.map(Into::into).collect(),
        )));
    }
    if entry.field("args").is_some() {
        return Err(entry.wrong_at("args", "belongs to `exec`, which is missing"));
    }
    if let Some(text) = entry.field("bash").or_else(|| entry.field("command")) {
        return Ok(Action::Command(line(&text)?));
    }
    if let Some(text) = entry.field("powershell") {
        text.filled()?;
        return Ok(Action::Unsupported("it is for PowerShell alone".to_owned()));
    }
    let problem = "is missing, and so are `command` and `exec`; give one of them";
    Err(entry.wrong_at("bash", problem))
}

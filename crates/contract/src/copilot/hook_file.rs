//! GitHub Copilot: hooks in JSON, a list of entries for each event. Copilot CLI 1.0.102 also reads Claude Code's groups of entries, and files
//! without a version.

use hookjail_base::model::Command;

use crate::{
    Entry,
    hook_file::{
        Action, Gathered, HookFile, Item, Layout, ReadError, Registered, Versioned, line, posted,
        tolerant_matcher,
    },
};

/// The keys of a posted entry beside those for its request.
const COMMON: [&str; 6] = [
    "comment",
    "matcher",
    "name",
    "timeout",
    "timeoutSec",
    "type",
];

pub(super) const HOOK_FILE: HookFile = HookFile {
    beside: &["comment"],
    switch: Some("disableAllHooks"),
    versioned: Versioned::Maybe,
    ..HookFile::with(Layout::FlatOrGroups(hook))
};

fn hook(file: &mut Gathered<'_>, entry: &Item<'_>, event: &str) -> Result<Registered, ReadError> {
    let kind = entry.field("type");
    let kind = kind.map_or(Ok("command"), |kind| kind.filled())?;
    let action = match kind {
        "command" => {
            file.warn_of_others(entry, &file.keys())?;
            command(entry)?
        }
        "http" => {
            file.warn_of_others(entry, &[&posted::KEYS[..], &COMMON].concat())?;
            posted::post(file, entry)?
        }
        "prompt" => Action::Unsupported(format!("its type is `{kind}`, which runs no command")),
        other => {
            let problem = format!("is `{other}`; use `command`, `http` or `prompt`");
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
    if is_timed && entry.field("timeoutSec").is_some() && entry.field("timeout").is_some() {
        let problem = "means the same as `timeoutSec`; give one of them";
        return Err(entry.wrong_at("timeout", problem));
    }
    let reading = match is_timed {
        true => file.reading(entry)?,
        false => Entry::default(),
    };
    let name = entry.own_name()?.unwrap_or(hook.name);
    let (matcher, matching) = tolerant_matcher(file, entry, event)?;
    Ok(Registered {
        configured_env: env.unwrap_or_default(),
        entry: reading,
        matcher,
        matching,
        name,
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
        return Ok(Action::Unsupported(
            "the command is for PowerShell alone".to_owned(),
        ));
    }
    let problem = "is missing, and so are `command` and `exec`; give one of them";
    Err(entry.wrong_at("bash", problem))
}

//! Loom: the buckets below `hooks` in a profile's `agent.json`. `command` actions run here, where the operator's switch
//! allows them, `log` and `save_json` are supported, `webhook` is posted and `approve` asks the operator.

use std::{collections::BTreeMap, path::Path, time::Duration};

use super::{log::Log, payload::Payload, save::Save};
use crate::{
    Entry, Matcher, Post, Supplied,
    hook_file::{Action, Gathered, HookFile, Item, Layout, ReadError, Registered, line},
};

/// The switch without which no command of a hook runs.
const ALLOWED: &str = "OWNWARE_ALLOW_COMMAND_HOOKS";

/// The switch with which no hook runs.
const DISABLED: &str = "OWNWARE_DISABLE_HOOKS";

pub(super) const SWITCHES: [&str; 2] = [ALLOWED, DISABLED];

/// The default time for a person to answer: half an hour.
const PERSON: Duration = Duration::from_secs(30 * 60);

/// The longest that a person may have: a day, milliseconds.
const MAX_PERSON_MS: u64 = 24 * 3600 * 1000;

/// The timeout of a post.
const WEBHOOK: Duration = Duration::from_millis(3500);

/// The buckets, each with its point.
const BUCKETS: [(&str, &str); 7] = [
    ("onStart", "session.start"),
    ("onToolCall", "tool.pre"),
    ("onToolEnd", "tool.post"),
    ("onModelCall", "model.pre"),
    ("onModelEnd", "model.post"),
    ("onComplete", "session.end"),
    ("onError", "error"),
];

pub(super) const HOOK_FILE: HookFile = HookFile {
    disabled: |switches| {
        let is_disabled = switches.value(DISABLED) == Some("1");
        is_disabled.then_some("`OWNWARE_DISABLE_HOOKS` is 1")
    },
    ..HookFile::with(Layout::Own(read))
};

fn read(file: &mut Gathered<'_>, root: &Item<'_>) -> Result<(), ReadError> {
    root.map()?;
    let Some(hooks) = root.down("hooks") else {
        return Ok(());
    };
    let name = root.field("name").and_then(|name| name.text().ok());
    let payload = Payload {
        profile: name.unwrap_or_default().to_owned(),
    };
    hooks.only(&BUCKETS.map(|(bucket, _)| bucket))?;
    for (bucket, point) in BUCKETS {
        let Some(list) = hooks.down(bucket) else {
            continue;
        };
        for entry in list.entries()? {
            let hook = hook(file, &entry, point, &payload)?;
            file.push(hook);
        }
    }
    Ok(())
}

fn hook(
    file: &mut Gathered<'_>,
    entry: &Item<'_>,
    point: &str,
    payload: &Payload,
) -> Result<Registered, ReadError> {
    let key = if entry.field("action").is_none() && entry.field("type").is_some() {
        "type"
    } else {
        "action"
    };
    let kind = entry.required(key)?;
    let action = match kind {
        "command" => command(file, entry, key)?,
        "approve" if point != "tool.pre" => {
            let problem = "is `approve`, which only `onToolCall` can have";
            return Err(entry.wrong_at(key, problem));
        }
        "approve" => Action::Approve(person(entry)?),
        "log" => Action::Log(level(entry)?),
        "save_json" => Action::Supplied(Supplied::Save(saved(file, entry, payload)?)),
        "webhook" => webhook(entry, payload)?,
        other => {
            let problem =
                format!("is `{other}`; use `approve`, `command`, `log`, `save_json` or `webhook`");
            return Err(entry.wrong_at(key, problem));
        }
    };
    let tools = tools(file, entry, point)?;
    let (matcher, matching) = tools.unwrap_or_default();
    // For an approval the timeout is a person's, not a process's.
    let mut reading = match action.command() {
        Some(_) => file.reading(entry)?,
        None => Entry::default(),
    };
    // Both only observe: a failure of theirs stops nothing.
    reading.advisory |= matches!(kind, "save_json" | "webhook");
    if kind == "webhook" {
        reading.timeout = Some(WEBHOOK);
    }
    Ok(Registered {
        entry: reading,
        matcher,
        matching,
        name: format!("{}:{kind}", entry.entry()),
        ..file.hook(entry, point, action)
    })
}

fn command(file: &Gathered<'_>, entry: &Item<'_>, key: &str) -> Result<Action, ReadError> {
    entry.only(&[key, "command", "timeoutMs", "tools"])?;
    let command = line(&entry.present("command")?)?;
    if file.switches.value(ALLOWED) != Some("1") {
        let problem =
            "is `command`, which runs only where the operator sets `OWNWARE_ALLOW_COMMAND_HOOKS=1`";
        return Err(entry.wrong_at(key, problem));
    }
    Ok(Action::Command(command))
}

/// Reads the file that events are saved in: below the profile's directory.
fn saved(file: &Gathered<'_>, entry: &Item<'_>, payload: &Payload) -> Result<Save, ReadError> {
    let item = entry.present("path")?;
    let parent = Path::new(file.origin.name).parent();
    let directory = file
        .origin
        .base
        .or(parent)
        .unwrap_or_else(|| Path::new("."));
    let problem = || item.wrong("must be a relative path without `.` and `..`");
    Save::below(directory, item.text()?, payload.clone()).ok_or_else(problem)
}

/// Reads the URL of a post, which may be unencrypted only for this machine.
fn webhook(entry: &Item<'_>, payload: &Payload) -> Result<Action, ReadError> {
    let url = entry.required("url")?;
    let mut post = match Post::new(url, &BTreeMap::new(), &[]) {
        Ok(post) if post.url.is_private() => post,
        Ok(_) => {
            let problem = "begins with `http://`, which only `localhost` may have";
            return Err(entry.wrong_at("url", problem));
        }
        Err(why) => return Ok(Action::Unsupported(why)),
    };
    post.payload = Some(payload.clone());
    Ok(Action::Http(Box::new(post)))
}

/// Reads a person's time to answer.
fn person(entry: &Item<'_>) -> Result<Duration, ReadError> {
    let Some(item) = entry.field("timeoutMs") else {
        return Ok(PERSON);
    };
    let milliseconds = item
        .value()
        .as_u64()
        .filter(|value| (1..=MAX_PERSON_MS).contains(value));
    let milliseconds = milliseconds.ok_or_else(|| item.wrong("is no number from 1 to 86400000"))?;
    Ok(Duration::from_millis(milliseconds))
}

/// Reads the level of a log line.
fn level(entry: &Item<'_>) -> Result<Log, ReadError> {
    let Some(item) = entry.field("level") else {
        return Ok(Log::default());
    };
    let level = item.text()?;
    let problem = || item.wrong(format!("is `{level}`; use `info`, `warn` or `error`"));
    Log::parse(level).ok_or_else(problem)
}

/// Reads `tools`: patterns of tools' names, as a list or between commas.
fn tools(
    file: &Gathered<'_>,
    entry: &Item<'_>,
    point: &str,
) -> Result<Option<(Matcher, String)>, ReadError> {
    let Some(item) = entry.field("tools") else {
        return Ok(None);
    };
    if !point.starts_with("tool.") {
        return Err(item.wrong("has a meaning in `onToolCall` and `onToolEnd` alone"));
    }
    let text = if item.value().is_array() {
        item.texts()?.join(",")
    } else {
        item.text()?.to_owned()
    };
    let parsed = Matcher::parse(file.mode, point, &text);
    let matcher = parsed.map_err(|error| item.wrong(error.problem))?;
    Ok(Some((matcher, text)))
}

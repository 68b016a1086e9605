//! reyn: a list `hooks:` in YAML. The scheme names of both generations are accepted, each with a string or a list.

use serde_json::{Map, Value};

use hookjail_base::model::{Command, ProfileName};

use super::template::Template;
use crate::{
    Matcher, Mode, Supplied,
    hook_file::{
        Action, Gathered, HookFile, Item, Layout, ReadError, Registered, Syntax, argv, line,
        yaml::Version,
    },
};

const SCHEMES: [&str; 6] = [
    "exec",
    "exec_capture",
    "pipeline_launch",
    "shell_exec",
    "shell_push",
    "template_push",
];

const OTHER_KEYS: [&str; 6] = [
    "matcher",
    "name",
    "network",
    "on",
    "subprocess",
    "write_paths",
];

pub(super) const HOOK_FILE: HookFile = HookFile {
    hooks: |file, root| {
        if root.value().is_null() {
            return Ok(None);
        }
        root.map()?;
        let hooks = root.down("hooks");
        if let Some(hooks) = hooks.as_ref().filter(|hooks| !hooks.value().is_array()) {
            file.warn(hooks, "is no list, so there are no hooks in it");
        }
        Ok(hooks.filter(|hooks| hooks.value().is_array()))
    },
    syntax: Syntax::Yaml(Version::V1_1),
    ..HookFile::with(Layout::List(hook))
};

fn hook(file: &mut Gathered<'_>, entry: &Item<'_>, _event: &str) -> Result<Registered, ReadError> {
    let keys: Vec<_> = OTHER_KEYS.into_iter().chain(SCHEMES).collect();
    entry.only(&keys)?;
    let point = point(entry)?;
    // A composed event has the name of its own entry.
    if !point.starts_with("composed:") {
        file.check_point(entry, &point)?;
    }
    let scheme = scheme(entry)?;
    let name = entry.own_name()?;
    let (matcher, matching) = matcher(file, entry)?;
    let (action, mode) = match scheme {
        "template_push" => (template(entry)?, Mode::ReynPush),
        "pipeline_launch" => {
            let why = "`pipeline_launch` starts a pipeline of the runtime's own, and no command";
            (Action::Unsupported(why.to_owned()), Mode::ReynExec)
        }
        "exec" | "shell_exec" => (command(file, entry, scheme)?, Mode::ReynExec),
        _ => (command(file, entry, scheme)?, Mode::ReynPush),
    };
    let runs = matches!(action, Action::Command(_));
    let (profile, not_opened) = openings(file, entry, runs)?;
    Ok(Registered {
        action: not_opened.map_or(action, Action::Unsupported),
        matcher,
        matching,
        mode,
        name: name.unwrap_or_else(|| point.clone()),
        profile,
        ..file.hook(entry, &point, Action::Unsupported(String::new()))
    })
}

/// Parses `on`: trimmed, in lower case, and without the namespace of later releases.
fn point(entry: &Item<'_>) -> Result<String, ReadError> {
    let point = entry.required("on")?.trim().to_lowercase();
    let bare = ["external", "lifecycle", "task"]
        .iter()
        .find_map(|group| point.strip_prefix(&format!("builtin:{group}:")))
        .unwrap_or(&point);
    if bare.is_empty() || bare.starts_with("builtin:") || bare.chars().any(char::is_control) {
        let problem = format!("`{}` names no point", point.escape_debug());
        return Err(entry.wrong_at("on", problem));
    }
    Ok(bare.to_owned())
}

fn scheme(entry: &Item<'_>) -> Result<&'static str, ReadError> {
    let found: Vec<_> = SCHEMES
        .into_iter()
        .filter(|scheme| entry.field(scheme).is_some())
        .collect();
    let quoted = |names: &[&str], between: &str| {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        names.join(between)
    };
    match found.as_slice() {
        [] => Err(entry.wrong(format!(
            "has no scheme; give exactly one of {}",
            quoted(&SCHEMES, ", ")
        ))),
        [scheme] => Ok(scheme),
        several => Err(entry.wrong(format!(
            "has {}; give exactly one scheme",
            quoted(several, " and ")
        ))),
    }
}

fn command(file: &mut Gathered<'_>, entry: &Item<'_>, scheme: &str) -> Result<Action, ReadError> {
    let item = entry.present(scheme)?;
    if item.value().is_array() {
        let words = item.texts()?;
        if words.iter().any(|word| word.is_empty()) {
            return Err(item.wrong("has an empty word"));
        }
        if words.iter().any(|word| word.contains("{{")) {
            return Err(item.wrong("holds `{{`, but nothing of the event reaches a command line"));
        }
        return Ok(Action::Command(argv(&item)?));
    }
    let command = line(&item)?;
    if let Command::Line { text, .. } = &command {
        file.mode
            .split(text)
            .map_err(|error| item.wrong(error.problem))?;
        if let Some(syntax) = shell_syntax(text) {
            let problem = format!(
                "`{syntax}` is a word like any other here: reyn runs no shell; name one (`sh -c '…'`) where one is meant"
            );
            file.warn(&item, &problem);
        }
    }
    Ok(Action::Command(command))
}

/// Returns the first character of a command line that is shell syntax.
fn shell_syntax(text: &str) -> Option<char> {
    let (mut quote, mut escaped, mut starts_word) = (None, false, true);
    for c in text.chars() {
        let first = std::mem::replace(&mut starts_word, c.is_whitespace() && quote.is_none());
        if std::mem::take(&mut escaped) {
            continue;
        }
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => escaped = true,
            (_, '$' | '`') => return Some(c),
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '|' | '&' | ';' | '<' | '>' | '(' | ')' | '*' | '?' | '[' | '{' | '\n') => {
                return Some(c);
            }
            (None, '#' | '~') if first => return Some(c),
            (None, _) => {}
        }
    }
    None
}

/// Reads a directive's template. `null` counts as absent.
fn template(entry: &Item<'_>) -> Result<Action, ReadError> {
    let item = entry.present("template_push")?;
    let members = item.map()?.iter().filter(|(_, value)| !value.is_null());
    let mut map: Map<_, _> = members
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let include = item.field("include").map(|item| item.texts()).transpose()?;
    map.remove("include");
    let template = Template::parse(&map).map_err(|error| entry.within(&error))?;
    Ok(match include {
        // Only the runtime can resolve what it adds to the message.
        Some(include) if !include.is_empty() => {
            let why = "its template has an `include`, which only the runtime can follow";
            Action::Unsupported(why.to_owned())
        }
        Some(_) | None => Action::Supplied(Supplied::Template(template)),
    })
}

fn matcher(file: &mut Gathered<'_>, entry: &Item<'_>) -> Result<(Matcher, String), ReadError> {
    match entry.field("matcher") {
        None => Ok((Matcher::Always, String::new())),
        Some(item) if item.value().is_string() => {
            if !item.text()?.trim().is_empty() {
                file.warn(&item, "is reserved as a text and has no effect; give a map");
            }
            Ok((Matcher::Always, String::new()))
        }
        Some(item) => {
            let map = item.map()?;
            if map
                .iter()
                .any(|(name, value)| name.is_empty() || !value.is_string())
            {
                file.warn(
                    &item,
                    "has a name that is empty or a value that is no text, which reyn refuses",
                );
            }
            let matcher = Matcher::fields(map).map_err(|error| entry.within(&error))?;
            let text = if map.is_empty() {
                String::new()
            } else {
                Value::Object(map.clone()).to_string()
            };
            Ok((matcher, text))
        }
    }
}

/// Parses an entry's access options: the profile for them, or why there is none.
fn openings(
    file: &mut Gathered<'_>,
    entry: &Item<'_>,
    runs: bool,
) -> Result<(Option<ProfileName>, Option<String>), ReadError> {
    const KEYS: [&str; 3] = ["network", "subprocess", "write_paths"];
    if !runs {
        let problem = "opens something for a command, and this scheme runs none";
        return match KEYS.into_iter().find(|key| entry.field(key).is_some()) {
            None => Ok((None, None)),
            Some(key) => Err(entry.wrong_at(key, problem)),
        };
    }
    let (network, subprocess) = (entry.is_set("network")?, entry.is_set("subprocess")?);
    let paths = entry.field("write_paths");
    let paths = paths.map(|paths| paths.texts()).transpose()?;
    if paths.is_some_and(|paths| !paths.is_empty()) {
        let why = "`write_paths` cannot be opened to one hook; remove them, and name a profile that grants them \
                   in a `[[hooks_file]]` rule";
        file.warn(entry, why);
        return Ok((None, Some(why.to_owned())));
    }
    let profile = match (network, subprocess) {
        (true, _) => {
            let problem = "`network` needs the operator's grant: a `[[hook]]` with this command and \
                           `profiles = [\"network\"]`";
            file.warn(entry, problem);
            "network"
        }
        (false, true) => "pipeline",
        (false, false) => return Ok((None, None)),
    };
    Ok((ProfileName::parse(profile), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_have_read_is_noticed() {
        for text in [
            "echo x >> /tmp/x",
            "a | b",
            "a && b",
            "echo $HOME",
            "echo \"$HOME\"",
            "ls *.rs",
            "ls ~/x",
            "a; b",
            "echo `x`",
            "a # b",
        ] {
            assert!(shell_syntax(text).is_some(), "{text}");
        }
        for text in [
            "python hook.py --all",
            "sh -c 'a | b && echo $HOME > x'",
            "echo \"a | b\" a\\|b a#b a~b",
            "echo '#'",
        ] {
            assert_eq!(shell_syntax(text), None, "{text}");
        }
    }
}

//! Hooks whose commands hookjail supplies: git, and hookjail itself. They run in the pipeline like every command.
//!
//! The programs that a workspace's git configuration starts are not trusted: the profile allows no process beside the
//! command.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use hookjail_base::model::{InvalidField, is_plain};
use hookjail_base::redact::Redactor;
use hookjail_contract::{HOOK_WORKSPACE, Members, Payload, Query, Supplied, Verdict, text};
use jiff::Timestamp;

use crate::request::Request;

/// Sets a request's stdin, environment and start directory. A returned verdict is the whole answer; the command then
/// does not run. `keeps`: whether the hook has a profile of its own, under which it may keep something.
///
/// # Errors
///
/// The event is not one JSON object, or not UTF-8 where it is handed on.
pub(crate) fn put(
    supplied: &Supplied,
    keeps: bool,
    redactor: &Redactor,
    request: &mut Request,
) -> Result<Option<Verdict>, InvalidField> {
    request.entry.report = supplied.report();
    match supplied {
        Supplied::Query(query) => put_query(query, keeps, redactor, request),
        Supplied::Save(save) => hand_on(Some(&save.payload), redactor, request).map(|()| None),
        Supplied::Template(_) => Ok(None),
    }
}

/// Replaces a command's stdin by the event without registered secrets, in a payload's form where there is one.
///
/// # Errors
///
/// The event is not one JSON object, or not UTF-8.
pub(crate) fn hand_on(
    payload: Option<&Payload>,
    redactor: &Redactor,
    request: &mut Request,
) -> Result<(), InvalidField> {
    let event = request.contract.stdin(&request.event, &request.envelope)?;
    let event = str::from_utf8(&event)
        .map_err(|error| InvalidField::new("event", format!("is not UTF-8: {error}")))?;
    let text = payload.map_or_else(
        || event.to_owned(),
        |payload| payload.document(event, &request.event.point, Timestamp::now()),
    );
    request.event.json = redactor.json(&text).unwrap_or(text).into();
    request.event.raw = true;
    Ok(())
}

fn put_query(
    query: &Query,
    keeps: bool,
    redactor: &Redactor,
    request: &mut Request,
) -> Result<Option<Verdict>, InvalidField> {
    let event = request.contract.stdin(&request.event, &request.envelope)?;
    let event = Members::of_event(&event)?;
    if let Some(verdict) = query.own_verdict(&request.event.point, &event, keeps) {
        return Ok(Some(verdict));
    }
    if matches!(query, Query::Result) {
        return hand_on(None, redactor, request).map(|()| None);
    }
    let hook = &mut request.hook;
    let sees_nothing = |why| {
        Ok(Some(Verdict::warning(format!(
            "`{}` sees nothing: {why}",
            query.name()
        ))))
    };
    let Some(workspace) = hook.workspace.as_deref() else {
        return sees_nothing("the request binds no workspace");
    };
    let Some(directory) = directory(&event, hook.working_dir.as_deref(), workspace) else {
        return sees_nothing("the runtime's working directory does not lie in the workspace");
    };
    hook.configured_env = match query {
        Query::Look(_) => BTreeMap::from([(HOOK_WORKSPACE.to_owned(), workspace.into())]),
        Query::Commits(_) | Query::Diff | Query::DiffStat | Query::Result | Query::Status => {
            environment_of_git(workspace)
        }
    };
    hook.working_dir = Some(directory);
    Ok(None)
}

/// Returns the words of a command that hookjail supplies; of hookjail itself, with the path of this program.
pub(crate) fn command(supplied: &Supplied) -> Vec<OsString> {
    let words = supplied.argv().into_iter();
    let mut words: Vec<_> = words.map(OsString::from).collect();
    if supplied.is_hookjail()
        && let Ok(program_of_self) = env::current_exe()
        && let Some(program) = words.first_mut()
    {
        *program = program_of_self.into();
    }
    words
}

/// Returns a hook's start directory: the entry's, else the event's, else the workspace. `None` where it does not lie in
/// the workspace, compared as text; admission checks the resolved path.
fn directory(
    event: &Members<'_>,
    entry_directory: Option<&Path>,
    workspace: &Path,
) -> Option<PathBuf> {
    let directory = match entry_directory {
        Some(entry_directory) => entry_directory.to_owned(),
        None => match event.last("cwd").and_then(text).unwrap_or_default() {
            none if none.is_empty() => workspace.to_owned(),
            cwd => cwd.into(),
        },
    };
    (directory.starts_with(workspace) && is_plain(&directory)).then_some(directory)
}

/// Returns the environment of git beside its profile's variables, which excludes any configuration but the repository's,
/// and all above the workspace or on another machine.
fn environment_of_git(workspace: &Path) -> BTreeMap<String, OsString> {
    let above = workspace.parent().unwrap_or(workspace);
    let variables = [
        ("GIT_ATTR_NOSYSTEM", "1".into()),
        ("GIT_CEILING_DIRECTORIES", above.into()),
        ("GIT_CONFIG_GLOBAL", "/dev/null".into()),
        ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ("GIT_NO_LAZY_FETCH", "1".into()),
        ("GIT_TERMINAL_PROMPT", "0".into()),
    ];
    variables
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_starts_in_the_workspace_or_not_at_all() {
        let start = |cwd: &str, entry_directory: Option<&str>| {
            let event = format!(r#"{{"cwd":"{cwd}"}}"#);
            let event = Members::of_event(event.as_bytes()).unwrap();
            directory(&event, entry_directory.map(Path::new), Path::new("/w/a"))
        };
        for (cwd, entry_directory, expected) in [
            ("", None, "/w/a"),
            ("/w/a/b", None, "/w/a/b"),
            ("/elsewhere", Some("/w/a/c"), "/w/a/c"),
        ] {
            assert_eq!(start(cwd, entry_directory), Some(expected.into()), "{cwd}");
        }
        for outside in ["/w", "/w/ab", "/w/a/../b", "/w/a/./b", "a", "/"] {
            assert_eq!(start(outside, None), None, "{outside}");
            assert_eq!(start("/w/a", Some(outside)), None, "{outside}");
        }
    }
}

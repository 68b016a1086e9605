//! The report of `hookjail install`: each entry in a line, what was done, and the counts of all entries.

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

use serde_json::{Value, json};

use hookjail_base::model::Lines;
use hookjail_client::{
    Failure,
    output::{self, Style},
};

use super::{
    super::{Context, declared::Statement, rows::Rows, success},
    InstallArgs, line,
    plan::{Becomes, InstallStep, Planned, SettingsChange},
    shared::{BARE, SharedProgram},
    sources::Elsewhere,
};

/// The lines through which the daemon was asked.
#[derive(Debug, Default)]
pub(super) struct CheckedLines {
    pub(super) count: usize,
    /// The hooks that hookjail refuses, with the reasons.
    pub(super) refused: Vec<String>,
}

/// The effects of a change of settings.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The obsolete backups that remain after hooks were put back.
    pub(super) backups: Vec<PathBuf>,
    pub(super) checked: CheckedLines,
    /// A remark on a file that was made.
    pub(super) note: Option<String>,
    /// The daemon's socket, where one is needed, or why it does not listen.
    pub(super) daemon: Option<Result<PathBuf, Failure>>,
}

impl InstallArgs {
    /// Prints the result, where anything was changed with what was done.
    pub(super) fn report(
        &self,
        context: &Context,
        (planned, elsewhere): (&[Planned], &Elsewhere),
        done: Option<Done>,
    ) {
        let is_done = done.is_some();
        let follow_up = self.runtime.runtime.after_a_change.filter(|_| is_done);
        let Done {
            backups,
            checked,
            daemon,
            note,
        } = done.unwrap_or_default();
        if context.call.json {
            let daemon = daemon.map(|daemon| match daemon {
                Ok(socket) => json!({ "socket": socket }),
                Err(failure) => json!({ "error": failure.message }),
            });
            let files: Vec<_> = planned.iter().map(as_json).collect();
            output::json_line(&json!({
                "checked": checked.count,
                "changed": is_done,
                "daemon": daemon,
                "files": files,
                "needed": elsewhere.needed_as_json(),
                "next": follow_up,
                "note": note,
                "refused": checked.refused,
                "unconfined": elsewhere.unconfined_as_json(),
                "unread": elsewhere.unread_as_json(),
            }));
            return;
        }
        let mut rows = Rows::plain("", 10);
        match (is_done, count(planned, elsewhere)) {
            (_, 0) => rows.line("nothing to change"),
            (false, _) => rows.line("nothing was changed (--dry-run)"),
            (true, _) => {
                let is_edited = |it: &&Planned| {
                    it.prefix.is_some() || it.changes().any(|it| !it.edits.is_empty())
                };
                let changed = planned.iter().filter(is_edited);
                rows.each("changed", changed.map(|it| it.file.path.display()));
                let again = planned.iter().flat_map(Planned::changes);
                let again = again.filter(|it| it.refused.is_some()).count();
                match again + elsewhere.needed.len() {
                    0 => {}
                    commands if self.shell_prefix => rows.row("allowed", commands),
                    commands => rows.row("allowed", format!("{commands} again")),
                }
            }
        }
        match daemon {
            Some(Ok(socket)) => rows.row("daemon", format!("listens on {}", socket.display())),
            Some(Err(failure)) => {
                let why = failure.message;
                rows.row(
                    "daemon",
                    format!("NOT running, so every guard denies: {why}"),
                );
            }
            None => {}
        }
        match checked.count - checked.refused.len() {
            0 => {}
            1 => rows.row("checked", "the daemon runs 1 hook by its line"),
            hooks => rows.row(
                "checked",
                format!("the daemon runs {hooks} hooks by their lines"),
            ),
        }
        rows.each("REFUSED", &checked.refused);
        for backup in backups {
            let backup = backup.display();
            let stays = format!("{backup}, as what it was a copy of has changed since");
            rows.row("stays", stays);
        }
        if is_done && self.uninstall {
            let stays = "the consents, until `hookjail consent revoke`, and the journal";
            rows.row("stays", stays);
        }
        rows.each("note", note);
        rows.each("next", follow_up);
        if !self.uninstall {
            rows.line(summary((planned, elsewhere), is_done));
        }
        rows.print();
    }
}

/// Returns how many hooks are to be changed.
pub(super) fn count(planned: &[Planned], elsewhere: &Elsewhere) -> usize {
    let prefixes = planned.iter().filter(|it| it.prefix.is_some()).count();
    planned.iter().flat_map(Planned::changes).count() + prefixes + elsewhere.needed.len()
}

/// Returns the exit code: a failure where a command stays unconfined, or an entry cannot be read.
pub(super) fn code(planned: &[Planned], elsewhere: &Elsewhere) -> ExitCode {
    let mut steps = planned.iter().flat_map(|it| &it.steps);
    let is_whole = planned.iter().all(|it| it.broken.is_empty()) && elsewhere.count() == 0;
    success(is_whole && !steps.any(|step| matches!(step.becomes, Becomes::Left(_))))
}

/// Prints each file with its entries, a line an entry; with every line that is written where `is_verbose`.
pub(super) fn show(planned: &[Planned], elsewhere: &Elsewhere, is_verbose: bool) {
    let mut text = Lines::default();
    for planned in planned {
        let Planned {
            broken,
            file,
            prefix,
            steps,
        } = planned;
        text.add(file.path.display().to_string());
        if let Some(edit) = prefix {
            let (label, value) = match edit.text.is_empty() {
                true => ("remove", file.text_of(edit)),
                false => ("add", edit.text.as_str()),
            };
            text.add(labelled(label, value.trim()));
        }
        for why in broken {
            text.add(labelled("NOT read", why));
        }
        if let Some(remark) = shared_remark(planned) {
            text.add(labelled("note", &remark));
        }
        for step in steps {
            show_step(&mut text, step, is_verbose);
        }
    }
    elsewhere.show(&mut text);
    output::text(text.as_str());
}

/// Returns a remark on changed lines that others may have, too.
fn shared_remark(planned: &Planned) -> Option<String> {
    let written = |it: &&SettingsChange| !it.edits.is_empty() && !it.argv.is_empty();
    let mut written = planned.changes().filter(written).peekable();
    written.peek()?;
    let runtime = planned.file.runtime();
    let program = SharedProgram::of_settings(&planned.file, runtime);
    let answer = |it: &SettingsChange| Some(program.as_ref()?.argument(&it.after)? == BARE);
    // A program of the project's is the same for all.
    let Some(is_bare) = written.find_map(answer) else {
        return planned.file.remark().map(str::to_owned);
    };
    let absent = if is_bare {
        "hooks run unconfined"
    } else {
        "guards deny"
    };
    let alone = runtime.shell_prefix.map_or("", |_| ", --local");
    Some(format!(
        "shared settings: their lines start `{}`, to be committed with them. Without hookjail {absent} (see --shared{alone})",
        program?.below()
    ))
}

fn show_step(text: &mut Lines, step: &InstallStep, is_verbose: bool) {
    let mut entry = |label, command: &str| {
        let words = [step.hook.point.as_str(), step.hook.matching.as_str()];
        let place = words.join(" ");
        text.add(labelled(label, &format!("{}  {command}", place.trim_end())));
    };
    let variables = line::variables(&step.hook.configured_env);
    let original = line::original(&step.before, &variables);
    match &step.becomes {
        Becomes::Allowed(_) => entry("kept", original.as_deref().unwrap_or(&step.before)),
        Becomes::Kept(_) => entry("kept", &step.before),
        Becomes::Left(_) => entry("BARE", &step.before),
        Becomes::Changed(change) if change.refused.is_some() => entry("allow", &step.before),
        Becomes::Changed(change) if change.argv.is_empty() => entry("put back", &change.after),
        Becomes::Changed(_) => entry("wrap", &step.before),
    }
    if let Some(directory) = &step.hook.working_dir {
        text.add(labelled("", &format!("starts in {}", directory.display())));
    }
    match &step.becomes {
        Becomes::Allowed(_) => text.add(labelled("", "is confined already, and allowed")),
        Becomes::Kept(why) => text.add(labelled("", why)),
        Becomes::Left(why) => text.add(labelled("", &format!("NOT changed: {why}"))),
        Becomes::Changed(change) => {
            let declares = change.declares.iter().flat_map(Statement::lines);
            declares.for_each(|line| text.add(labelled("", &line)));
            if let Some(refused) = &change.refused {
                text.add(labelled("", &format!("refused: {}", refused.why)));
                for line in refused.diff.lines() {
                    text.add(labelled("", &format!("  {}", line_of_diff(line))));
                }
            } else if is_verbose {
                text.add(labelled("", &format!("- {}", step.before)));
                text.add(labelled("", &format!("+ {}", change.after)));
            }
            for remark in &change.remarks {
                text.add(labelled("", remark));
            }
        }
    }
}

/// Returns the line of an entry of a file, or of a remark about it.
pub(super) fn labelled(label: &str, value: &str) -> String {
    let style = Style::of_stdout();
    let padded = format!("{label:<10}");
    let label = match label {
        "BARE" | "NOT read" => style.bad(&padded),
        "allow" => style.warn(&padded),
        "add" | "put back" | "remove" | "wrap" => style.good(&padded),
        _ => padded,
    };
    format!("  {label}{value}")
}

/// Returns a line of a difference in the colour of its sign.
pub(super) fn line_of_diff(line: &str) -> String {
    let style = Style::of_stdout();
    match line.chars().next() {
        Some('+') => style.good(line),
        Some('-') => style.bad(line),
        Some(_) | None => line.to_owned(),
    }
}

/// Counts the entries of all files: confined, to be confined, bare, without a command, not read.
fn summary((planned, elsewhere): (&[Planned], &Elsewhere), is_done: bool) -> String {
    let mut counts = [elsewhere.allowed.len(), 0, elsewhere.loose.len(), 0];
    let needed = elsewhere.needed.len();
    counts[usize::from(!is_done)] += needed;
    for step in planned.iter().flat_map(|it| &it.steps) {
        let kind = match &step.becomes {
            Becomes::Allowed(_) => 0,
            Becomes::Changed(_) => usize::from(!is_done),
            Becomes::Left(_) => 2,
            Becomes::Kept(_) => 3,
        };
        counts[kind] += 1;
    }
    let broken: usize = planned.iter().map(|it| it.broken.len()).sum();
    let [confined, changing, bare, none] = counts;
    let parts = [
        (changing, "to confine"),
        (bare, "still bare"),
        (none, "no commands"),
        (elsewhere.unread.len() + broken, "not read"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts = parts.map(|(count, words)| format!("{count} {words}"));
    let first = format!("{confined} confined");
    [first]
        .into_iter()
        .chain(parts)
        .collect::<Vec<_>>()
        .join(" · ")
}

pub(super) fn as_json(planned: &Planned) -> Value {
    let hooks = planned.steps.iter().map(|step| {
        let mut fields = BTreeMap::from([
            ("before", json!(step.before)),
            ("matcher", json!(step.hook.matching)),
            ("point", json!(step.hook.point)),
        ]);
        if let Some(directory) = &step.hook.working_dir {
            fields.insert("starts_in", json!(directory));
        }
        match &step.becomes {
            Becomes::Allowed(_) => {
                fields.insert("kept", json!("is confined already, and allowed"));
            }
            Becomes::Kept(why) => {
                fields.insert("kept", json!(why));
            }
            Becomes::Left(why) => {
                fields.insert("left", json!(why));
            }
            Becomes::Changed(change) => {
                fields.insert("after", json!(change.after));
                if let Some(declares) = &change.declares {
                    fields.insert("declares", json!(declares));
                }
                if let Some(refused) = &change.refused {
                    fields.insert("refused", json!(refused.why));
                }
                fields.insert("remarks", json!(change.remarks));
                let commands = change.bound.iter().map(|bound| &bound.entry.command);
                fields.insert("allows", json!(commands.collect::<Vec<_>>()));
            }
        }
        fields
    });
    json!({ "broken": planned.broken, "prefix": planned.prefix.as_ref().map(|it| &it.text), "file": planned.file.path, "hooks": hooks.collect::<Vec<_>>(), "remark": shared_remark(planned) })
}

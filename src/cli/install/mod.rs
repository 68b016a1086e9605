//! `hookjail install --RUNTIME`: the hooks that a runtime's settings have, run confined from then on.

mod edit;
mod line;
mod rehearsal;
mod settings;

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    io::{self, BufRead, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{ArgAction, ArgMatches, Args};
use serde_json::{Value, json};

use self::{
    edit::Edit,
    line::Form,
    settings::{SettingsFile, files},
};
use super::{
    Context, Failure,
    consent::{self, Bound, Terms},
    on_demand, output,
    show::plain,
};
use crate::{
    admission::allowlist::Allowlist,
    config::Config,
    contract::native::{Runtime, Stakes},
    hooks::{Action, Registered},
    request::Command,
};

/// What people's hooks need: formatters, linters, tests, commits.
const PROFILE: &str = "develop";

/// Has a runtime's hooks run confined: shows what would change, asks, and changes its settings.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Debug, Args)]
pub(super) struct Install {
    #[command(flatten)]
    runtime: Named,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Put back what was there before
    #[arg(long, conflicts_with = "profile")]
    uninstall: bool,
    /// The profile that the hooks run under
    #[arg(long, default_value = PROFILE)]
    profile: String,
    /// This file, and no other [default: those of the user and of the project in the current directory]
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Do not run guards with sample events, bare and confined, before they are switched
    #[arg(long)]
    no_rehearsal: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// The one runtime that is named.
#[derive(Clone, Copy, Debug)]
struct Named {
    name: &'static str,
    runtime: Runtime,
}

impl clap::FromArgMatches for Named {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut all = Runtime::ALL.into_iter();
        let named = all.find(|(name, _)| matches.try_get_one(name).ok().flatten() == Some(&true));
        let (name, runtime) = named
            .ok_or_else(|| clap::Error::new(clap::error::ErrorKind::MissingRequiredArgument))?;
        Ok(Self { name, runtime })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Named {
    fn augment_args(command: clap::Command) -> clap::Command {
        let runtimes = Runtime::ALL
            .into_iter()
            .filter(|(_, it)| *it != Runtime::Git);
        let names: Vec<_> = runtimes.map(|(name, _)| name).collect();
        let flags = names.iter().map(|&name| {
            let flag = clap::Arg::new(name).long(name).action(ArgAction::SetTrue);
            flag.help_heading("Runtimes")
        });
        let group = clap::ArgGroup::new("runtime").args(names.iter().copied());
        command.args(flags).group(group.required(true))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// What becomes of one hook.
struct Step {
    becomes: Becomes,
    /// The command as it stands there.
    before: String,
    hook: Registered,
}

enum Becomes {
    /// It stays, and why.
    Kept(&'static str),
    /// It cannot be changed, and why.
    Left(String),
    /// It runs so from now on.
    Changed(Box<Change>),
}

struct Change {
    after: String,
    /// What it is allowed by; `None` where a hook is put back.
    bound: Option<Bound>,
    edits: Vec<Edit>,
    /// What else there is to know.
    remarks: Vec<String>,
}

/// A file, and what becomes of its hooks.
struct Planned {
    file: SettingsFile,
    steps: Vec<Step>,
}

impl Planned {
    fn changes(&self) -> impl Iterator<Item = &Change> {
        self.steps.iter().filter_map(|step| match &step.becomes {
            Becomes::Changed(change) => Some(&**change),
            Becomes::Kept(_) | Becomes::Left(_) => None,
        })
    }
}

impl Install {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let config = context.load()?;
        let project = env::current_dir()?;
        let files = files(
            self.runtime.runtime,
            self.settings.as_deref(),
            context,
            &project,
        )?;
        let mut planned = Vec::new();
        for file in files {
            let hooks = file.hooks(context)?;
            let steps = hooks
                .into_iter()
                .map(|hook| self.step(&config, &file, hook));
            let steps = steps.collect();
            planned.push(Planned { file, steps });
        }
        let changes = planned.iter().flat_map(Planned::changes).count();
        let left = planned.iter().flat_map(|it| &it.steps);
        let left = left
            .filter(|step| matches!(step.becomes, Becomes::Left(_)))
            .count();
        let code = if left == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
        if !context.json {
            show(&planned);
        }
        if changes == 0 || self.dry_run {
            self.tell(context, &planned, false, None);
            return Ok(code);
        }
        if !self.yes {
            if !io::stdin().is_terminal() {
                let message = "nothing was changed: say --yes to change what is shown, or --dry-run to see it alone";
                return Err(Failure::new(message));
            }
            let question = match self.uninstall {
                true => "Put this back? [y/N] ",
                false => {
                    "Allow these commands as their files are now, and change the settings? [y/N] "
                }
            };
            if !agreed(question)? {
                return Err(Failure::new("nothing was changed"));
            }
        }
        self.carry_out(&config, &planned)?;
        let socket = (!self.uninstall).then(|| on_demand::daemon(context, None));
        self.tell(context, &planned, true, socket);
        Ok(code)
    }

    fn step(&self, config: &Config, file: &SettingsFile, hook: Registered) -> Step {
        let (before, becomes) = match &hook.action {
            Action::Command(Command::Line { text, .. }) => {
                (text.clone(), self.line(config, file, &hook, text))
            }
            Action::Command(Command::Argv(words)) => {
                let words: Option<Vec<String>> = words
                    .iter()
                    .map(|word| word.to_str().map(str::to_owned))
                    .collect();
                match words {
                    Some(words) => (words.join(" "), self.words(config, file, &hook, &words)),
                    None => (String::new(), Err("it is not UTF-8".to_owned())),
                }
            }
            Action::Approve(_)
            | Action::Builtin(_)
            | Action::Git(_)
            | Action::Log(_)
            | Action::Save(_)
            | Action::Template(_)
            | Action::Unsupported(_) => (hook.name.clone(), Ok(Becomes::Kept("runs no command"))),
        };
        Step {
            becomes: becomes.unwrap_or_else(Becomes::Left),
            before,
            hook,
        }
    }

    /// Says what becomes of a shell's line; or why it is left.
    fn line(
        &self,
        config: &Config,
        file: &SettingsFile,
        hook: &Registered,
        text: &str,
    ) -> Result<Becomes, String> {
        let original = line::original(text);
        if self.uninstall {
            let Some(original) = original else {
                return Ok(Becomes::Kept("is not confined"));
            };
            return Ok(Becomes::Changed(Box::new(Change {
                edits: vec![file.edit_line(hook, text, &original)?],
                after: original,
                bound: None,
                remarks: Vec::new(),
            })));
        }
        if original.is_some() {
            return Ok(Becomes::Kept("is confined already"));
        }
        let words = line::words(text, |name| file.value(name));
        // What is found nowhere may be the shell's own.
        let words = words
            .filter(|words| super::program::resolve_program(vec![words[0].clone().into()]).is_ok());
        let is_one_command = words.is_some();
        let argv = words.unwrap_or_else(|| ["/bin/sh", "-c", text].map(str::to_owned).to_vec());
        let hookjail = hookjail()?;
        let after = self.form(&hookjail, hook).of_line(text, is_one_command);
        let after = after.ok_or("it has a NUL byte")?;
        let edit = file.edit_line(hook, text, &after)?;
        self.change(config, file, hook, argv, after, vec![edit])
    }

    /// Says what becomes of a program with arguments that no shell reads; or why it is left.
    fn words(
        &self,
        config: &Config,
        file: &SettingsFile,
        hook: &Registered,
        words: &[String],
    ) -> Result<Becomes, String> {
        let original = line::original_words(words);
        if self.uninstall {
            let Some(original) = original else {
                return Ok(Becomes::Kept("is not confined"));
            };
            return Ok(Becomes::Changed(Box::new(Change {
                after: original.join(" "),
                bound: None,
                edits: file.edit_words(hook, original)?,
                remarks: Vec::new(),
            })));
        }
        if original.is_some() {
            return Ok(Becomes::Kept("is confined already"));
        }
        let hookjail = hookjail()?;
        let confined = self.form(&hookjail, hook).of_words(words);
        let edits = file.edit_words(hook, &confined)?;
        self.change(
            config,
            file,
            hook,
            words.to_vec(),
            confined.join(" "),
            edits,
        )
    }

    /// Binds a consent to a command, and rehearses it where it is a guard.
    fn change(
        &self,
        config: &Config,
        file: &SettingsFile,
        hook: &Registered,
        argv: Vec<String>,
        after: String,
        edits: Vec<Edit>,
    ) -> Result<Becomes, String> {
        let terms = Terms {
            profile: self.profile.clone(),
            until: None,
            within: file.is_projects.then(|| file.project.clone()),
        };
        let os: Vec<OsString> = argv.iter().map(Into::into).collect();
        let bound = consent::bind(config, &terms, os).map_err(|failure| failure.message)?;
        let mut remarks = Vec::new();
        for what in &bound.unbound {
            remarks.push(format!("the consent is not bound to {what}"));
        }
        let runtime = self.runtime.runtime;
        let point = hook.point.as_str();
        let is_guard =
            runtime.stakes(Some(point)) == Stakes::Gate && runtime.is_of_a_call(Some(point));
        if is_guard && !self.no_rehearsal {
            let rehearsal = rehearsal::Rehearsal {
                argv: &argv,
                hook,
                name: self.runtime.name,
                profile: &self.profile,
                project: &file.project,
                runtime,
            };
            remarks.extend(rehearsal.run()?);
        } else if !is_guard {
            remarks.push("not rehearsed: it guards no call, and may act".to_owned());
        }
        Ok(Becomes::Changed(Box::new(Change {
            after,
            bound: Some(bound),
            edits,
            remarks,
        })))
    }

    fn form<'a>(&'a self, hookjail: &'a str, hook: &'a Registered) -> Form<'a> {
        Form {
            hookjail,
            point: (!self.runtime.runtime.names_points()).then_some(hook.point.as_str()),
            profile: &self.profile,
            runtime: self.runtime.name,
            timeout: hook.entry.timeout,
        }
    }

    /// Allows the commands, and only then has the runtime run them confined: what runs in between is refused nothing.
    fn carry_out(&self, config: &Config, planned: &[Planned]) -> Result<(), Failure> {
        let bound = planned.iter().flat_map(Planned::changes);
        let entries = bound.filter_map(|change| Some(change.bound.as_ref()?.entry.clone()));
        Allowlist::record_all(&config.allowlist(), entries.collect())?;
        for Planned { file, steps } in planned {
            let edits = steps.iter().filter_map(|step| match &step.becomes {
                Becomes::Changed(change) => Some(&change.edits),
                Becomes::Kept(_) | Becomes::Left(_) => None,
            });
            let edits: Vec<_> = edits.flatten().cloned().collect();
            if !edits.is_empty() {
                file.write(&edits, !self.uninstall)?;
            }
        }
        Ok(())
    }

    /// Says how it ended.
    fn tell(
        &self,
        context: &Context,
        planned: &[Planned],
        is_done: bool,
        daemon: Option<Result<PathBuf, Failure>>,
    ) {
        let follow_up = self.runtime.runtime.after_a_change().filter(|_| is_done);
        if context.json {
            let daemon = daemon.map(|daemon| match daemon {
                Ok(socket) => json!({ "socket": socket }),
                Err(failure) => json!({ "error": failure.message }),
            });
            let files: Vec<_> = planned.iter().map(as_json).collect();
            output::json_line(&json!({
                "changed": is_done,
                "daemon": daemon,
                "files": files,
                "next": follow_up,
            }));
            return;
        }
        let mut text = String::new();
        match (is_done, planned.iter().flat_map(Planned::changes).count()) {
            (_, 0) => text.push_str("nothing to change\n"),
            (false, _) => text.push_str("nothing was changed (--dry-run)\n"),
            (true, _) => {
                for Planned { file, .. } in planned.iter().filter(|it| it.changes().count() > 0) {
                    text.push_str(&format!("changed   {}\n", file.path.display()));
                }
            }
        }
        match daemon {
            Some(Ok(socket)) => {
                text.push_str(&format!("daemon    listens on {}\n", socket.display()))
            }
            Some(Err(failure)) => {
                text.push_str(&format!(
                    "daemon    NOT running, so every guard says no: {}\n",
                    failure.message
                ));
            }
            None => {}
        }
        if let Some(follow_up) = follow_up {
            text.push_str(&format!("next      {follow_up}\n"));
        }
        output::stdout(text.as_bytes());
    }
}

/// Returns how settings call this program: by a path, as a runtime may look for programs elsewhere than its user.
fn hookjail() -> Result<String, String> {
    let path =
        env::current_exe().map_err(|error| format!("hookjail's own path is not known: {error}"))?;
    let path = path.into_os_string().into_string();
    let path = path.map_err(|_| "hookjail's own path is not UTF-8".to_owned())?;
    if Path::new(&path)
        .file_name()
        .is_some_and(|name| name == "hookjail")
    {
        Ok(path)
    } else {
        Err(format!(
            "hookjail's own program is `{path}`; settings know it by the name `hookjail` alone"
        ))
    }
}

fn agreed(question: &str) -> Result<bool, Failure> {
    output::stdout(question.as_bytes());
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn show(planned: &[Planned]) {
    let mut text = String::new();
    for Planned { file, steps } in planned {
        text.push_str(&format!("{}\n", file.path.display()));
        for step in steps {
            let matching = Some(step.hook.matching.as_str()).filter(|it| !it.is_empty());
            let matching = matching.map_or_else(String::new, |it| format!(" {}", plain(it)));
            text.push_str(&format!("  {}{matching}\n", step.hook.point));
            let before = plain(&step.before);
            match &step.becomes {
                Becomes::Kept(why) => {
                    text.push_str(&format!("      {before}\n      kept: {why}\n"));
                }
                Becomes::Left(why) => text.push_str(&format!(
                    "      {before}\n      NOT changed: {}\n",
                    plain(why)
                )),
                Becomes::Changed(change) => {
                    text.push_str(&format!("    - {before}\n    + {}\n", plain(&change.after)));
                    for remark in &change.remarks {
                        text.push_str(&format!("      {}\n", plain(remark)));
                    }
                }
            }
        }
    }
    output::stdout(text.as_bytes());
}

fn as_json(planned: &Planned) -> Value {
    let hooks = planned.steps.iter().map(|step| {
        let mut told = BTreeMap::from([
            ("before", json!(step.before)),
            ("matcher", json!(step.hook.matching)),
            ("point", json!(step.hook.point)),
        ]);
        match &step.becomes {
            Becomes::Kept(why) => {
                told.insert("kept", json!(why));
            }
            Becomes::Left(why) => {
                told.insert("left", json!(why));
            }
            Becomes::Changed(change) => {
                told.insert("after", json!(change.after));
                told.insert("remarks", json!(change.remarks));
                let command = change.bound.as_ref().map(|bound| &bound.entry.command);
                told.insert("allows", json!(command));
            }
        }
        told
    });
    json!({ "file": planned.file.path, "hooks": hooks.collect::<Vec<_>>() })
}

//! `hookjail hooks`: the configured hooks, and checks of files.

use std::{
    path::{Path, PathBuf, absolute},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use serde_json::json;

use hookjail_base::{model::Lines, refusal::chain};
use hookjail_builtins::template;
use hookjail_client::{Failure, output};
use hookjail_contract::{
    Mode, Registered, Supplied,
    hook_file::{Origin, read},
};
use hookjail_daemon::{
    daemon::{Assembly, noteworthy},
    hooks::{load::peek, lookup, redirection, show},
};
use hookjail_policy::Registry;

use super::{
    Context,
    declared::{Declared, Statement, is_declaration},
    install::PROFILE,
    success,
};

/// Lists the configured hooks, and checks files of hooks.
#[derive(Debug, Args)]
pub(super) struct HooksArgs {
    #[command(subcommand)]
    command: HooksCommand,
}

#[derive(Debug, Subcommand)]
enum HooksCommand {
    /// Check a file of hooks, or a hook's declaration hook.toml, and show it; exits 1 where it is wrong
    Check {
        /// The contract of the file of hooks, by its name
        #[arg(long)]
        contract: Option<String>,
        /// The directory where relative paths in it start [default: that of the file]
        #[arg(long, value_name = "DIRECTORY")]
        base: Option<PathBuf>,
        /// The file
        file: PathBuf,
    },
    /// List what is configured, by lifecycle point
    List,
}

impl HooksArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self.command {
            HooksCommand::Check {
                contract,
                base,
                file,
            } => match contract {
                Some(contract) => Ok(check(context, &contract, base.as_deref(), &file)),
                None if is_declaration(&file) => check_declaration(context, &file),
                None => Err(Failure::usage(format!(
                    "the contract of `{}` is not named; name it by --contract",
                    file.display()
                ))),
            },
            HooksCommand::List => list(context),
        }
    }
}

fn list(context: &Context) -> Result<ExitCode, Failure> {
    let config = context.load()?;
    let loaded = config.all_hooks(&context.environment().switches)?;
    let profiles = Assembly::registry(&config)?;
    let noteworthy = noteworthy(&config, &loaded.hooks, &config.listing.load()?, &profiles);
    let broken = broken_templates(&loaded.hooks);
    let hints = loaded.disabled.iter().chain(&loaded.warnings);
    for hint in hints.chain(&noteworthy).chain(&broken) {
        output::stderr(&format!("hookjail: {hint}"));
    }
    if context.call.json {
        for hook in by_point(&loaded.hooks) {
            output::json_line(&show::object(hook));
        }
    } else {
        tell(&loaded.hooks);
    }
    Ok(ExitCode::SUCCESS)
}

fn check(context: &Context, contract: &str, base: Option<&Path>, file: &Path) -> ExitCode {
    let shown = file.display().to_string();
    let directory = absolute(file).ok();
    let directory = directory.as_deref().and_then(Path::parent);
    let origin = Origin {
        base: base.or(directory),
        name: &shown,
    };
    let checked = peek(file)
        .map_err(|error| format!("{shown}: cannot be read: {error}"))
        .and_then(|text| {
            read(contract, &text, &origin, &context.environment().switches)
                .map_err(|error| error.to_string())
        })
        .and_then(|mut read| {
            if let Some(problem) = broken_templates(&read.hooks).into_iter().next() {
                return Err(problem);
            }
            let profiles = Registry::builtin().map_err(|error| error.to_string())?;
            let refused = redirection::warnings(&read.hooks, &profiles);
            read.warnings.extend(refused);
            let missing = lookup::missing(&read.hooks, &profiles, origin.base);
            read.warnings.extend(missing);
            if Mode::parse(contract, "command").is_ok_and(|mode| mode.facts().has_lists) {
                read.warnings.extend(of_lists(context));
            }
            Ok(read)
        });
    match (checked, context.call.json) {
        (Ok(read), true) => {
            output::json_line(&show::file(&read));
            ExitCode::SUCCESS
        }
        (Ok(read), false) => {
            let disabled = read
                .disabled
                .iter()
                .map(|why| format!("{shown}: disabled: {why}"));
            for hint in disabled.chain(read.warnings) {
                output::stderr(&format!("hookjail: {hint}"));
            }
            tell(&read.hooks);
            ExitCode::SUCCESS
        }
        (Err(error), true) => {
            output::json_line(&json!({ "error": error }));
            ExitCode::FAILURE
        }
        (Err(error), false) => {
            output::stderr(&format!("hookjail: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Checks a hook's declaration, and shows it.
fn check_declaration(context: &Context, file: &Path) -> Result<ExitCode, Failure> {
    let config = context.load()?;
    let file = absolute(file)?;
    let checked = Declared::read(&file, &config).and_then(|declared| {
        let problems = declared.problems();
        Ok((declared.statement(&config, PROFILE)?, problems))
    });
    let (statement, problems) = match checked {
        Ok((statement, problems)) => (Some(statement), problems),
        Err(why) => (None, vec![why]),
    };
    if context.call.json {
        output::json_line(&json!({ "declares": statement, "problems": problems }));
    } else {
        let mut text = Lines::default();
        statement
            .iter()
            .flat_map(Statement::lines)
            .for_each(|line| text.add(line));
        output::text(text.as_str());
        for problem in &problems {
            output::stderr(&format!("hookjail: {}: {problem}", file.display()));
        }
    }
    Ok(success(problems.is_empty()))
}

/// Names each hook whose template is none. The daemon renders none and finds it as the hook runs.
fn broken_templates(hooks: &[Registered]) -> Vec<String> {
    let broken = hooks
        .iter()
        .filter_map(|hook| match hook.action.supplied()? {
            Supplied::Template(template) => {
                let problem = template::check(template).err()?;
                Some(format!("{}: {problem}", hook.source))
            }
            Supplied::Query(_) | Supplied::Save(_) => None,
        });
    broken.collect()
}

/// Returns warnings about the configured lists of commands.
fn of_lists(context: &Context) -> Vec<String> {
    let config = match context.load() {
        Ok(config) => config,
        Err(error) => return vec![chain(&error)],
    };
    config
        .listing
        .load()
        .map_or_else(|error| vec![chain(&error)], |lists| lists.warnings())
}

/// Prints hooks below their points.
fn tell(hooks: &[Registered]) {
    let mut text = Lines::default();
    let mut point = None;
    for hook in by_point(hooks) {
        if point != Some(&hook.point) {
            text.add(&hook.point);
            point = Some(&hook.point);
        }
        show::add(hook, &mut text);
    }
    if hooks.is_empty() {
        text.add("no hooks");
    }
    output::text(text.as_str());
}

/// Sorts hooks by their contract's points, and at each point by registration.
fn by_point(hooks: &[Registered]) -> Vec<&Registered> {
    let place = |hook: &&Registered| {
        let contract = Mode::ALL
            .iter()
            .position(|mode| mode.facts().contract == hook.mode.facts().contract);
        let points = hook.mode.facts().points;
        let point = points.iter().position(|point| point.name == hook.point);
        (contract, point.unwrap_or(points.len()), hook.point.clone())
    };
    let mut sorted: Vec<_> = hooks.iter().collect();
    sorted.sort_by_key(place);
    sorted
}

//! `hookjail builtin`: the confined program of built-in hooks that read the workspace, write a file or render a template.

use std::{
    env,
    io::{self, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde::Serialize;

use hookjail_builtins::{findings, limit_large_tool_results, save_json, template};
use hookjail_client::{Failure, output};
use hookjail_contract::{LIMIT_RESULTS, SAVE_EVENT, TEMPLATE_PUSH, Template};

/// Run a built-in hook of a runtime, with the event on stdin
#[derive(Debug, clap::Args)]
pub(super) struct BuiltinArgs {
    /// The built-in hook
    name: String,
    /// Its arguments
    #[arg(trailing_var_arg = true)]
    args: Vec<String>,
}

impl BuiltinArgs {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        match self.name.as_str() {
            LIMIT_RESULTS => limit(&self.args)?,
            SAVE_EVENT => save(&self.args)?,
            TEMPLATE_PUSH => push(&self.args)?,
            name => print(&findings(name, &self.args)?)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Renders a push directive from the event on stdin.
fn push(args: &[String]) -> Result<(), Failure> {
    let [entry] = args else {
        let message = format!("`{TEMPLATE_PUSH}` takes one argument, its entry as JSON");
        return Err(Failure::new(message));
    };
    let template = Template::parse(&serde_json::from_str(entry)?)?;
    let rendered = template::rendered(&template, &serde_json::from_slice(&event()?)?);
    if let Some(problem) = &rendered.problem {
        output::stderr(problem);
    }
    print(&rendered.directive)
}

/// Appends the event on stdin to a file.
fn save(args: &[String]) -> Result<(), Failure> {
    let [path] = args else {
        let message = format!("`{SAVE_EVENT}` takes one argument, the path of its file");
        return Err(Failure::new(message));
    };
    let event = String::from_utf8(event()?).map_err(|error| Failure::new(error.to_string()))?;
    save_json::save(Path::new(path), &event).map_err(|error| {
        let message = format!("cannot save the event in `{path}`: {error}");
        Failure::new(message)
    })
}

/// Cuts the tool result of the event on stdin.
fn limit(args: &[String]) -> Result<(), Failure> {
    if !args.is_empty() {
        let message = format!("`{LIMIT_RESULTS}` takes no arguments");
        return Err(Failure::new(message));
    }
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    print(&limit_large_tool_results::output(
        &event()?,
        cache.as_deref(),
    )?)
}

fn event() -> io::Result<Vec<u8>> {
    let mut event = Vec::new();
    io::stdin().lock().read_to_end(&mut event)?;
    Ok(event)
}

fn print(value: &impl Serialize) -> Result<(), Failure> {
    output::raw(&serde_json::to_vec(value)?);
    Ok(())
}

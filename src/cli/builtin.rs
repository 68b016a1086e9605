//! `hookjail builtin`: the confined program of built-in hooks that read the workspace or render a template.

use std::{
    io::{self, Read},
    process::ExitCode,
};

use hookjail_builtins::{findings, template};
use hookjail_client::{Failure, output};
use hookjail_contract::{TEMPLATE_PUSH, Template};

/// Run a built-in hook of a runtime: look at the current directory, or render a template
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
        if self.name == TEMPLATE_PUSH {
            return push(&self.args);
        }
        let findings = findings(&self.name, &self.args)?;
        output::raw(&serde_json::to_vec(&findings)?);
        Ok(ExitCode::SUCCESS)
    }
}

/// Renders a push directive from the event on stdin.
fn push(args: &[String]) -> Result<ExitCode, Failure> {
    let [entry] = args else {
        let message = format!("`{TEMPLATE_PUSH}` takes one argument, its entry as JSON");
        return Err(Failure::new(message));
    };
    let template = Template::parse(&serde_json::from_str(entry)?)?;
    let mut event = Vec::new();
    io::stdin().lock().read_to_end(&mut event)?;
    let rendered = template::rendered(&template, &serde_json::from_slice(&event)?);
    if let Some(problem) = &rendered.problem {
        output::stderr(problem);
    }
    output::raw(&serde_json::to_vec(&rendered.directive)?);
    Ok(ExitCode::SUCCESS)
}

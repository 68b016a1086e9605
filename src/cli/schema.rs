//! `hookjail schema`: JSON Schemas of hookjail's files.

use std::process::ExitCode;

use clap::{Args, builder::PossibleValuesParser};

use hookjail_client::{Failure, output};

use super::Context;
use hookjail_daemon::schema::Form;

/// Prints the JSON Schema of one of hookjail's files.
#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// Whose: the allowlist, a line of the audit journal, the configuration, a declaration hook.toml or a profile
    #[arg(value_parser = PossibleValuesParser::new(Form::ALL.map(Form::name)))]
    form: String,
}

impl SchemaArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let form = Form::ALL.into_iter().find(|form| form.name() == self.form);
        // The argument parser accepts no other name.
        let form =
            form.ok_or_else(|| Failure::usage(format!("there is no schema `{}`", self.form)))?;
        print(form, context.call.json)
    }
}

/// Prints a schema: on one line for `--json`, else indented.
pub(super) fn print(form: Form, as_json: bool) -> Result<ExitCode, Failure> {
    let schema = form.schema();
    if as_json {
        output::json_line(&schema);
    } else {
        output::text(&format!("{}\n", serde_json::to_string_pretty(&schema)?));
    }
    Ok(ExitCode::SUCCESS)
}

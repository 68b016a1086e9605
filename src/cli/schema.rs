//! `hookjail schema`: JSON Schemas of hookjail's files.

use std::process::ExitCode;

use clap::{Args, builder::PossibleValuesParser};

use serde_json::Value;

use hookjail_client::{Failure, output};

use super::{Context, testing};
use hookjail_daemon::schema::Form;

/// Prints the JSON Schema of one of hookjail's files.
#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// The file: the allowlist, a line of the journal, the configuration, a declaration, a profile or a file of tests
    #[arg(value_parser = PossibleValuesParser::new(names()))]
    form: String,
}

/// The name of the schema of files of tests.
const TESTS: &str = "tests";

fn names() -> impl Iterator<Item = &'static str> {
    Form::ALL.into_iter().map(Form::name).chain([TESTS])
}

impl SchemaArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        if self.form == TESTS {
            return print(&testing::schema(), context.call.json);
        }
        let form = Form::ALL.into_iter().find(|form| form.name() == self.form);
        // The argument parser accepts no other name.
        let form = form.ok_or_else(|| Failure::usage(format!("unknown schema `{}`", self.form)))?;
        print(&form.schema(), context.call.json)
    }
}

/// Prints a schema: on one line for `--json`, else indented.
pub(super) fn print(schema: &Value, as_json: bool) -> Result<ExitCode, Failure> {
    if as_json {
        output::json_line(schema);
    } else {
        output::text(&format!("{}\n", serde_json::to_string_pretty(schema)?));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::*;

    #[test]
    fn the_schemas_in_the_tree_have_that_of_files_of_tests() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/hooktest.schema.json");
        let text = format!("{:#}\n", testing::schema());
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(kept, text, "run this test with UPDATE_DOCS=1");
    }
}

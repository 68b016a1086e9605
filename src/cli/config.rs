//! `hookjail config`: the configuration in force.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use hookjail_client::{Failure, output};

use super::Context;
use hookjail_base::model::plain;
use hookjail_daemon::config::Origin;

/// Show the configuration in force, and where each value is from.
#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum ConfigCommand {
    /// Print each key with its value, and whether the configuration, the administrator's file or neither has it
    Show,
}

impl ConfigArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let ConfigCommand::Show = self.command;
        let settings = context.source.settings()?;
        if context.call.json {
            output::json_line(&serde_json::to_value(settings)?);
            return Ok(ExitCode::SUCCESS);
        }
        let width = settings.iter().map(|it| it.key.len()).max().unwrap_or(0);
        for setting in settings {
            let value = plain(&setting.value.to_string());
            let origin = match (setting.origin, &setting.file) {
                (Origin::Default, _) => "default".to_owned(),
                (Origin::File, None) => "configuration".to_owned(),
                (Origin::Managed, None) => "managed".to_owned(),
                (Origin::File, Some(file)) => file.display().to_string(),
                (Origin::Managed, Some(file)) => format!("managed by {}", file.display()),
            };
            let line = format!("{:width$}  {value}  ({})\n", setting.key, plain(&origin));
            output::text(&line);
        }
        Ok(ExitCode::SUCCESS)
    }
}

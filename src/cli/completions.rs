//! `hookjail completions`: completions of this command line, for shells.

use std::process::ExitCode;

use clap::{Arg, Args, Command, ValueEnum, builder::PossibleValuesParser};
use clap_complete::{Shell, generate};

use hookjail_client::{Failure, output, thin::WHOLE};
use hookjail_contract::{Mode, adopt::Adopted};
use hookjail_daemon::daemon::Assembly;

use super::{Arguments, Context, records};

/// Print completions for a shell.
///
/// Options with names complete those, of your own profiles too. Print them again after you add one.
///
/// For bash: hookjail completions bash >~/.local/share/bash-completion/completions/hookjail
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Completed,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Completed {
    Bash,
    Fish,
    Zsh,
}

impl CompletionsArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let shell = match self.shell {
            Completed::Bash => Shell::Bash,
            Completed::Fish => Shell::Fish,
            Completed::Zsh => Shell::Zsh,
        };
        let names = Names::read(context)?;
        let shows = |show: Command| show.mut_arg("name", |arg| completed(arg, &names.profiles));
        let mut command = names.added_to(Arguments::whole());
        command = command.mut_subcommand("profile", |it| it.mut_subcommand("show", shows));
        let mut text = Vec::new();
        generate(shell, &mut command, WHOLE, &mut text);
        output::raw(&text);
        Ok(ExitCode::SUCCESS)
    }
}

/// The names that options complete. Their parsers take more: names of later releases, and of profiles that are made later.
struct Names {
    contracts: Vec<&'static str>,
    ends: Vec<&'static str>,
    modes: Vec<&'static str>,
    points: Vec<&'static str>,
    profiles: Vec<&'static str>,
    runtimes: Vec<&'static str>,
}

impl Names {
    /// Reads the names of the program, and of the profiles that are served.
    ///
    /// # Errors
    ///
    /// Fails where the configuration or the profiles cannot be read.
    fn read(context: &Context) -> Result<Self, Failure> {
        let facts = || Mode::ALL.into_iter().map(Mode::facts);
        let registry = Assembly::registry(&context.load()?)?;
        // Names of the command line last as long as the program.
        let profiles = registry.iter().map(|it| it.name.as_str().to_owned().leak());
        let modes = Mode::ALL.into_iter().map(Mode::mode_name);
        Ok(Self {
            contracts: sorted(facts().map(|it| it.contract)),
            ends: records::ends().into_iter().map(|it| &*it.leak()).collect(),
            modes: sorted(modes.filter(|name| !name.is_empty())),
            points: sorted(facts().flat_map(|it| it.points).map(|it| it.name)),
            profiles: profiles.map(|it| &*it).collect(),
            runtimes: sorted(Adopted::all().into_iter().map(|it| it.name)),
        })
    }

    /// Adds them to the options of a command and of those below it.
    fn added_to(&self, command: Command) -> Command {
        let command = command.mut_args(|arg| {
            let names = match arg.get_long() {
                Some("as") => &self.runtimes,
                Some("contract") => &self.contracts,
                Some("end") => &self.ends,
                Some("mode") => &self.modes,
                Some("point") => &self.points,
                Some("profile") => &self.profiles,
                Some(_) | None => return arg,
            };
            completed(arg, names)
        });
        command.mut_subcommands(|it| self.added_to(it))
    }
}

fn sorted(names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Has an argument complete names. A default may be none of them.
fn completed(arg: Arg, names: &[&'static str]) -> Arg {
    let arg = arg.default_value(None::<&'static str>);
    arg.value_parser(PossibleValuesParser::new(names.iter().copied()))
}

//! The command line.

mod admin;
mod audit;
mod builtin;
mod completions;
mod config;
mod consent;
mod declared;
mod dispatch;
mod doctor;
#[cfg(target_os = "linux")]
mod explain;
mod help;
mod hooks;
mod install;
mod interpret;
#[cfg(target_os = "linux")]
mod learn;
#[cfg(target_os = "linux")]
mod learned;
mod lock;
mod log;
#[cfg(target_os = "linux")]
mod observed;
mod policy;
mod private_server;
mod profile;
mod profile_files;
mod progress;
#[cfg(target_os = "linux")]
mod proposal;
mod ps;
mod records;
mod rehearse;
mod remote;
mod root_digest;
mod rows;
mod run;
mod schema;
mod serve;
mod show;
mod signature;
mod state;
mod stats;
mod status;
mod testing;

use std::{ffi::OsString, process::ExitCode};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use hookjail_client::{
    Everywhere, FAILED, Failure, RunArgs, RunArguments, connect, output, run_as::ReplacedHook,
};

use hookjail_daemon::config::{Config, ConfigError, ConfigSource, ProcessEnv};

/// Runs the hooks of AI-agent runtimes in a sandbox, ends them on time, and reports what happened.
#[derive(Debug, Parser)]
#[command(name = "hookjail", version, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: CliCommand,
    #[command(flatten)]
    everywhere: Everywhere,
}

impl Arguments {
    /// Returns the whole command line, as its help, completions and manual pages show it.
    pub fn whole() -> clap::Command {
        help::with_groups(Self::command())
    }

    fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        let matches = Self::whole().try_get_matches_from(words)?;
        Self::from_arg_matches(&matches)
    }
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    Allow(install::AllowArgs),
    /// Verify, query, follow, export and copy the journal
    Audit(audit::AuditArgs),
    #[command(hide = true)]
    Builtin(builtin::BuiltinArgs),
    Completions(completions::CompletionsArgs),
    Config(config::ConfigArgs),
    /// List and revoke what is allowed, answer questions
    Consent(consent::ConsentArgs),
    /// The program that the container backend executes in a container
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    ContainerInit,
    Dispatch(Box<dispatch::DispatchArgs>),
    Drain(admin::DrainArgs),
    /// Show what this host can enforce, axis by axis, with evidence
    Doctor(doctor::DoctorArgs),
    /// Explain whether a profile allows an operation, by which rule, and what would allow it
    #[cfg(target_os = "linux")]
    Explain(explain::ExplainArgs),
    /// List the configured hooks, check files of hooks
    Hooks(hooks::HooksArgs),
    Install(install::InstallArgs),
    Interpret(interpret::InterpretArgs),
    Kill(ps::KillArgs),
    #[cfg(target_os = "linux")]
    Learn(Box<learn::LearnArgs>),
    Lock(lock::LockArgs),
    Log(log::LogArgs),
    /// The program that a self-test's child executes
    #[cfg(not(target_os = "linux"))]
    #[command(hide = true)]
    MakeAttempts,
    /// Apply the administrator's policies, and try them against the journal
    Policy(policy::PolicyArgs),
    /// List, show and validate profiles
    Profile(profile::ProfileArgs),
    Ps(ps::PsArgs),
    Reload(admin::ReloadArgs),
    RootDigest(root_digest::RootDigestArgs),
    /// Run one hook
    Run(Box<RunArgs>),
    /// Print the JSON Schema of one of hookjail's files
    Schema(schema::SchemaArgs),
    /// Run the daemon
    Serve(serve::ServeArgs),
    State(state::StateArgs),
    Status(status::StatusArgs),
    Test(testing::TestArgs),
    Uninstall(install::UninstallArgs),
    /// The program that is executed under a Seatbelt profile before the hook
    #[cfg(not(target_os = "linux"))]
    #[command(hide = true)]
    Witness(hookjail_sandbox::portable::witness::Witness),
}

impl CliCommand {
    fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self {
            Self::Allow(allow) => allow.run(context),
            Self::Audit(audit) => audit.run(context),
            Self::Builtin(builtin) => builtin.run(),
            Self::Completions(completions) => completions.run(context),
            Self::Config(config) => config.run(context),
            Self::Consent(consent) => consent.run(context),
            #[cfg(target_os = "linux")]
            Self::ContainerInit => Ok(hookjail_sandbox::container::inside::run()),
            Self::Dispatch(dispatch) => dispatch.run(context),
            Self::Doctor(doctor) => doctor.run(context),
            Self::Drain(drain) => drain.run(context),
            #[cfg(target_os = "linux")]
            Self::Explain(explain) => explain.run(context),
            Self::Hooks(hooks) => hooks.run(context),
            Self::Install(install) => install.run(context),
            Self::Interpret(interpret) => interpret.run(context),
            Self::Kill(kill) => kill.run(context),
            #[cfg(target_os = "linux")]
            Self::Learn(learn) => learn.run(context),
            Self::Lock(lock) => lock.run(context),
            Self::Log(log) => log.run(context),
            #[cfg(not(target_os = "linux"))]
            Self::MakeAttempts => Ok(hookjail_sandbox::portable::attempts::run()),
            Self::Policy(policy) => policy.run(context),
            Self::Profile(profile) => profile.run(context),
            Self::Ps(ps) => ps.run(context),
            Self::Reload(reload) => reload.run(context),
            Self::RootDigest(root_digest) => root_digest.run(context),
            Self::Run(arguments) => run::run(&arguments, context),
            Self::Schema(schema) => schema.run(context),
            Self::Serve(serve) => serve.run(context),
            Self::State(state) => state.run(context),
            Self::Status(status) => status.run(context),
            Self::Test(test) => test.run(context),
            Self::Uninstall(uninstall) => uninstall.run(context),
            #[cfg(not(target_os = "linux"))]
            Self::Witness(witness) => Ok(witness.run()),
        }
    }
}

/// The context of every subcommand.
#[derive(Clone, Debug)]
struct Context {
    call: hookjail_client::Context,
    source: ConfigSource,
}

impl Context {
    fn new(everywhere: Everywhere) -> Self {
        let call = hookjail_client::Context::new(everywhere);
        Self {
            source: ConfigSource {
                environment: ProcessEnv::read(call.paths.clone()),
                file: call.config.clone(),
                private: None,
            },
            call,
        }
    }

    const fn environment(&self) -> &ProcessEnv {
        &self.source.environment
    }

    fn load(&self) -> Result<Config, ConfigError> {
        self.source.load()
    }
}

/// Returns the exit code that reports whether all is well.
const fn success(is_well: bool) -> ExitCode {
    match is_well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Runs the program by its arguments, its name first, and returns the exit code.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<_> = words.into_iter().collect();
    hookjail_sys::with_stack(|| start(&words))
}

fn start(words: &[OsString]) -> ExitCode {
    // First: any failure in a hook's place must block from here on.
    let post = ReplacedHook::taken(words);
    let parsed = if words.get(1).is_some_and(|word| word == "run") {
        // To make all the other subcommands' options takes longer than what a hook's run adds otherwise.
        RunArguments::try_parse_from(words).map(|arguments| {
            let (run, everywhere) = arguments.into_parts();
            Arguments {
                command: CliCommand::Run(run),
                everywhere,
            }
        })
    } else {
        Arguments::read(words)
    };
    let Arguments {
        command,
        everywhere,
    } = match (parsed, post) {
        (Ok(arguments), _) => arguments,
        (Err(error), Some(post)) => return post.refuse_words(words, &error),
        (Err(error), None) => {
            // A closed stderr leaves no way to report.
            drop(error.print());
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(FAILED));
        }
    };
    connect::connect_over_network(remote::connect);
    let context = Context::new(everywhere);
    // In a hook's place the answer is its runtime's.
    let stands_in = matches!(&command, CliCommand::Run(run) if run.place.runtime.is_some());
    let done = match context.call.check_config() {
        Err(failure) if !stands_in => Err(failure),
        Ok(()) | Err(_) => command.run(&context),
    };
    done.unwrap_or_else(|failure| {
        output::failure(&failure, context.call.json);
        ExitCode::from(failure.code)
    })
}

//! `hookjail learn`: proposes the smallest profile for a hook from its observed behaviour.
//!
//! The hook runs confined each time: observed under the widest profile that the operator allows, and under the resulting
//! profile. No run has grants beyond that profile, the command line and what somebody agreed to.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, IsTerminal, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use serde_json::json;
use tonic::transport::Channel;

use hookjail_base::{
    model::{Consent, Event, ProfileName, plain},
    util::diff::unified,
};
use hookjail_client::{
    Failure,
    arguments::{as_typed, contract, directory, parse_span, text},
    connect,
    offered::variables,
    output,
    program::{current_directory, resolve_program},
    run_as,
    server::until_interrupted,
};
use hookjail_contract::{Envelope, Stop, adopt::Adopted};
use hookjail_policy::{
    Access, GrantPlace, GrantSpec, Network, Policy, References, Registry, SHARED, environment,
    explain::{GrantDecision, Operation, Remedy},
    forbidden::Forbidden,
    grantable,
};
use hookjail_proto::{self as pb, hook_service_client::HookServiceClient};
use hookjail_sandbox::{BriefState, Observer, Seen};

use super::{
    Context,
    install::{Placed, agreed},
    learned::{Draft, Needs, PARTS, Site, Under},
    log,
    observed::{find_profile, is_read_only, landlock_abi, needs, refusals, under},
    private_server::{PrivateServer, runtime},
    proposal::{self, Proposal},
    rows::{Rows, shell_line},
    run::event,
    show::{denial_words, outcome_words},
    success,
};
use hookjail_daemon::{
    config::Config,
    consent::ConsentRule,
    daemon::{Assembly, own_places},
};

/// The widest profile where none is named, which suits usual hooks.
const PROFILE: &str = "develop";

/// The profile of the first run.
const TRIAL: &str = "learn-trial";

/// The difference of a hook that did not end alike.
const OTHER_END: &str = "it ends otherwise";

/// The maximum number of listed denials.
const NAMED: usize = 20;

/// The maximum number of runs under the wide profile with more and more grants.
const ROUNDS: u32 = 4;

/// The exit code of what could not be run.
const CANNOT: i32 = 125;

/// The maximum number of shown lines of stderr.
const TAIL: usize = 3;

/// Propose the smallest profile for a hook, and put in force what it lacks, after a question.
///
/// Runs the hook under the wide profile and under the proposed one. All runs are real: what the hook writes, it writes.
/// Prints the profile as a diff that makes its file. At a terminal, or with --yes, the hook is given what the wide profile
/// refused it: as a profile, by a consent, and in the settings. Exits with 0 where the hook ends as under the wide profile.
#[derive(Debug, Args)]
pub(super) struct LearnArgs {
    /// Give it what this runtime gives its hooks, and what the contract says of their stdin
    #[arg(long = "as", value_name = "RUNTIME", value_parser = runtime_named)]
    runtime: Option<Adopted>,
    /// The lifecycle point [default: that of the settings, else the one before a tool call]
    #[arg(long, default_value = "", hide_default_value = true)]
    point: String,
    /// The widest profile that it may have [default: that of the settings, else develop]
    #[arg(
        long,
        value_name = "PROFILE",
        default_value = "",
        hide_default_value = true
    )]
    profile: String,
    /// Let it speak to other hosts too
    #[arg(long)]
    network: bool,
    /// Grant a path too: PATH=read, PATH=execute, PATH=write or PATH=write-file
    #[arg(long, value_name = "PATH=ACCESS", value_parser = grant)]
    grant: Vec<(PathBuf, Access)>,
    /// The name of the profile [default: that of the hook's file]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Write the profile to this file, which must not exist
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A file with the event, or - for stdin [default: stdin, unless it is a terminal or empty; then samples of the runtime's]
    #[arg(long, value_name = "FILE")]
    event: Option<PathBuf>,
    /// The wall time of each run, for example 500ms, 10s, 2m
    #[arg(long, value_parser = parse_span)]
    timeout: Option<Duration>,
    /// Binds ${workspace} [default: the project of the current directory]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Put in force what the hook lacks, and do not ask
    #[arg(long)]
    yes: bool,
    /// Take the last hook that confinement denied something, with its runtime and point
    #[arg(long, conflicts_with = "command")]
    last: bool,
    /// The command
    #[arg(
        required_unless_present = "last",
        trailing_var_arg = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// The results of a hook's runs under a profile, one for each event.
struct Trial {
    ends: Vec<pb::ExecuteResponse>,
    files: Vec<PathBuf>,
    seen: Vec<Seen>,
}

/// A refused access of the first run.
struct Unmet {
    /// The remedy, or the reason why there is none.
    remedy: String,
    what: String,
    wish: Wish,
}

/// The grants that would allow a refused access.
#[derive(Default)]
struct Wish {
    grants: Vec<(PathBuf, Access)>,
    network: bool,
}

impl Wish {
    fn is_empty(&self) -> bool {
        self.grants.is_empty() && !self.network
    }

    /// Returns what is added, a line for each grant.
    fn words(&self) -> impl Iterator<Item = String> {
        let grants = self.grants.iter().map(|(path, access)| {
            let verb = match access {
                Access::Execute => "read and execute",
                Access::Read => "read",
                Access::Write => "write and make files in",
                Access::WriteFile => "write",
            };
            format!("+ {verb} {}", path.display())
        });
        let network = self.network.then(|| "+ connect to other hosts".to_owned());
        grants.chain(network)
    }
}

impl Unmet {
    fn as_json(&self) -> serde_json::Value {
        json!({ "remedy": self.remedy, "what": self.what })
    }

    fn words(&self) -> String {
        format!("{}: {}", self.what, self.remedy)
    }
}

impl Trial {
    /// Returns why nothing can be learnt from these runs: all failed, or one did not exit by itself.
    fn failure(&self) -> Option<String> {
        let failed = |end: &&pb::ExecuteResponse| {
            let outcome = end.outcome.unwrap_or_default();
            let code = outcome.exit_code.unwrap_or(CANNOT);
            let decided = end.verdict.as_ref().map_or(0, |it| it.decision);
            let lets_pass = [
                pb::Decision::Unspecified,
                pb::Decision::None,
                pb::Decision::Allow,
            ];
            let lets_pass = lets_pass.map(i32::from).contains(&decided);
            code != 0 && (lets_pass || is_of_a_denial(&end.stderr))
        };
        let broken = |end: &&pb::ExecuteResponse| {
            let outcome = end.outcome.unwrap_or_default();
            outcome.kind() != pb::OutcomeKind::Exited || outcome.exit_code == Some(CANNOT)
        };
        let mut ends = self.ends.iter();
        let first = self.ends.first()?;
        let end = match self.ends.iter().find(broken) {
            Some(end) => end,
            None if ends.all(|end| failed(&end)) => first,
            None => return None,
        };
        let stderr = String::from_utf8_lossy(&end.stderr);
        let tail: Vec<_> = stderr.lines().rev().take(TAIL).collect();
        let tail: Vec<_> = tail.into_iter().rev().map(plain).collect();
        let outcome = end.outcome.unwrap_or_default();
        let ended = outcome_words(&outcome, &end.exec_problem, output::Style::of_stdout());
        Some(match tail.is_empty() {
            true => ended,
            false => format!("{ended}: {}", tail.join(" | ")),
        })
    }
}

/// Returns whether the last line of stderr is about an access that was denied.
fn is_of_a_denial(stderr: &[u8]) -> bool {
    let text = String::from_utf8_lossy(stderr).to_lowercase();
    let line = text.trim_end().lines().last().unwrap_or_default();
    let words = [
        "permission denied",
        "operation not permitted",
        "eacces",
        "eperm",
    ];
    words.iter().any(|word| line.contains(word))
}

/// Returns the remark on events without an effect.
fn note(had_effect: bool) -> Option<&'static str> {
    (!had_effect).then_some(
        "no event had an effect: nothing was written and no host asked; what another event needs is not known: give one by --event FILE",
    )
}

/// The learned profile, and the results of both runs.
struct Learned {
    /// Whether the hook wrote something or asked another host.
    had_effect: bool,
    /// The differences of the second run.
    differ: Vec<String>,
    /// The text of the profile.
    draft: String,
    learned: Trial,
    refused: Vec<Unmet>,
    trial: Trial,
}

impl LearnArgs {
    /// Learns a command of settings, after questions.
    pub(super) fn for_hook(argv: &[String], network: bool) -> Self {
        Self {
            command: argv.iter().map(OsString::from).collect(),
            event: None,
            grant: Vec::new(),
            last: false,
            name: None,
            network,
            output: None,
            point: String::new(),
            profile: String::new(),
            runtime: None,
            timeout: None,
            workspace: None,
            yes: false,
        }
    }

    pub(super) fn run(mut self, context: &Context) -> Result<ExitCode, Failure> {
        let mut config = context.load()?;
        if self.last {
            self.take_last(context)?;
        }
        let placed = self.settle(context, &config)?;
        let is_applied =
            self.output.is_none() && (self.yes || !context.call.json && io::stdin().is_terminal());
        let name = self.named(&config)?;
        let bench = Bench::new(&self, context, &config)?;
        let homes = context.call.paths.own_homes();
        let registry = Assembly::registry(&config)?;
        find_profile(&registry, &self.profile)?;
        let judge = Assembly::roots(&config, &registry);
        let added = config.workspace_roots.add(&bench.workspace, &homes, &judge);
        added.map_err(|why| Failure::new(format!("`{}` {why}", bench.workspace.display())))?;
        // Every run begins without files of earlier ones, and leaves none.
        let state = BriefState::make(&config.paths.runtime)?;
        config.hook_state = Some(state.path().to_owned());

        let observer = Arc::new(Observer::default());
        let assembly = Assembly::begin()?.observed_by(Arc::clone(&observer));
        let under = |config: &Config, profile: &str| {
            let run = bench.run(&assembly, config, profile, &observer);
            connect::block_on(&runtime()?, run)
        };
        let (trial, refused) = self.observe(&bench, &mut config, is_applied, &under)?;
        if let Some(why) = trial.failure() {
            self.report_failure(context, &why, &refused);
            return Ok(ExitCode::FAILURE);
        }
        let had_effect = bench.had_effect(&config, &trial);
        if is_applied {
            let text =
                bench.profile_text(&self, &config, &format!("{} with more", self.profile))?;
            return self.apply(context, (&name, &text), (had_effect, &refused), &placed);
        }
        let draft = bench.draft(&config, &trial, &name)?;
        config
            .proposed_profiles
            .push((name.to_string(), draft.clone()));
        let learned = under(&config, name.as_str())?;
        let mut differ = differences(&trial.ends, &learned.ends);
        differ.extend(bench.kept(&config, &name, &learned)?);
        let learned = Learned {
            had_effect,
            differ,
            draft,
            learned,
            refused,
            trial,
        };
        self.report_draft(context, &config, &name, &learned)
    }

    /// Runs the hook under the widest profile, and again with what that refused while somebody agrees. Returns the last run.
    fn observe(
        &mut self,
        bench: &Bench,
        config: &mut Config,
        is_applied: bool,
        under: &dyn Fn(&Config, &str) -> Result<Trial, Failure>,
    ) -> Result<(Trial, Vec<Unmet>), Failure> {
        let mut rounds = 0;
        loop {
            rounds += 1;
            let text = bench.profile_text(self, config, "the first run of hookjail learn")?;
            config.proposed_profiles = vec![(TRIAL.to_owned(), text)];
            let trial = under(config, TRIAL)?;
            let refused = bench.refused(self, config, &trial)?;
            let has_more = refused.iter().any(|it| !it.wish.is_empty());
            if !is_applied || !has_more || rounds == ROUNDS {
                return Ok((trial, refused));
            }
            if !self.tries_again(&refused)? {
                return Err(Failure::new("nothing was written"));
            }
            for Unmet { wish, .. } in refused {
                self.network |= wish.network;
                for grant in wish.grants {
                    self.add(grant);
                }
            }
        }
    }

    /// Adds a grant, unless another one gives as much.
    fn add(&mut self, (path, access): (PathBuf, Access)) {
        let gives = |(known, given): &(PathBuf, Access)| {
            *known == path && *given == access
                || access.is_read_only() && *given == Access::Write && path.starts_with(known)
        };
        if self.grant.iter().any(gives) {
            return;
        }
        if access == Access::Write {
            let stays = |(known, given): &(PathBuf, Access)| {
                !(given.is_read_only() && known.starts_with(&path))
            };
            self.grant.retain(stays);
        }
        self.grant.push((path, access));
    }

    /// Takes the command of the last run in which confinement denied something, with what no option names.
    ///
    /// # Errors
    ///
    /// Fails where no run has such a command as a whole.
    fn take_last(&mut self, context: &Context) -> Result<(), Failure> {
        let denied = log::last_denied(context)?;
        let denied = denied.ok_or_else(|| {
            Failure::new("no run was denied anything; name the hook: hookjail learn -- CMD")
        })?;
        output::stderr(&format!(
            "the last denied hook: {}",
            plain(&shell_line(&denied.argv))
        ));
        self.command = denied.argv;
        self.network |= denied.network;
        self.runtime = self.runtime.or(denied.runtime);
        self.workspace = self.workspace.take().or(denied.workspace);
        if self.point.is_empty() {
            self.point = denied.point;
        }
        if self.profile.is_empty() {
            self.profile = denied.profile;
        }
        Ok(())
    }

    /// Takes command, runtime, point and profile from the settings in which the command stands, as far as no option names them.
    fn settle(&mut self, context: &Context, config: &Config) -> Result<Vec<Placed>, Failure> {
        let mut placed = Placed::find(context, config, &self.command)?;
        if placed.is_empty() && self.last {
            // The journal has a script with the interpreter of its first line.
            placed = Placed::find(context, config, self.command.get(1..).unwrap_or_default())?;
        }
        let (runtime, point) = (self.runtime, self.point.clone());
        placed.retain(|it| {
            runtime.is_none_or(|runtime| runtime.name == it.runtime.name)
                && (point.is_empty() || point == it.point)
        });
        if let Some(first) = placed.first().cloned() {
            placed.retain(|it| (it.runtime.name, &it.point) == (first.runtime.name, &first.point));
            self.command = first.argv.iter().map(OsString::from).collect();
            self.runtime = Some(first.runtime);
            self.point = first.point;
            if let (true, Some(profile)) = (self.profile.is_empty(), first.profile) {
                self.profile = profile;
            }
        }
        if self.profile.is_empty() {
            PROFILE.clone_into(&mut self.profile);
        }
        Ok(placed)
    }

    /// Returns the name of the profile: the one that is given, else that of the hook's file.
    ///
    /// Where the hook runs under a profile of that name already, what that one adds is granted, and its base is the widest profile.
    fn named(&mut self, config: &Config) -> Result<ProfileName, Failure> {
        let shipped = Registry::builtin()?;
        let is_free = |name: &ProfileName| {
            let taken = [TRIAL].into_iter().chain(PARTS);
            shipped.find(name).is_none() && !taken.into_iter().any(|taken| taken == name.as_str())
        };
        let name = match &self.name {
            Some(name) => ProfileName::parse(name).filter(is_free).ok_or_else(|| {
                Failure::new(format!(
                    "`--name {name}` is no name for a profile of one's own"
                ))
            })?,
            None => {
                let name = self.name_of_file();
                let free = ProfileName::parse(&name).filter(is_free);
                free.or_else(|| ProfileName::parse(&format!("hook-{name}")))
                    .ok_or_else(|| Failure::new("name the profile by --name"))?
            }
        };
        if name.as_str() == self.profile {
            let registry = Assembly::registry(config)?;
            let present = find_profile(&registry, name.as_str())?;
            let parent = present.line.get(1).map(ProfileName::as_str);
            let parent = find_profile(&registry, parent.unwrap_or(PROFILE))?;
            let more = present.files.named.iter();
            let more = more.filter(|grant| !parent.files.named.contains(grant));
            self.grant
                .extend(more.filter_map(|grant| match &grant.place {
                    GrantPlace::Path(path) => Some((path.clone(), grant.access)),
                    GrantPlace::Entries(_)
                    | GrantPlace::Source { .. }
                    | GrantPlace::Workspace { .. } => None,
                }));
            self.network |= present.network != parent.network;
            self.profile = parent.name.to_string();
        }
        Ok(name)
    }

    /// Returns the name of the hook's file in the letters of profiles.
    fn name_of_file(&self) -> String {
        let words = self.command.iter().map(Path::new);
        let mut scripts = words.clone().filter(|word| word.extension().is_some());
        let file = scripts
            .next()
            .or_else(|| self.command.first().map(Path::new));
        let stem = file.and_then(Path::file_stem).unwrap_or_default();
        let stem = stem.to_string_lossy().to_lowercase();
        let is_usual = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let name: String = stem
            .chars()
            .map(|letter| if is_usual(letter) { letter } else { '-' })
            .take(48)
            .collect();
        name.trim_matches('-').to_owned()
    }

    /// Returns whether the hook may be run once more with what was refused.
    fn tries_again(&self, refused: &[Unmet]) -> Result<bool, Failure> {
        let mut more = Self::additions(refused.iter().map(|it| &it.wish));
        more.push(String::new());
        output::stderr_text(&more.join("\n"));
        if self.yes {
            return Ok(true);
        }
        agreed(&format!(
            "{} refused that. Run the hook again with it? [y/N] ",
            self.profile
        ))
    }

    /// Returns in words what wishes add to a profile.
    fn additions<'a>(wishes: impl Iterator<Item = &'a Wish>) -> Vec<String> {
        let mut words = Vec::new();
        for wish in wishes {
            words.extend(wish.words());
        }
        words.sort();
        words.dedup();
        words
    }

    /// Prints why nothing is proposed.
    fn report_failure(&self, context: &Context, why: &str, refused: &[Unmet]) {
        let message = format!("the hook failed under observation: {why}; nothing is proposed");
        if context.call.json {
            let refused = refused.iter();
            let refused: Vec<_> = refused.map(Unmet::as_json).collect();
            output::json_line(&json!({
                "differences": [],
                "failed": message,
                "green": false,
                "refused": refused,
            }));
            return;
        }
        let mut rows = Rows::plain("", 12);
        rows.each("refused", refused.iter().map(Unmet::words));
        rows.row("tried", message);
        output::stderr_text(rows.as_str());
    }

    /// Writes the profile, allows the hook under it and has the settings name it, after a question.
    fn apply(
        &self,
        context: &Context,
        (name, text): (&ProfileName, &str),
        (had_effect, refused): (bool, &[Unmet]),
        placed: &[Placed],
    ) -> Result<ExitCode, Failure> {
        let wish = Wish {
            grants: self.grant.clone(),
            network: self.network,
        };
        let more = Self::additions([&wish].into_iter());
        let mut rows = Rows::plain("", 12);
        rows.each("refused", refused.iter().map(Unmet::words));
        rows.each("note", note(had_effect));
        output::stderr_text(rows.as_str());
        if let Some(first) = placed.iter().find(|it| it.is_prefixed) {
            let runtime = first.runtime.name;
            return Err(Failure::new(format!(
                "the shell prefix of {runtime} runs every hook under profile {}; confine each line instead: hookjail install {runtime} --uninstall, hookjail install {runtime}",
                self.profile
            )));
        }
        if more.is_empty() {
            let message = format!(
                "the hook needs nothing more than profile {}: nothing is written",
                self.profile
            );
            return self.report(context, &message, None, &[]);
        }
        let proposal = Proposal {
            command: &self.command,
            name,
            placed,
            text,
        };
        let file = proposal.file(context)?;
        output::stderr_text(&format!(
            "profile {name} allows all of {}, and:\n{}\n",
            self.profile,
            more.join("\n")
        ));
        if !self.yes && !agreed(&proposal.question())? {
            return Err(Failure::new("nothing was written"));
        }
        let done = proposal.put_in_force(context, &file)?;
        let message = format!("the hook runs under profile {name}");
        self.report(context, &message, Some(&file), &done)
    }

    fn report(
        &self,
        context: &Context,
        message: &str,
        file: Option<&Path>,
        done: &[String],
    ) -> Result<ExitCode, Failure> {
        if context.call.json {
            output::json_line(&json!({
                "applied": file.is_some(),
                "done": done,
                "file": file,
                "message": message,
            }));
        } else {
            let mut rows = Rows::plain("", 12);
            rows.each("done", done);
            rows.line(message);
            rows.print();
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Prints the result, and writes the profile if requested.
    fn report_draft(
        &self,
        context: &Context,
        config: &Config,
        name: &ProfileName,
        learned: &Learned,
    ) -> Result<ExitCode, Failure> {
        let differ = &learned.differ;
        if let Some(path) = &self.output {
            write_new(path, &learned.draft)?;
        }
        let directory = proposal::directory(config, context);
        let to = format!("{name}.toml");
        let file = directory.join(&to);
        // Where there is such a profile already, what would change in it.
        let (from, old) = match fs::read_to_string(&file) {
            Ok(old) => (to.as_str(), old),
            Err(_) => ("/dev/null", String::new()),
        };
        let diff = unified((from, &old), (&to, &learned.draft));
        let command = shell_line(&self.command);
        let mut next = Vec::new();
        if learned.refused.iter().any(|it| !it.wish.is_empty()) {
            next.push(format!(
                "have what was refused written, allowed and used: {}",
                self.with(&["--yes".to_owned()])
            ));
        }
        if self.output.as_deref() != Some(&file) {
            next.push(format!(
                "have it written to {} by --output, or give this to `patch -p0` there",
                file.display()
            ));
        }
        next.push("hookjail reload, where a daemon runs".to_owned());
        next.push(format!("hookjail allow --profile {name} -- {command}"));

        if context.call.json {
            let refused = learned.refused.iter();
            let refused: Vec<_> = refused.map(Unmet::as_json).collect();
            output::json_line(&json!({
                "differences": differ,
                "green": differ.is_empty(),
                "name": name.as_str(),
                "next": next,
                "note": note(learned.had_effect),
                "refused": refused,
                "toml": learned.draft,
            }));
        } else {
            self.say(name, learned, &next);
            output::document(&diff);
        }
        Ok(success(differ.is_empty()))
    }

    /// Prints for people how both runs ended, and what is to be done next.
    fn say(&self, name: &ProfileName, learned: &Learned, next: &[String]) {
        let style = output::Style::of_stdout();
        let ends = |trial: &Trial| {
            let ends = trial.ends.iter().map(|end| {
                outcome_words(&end.outcome.unwrap_or_default(), &end.exec_problem, style)
            });
            let ends: BTreeSet<_> = ends.collect();
            ends.into_iter().collect::<Vec<_>>().join("; ")
        };
        let mut rows = Rows::plain("", 12);
        let wide = match (self.network, self.grant.is_empty()) {
            (false, true) => self.profile.clone(),
            _ => format!("{} and what was granted with it", self.profile),
        };
        rows.row("tried", format!("{} under {wide}", ends(&learned.trial)));
        rows.each("refused", learned.refused.iter().map(Unmet::words));
        rows.each("note", note(learned.had_effect));
        let green = match learned.differ.as_slice() {
            [] => "the same".to_owned(),
            [one] if one == OTHER_END => format!(
                "DIFFERENT: {one}, and is refused nothing that the first run was not; if what the first run did is why, start it anew"
            ),
            differ => format!("DIFFERENT: {}", differ.join("; ")),
        };
        let words = format!("{} under {name}, {green}", ends(&learned.learned));
        rows.row("learnt", words);
        rows.list("to use it", next);
        output::stderr_text(rows.as_str());
    }

    /// Returns the command line with more options.
    fn with(&self, more: &[String]) -> String {
        let mut words = vec!["hookjail".to_owned(), "learn".to_owned()];
        if let Some(runtime) = self.runtime {
            words.push(format!("--as={}", runtime.name));
        }
        for (option, value) in [("point", &self.point), ("profile", &self.profile)] {
            if !value.is_empty() && value != PROFILE {
                words.push(format!("--{option}={value}"));
            }
        }
        if self.network {
            words.push("--network".to_owned());
        }
        let grants = self.grant.iter();
        words.extend(grants.map(|(path, access)| grant_option(path, *access)));
        words.extend_from_slice(more);
        let options = shlex::try_join(words.iter().map(String::as_str));
        let options = options.unwrap_or_else(|_| words.join(" "));
        format!("{options} -- {}", shell_line(&self.command))
    }
}

/// The set-up of both runs.
struct Bench {
    abi: u32,
    argv: Vec<String>,
    contract: i32,
    depth: u32,
    umask: u32,
    events: Vec<Vec<u8>>,
    /// The paths that no grant of the command line may reach; for a root daemon also root's home.
    floor: References,
    mode: String,
    path: Vec<PathBuf>,
    point: String,
    timeout: Option<prost_types::Duration>,
    working_dir: PathBuf,
    workspace: PathBuf,
}

impl Bench {
    fn new(learn: &LearnArgs, context: &Context, config: &Config) -> Result<Self, Failure> {
        let current = current_directory()?.canonicalize()?;
        let workspace = match (&learn.workspace, learn.runtime) {
            (Some(named), _) => PathBuf::from(directory(named)?),
            (None, Some(runtime)) => {
                run_as::project(runtime, &current, context.call.paths.home.as_deref())
            }
            (None, None) => current.clone(),
        };
        let argv = resolve_program(learn.command.clone())?;
        let argv = argv.into_iter().map(|word| text(word, "argument"));
        let given = event(learn.event.as_deref())?;
        let mut point = learn.point.clone();
        let has_samples = given.is_empty() && learn.runtime.is_some();
        if point.is_empty() && has_samples {
            point = learn.runtime.and_then(usual_gate).unwrap_or_default();
        }
        let mode = learn.runtime.map(|runtime| runtime.mode);
        let events = match (learn.runtime, mode) {
            (Some(runtime), Some(mode)) if given.is_empty() => {
                let samples = runtime.samples(&workspace).into_iter();
                let samples = samples.map(|sample| {
                    let event = Event {
                        json: sample.to_string().into_bytes().into(),
                        point: point.clone(),
                        raw: false,
                    };
                    let envelope = Envelope {
                        cwd: workspace.display().to_string(),
                        session: "learn".to_owned(),
                        ..Envelope::default()
                    };
                    let stdin = mode.stdin(&event, &envelope);
                    stdin
                        .map(|stdin| stdin.to_vec())
                        .map_err(|error| Failure::new(as_typed(&Failure::from(error).message)))
                });
                samples.collect::<Result<Vec<_>, _>>()?
            }
            _ => vec![given],
        };
        if let (Some(runtime), Some(event)) = (learn.runtime, events.first())
            && point.is_empty()
        {
            let named = runtime.named_point(event);
            point = named.or_else(|| runtime.point(event)).unwrap_or_default();
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let working_dir = match current.starts_with(&workspace) {
            true => current,
            false => workspace.clone(),
        };
        Ok(Self {
            abi: landlock_abi(),
            argv: argv.collect::<Result<_, _>>()?,
            contract: contract(mode.map_or("observe", |mode| mode.facts().contract))?.into(),
            depth: context.call.depth,
            umask: context.call.umask,
            events: match events.is_empty() {
                true => vec![Vec::new()],
                false => events,
            },
            floor: References {
                home: context.call.paths.home.clone(),
                ..config.references.clone()
            },
            mode: mode.map_or_else(String::new, |mode| mode.mode_name().to_owned()),
            path: env::split_paths(&path).collect(),
            point,
            timeout: learn
                .timeout
                .map(prost_types::Duration::try_from)
                .transpose()?,
            working_dir,
            workspace,
        })
        .and_then(|bench| {
            let forbidden = Forbidden::locate(&own_places(config))?;
            match forbidden.reached_by(&bench.workspace)? {
                None => Ok(bench),
                Some(own) => Err(Failure::new(format!(
                    "`{}` cannot be the workspace, because it reaches the daemon's own `{}`; start in a project, or name one by --workspace",
                    bench.workspace.display(),
                    own.display()
                ))),
            }
        })
    }

    /// Returns the text of the widest profile with the command line's grants.
    fn profile_text(
        &self,
        learn: &LearnArgs,
        config: &Config,
        description: &str,
    ) -> Result<String, Failure> {
        let registry = Assembly::registry(config)?;
        let widest = find_profile(&registry, &learn.profile)?;
        let description = toml::Value::String(description.to_owned());
        let mut text = format!(
            "description = {description}\nextends = \"{}\"\ngranted_by = \"operator\"\n",
            widest.name
        );
        let mut system = Vec::new();
        if learn.network {
            text.push_str("network = \"outbound\"\n");
            let known = |grant: &&GrantSpec| {
                let mut all = widest.files.system.iter().chain(&widest.files.named);
                all.all(|it| it.place != grant.place)
            };
            let network = find_profile(&registry, "network")?;
            system.extend(network.files.system.iter().filter(known).cloned());
        }
        text.push_str("\n[files]\nnamed = [\n");
        for (path, access) in &learn.grant {
            let never = self.floor.never(path, access.is_read_only());
            if let Some(why) = never {
                return Err(Failure::new(format!(
                    "`{}` is not granted so: {why}; an operator who wants it writes it into a profile, by its whole path",
                    path.display()
                )));
            }
            let path = toml::Value::String(path.display().to_string());
            // A log that is missing, or will be rotated away.
            let create = match access {
                Access::WriteFile => ", create = true",
                Access::Execute | Access::Read | Access::Write => "",
            };
            text.push_str(&format!(
                "    {{ path = {path}, access = \"{access}\"{create} }},\n"
            ));
        }
        text.push_str("]\n");
        if !system.is_empty() {
            text.push_str("system = [\n");
        }
        for grant in &system {
            let path = toml::Value::String(grant.place.to_string());
            let (access, optional) = (grant.access, grant.optional);
            text.push_str(&format!(
                "    {{ path = {path}, access = \"{access}\", optional = {optional} }},\n"
            ));
        }
        if !system.is_empty() {
            text.push_str("]\n");
        }
        Ok(text)
    }

    fn request(&self, policy: &Policy, event: &[u8]) -> Result<pb::ExecuteRequest, Failure> {
        // The runtime's variables, as far as the profile admits them.
        let admitted = variables().filter(|(name, _)| environment::admits(policy, name));
        let binds = policy.needs_workspace();
        let directory = |path: &Path| {
            if binds {
                text(path.into(), "directory")
            } else {
                Ok(String::new())
            }
        };
        Ok(pb::ExecuteRequest {
            contract: self.contract,
            depth: self.depth,
            event: Some(pb::Event {
                json: event.to_vec().into(),
                point: self.point.clone(),
                raw: true,
            }),
            hook: Some(pb::Hook {
                argv: self.argv.clone(),
                env: admitted.collect(),
                name: String::new(),
                shell: None,
                source: String::new(),
                umask: Some(self.umask),
                working_dir: directory(&self.working_dir)?,
                workspace: directory(&self.workspace)?,
            }),
            mode: self.mode.clone(),
            on_disconnect: pb::OnDisconnect::Kill.into(),
            profile: policy.name.to_string(),
            require_confirmed: Some(true),
            timeout: self.timeout,
            ..pb::ExecuteRequest::default()
        })
    }

    /// Runs the hook under a profile, once for each event.
    async fn run(
        &self,
        assembly: &Assembly,
        config: &Config,
        profile: &str,
        observer: &Observer,
    ) -> Result<Trial, Failure> {
        let policy = find_profile(&Assembly::registry(config)?, profile)?;
        let server =
            PrivateServer::start(assembly, config.clone(), ConsentRule::Given(Consent::Trial))
                .await?;
        let done = self.run_all(&server.channel, &policy).await;
        let stopped = server.stop().await;
        let (files, ends) = done?;
        stopped?;
        let seen = observer.take().ok_or_else(|| {
            Failure::new(
                "what a hook does with files cannot be observed here: that takes backend `landlock`, no filter with a listener above this \
                 process, as some containers have one, and the right to read the memory of one's own children (`/proc/PID/mem`); ask \
                 for single paths by `hookjail explain path`",
            )
        })?;
        Ok(Trial { ends, files, seen })
    }

    async fn run_all(
        &self,
        channel: &Channel,
        policy: &Policy,
    ) -> Result<(Vec<PathBuf>, Vec<pb::ExecuteResponse>), Failure> {
        let mut client = HookServiceClient::new(channel.clone());
        let mut ends = Vec::new();
        for event in &self.events {
            let request = tonic::Request::new(self.request(policy, event)?);
            ends.push(until_interrupted(connect::execute(&mut client, request)).await?);
        }
        let preview = pb::PreviewRequest {
            request: Some(self.request(policy, self.events.first().map_or(&[], Vec::as_slice))?),
        };
        let preview = client.preview(preview).await;
        let preview = preview.map_err(connect::refused)?;
        let files = preview.into_inner().files.into_iter();
        Ok((files.map(|file| file.path.into()).collect(), ends))
    }

    /// Returns the widest profile's meaning, and what the hook did.
    fn observed(&self, config: &Config, trial: &Trial) -> Result<(Under, Needs), Failure> {
        let widest = find_profile(&Assembly::registry(config)?, TRIAL)?;
        let widest = under(widest, &self.workspace, &trial.files, self.abi)?;
        let needs = needs(&trial.seen, &trial.files, &config.paths.runtime);
        Ok((widest, needs))
    }

    /// Returns whether a run changed something that outlasts it, asked another host, or decided.
    fn had_effect(&self, config: &Config, trial: &Trial) -> bool {
        let decides = [pb::Decision::Ask, pb::Decision::Block, pb::Decision::Deny];
        let decides = decides.map(i32::from);
        let mut verdicts = trial.ends.iter().filter_map(|end| end.verdict.as_ref());
        let has_decided = verdicts.any(|verdict| decides.contains(&verdict.decision));
        let needs = needs(&trial.seen, &trial.files, &config.paths.runtime);
        let null = Path::new("/dev");
        let mut uses = needs.uses.iter();
        has_decided
            || needs.network
            || needs.notices
            || uses.any(|it| !is_read_only(it.operation) && !it.target.path().starts_with(null))
    }

    /// Returns the text of the smallest profile.
    fn draft(&self, config: &Config, trial: &Trial, name: &ProfileName) -> Result<String, Failure> {
        let (widest, needs) = self.observed(config, trial)?;
        let site = Site {
            path: &self.path,
            references: &config.references,
            workspace: &self.workspace,
        };
        let program = self.argv.first().map(Path::new).and_then(Path::file_name);
        let program = program.unwrap_or_default().to_string_lossy();
        let description = format!("what {} needs, by hookjail learn", plain(&program));
        let draft = Draft::compose(&description, &needs, &widest, site, |draft| {
            let mut config = config.clone();
            config
                .proposed_profiles
                .push((name.to_string(), draft.to_string()));
            let policy = find_profile(&Assembly::registry(&config)?, name.as_str())?;
            under(policy, &self.workspace, &trial.files, self.abi)
        })?;
        Ok(draft.to_string())
    }

    /// Returns the denials of a run under the widest profile, with remedies.
    fn refused(
        &self,
        learn: &LearnArgs,
        config: &Config,
        trial: &Trial,
    ) -> Result<Vec<Unmet>, Failure> {
        let (widest, needs) = self.observed(config, trial)?;
        let mut refused: Vec<Unmet> = Vec::new();
        let denials = trial.ends.iter().flat_map(|end| &end.denials);
        let of_calls = denials.filter(|it| !it.incidental);
        for denial in of_calls {
            let is_network =
                denial.suggestion.contains("network =") && widest.policy.network == Network::None;
            refused.push(Unmet {
                remedy: match (is_network, denial.suggestion.as_str()) {
                    (true, _) => {
                        format!("to allow it: {}", learn.with(&["--network".to_owned()]))
                    }
                    (false, "") => denial.rule.clone(),
                    (false, change) => format!("{}; {change}", denial.rule),
                },
                what: format!("{} {}", denial.operation, denial.target)
                    .trim_end()
                    .to_owned(),
                wish: Wish {
                    grants: Vec::new(),
                    network: is_network,
                },
            });
        }
        let forbidden = Forbidden::locate(&own_places(config))?;
        for (wanted, refusal) in refusals(&needs, &widest, &forbidden) {
            let floor = self
                .floor
                .never(&refusal.at, is_read_only(wanted.operation));
            // A log needs a file, and not the directory in which to make it, while its name stays the same.
            let name = wanted.given.file_name().unwrap_or_default();
            let is_steady = !name.to_string_lossy().contains(char::is_numeric);
            let is_file = is_steady && needs.opened.contains(&wanted.given);
            let of_file = is_file.then(|| {
                let (reach, target) = (&widest.reach, &wanted.target);
                reach.decide(Operation::Write, target, None, &forbidden)
            });
            let remedy = match &of_file {
                Some(GrantDecision::Refused(refusal)) => &refusal.remedy,
                Some(GrantDecision::Allowed { .. }) | None => &refusal.remedy,
            };
            let granted = match (floor, remedy) {
                (Some(why), _) => Err(format!("never granted: {why}")),
                (None, Remedy::Grants(grants)) => self.grants(grants),
                (None, other) => Err(format!("never granted: {other}")),
            };
            let options = |grants: &[(PathBuf, Access)]| {
                let options = grants.iter();
                let options = options.map(|(path, access)| grant_option(path, *access));
                options.collect::<Vec<_>>()
            };
            let (remedy, grants) = match granted {
                Ok(grants) => {
                    let command = learn.with(&options(&grants));
                    (format!("to allow it: {command}"), grants)
                }
                Err(never) => (never, Vec::new()),
            };
            refused.push(Unmet {
                remedy,
                what: format!(
                    "{} {}",
                    wanted.operation.name(),
                    wanted.target.path().display()
                ),
                wish: Wish {
                    grants,
                    network: false,
                },
            });
        }
        let mut known = BTreeSet::new();
        refused.retain(|it| known.insert(it.what.clone()));
        let more = refused.len().saturating_sub(NAMED);
        refused.truncate(NAMED);
        if more > 0 {
            refused.push(Unmet {
                remedy: "named once these are allowed".to_owned(),
                what: format!("{more} more"),
                wish: Wish::default(),
            });
        }
        Ok(refused)
    }

    /// Returns the grants on paths of a denied access, or why it is never granted.
    fn grants(&self, grants: &[GrantSpec]) -> Result<Vec<(PathBuf, Access)>, String> {
        let mut all = Vec::new();
        for grant in grants {
            let place = grant.place.to_string();
            let place = place.replacen("${workspace}", &self.workspace.display().to_string(), 1);
            let read_only = grant.access.is_read_only();
            if let Some(why) = self.floor.never(Path::new(&place), read_only) {
                return Err(format!("never granted: {why}"));
            }
            if SHARED.iter().any(|shared| place == *shared) {
                return Err(format!(
                    "never granted: every program writes to `{place}`; set `view = \"own\"`, under which hooks have their own"
                ));
            }
            all.push((PathBuf::from(place), grant.access));
        }
        Ok(all)
    }

    /// Returns the paths denied by the second run's profile but not by the first one's.
    fn kept(
        &self,
        config: &Config,
        name: &ProfileName,
        learned: &Trial,
    ) -> Result<Vec<String>, Failure> {
        let registry = Assembly::registry(config)?;
        let resolve = |name| {
            let policy = find_profile(&registry, name)?;
            under(policy, &self.workspace, &learned.files, self.abi)
        };
        let (widest, narrow) = (resolve(TRIAL)?, resolve(name.as_str())?);
        let uses = needs(&learned.seen, &learned.files, &config.paths.runtime)
            .uses
            .into_iter();
        let uses = uses.filter(|it| it.is_allowed(&widest.reach) && !it.is_allowed(&narrow.reach));
        let kept = uses.map(|it| {
            let operation = it.operation.name();
            format!("it is refused {operation} {}", it.target.path().display())
        });
        let kept: BTreeSet<_> = kept.collect();
        Ok(kept.into_iter().take(NAMED).collect())
    }
}

/// Returns how the runs under the learnt profile differ from the first ones.
fn differences(first: &[pb::ExecuteResponse], second: &[pb::ExecuteResponse]) -> Vec<String> {
    let mut differ = BTreeSet::new();
    for (first, second) in first.iter().zip(second) {
        let (was, is) = (
            first.outcome.unwrap_or_default(),
            second.outcome.unwrap_or_default(),
        );
        if (was.kind, was.exit_code, was.signal) != (is.kind, is.exit_code, is.signal) {
            differ.insert(OTHER_END.to_owned());
        }
        let decision = |of: &pb::ExecuteResponse| of.verdict.as_ref().map_or(0, |it| it.decision);
        if decision(first) != decision(second) {
            differ.insert("its verdict is another".to_owned());
        }
        let known = |denial: &&pb::Denial| {
            first
                .denials
                .iter()
                .all(|it| it.operation != denial.operation)
        };
        let denials = second.denials.iter().filter(|it| !it.incidental);
        for denial in denials.filter(known) {
            differ.insert(format!("it is refused {}", denial_words(denial)));
        }
    }
    differ.into_iter().collect()
}

fn grant_option(path: &Path, access: Access) -> String {
    format!("--grant={}={access}", path.display())
}

/// Returns the point before a tool call.
fn usual_gate(runtime: Adopted) -> Option<String> {
    let mut points = runtime.mode.facts().points.iter();
    let gate = points.find(|point| point.stop == Stop::Call)?;
    Some(gate.name.to_owned())
}

fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let failed =
        |error: io::Error| Failure::new(format!("cannot write `{}`: {error}", path.display()));
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}

/// Returns the path of a file that a run makes, in a directory that is there.
fn unmade(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    Ok(directory.canonicalize()?.join(name))
}

fn runtime_named(text: &str) -> Result<Adopted, String> {
    run_as::parse(text)?.ok_or_else(|| "name the runtime".to_owned())
}

fn grant(text: &str) -> Result<(PathBuf, Access), String> {
    let problem = || format!("`{text}` is not PATH=read, =execute, =write or =write-file");
    let (path, access) = text.rsplit_once('=').ok_or_else(problem)?;
    let all = [
        Access::Execute,
        Access::Read,
        Access::Write,
        Access::WriteFile,
    ];
    let access = all.into_iter().find(|known| known.name() == access);
    if path.contains("${") {
        return Err(format!(
            "`{path}` cannot be in a profile, where `${{…}}` is a reference; rename it"
        ));
    }
    let access = access.ok_or_else(problem)?;
    let found = match (Path::new(path).canonicalize(), access) {
        (Err(error), Access::WriteFile) if error.kind() == io::ErrorKind::NotFound => {
            unmade(Path::new(path))
        }
        (found, _) => found,
    };
    let path = found.map_err(|error| format!("cannot use `{text}`: {error}"))?;
    let path = path
        .to_str()
        .ok_or_else(|| format!("`{text}` is not UTF-8"))?;
    Ok((grantable(path)?, access))
}

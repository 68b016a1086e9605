//! `hookjail learn`: proposes the smallest profile for a hook from its observed behaviour.
//!
//! The hook runs confined each time: observed the widest profile that the operator allows, and the resulting
//! profile. No run has grants beyond that profile, the command line and what somebody agreed to.

mod bench;

use std::{
    collections::BTreeSet,
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

use hookjail_base::{
    model::{ProfileName, plain},
    util::diff::unified,
};
use hookjail_client::{Failure, arguments::parse_span, connect, output, run_as};
use hookjail_contract::adopt::Adopted;
use hookjail_policy::{
    Access, GrantPlace, Network, Registry,
    egress::{Egress, EgressProblem},
    grantable,
};
use hookjail_proto as pb;
use hookjail_sandbox::{BriefState, Observer};

use self::bench::{Bench, Trial, Unmet, Wish, egress_option, grant_option};
use super::{
    Context,
    declared::{self, Declarations, is_declaration},
    install::{Placed, agreed},
    learned::{CERTIFICATES, PARTS},
    log,
    observed::find_profile,
    private_server::runtime,
    profile, profile_files,
    proposal::Proposal,
    rows::{Rows, shell_line},
    show::{denial_words, outcome_words},
    success,
};
use hookjail_daemon::{config::Config, daemon::Assembly};

/// The widest profile where none is named, which suits usual hooks.
const PROFILE: &str = "develop";

/// The profile of the first run.
const TRIAL: &str = "learn-trial";

/// The rule of a run whose names are answered and which reaches no host: the name is one that no host can have (RFC 6761).
const NO_HOST: &str = "none.invalid:443";

/// The difference of a hook that did not end alike.
const OTHER_END: &str = "the hook ends otherwise";

/// The maximum number of listed denials.
const NAMED: usize = 20;

/// The maximum number of runs under the wide profile with more and more grants.
const ROUNDS: u32 = 4;

/// Propose the smallest profile for a hook, and put in force what it lacks, after a question.
///
/// Runs the hook under the wide profile and under the proposed one. All runs are real, and so are their writes.
/// Prints the profile as a diff that makes its file. At a terminal, or with --yes, grants what the wide profile refused.
/// The grants become a profile, a consent, and a change of the settings. Exits with 0 where the hook ends as under the wide profile.
#[derive(Debug, Args)]
pub(super) struct LearnArgs {
    /// Run the hook as this runtime does, with stdin as its contract requires
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
    /// Let its first run reach every host: the profile has those that it reached [default: no host]
    #[arg(long, conflicts_with = "egress")]
    network: bool,
    /// Let it reach a host too: HOST:PORT by TLS, "HOST:PORT http" or "HOST:PORT any" by others
    #[arg(long, value_name = "HOST:PORT")]
    egress: Vec<Egress>,
    /// Grant a path too: PATH=read, PATH=execute, PATH=write or PATH=write-file
    #[arg(long, value_name = "PATH=ACCESS", value_parser = grant)]
    grant: Vec<(PathBuf, Access)>,
    /// The name of the profile [default: that of the hook's file]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Write the profile to this file, which must not exist; a file hook.toml gets it as the hook's needs
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A file with the event, or - for stdin [default: stdin; samples where it is a terminal or empty]
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

/// Returns the remark on events without an effect.
fn note(had_effect: bool) -> Option<&'static str> {
    (!had_effect).then_some(
        "no event wrote or asked a host, so the needs of other events are unknown; name one by --event FILE",
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
    pub(super) fn for_hook(argv: &[String]) -> Self {
        Self {
            command: argv.iter().map(OsString::from).collect(),
            egress: Vec::new(),
            event: None,
            grant: Vec::new(),
            last: false,
            name: None,
            network: false,
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
        let widest = profile::find(&registry, &self.profile)?;
        let is_offline = widest.network == Network::None && !self.network && self.egress.is_empty();
        let judge = Assembly::roots(&config, &registry);
        let added = config.workspace_roots.add(&bench.workspace, &homes, &judge);
        added.map_err(|why| Failure::new(format!("`{}` {why}", bench.workspace.display())))?;
        // Every run begins without files of earlier ones, and leaves none.
        let state = BriefState::make(&config.paths.runtime)?;
        config.hook_state = Some(state.path().to_owned());

        let observer = Arc::new(Observer::default());
        let assembly = Assembly::begin()?.observed_by(Arc::clone(&observer));
        let run_under = |config: &Config, profile: &str| {
            let run = bench.run(&assembly, config, profile, &observer);
            connect::block_on(&runtime()?, run)
        };
        let (trial, refused) = self.observe(&bench, &mut config, is_applied, &run_under)?;
        if let Some(why) = trial.failure() {
            self.report_failure(context, &why, &refused, is_offline);
            return Ok(ExitCode::FAILURE);
        }
        let had_effect = bench.had_effect(&config, &trial);
        if is_applied {
            let description = format!("{} with more", self.profile);
            let text = bench.profile_text(&self, &config, &self.egress, &description)?;
            return self.apply(context, (&name, &text), (had_effect, &refused), &placed);
        }
        let draft = bench.draft(&config, &trial, &name)?;
        config
            .proposed_profiles
            .push((name.to_string(), draft.clone()));
        let learned = run_under(&config, name.as_str())?;
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
        run_under: &dyn Fn(&Config, &str) -> Result<Trial, Failure>,
    ) -> Result<(Trial, Vec<Unmet>), Failure> {
        let mut rounds = 0;
        let mut has_names = false;
        loop {
            rounds += 1;
            let trial = self.tried(bench, config, run_under, &mut has_names)?;
            let refused = bench.refused(self, config, &trial)?;
            let has_more = refused.iter().any(|it| !it.wish.is_empty());
            if is_applied && self.network && (!has_more || rounds == ROUNDS) {
                self.egress = bench.observed(config, &trial)?.1.egress;
                self.network = false;
            }
            if !is_applied || !has_more || rounds == ROUNDS {
                return Ok((trial, refused));
            }
            if !self.tries_again(&refused)? {
                return Err(Failure::new("nothing was written"));
            }
            for Unmet { wish, .. } in refused {
                self.egress.extend(wish.egress);
                for grant in wish.grants {
                    self.add(grant);
                }
            }
        }
    }

    /// Runs the hook under the widest profile; where it seeks hosts, once more with names answered, so that its denials name them.
    fn tried(
        &self,
        bench: &Bench,
        config: &mut Config,
        run_under: &dyn Fn(&Config, &str) -> Result<Trial, Failure>,
        has_names: &mut bool,
    ) -> Result<Trial, Failure> {
        loop {
            let egress = match (*has_names || self.network, self.egress.as_slice()) {
                (true, []) => vec![no_host()?],
                (true | false, egress) => egress.to_vec(),
            };
            let description = "the first run of hookjail learn";
            let text = bench.profile_text(self, config, &egress, description)?;
            config.proposed_profiles = vec![(TRIAL.to_owned(), text)];
            config.any_host = ProfileName::parse(TRIAL).filter(|_| self.network);
            let trial = run_under(config, TRIAL)?;
            if *has_names || !bench.lacks_network(config, &trial)? {
                return Ok(trial);
            }
            *has_names = true;
        }
    }

    /// Adds a grant, unless another one gives as much.
    fn add(&mut self, (path, access): (PathBuf, Access)) {
        let gives = |(known, known_access): &(PathBuf, Access)| {
            *known == path && *known_access == access
                || access.is_read_only()
                    && *known_access == Access::Write
                    && path.starts_with(known)
        };
        if self.grant.iter().any(gives) {
            return;
        }
        if access == Access::Write {
            let stays = |(known, known_access): &(PathBuf, Access)| {
                !(known_access.is_read_only() && known.starts_with(&path))
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
            let taken = [CERTIFICATES, TRIAL].into_iter().chain(PARTS);
            shipped.find(name).is_none() && !taken.into_iter().any(|taken| taken == name.as_str())
        };
        let name = match &self.name {
            Some(name) => ProfileName::parse(name).filter(is_free).ok_or_else(|| {
                Failure::new(format!("`--name {name}` is no valid name of a profile"))
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
            self.network |=
                present.network == Network::Outbound && parent.network != present.network;
            let more = present.egress.allowed.iter();
            let more = more.filter(|rule| !parent.egress.allowed.contains(rule));
            self.egress.extend(more.cloned());
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
    fn report_failure(&self, context: &Context, why: &str, refused: &[Unmet], is_offline: bool) {
        let message = format!("the hook failed under observation, so nothing is proposed: {why}");
        let note = is_offline.then(|| {
            let command = self.with(&["--network".to_owned()]);
            format!(
                "package managers reach no host in such a run; run this if the hook fetches packages: {command}"
            )
        });
        if context.call.json {
            let refused = refused.iter();
            let refused: Vec<_> = refused.map(Unmet::as_json).collect();
            output::json_line(&json!({
                "differences": [],
                "failed": message,
                "green": false,
                "note": note,
                "refused": refused,
            }));
            return;
        }
        let mut rows = Rows::plain("", 12);
        rows.each("refused", refused.iter().map(Unmet::words));
        rows.row("tried", message);
        rows.each("note", note);
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
            egress: self.egress.clone(),
            grants: self.grant.clone(),
        };
        let more = Self::additions([&wish].into_iter());
        let mut rows = Rows::plain("", 12);
        rows.each("refused", refused.iter().map(Unmet::words));
        rows.each("note", note(had_effect));
        output::stderr_text(rows.as_str());
        if let Some(first) = placed.iter().find(|it| it.is_prefixed) {
            let runtime = first.runtime.name;
            return Err(Failure::new(format!(
                "the shell prefix of {runtime} runs every hook under profile {}; confine each line: hookjail install {runtime} --uninstall, hookjail install {runtime}",
                self.profile
            )));
        }
        if more.is_empty() && refused.iter().any(|it| it.wish.is_empty()) {
            let message =
                "no profile grants what the hook is refused; change the hook: nothing is written";
            return Err(Failure::new(message));
        }
        if more.is_empty() {
            let message = format!(
                "the hook needs nothing more than profile {}: nothing is written",
                self.profile
            );
            return self.report(context, &message, None, &[]);
        }
        if let Some(declared) = Declarations::of_command(&self.command, &context.load()?)? {
            let output = format!("--output={}", declared.file.display());
            return Err(Failure::new(format!(
                "nothing is written: `{}` declares less than:\n{}\nmove it away, and have it written: {}",
                declared.file.display(),
                more.join("\n"),
                self.with(&[output])
            )));
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
            let text = match is_declaration(path) {
                true => declared::text(&self.command, path, &learned.draft)?,
                false => learned.draft.clone(),
            };
            write_new(path, &text)?;
        }
        let directory = profile_files::directory(config, context);
        let file_name = format!("{name}.toml");
        let file = directory.join(&file_name);
        // Where there is such a profile already, what would change in it.
        let (from, old) = match fs::read_to_string(&file) {
            Ok(old) => (file_name.as_str(), old),
            Err(_) => ("/dev/null", String::new()),
        };
        let diff = unified((from, &old), (&file_name, &learned.draft));
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
        let has_more = self.network || !self.grant.is_empty() || !self.egress.is_empty();
        let wide = match has_more {
            false => self.profile.clone(),
            true => format!("{} and what was granted with it", self.profile),
        };
        rows.row("tried", format!("{} under {wide}", ends(&learned.trial)));
        rows.each("refused", learned.refused.iter().map(Unmet::words));
        rows.each("note", note(learned.had_effect));
        let green = match learned.differ.as_slice() {
            [] => "the same".to_owned(),
            [one] if one == OTHER_END => format!(
                "DIFFERENT: {one}, and is refused nothing new; restart it if the effects of the first run are the reason"
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
        words.extend(self.egress.iter().map(egress_option));
        let grants = self.grant.iter();
        words.extend(grants.map(|(path, access)| grant_option(path, *access)));
        words.extend_from_slice(more);
        format!("{} -- {}", shell_line(&words), shell_line(&self.command))
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
        let decision =
            |response: &pb::ExecuteResponse| response.verdict.as_ref().map_or(0, |it| it.decision);
        if decision(first) != decision(second) {
            differ.insert("the verdict differs".to_owned());
        }
        let known = |denial: &&pb::Denial| {
            first
                .denials
                .iter()
                .all(|it| it.operation != denial.operation)
        };
        let denials = second.denials.iter().filter(|it| !it.incidental);
        for denial in denials.filter(known) {
            differ.insert(format!("the hook is refused {}", denial_words(denial)));
        }
    }
    differ.into_iter().collect()
}

fn no_host() -> Result<Egress, Failure> {
    let rule = NO_HOST.parse();
    rule.map_err(|problem: EgressProblem| Failure::new(format!("`{NO_HOST}` {problem}")))
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

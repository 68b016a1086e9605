//! Plans the change of each hook in a runtime's settings: pure of effects, but for reading what the hooks' commands consist of.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::unistd::{AccessFlags, access};

use hookjail_base::model::{Command, ProfileName};
use hookjail_client::{
    Failure,
    program::resolve_program,
    thin::{THIN, WHOLE},
};
use hookjail_contract::{Action, CommandStyle, Registered, adopt::Stakes, words::words};
use hookjail_daemon::{config::Config, daemon::Assembly};
use hookjail_policy::{Policy, Registry, declaration::is_made, environment};

use super::{
    super::{
        consent::{self, Book, BoundConsent, Refused, Standing, Terms},
        declared::{Declarations, Statement},
    },
    NamedRuntime, PROFILE,
    edit::Edit,
    fetch::Fetch,
    line::{self, LineForm, Reader, Reading},
    rehearsal::Lacking,
    required,
    settings::SettingsFile,
    shared::{SharedProgram, Sharing},
    unserved,
};

/// The reason why a line with hookjail in it is not handed to hookjail.
const CONFINED_TWICE: &str =
    "its own line confines it, which cannot be confined again; take that back first: --uninstall";

/// The plan for one hook.
pub(in crate::cli) struct InstallStep {
    pub(super) becomes: Becomes,
    /// The command in the settings.
    pub(super) before: String,
    pub(super) hook: Registered,
    /// The needs of a guard that the profile refuses something.
    pub(super) lacking: Option<Lacking>,
}

impl InstallStep {
    /// Returns the edits of its file.
    pub(super) fn edits(&self) -> Vec<Edit> {
        match &self.becomes {
            Becomes::Changed(change) => change.edits.clone(),
            Becomes::Allowed(_) | Becomes::Kept(_) | Becomes::Left(_) => Vec::new(),
        }
    }

    /// Returns whether it cannot be changed.
    pub(super) const fn is_left(&self) -> bool {
        matches!(self.becomes, Becomes::Left(_))
    }
}

pub(super) enum Becomes {
    /// The hook stays as it is, with the reason.
    Kept(&'static str),
    /// The hook is confined already, and its command, as the list spells it, is allowed.
    Allowed(String),
    /// The hook cannot be changed, with the reason.
    Left(String),
    /// The hook is changed, or its command allowed again.
    Changed(Box<SettingsChange>),
}

impl Becomes {
    fn put_back(after: String, edits: Vec<Edit>) -> Self {
        Self::Changed(Box::new(SettingsChange {
            after,
            argv: Vec::new(),
            bound: Vec::new(),
            declares: None,
            edits,
            is_bare: false,
            fetches: BTreeSet::new(),
            line: String::new(),
            refused: None,
            remarks: Vec::new(),
        }))
    }
}

pub(super) struct SettingsChange {
    pub(super) after: String,
    /// The hook's program and arguments; none where a hook is put back.
    pub(super) argv: Vec<String>,
    /// The consents to add; none where a hook is put back.
    pub(super) bound: Vec<BoundConsent>,
    /// The hook's own statement, if there is one.
    pub(super) declares: Option<Statement>,
    /// None where the line is confined already.
    pub(super) edits: Vec<Edit>,
    /// The hook's line without hookjail; empty where it is put back.
    pub(super) line: String,
    /// Whether its line is not confined yet.
    pub(super) is_bare: bool,
    /// The fetches of its packages.
    pub(super) fetches: BTreeSet<Fetch>,
    /// The reason why a line that is confined already is refused.
    pub(super) refused: Option<Refused>,
    /// Remarks for the user.
    pub(super) remarks: Vec<String>,
}

impl SettingsChange {
    /// Returns whether its hook declares needs beyond those of the usual profile.
    pub(super) fn is_wide(&self) -> bool {
        let declares = self.declares.as_ref();
        declares.is_some_and(|it| !it.wider.is_empty())
    }

    /// Returns whether a confined line gets another profile.
    fn is_switched(&self) -> bool {
        !self.is_bare && !self.edits.is_empty()
    }
}

/// A file, with the plans for its hooks.
pub(in crate::cli) struct Planned {
    /// Entries that the runtime would not accept, with the reasons.
    pub(super) broken: Vec<String>,
    pub(super) file: SettingsFile,
    /// The edit of the runtime's shell prefix.
    pub(super) prefix: Option<Edit>,
    pub(super) steps: Vec<InstallStep>,
}

impl Planned {
    pub(super) fn changes(&self) -> impl Iterator<Item = &SettingsChange> {
        self.steps.iter().filter_map(|step| match &step.becomes {
            Becomes::Changed(change) => Some(&**change),
            Becomes::Allowed(_) | Becomes::Kept(_) | Becomes::Left(_) => None,
        })
    }
}

impl Planned {
    /// Returns whether a line has hookjail in it, where the runtime is to hand it to hookjail.
    pub(super) fn is_confined_twice(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| matches!(&step.becomes, Becomes::Left(why) if why == CONFINED_TWICE))
    }

    /// Returns the profiles under which its commands are to be allowed.
    pub(super) fn granted(&self) -> impl Iterator<Item = &str> {
        let bound = self.changes().flat_map(|it| &it.bound);
        bound.filter_map(|it| it.entry.profile.as_deref())
    }

    /// Leaves the hooks that declare needs beyond those of the usual profile, or other needs than before.
    pub(super) fn leave_wide(&mut self) {
        for step in &mut self.steps {
            if let Becomes::Changed(change) = &step.becomes
                && let Some(declares) = &change.declares
                && (change.is_wide() || change.is_switched())
            {
                if change.is_switched() {
                    step.becomes = Becomes::Kept(
                        "declares other needs now; answer yes at a terminal, or pass --yes --declared",
                    );
                    continue;
                }
                step.becomes = Becomes::Left(format!(
                    "`{}` declares more than profile {PROFILE}: {}; answer yes at a terminal, or pass --yes --declared",
                    declares.file.display(),
                    declares.wider.join("; ")
                ));
            }
        }
    }

    /// Leaves the hooks whose lines would be edited.
    pub(super) fn leave_edits(&mut self, why: &str) {
        for step in &mut self.steps {
            if matches!(&step.becomes, Becomes::Changed(change) if !change.edits.is_empty()) {
                step.becomes = Becomes::Left(why.to_owned());
            }
        }
    }
}

/// A hook's command without hookjail.
struct HookCommand {
    argv: Vec<String>,
    declares: Option<Statement>,
    /// Whether its line is not confined yet.
    is_bare: bool,
    /// The line as the settings would have it.
    line: String,
}

/// The purpose of a plan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Purpose {
    /// Bare hooks are confined, and confined ones that are refused allowed again.
    Confine,
    /// Confined hooks are put back as they were.
    PutBack,
    /// Confined hooks that are refused are allowed again.
    Renew,
    /// Bare and confined hooks are confined under the planner's profile.
    Switch,
}

/// Plans for the hooks of one runtime.
pub(super) struct Planner<'a> {
    pub(super) book: &'a Book<'a>,
    /// Whether the runtime hands its lines to hookjail, so that none is rewritten.
    pub(super) by_prefix: bool,
    /// The declarations beside the hooks, with the configuration that has their profiles; `None` = none counts.
    pub(super) declared: Option<(&'a Declarations, &'a Config)>,
    pub(super) profile: &'a str,
    pub(super) purpose: Purpose,
    /// The profiles, where they can be read.
    pub(super) registry: Option<&'a Registry>,
    pub(super) runtime: NamedRuntime,
    /// The projects whose new lines are to name no user's hookjail.
    pub(super) sharing: Sharing,
}

impl Planner<'_> {
    /// Plans for every hook of a file. `closed`: why hooks of the project cannot run where they are.
    ///
    /// # Errors
    ///
    /// Fails where the runtime would not accept the file.
    pub(super) fn file(
        &self,
        file: SettingsFile,
        closed: Option<&str>,
    ) -> Result<Planned, Failure> {
        let step = |hook: Registered| {
            let closed = closed.filter(|_| file.is_projects && self.purpose == Purpose::Confine);
            let becomes = match closed {
                Some(why) => Err(why.to_owned()),
                None => self.becomes(&file, &hook),
            };
            InstallStep {
                becomes: becomes.unwrap_or_else(Becomes::Left),
                before: before(&hook),
                hook,
                lacking: None,
            }
        };
        let (hooks, broken) = file.hooks()?;
        Ok(Planned {
            broken: broken.iter().map(ToString::to_string).collect(),
            prefix: None,
            steps: hooks.into_iter().map(step).collect(),
            file,
        })
    }

    fn becomes(&self, file: &SettingsFile, hook: &Registered) -> Result<Becomes, String> {
        match &hook.action {
            Action::Command(_)
                if required::is_required(&hook.action.line(), self.runtime, &hook.point) =>
            {
                let why = "a required hook of the administrator's files, which stays";
                Ok(Becomes::Kept(why))
            }
            Action::Command(Command::Line { shell, text }) => {
                self.line(file, hook, shell.as_deref(), text)
            }
            Action::Command(Command::Argv(words)) => {
                let words = words.iter().map(|word| word.to_str().map(str::to_owned));
                let words: Option<Vec<String>> = words.collect();
                self.words(file, hook, &words.ok_or("the command is not UTF-8")?)
            }
            Action::Http(_) => Ok(Becomes::Kept(
                "the runtime posts it itself, to its URL; `hookjail install` changes commands alone",
            )),
            Action::Approve(_)
            | Action::Builtin(_)
            | Action::Log(_)
            | Action::Supplied(_)
            | Action::Unsupported(_) => Ok(Becomes::Kept("runs no command")),
        }
    }

    /// Plans the change of a shell's line, or returns why it stays.
    fn line(
        &self,
        file: &SettingsFile,
        hook: &Registered,
        own_shell: Option<&Path>,
        text: &str,
    ) -> Result<Becomes, String> {
        let variables = line::variables(&hook.configured_env);
        let shared = SharedProgram::of_settings(file, self.runtime.runtime);
        let shared = shared.zip(own_program());
        let read_as = shared
            .as_ref()
            .map(|(shared, program)| shared.without(text, program));
        let read_as = read_as.as_deref().unwrap_or(text);
        let original = line::original(read_as, &variables);
        if self.purpose == Purpose::PutBack {
            let Some(original) = original else {
                return Ok(Becomes::Kept("is not confined"));
            };
            let (edit, original) = file.edit_back(hook, text, original)?;
            return Ok(Becomes::put_back(original, vec![edit]));
        }
        let style = self.runtime.runtime.mode.defaults(&hook.point).command;
        let shell = match (own_shell, style) {
            (Some(shell), _) => Some(shell.to_str().ok_or("its shell is not UTF-8")?),
            (None, CommandStyle::Shell { program, .. }) => Some(program),
            (None, CommandStyle::Argv) => None,
        };
        let value = |name: &str| file.value(name);
        if let Some((shared, _)) = &shared {
            shared.check(text)?;
        }
        let read = |reader: &Reader<'_>| reader.line(read_as, shell.is_some());
        let confined = self.confined(hook, &value, &variables, read)?;
        if self.by_prefix {
            return match confined {
                Some(_) => Err(CONFINED_TWICE.to_owned()),
                None => self.prefixed(file, hook, text),
            };
        }
        let bare = match &confined {
            Some(_) => original.ok_or("its own command is not found in it")?,
            None => text.to_owned(),
        };
        let (words, is_one_command) = line_words(hook, shell, &file.as_run(&bare), value)?;
        let argv = [variables.clone(), words].concat();
        let argument = shared
            .as_ref()
            .and_then(|(shared, _)| shared.argument(text).map(str::to_owned));
        let declared = self.declared(file, hook, &argv);
        let is_bare = confined.is_none();
        if let Some(profile) = confined.filter(|it| self.keeps(it, &declared)) {
            if shared.is_some() {
                let runtime = self.runtime.runtime;
                self.sharing
                    .check(argument.as_deref(), runtime, &hook.point)?;
            }
            let declared = declared.unwrap_or_default();
            let command = HookCommand {
                argv,
                declares: declared,
                is_bare: false,
                line: bare,
            };
            return self.renewal(file, hook, command, (profile, text));
        }
        if self.purpose == Purpose::Renew {
            return Ok(Becomes::Kept("is not confined"));
        }
        let declared = declared?;
        let granted = self.granted(declared.as_ref());
        let program = program()?;
        let form = self.form((&program, granted), hook, shell, &variables);
        let after = form.of_line(&bare, is_one_command);
        let after = after.ok_or("the line has a NUL byte")?;
        let argument = argument.or_else(|| self.sharing.argument(file, &hook.point));
        let after = match shared.zip(argument) {
            Some(((shared, program), argument)) if shell.is_some() => {
                shared.within(&after, &program, &argument)
            }
            Some(_) | None => Some(after),
        };
        let after = after.ok_or("its line does not begin with hookjail")?;
        let edit = file.edit_line(hook, text, &after)?;
        let command = HookCommand {
            argv,
            declares: declared,
            is_bare,
            line: bare,
        };
        self.change(file, hook, command, after, vec![edit])
    }

    /// Plans the change of a program with arguments, or returns why it stays.
    fn words(
        &self,
        file: &SettingsFile,
        hook: &Registered,
        words: &[String],
    ) -> Result<Becomes, String> {
        let variables = line::variables(&hook.configured_env);
        let original = line::original_words(words, &variables);
        if self.purpose == Purpose::PutBack {
            let Some(original) = original else {
                return Ok(Becomes::Kept("is not confined"));
            };
            let edits = file.edit_words(hook, original)?;
            return Ok(Becomes::put_back(original.join(" "), edits));
        }
        let value = |name: &str| file.value(name);
        let read = |reader: &Reader<'_>| reader.words(words);
        let argv = |bare: &[String]| {
            let words = from_its_directory(hook, file.words_as_run(bare));
            [variables.clone(), words].concat()
        };
        let confined = self.confined(hook, &value, &variables, read)?;
        let bare = match &confined {
            Some(_) => original.ok_or("its own command is not found in it")?,
            None => words,
        };
        let declared = self.declared(file, hook, &argv(bare));
        let is_bare = confined.is_none();
        if let Some(profile) = confined.filter(|it| self.keeps(it, &declared)) {
            let declared = declared.unwrap_or_default();
            let line = words.join(" ");
            let command = HookCommand {
                argv: argv(bare),
                declares: declared,
                is_bare: false,
                line: bare.join(" "),
            };
            return self.renewal(file, hook, command, (profile, &line));
        }
        if self.purpose == Purpose::Renew {
            return Ok(Becomes::Kept("is not confined"));
        }
        let declared = declared?;
        let granted = self.granted(declared.as_ref());
        let program = program()?;
        let form = self.form((&program, granted), hook, None, &variables);
        let confined = form.of_words(bare);
        let edits = file.edit_words(hook, &confined)?;
        let command = HookCommand {
            argv: argv(bare),
            declares: declared,
            is_bare,
            line: bare.join(" "),
        };
        self.change(file, hook, command, confined.join(" "), edits)
    }

    /// Returns the profile of a command that is confined already; `None` = another command.
    ///
    /// # Errors
    ///
    /// Fails where it names hookjail and need not be confined.
    pub(super) fn confined(
        &self,
        hook: &Registered,
        value: &dyn Fn(&str) -> Option<String>,
        variables: &[String],
        read: impl FnOnce(&Reader<'_>) -> Reading,
    ) -> Result<Option<String>, String> {
        let words = program()?;
        let written = words.first().map(Path::new).unwrap_or(Path::new(""));
        // At another path a hook, or a process that changes the project, may put another program before the call.
        let programs = [written.to_owned(), written.with_file_name(WHOLE)];
        let is_this = |path: &Path| programs.iter().any(|it| it.as_os_str() == path.as_os_str());
        let is_profile = |name: &str| self.policy(name).is_some();
        match read(&Reader {
            form: &self.form((&words, self.profile), hook, None, variables),
            is_profile: &is_profile,
            is_this: &is_this,
            value,
        }) {
            Reading::Confined(profile) => Ok(Some(profile)),
            Reading::Doubtful(why) => Err(format!(
                "the command is NOT confined: {why}; put the hook's own command there, and install again"
            )),
            Reading::Plain => Ok(None),
        }
    }

    /// Plans for a line that is confined already: its command is allowed again where it would be refused.
    fn renewal(
        &self,
        file: &SettingsFile,
        hook: &Registered,
        command: HookCommand,
        (profile, after): (String, &str),
    ) -> Result<Becomes, String> {
        let HookCommand {
            argv,
            declares,
            is_bare,
            line,
        } = command;
        let Standing { bound, refused } = self.standing(file, hook, &argv, &profile)?;
        let Some(refused) = refused else {
            let command = bound.first().map(|it| it.entry.command.clone());
            return Ok(Becomes::Allowed(command.unwrap_or_default()));
        };
        Ok(Becomes::Changed(Box::new(SettingsChange {
            after: after.to_owned(),
            argv,
            bound,
            declares,
            edits: Vec::new(),
            is_bare,
            fetches: BTreeSet::new(),
            line,
            refused: Some(refused),
            remarks: Vec::new(),
        })))
    }

    /// Returns what a hook declares of itself, where that counts.
    ///
    /// # Errors
    ///
    /// Returns why its declaration cannot be used.
    fn declared(
        &self,
        file: &SettingsFile,
        hook: &Registered,
        argv: &[String],
    ) -> Result<Option<Statement>, String> {
        let Some((declarations, config)) = self.declared else {
            return Ok(None);
        };
        let starts_in = hook.working_dir.as_deref().unwrap_or(&file.project);
        let Some(declared) = declarations.find(argv, starts_in)? else {
            return Ok(None);
        };
        let mut statement = declared.statement(config, PROFILE)?;
        let runtime = self.runtime.name;
        let lacks = !declared.has_point(runtime, &hook.point);
        statement.lacks_point = lacks.then(|| format!("{} of {runtime}", hook.point));
        Ok(Some(statement))
    }

    /// Returns the profile for a hook: that of its own needs, where no other than the usual one is named for all.
    fn granted<'b>(&'b self, declared: Option<&'b Statement>) -> &'b str {
        let needs = declared.and_then(|it| it.profile.as_deref());
        let needs = needs.filter(|_| self.profile == PROFILE);
        needs.unwrap_or(self.profile)
    }

    /// Returns whether a confined line keeps its profile: not where its hook declares other needs now.
    fn keeps(&self, profile: &str, declared: &Result<Option<Statement>, String>) -> bool {
        let declared = declared.as_ref().ok().and_then(Option::as_ref);
        let needs = declared.and_then(|it| it.profile.as_deref());
        // A profile of the user's own making stays.
        let is_shipped = || {
            let name = ProfileName::parse(profile);
            let shipped = Registry::builtin().ok().zip(name);
            shipped.is_some_and(|(shipped, name)| shipped.has(&name))
        };
        let is_replaced = |needs| needs != profile && (is_made(profile) || is_shipped());
        match self.purpose {
            Purpose::Confine => !(self.profile == PROFILE && needs.is_some_and(is_replaced)),
            Purpose::PutBack | Purpose::Renew => true,
            Purpose::Switch => false,
        }
    }

    fn standing(
        &self,
        file: &SettingsFile,
        hook: &Registered,
        argv: &[String],
        profile: &str,
    ) -> Result<Standing, String> {
        let within = self.within(file, profile);
        let terms = Terms {
            data: Vec::new(),
            profile: profile.to_owned(),
            starts_in: hook.working_dir.clone(),
            until: None,
            within: within.clone(),
        };
        let argv = argv.iter().map(OsString::from).collect();
        let standing = self.book.standing(terms, argv, within.as_deref());
        standing.map_err(|failure| failure.message)
    }

    /// Returns the directory below which a file's commands are allowed; `None` = everywhere.
    fn within(&self, file: &SettingsFile, profile: &str) -> Option<PathBuf> {
        // A hook without a workspace does not start in the project.
        let binds = self.policy(profile).is_some_and(Policy::needs_workspace);
        (file.is_projects && binds).then(|| file.project.clone())
    }

    pub(super) fn policy(&self, profile: &str) -> Option<&Policy> {
        let name = ProfileName::parse(profile)?;
        Some(self.registry?.find(&name)?)
    }

    /// Plans a change of the settings, with a consent to the command.
    fn change(
        &self,
        file: &SettingsFile,
        hook: &Registered,
        command: HookCommand,
        after: String,
        edits: Vec<Edit>,
    ) -> Result<Becomes, String> {
        let HookCommand {
            argv,
            declares,
            is_bare,
            line,
        } = command;
        file.starts_inside(hook)?;
        if let Some(declared) = &declares
            && let Some(point) = &declared.lacks_point
        {
            return Err(format!(
                "`{}` does not declare it for {point}; add the point there, or take the hook out",
                declared.file.display()
            ));
        }
        let mut names = hook.configured_env.keys();
        if let Some(name) = names.find(|name| environment::steers_hookjail(name)) {
            return Err(format!(
                "its variable `{name}` decides about hookjail itself, too; remove it there, and install again"
            ));
        }
        let profile = self.granted(declares.as_ref());
        let Standing { bound, .. } = self.standing(file, hook, &argv, profile)?;
        let first = bound.first();
        let entry = first.map(|bound| &bound.entry);
        let serves = first.map_or_else(consent::Serves::default, BoundConsent::serves);
        let fetches = match serves.network {
            true => BTreeSet::new(),
            false => Fetch::all(&before(hook), entry, &file.project),
        };
        let remarks = self.remarks(hook, first, profile);
        Ok(Becomes::Changed(Box::new(SettingsChange {
            after,
            argv,
            bound,
            declares,
            edits,
            is_bare,
            fetches,
            line,
            refused: None,
            remarks,
        })))
    }

    pub(super) fn remarks(
        &self,
        hook: &Registered,
        bound: Option<&BoundConsent>,
        profile: &str,
    ) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some(bound) = bound {
            let unbound = bound.unbound.iter();
            remarks.extend(unbound.map(|what| format!("the consent is not bound to {what}")));
            let entry = Some(&bound.entry);
            remarks.extend(unserved::remarks(&before(hook), entry, bound.serves()));
            let git = consent::named_by_git(&bound.git);
            remarks.extend(git.filter(|_| unserved::asks_git(&before(hook), entry)));
            let displaced = bound.displaced();
            remarks.extend(displaced.map(|it| consent::displaced_script(it, profile)));
            let copied = bound.given.iter();
            remarks.extend(copied.map(|file| format!(
                "a changed `{file}` needs a new consent, and the hook is given a copy of it. If its program only reads or formats it: \
                 hookjail allow --data {file} --profile {profile} -- CMD"
            )));
        }
        let elsewhere = hook.configured_env.iter();
        let elsewhere =
            elsewhere.filter(|(_, value)| value.to_str().is_none_or(|it| it.contains('$')));
        remarks.extend(elsewhere.map(|(name, _)| {
            format!(
                "its variable `{name}` takes a value from elsewhere, and is there if the profile lets it in"
            )
        }));
        remarks
    }

    fn form<'a>(
        &'a self,
        (program, profile): (&'a [String], &'a str),
        hook: &'a Registered,
        shell: Option<&'a str>,
        variables: &'a [String],
    ) -> LineForm<'a> {
        LineForm {
            point: (!self.runtime.runtime.names_points).then_some(hook.point.as_str()),
            profile,
            program,
            runtime: self.runtime.name,
            shell,
            timeout: self.runtime.timer(hook),
            variables,
        }
    }
}

impl NamedRuntime {
    /// Returns the runtime's own timer of a hook, where its settings name one.
    pub(super) fn timer(&self, hook: &Registered) -> Option<Duration> {
        let read = hook.entry.timeout?;
        Some(self.runtime.entry_time(read))
    }

    /// Returns whether a hook decides about calls.
    pub(super) fn is_guard(&self, hook: &Registered) -> bool {
        let point = Some(hook.point.as_str());
        self.runtime.stakes(point) == Stakes::Gate && self.runtime.is_of_a_call(point)
    }
}

/// Returns the words that a line runs, and whether these are one command without a shell.
fn line_words(
    hook: &Registered,
    shell: Option<&str>,
    line: &str,
    value: impl Fn(&str) -> Option<String>,
) -> Result<(Vec<String>, bool), String> {
    let Some(shell) = shell else {
        // The runtime uses no shell: variables, pipes and tildes are plain words.
        let words = shlex::split(line).ok_or("a quote has no end")?;
        return Ok((from_its_directory(hook, words), true));
    };
    let words = words(line, value).map(|words| from_its_directory(hook, words));
    // A program that is not found may be a shell built-in.
    let words = words.filter(|words| resolve_program(vec![words[0].clone().into()]).is_ok());
    Ok(match words {
        Some(words) => (words, true),
        None => ([shell, "-c", line].map(str::to_owned).to_vec(), false),
    })
}

/// Makes the program absolute where its hook starts in another directory.
fn from_its_directory(hook: &Registered, mut words: Vec<String>) -> Vec<String> {
    if let (Some(directory), Some(program)) = (&hook.working_dir, words.first_mut())
        && program.contains('/')
    {
        let path: PathBuf = directory.join(&*program).components().collect();
        *program = path.display().to_string();
    }
    words
}

/// Returns the command in the settings, else the hook's name.
pub(super) fn before(hook: &Registered) -> String {
    if let Action::Http(post) = &hook.action {
        return post.url.to_string();
    }
    match hook.action.line() {
        line if line.is_empty() => hook.name.clone(),
        line => line,
    }
}

/// Returns the words of hookjail's own program as a confined line begins with them.
pub(super) fn own_program() -> Option<String> {
    let words = program().ok()?;
    shlex::try_join(words.iter().map(String::as_str)).ok()
}

/// Returns the path of hookjail for settings, as a runtime's `PATH` may differ from its user's.
///
/// Returns the path of `hookjail-run` where that lies beside this program.
pub(super) fn program() -> Result<Vec<String>, String> {
    let path =
        env::current_exe().map_err(|error| format!("hookjail's own path is not known: {error}"))?;
    let name = path.file_name().unwrap_or_default().to_owned();
    let text = |path: PathBuf| {
        let path = path.into_os_string().into_string();
        path.map_err(|_| "hookjail's own path is not UTF-8".to_owned())
    };
    let thin = path.with_file_name(THIN);
    if name == WHOLE && access(&thin, AccessFlags::X_OK).is_ok() {
        return Ok(vec![text(thin)?]);
    }
    let path = text(path)?;
    if name == WHOLE {
        Ok(vec![path, "run".to_owned()])
    } else {
        Err(format!(
            "hookjail's own program is `{path}`, and settings recognise only the name `{WHOLE}`; rename it"
        ))
    }
}

/// Returns why a project cannot be a workspace, if so.
pub(super) fn no_workspace(
    config: &Config,
    registry: Option<&Registry>,
    project: &Path,
) -> Option<String> {
    let roots = match registry {
        Some(registry) => Assembly::roots(config, registry),
        None => config.workspace_roots.clone(),
    };
    roots.admit(project).err()
}

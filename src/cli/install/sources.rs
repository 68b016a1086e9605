//! Names the commands of a runtime that stay unconfined, as they stand elsewhere than in the settings that `install` rewrites.

use std::{
    collections::BTreeSet,
    env, fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use hookjail_base::model::{Command, Lines, json as jsonc};
use hookjail_client::Failure;
use hookjail_contract::{
    Action, Registered,
    adopt::Adopted,
    hook_file::{MAX_BYTES, Origin, Switches, read_each},
    sources::{Form, Place, Plugins, Root, front_matter},
};
use hookjail_daemon::{config::Config, daemon::Assembly, hooks::load::peek};

use super::{
    super::{
        Context,
        consent::{Book, BoundConsent, Refused},
    },
    NamedRuntime, line,
    plan::{self, Planner, Purpose},
    report::{labelled, line_of_diff},
    required,
    shared::{SharedProgram, Sharing},
};

/// The most files that one pattern stands for.
const MOST: usize = 4096;

/// The reason why a command that is no hook stays as it is.
const NO_HOOK: &str = "not a hook of the runtime, and not rewritten";

/// A command that stays unconfined.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Loose {
    pub(super) file: PathBuf,
    /// The point and matcher, or the member of settings.
    pub(super) place: String,
    pub(super) command: String,
    pub(super) why: String,
    /// The line that the runtime hands to its shell prefix, if it does.
    pub(super) line: Option<String>,
    /// The plugin that it is of.
    pub(super) plugin: Option<PathBuf>,
    /// The project that it is of.
    pub(super) project: Option<PathBuf>,
}

impl Loose {
    fn words(&self) -> String {
        format!("{}  {}", self.place, self.command)
    }
}

/// A file that may have commands and cannot be read, or an entry of it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Unread {
    pub(super) file: PathBuf,
    pub(super) why: String,
}

/// A command that its runtime's shell prefix confines, and that would be refused.
pub(super) struct Needed {
    pub(super) bound: Vec<BoundConsent>,
    pub(super) loose: Loose,
    pub(super) refused: Refused,
}

/// The commands of a runtime that were found, and the files that could not be read.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// Commands that are confined by the runtime's shell prefix, and allowed, as the list spells them.
    pub(super) allowed: Vec<String>,
    pub(super) loose: BTreeSet<Loose>,
    /// Commands that are confined by the runtime's shell prefix, and would be refused.
    pub(super) needed: Vec<Needed>,
    /// The settings that name a shell prefix, with it.
    pub(super) prefixes: Vec<(PathBuf, String)>,
    pub(super) unread: BTreeSet<Unread>,
}

impl Elsewhere {
    pub(super) fn count(&self) -> usize {
        self.loose.len() + self.unread.len()
    }

    /// Returns why nothing could be read; `None` where nothing is there.
    pub(super) fn why(&self) -> Option<String> {
        let whys = self.unread.iter().map(|it| it.why.clone());
        let whys: Vec<_> = whys.collect();
        (!whys.is_empty()).then(|| whys.join("; "))
    }

    /// Adds a paragraph for each file.
    pub(super) fn show(&self, text: &mut Lines) {
        let mut file = None;
        for loose in &self.loose {
            if file.replace(&loose.file) != Some(&loose.file) {
                text.add(loose.file.display().to_string());
            }
            text.add(labelled("BARE", &loose.words()));
            text.add(labelled("", &format!("UNCONFINED: {}", loose.why)));
        }
        for Needed { loose, refused, .. } in &self.needed {
            text.add(loose.file.display().to_string());
            text.add(labelled("allow", &loose.words()));
            text.add(labelled("", &format!("refused: {}", refused.why)));
            for line in refused.diff.lines() {
                text.add(labelled("", &format!("  {}", line_of_diff(line))));
            }
        }
        for Unread { file, why } in &self.unread {
            text.add(file.display().to_string());
            text.add(labelled("NOT read", why));
        }
    }

    pub(super) fn unconfined_as_json(&self) -> Value {
        let all = self.loose.iter();
        let all = all.map(|it| json!({ "command": it.command, "file": it.file, "place": it.place, "why": it.why }));
        all.collect()
    }

    pub(super) fn needed_as_json(&self) -> Value {
        let all = self.needed.iter();
        let all = all.map(|it| {
            let (loose, why) = (&it.loose, &it.refused.why);
            json!({ "command": loose.command, "file": loose.file, "place": loose.place, "why": why })
        });
        all.collect()
    }

    pub(super) fn unread_as_json(&self) -> Value {
        let all = self.unread.iter();
        let all = all.map(|it| json!({ "file": it.file, "why": it.why }));
        all.collect()
    }

    /// Renders how many commands stay unconfined; `None` where none do.
    pub(super) fn summary(&self) -> Option<String> {
        let parts = [
            (self.loose.len(), "UNCONFINED"),
            (self.unread.len(), "not read"),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<_> = parts.map(|(count, is)| format!("{count} {is}")).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Looks for a runtime's commands beside the settings that `install` rewrites.
///
/// # Errors
///
/// Fails where the configuration's allowlist cannot be read.
pub(super) fn look(
    runtime: NamedRuntime,
    context: &Context,
    config: &Config,
    projects: &[PathBuf],
) -> Result<Elsewhere, Failure> {
    let registry = Assembly::registry(config).ok();
    let book = Book::open(config)?;
    // A runtime may read another's files, whose lines are confined as that one's.
    let runtimes = Adopted::all().into_iter().filter(|it| !it.answers_by_code);
    let planners = runtimes.map(|runtime| Planner {
        book: &book,
        by_prefix: false,
        declared: None,
        profile: "",
        purpose: Purpose::Renew,
        registry: registry.as_ref(),
        runtime: NamedRuntime {
            name: runtime.name,
            runtime,
        },
        sharing: Sharing::Nowhere,
    });
    let planners: Vec<_> = planners.collect();
    let mut search = Search {
        enabled: BTreeSet::new(),
        found: Elsewhere::default(),
        home: context.call.paths.home.as_deref(),
        is_confined: &|hook, plugin| {
            let mut planners = planners.iter();
            planners.any(|planner| is_confined(planner, hook, plugin, projects))
        },
        machine: Path::new("/"),
        plugin: None,
        projects,
        runtime: runtime.runtime,
        switches: &context.environment().switches,
    };
    search.all();
    Ok(search.found)
}

/// Returns whether a hook's line is confined as a runtime's.
fn is_confined(
    planner: &Planner<'_>,
    hook: &Registered,
    plugin: Option<&Path>,
    projects: &[PathBuf],
) -> bool {
    if required::is_required(&hook.action.line(), planner.runtime, &hook.point) {
        return true;
    }
    let variables = line::variables(&hook.configured_env);
    let value = |name: &str| {
        let runtime = planner.runtime.runtime;
        let of_plugin = plugin.filter(|_| runtime.plugin_names().any(|known| known == name));
        let of_project = || {
            let project = projects.first().map(PathBuf::as_path);
            project.filter(|_| runtime.project_variables().any(|known| known == name))
        };
        of_plugin.or_else(of_project)?.to_str().map(str::to_owned)
    };
    let confined = match &hook.action {
        Action::Command(Command::Line { text, .. }) => {
            let runtime = planner.runtime.runtime;
            let programs = projects.iter();
            let mut programs = programs.filter_map(|it| SharedProgram::of_project(it, runtime));
            let program = programs.find(|it| it.begins(text) && it.check(text).is_ok());
            let text = match (program, plan::own_program()) {
                (Some(program), Some(local)) => program.without(text, &local).into_owned(),
                (Some(_) | None, _) => text.clone(),
            };
            planner.confined(hook, &value, &variables, |it| it.line(&text, true))
        }
        Action::Command(Command::Argv(words)) => {
            let words = words.iter().map(|word| word.to_string_lossy().into_owned());
            let words: Vec<_> = words.collect();
            planner.confined(hook, &value, &variables, |it| it.words(&words))
        }
        Action::Approve(_)
        | Action::Builtin(_)
        | Action::Http(_)
        | Action::Log(_)
        | Action::Supplied(_)
        | Action::Unsupported(_) => return true,
    };
    matches!(confined, Ok(Some(_)))
}

/// A search for commands.
struct Search<'a> {
    /// The plugins that settings enable.
    enabled: BTreeSet<String>,
    found: Elsewhere,
    home: Option<&'a Path>,
    /// Whether a hook's command is none, or confined as it is written.
    is_confined: &'a dyn Fn(&Registered, Option<&Path>) -> bool,
    /// The root directory.
    machine: &'a Path,
    /// The plugin that is looked at.
    plugin: Option<PathBuf>,
    projects: &'a [PathBuf],
    runtime: Adopted,
    switches: &'a Switches,
}

impl Search<'_> {
    fn all(&mut self) {
        let sources = self.runtime.sources;
        self.moved(sources.moved_by);
        let settings = [
            (Root::User, self.runtime.settings.user),
            (Root::Project, self.runtime.settings.project),
        ];
        for (root, paths) in settings {
            let paths = paths.iter().flat_map(|path| self.expand(root, path));
            for path in paths.collect::<Vec<_>>() {
                // Its hooks are rewritten, and an error of reading is reported there.
                if let Ok(value) = read(&path).and_then(|text| self.value(Form::Settings, &text)) {
                    self.members(&path, &value);
                }
            }
        }
        for place in sources.places {
            for path in self.expand(place.root, place.path) {
                self.file(&path, *place);
            }
        }
        if let Some(plugins) = sources.plugins {
            self.plugins(&plugins);
        }
    }

    /// Notes that the user's settings are elsewhere, if so.
    fn moved(&mut self, variable: Option<&str>) {
        let Some((name, value)) = variable.and_then(|it| Some((it, env::var_os(it)?))) else {
            return;
        };
        let directory = PathBuf::from(value);
        let mut usual = self.runtime.settings.user.iter();
        let is_usual = usual.any(|path| {
            let usual = self.home.map(|home| home.join(path));
            usual.is_some_and(|path| path.parent() == Some(&directory))
        });
        if !is_usual {
            self.unread(
                &directory,
                format!("`{name}` has the runtime's settings there; name them with --settings"),
            );
        }
    }

    fn unread(&mut self, file: &Path, why: impl Into<String>) {
        self.found.unread.insert(Unread {
            file: file.to_owned(),
            why: why.into(),
        });
    }

    fn roots(&self, root: Root) -> Vec<PathBuf> {
        match root {
            Root::Machine => vec![self.machine.to_owned()],
            Root::Project => self.projects.to_vec(),
            Root::User => self.home.map(Path::to_owned).into_iter().collect(),
        }
    }

    fn expand(&mut self, root: Root, pattern: &str) -> Vec<PathBuf> {
        let roots = self.roots(root);
        self.expand_in(roots, pattern)
    }

    /// Returns the paths that are there and that a pattern stands for.
    fn expand_in(&mut self, roots: Vec<PathBuf>, pattern: &str) -> Vec<PathBuf> {
        let mut paths = roots;
        for component in pattern.split('/') {
            paths = match component.split_once('*') {
                None => paths.iter().map(|path| path.join(component)).collect(),
                Some(("", "*")) => directories(paths),
                Some((before, after)) => {
                    let named = |path: &PathBuf| {
                        let name = path.file_name().and_then(|name| name.to_str());
                        name.is_some_and(|it| it.starts_with(before) && it.ends_with(after))
                    };
                    let children = paths.iter().flat_map(|path| children(path));
                    children.filter(named).collect()
                }
            };
            paths.retain(|path| path.symlink_metadata().is_ok());
            if paths.len() > MOST {
                let first = paths[0].clone();
                self.unread(
                    &first,
                    format!("there are more than {MOST} of it; remove some"),
                );
                paths.truncate(MOST);
            }
        }
        paths
    }

    /// Parses a file.
    fn value(&self, form: Form, text: &str) -> Result<Value, String> {
        match form {
            Form::FrontMatter => front_matter(text),
            Form::Settings => {
                let text = text.strip_prefix('\u{feff}').unwrap_or(text);
                let plain = match self.runtime.takes_comments {
                    true => jsonc::without_comments(text),
                    false => text.to_owned(),
                };
                serde_json::from_str(&plain).map_err(|error| format!("not JSON: {error}"))
            }
            Form::Toml => toml::from_str(text).map_err(|error| format!("not TOML: {error}")),
        }
    }

    /// Adds the commands of a file.
    fn file(&mut self, path: &Path, place: Place) {
        let value = read(path).and_then(|text| self.value(place.form, &text));
        match value {
            Ok(value) => {
                if place.form != Form::FrontMatter {
                    self.members(path, &value);
                }
                self.hooks(path, value.get("hooks"), place.why);
            }
            Err(why) => self.unread(path, why),
        }
    }

    /// Adds the commands of settings that are no hooks, and keeps which plugins they enable.
    fn members(&mut self, path: &Path, settings: &Value) {
        for member in self.runtime.sources.members {
            let value = member.split('.').try_fold(settings, |it, key| it.get(key));
            let command = match value {
                Some(Value::String(command)) => command.clone(),
                Some(Value::Array(words)) => {
                    let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
                    words.join(" ")
                }
                Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
                    continue;
                }
            };
            self.found.loose.insert(Loose {
                file: path.to_owned(),
                place: (*member).to_owned(),
                line: self.is_prefixed(member).then(|| command.clone()),
                command,
                why: NO_HOOK.to_owned(),
                plugin: self.plugin.clone(),
                project: self.project_of(path),
            });
        }
        let prefix = self.runtime.shell_prefix;
        let prefix = prefix.and_then(|it| settings.get("env")?.get(it.variable)?.as_str());
        let prefix = prefix.map(|prefix| (path.to_owned(), prefix.to_owned()));
        self.found.prefixes.extend(prefix);
        let plugins = self.runtime.sources.plugins;
        let enabled = plugins.and_then(|it| settings.get(it.enabled)?.as_object());
        let enabled = enabled.into_iter().flatten();
        let enabled =
            enabled.filter(|(_, value)| !matches!(value, Value::Bool(false) | Value::Null));
        self.enabled.extend(enabled.map(|(name, _)| name.clone()));
    }

    fn is_prefixed(&self, member: &str) -> bool {
        self.runtime.shell_prefix.is_some() && self.runtime.sources.prefixed.contains(&member)
    }

    /// Returns the project in which a file lies. The home is none.
    fn project_of(&self, path: &Path) -> Option<PathBuf> {
        let mut projects = self.projects.iter();
        let project = projects.find(|it| path.starts_with(it) && self.home != Some(it));
        project.filter(|_| self.plugin.is_none()).cloned()
    }

    /// Adds the commands of hooks in the form of settings, or of a list of entries with their events.
    fn hooks(&mut self, path: &Path, hooks: Option<&Value>, why: &str) {
        let Some(hooks) = hooks.filter(|hooks| !hooks.is_null()) else {
            return;
        };
        let name = path.display().to_string();
        let origin = Origin {
            base: None,
            name: &name,
        };
        let text = json!({ "hooks": grouped(hooks) }).to_string();
        match read_each(self.runtime, &text, &origin, self.switches) {
            Ok((read, passed_over)) => {
                let plugin = self.plugin.clone();
                let is_loose = |hook: &&Registered| !(self.is_confined)(hook, plugin.as_deref());
                for hook in read.hooks.iter().filter(is_loose) {
                    let place = [hook.point.as_str(), &hook.matching].join(" ");
                    let line = match &hook.action {
                        Action::Command(Command::Line { text, .. }) => Some(text.clone()),
                        Action::Approve(_)
                        | Action::Builtin(_)
                        | Action::Command(_)
                        | Action::Http(_)
                        | Action::Log(_)
                        | Action::Supplied(_)
                        | Action::Unsupported(_) => None,
                    };
                    self.found.loose.insert(Loose {
                        file: path.to_owned(),
                        place: place.trim_end().to_owned(),
                        command: plan::before(hook),
                        why: why.to_owned(),
                        line: line.filter(|_| self.runtime.shell_prefix.is_some()),
                        plugin: plugin.clone(),
                        project: self.project_of(path),
                    });
                }
                for error in passed_over {
                    self.unread(path, error.to_string());
                }
            }
            Err(error) => self.unread(path, error.to_string()),
        }
    }

    /// Adds the commands of the enabled plugins, and of those that need not be enabled.
    fn plugins(&mut self, plugins: &Plugins) {
        for name in self.enabled.clone() {
            let home = self.home.unwrap_or(Path::new(""));
            let list = home.join(plugins.installed);
            let roots = installed(&list, &name).map(|mut roots| {
                roots.extend(in_a_market(home, plugins, &name));
                roots
            });
            match roots {
                Ok(roots) if roots.is_empty() => self.unread(
                    &list,
                    format!("plugin `{name}` is enabled, and its files are not found; install or disable it"),
                ),
                Ok(roots) => roots.iter().for_each(|root| self.plugin(root, plugins)),
                Err(why) => self.unread(&list, format!("plugin `{name}` is enabled: {why}")),
            }
        }
        for root in [Root::User, Root::Project] {
            let loose = plugins.loose.iter();
            let loose: Vec<_> = loose.flat_map(|it| self.expand(root, it)).collect();
            for root in loose {
                if root.join(plugins.manifest).symlink_metadata().is_ok() {
                    self.plugin(&root, plugins);
                }
            }
        }
    }

    /// Adds the commands of one plugin.
    fn plugin(&mut self, root: &Path, plugins: &Plugins) {
        self.plugin = Some(root.to_owned());
        self.files_of_plugin(root, plugins);
        self.plugin = None;
    }

    fn files_of_plugin(&mut self, root: &Path, plugins: &Plugins) {
        let mut files = vec![root.join(plugins.hooks)];
        let manifest = root.join(plugins.manifest);
        if manifest.symlink_metadata().is_ok() {
            match read(&manifest).and_then(|text| self.value(Form::Settings, &text)) {
                Ok(value) => files.extend(self.named(root, &manifest, value.get("hooks"), plugins)),
                Err(why) => self.unread(&manifest, why),
            }
        }
        files.retain(|file| file.symlink_metadata().is_ok());
        let place = |form| Place {
            form,
            root: Root::User,
            path: "",
            why: plugins.why,
        };
        for file in files.iter().collect::<BTreeSet<_>>() {
            self.file(file, place(Form::Settings));
        }
        let settings = root.join(plugins.settings);
        if settings.symlink_metadata().is_ok() {
            match read(&settings).and_then(|text| self.value(Form::Settings, &text)) {
                Ok(value) => self.members(&settings, &value),
                Err(why) => self.unread(&settings, why),
            }
        }
        for pattern in plugins.front_matter {
            for text in self.expand_in(vec![root.to_owned()], pattern) {
                self.file(&text, place(Form::FrontMatter));
            }
        }
    }

    /// Adds the hooks in a manifest, or returns the files that it names.
    fn named(
        &mut self,
        root: &Path,
        manifest: &Path,
        hooks: Option<&Value>,
        plugins: &Plugins,
    ) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let one = match hooks {
            Some(Value::Array(several)) => several.iter().collect(),
            hooks => Vec::from_iter(hooks),
        };
        for hooks in one {
            match hooks {
                Value::String(path) => files.push(root.join(path)),
                // Inline, with or without the member of a file of its own.
                Value::Object(inline) => {
                    self.hooks(
                        manifest,
                        Some(inline.get("hooks").unwrap_or(hooks)),
                        plugins.why,
                    );
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                    self.unread(manifest, "`hooks` is neither hooks nor a path");
                }
            }
        }
        for file in files.iter().filter(|file| file.symlink_metadata().is_err()) {
            self.unread(file, "a plugin's manifest names it, and it is not there");
        }
        files
    }
}

fn read(path: &Path) -> Result<String, String> {
    let text = peek(path).map_err(|error| format!("cannot be read: {error}"))?;
    match text.len() <= MAX_BYTES {
        true => Ok(text),
        false => Err(format!("larger than {MAX_BYTES} bytes")),
    }
}

/// Returns the directories of an installed plugin that are there.
///
/// # Errors
///
/// Fails where the list cannot be read.
fn installed(list: &Path, name: &str) -> Result<Vec<PathBuf>, String> {
    let text = match peek(list) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    let text: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let plugin = text.get("plugins").and_then(|it| it.get(name));
    let installs = match plugin {
        Some(Value::Array(several)) => several.iter().collect(),
        plugin => Vec::from_iter(plugin),
    };
    let paths = installs.into_iter().filter_map(|it| it.get("installPath"));
    let paths = paths.filter_map(Value::as_str).map(PathBuf::from);
    Ok(paths.filter(|path| path.is_dir()).collect())
}

/// Returns the directory from which a plugin of a local marketplace runs.
fn in_a_market(home: &Path, plugins: &Plugins, name: &str) -> Option<PathBuf> {
    let (plugin, market) = name.rsplit_once('@')?;
    let parse = |path: &Path| -> Option<Value> { serde_json::from_str(&peek(path).ok()?).ok() };
    let markets = parse(&home.join(plugins.markets))?;
    let market = markets.get(market)?;
    let is_local = matches!(
        market.get("source")?.get("source")?.as_str()?,
        "directory" | "file"
    );
    let place = PathBuf::from(market.get("installLocation")?.as_str()?);
    let root = match place.is_dir() {
        true => place,
        // The path of the file itself.
        false => place.parent()?.parent()?.to_owned(),
    };
    let all = parse(&root.join(plugins.market))?;
    let mut all = all.get("plugins")?.as_array()?.iter();
    let entry = all.find(|it| it.get("name").and_then(Value::as_str) == Some(plugin))?;
    let directory = root.join(entry.get("source")?.as_str()?);
    let directory: PathBuf = directory.components().collect();
    (is_local && directory.is_dir()).then_some(directory)
}

fn children(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// Returns directories and all below them, each once even if several links lead to it.
fn directories(roots: Vec<PathBuf>) -> Vec<PathBuf> {
    let (mut todo, mut found, mut seen) = (roots, Vec::new(), BTreeSet::new());
    while let Some(path) = todo.pop() {
        let Ok(real) = path.canonicalize() else {
            continue;
        };
        if path.is_dir() && found.len() <= MOST && seen.insert(real) {
            todo.extend(children(&path).filter(|child| child.is_dir()));
            found.push(path);
        }
    }
    found
}

/// Returns hooks by event: a list of entries that name their events becomes groups.
fn grouped(hooks: &Value) -> Value {
    let Value::Array(entries) = hooks else {
        return hooks.clone();
    };
    let mut groups = Map::new();
    for entry in entries {
        let either = |name, other| entry.get(name).or_else(|| entry.get(other));
        let event = either("event", "type").and_then(Value::as_str);
        let mut hook = entry.clone();
        hook["type"] = "command".into();
        let group = json!({"matcher": either("matcher", "match"), "hooks": [hook]});
        let list = groups
            .entry(event.unwrap_or_default())
            .or_insert_with(|| json!([]));
        list.as_array_mut()
            .into_iter()
            .for_each(|list| list.push(group.clone()));
    }
    Value::Object(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_administrators_settings_are_looked_at() {
        let machine = tempfile::tempdir().unwrap();
        let directory = machine.path().join("etc/claude-code/managed-settings.d");
        fs::create_dir_all(&directory).unwrap();
        let group = json!([{"hooks": [{"type": "command", "command": "/opt/g.sh"}]}]);
        let settings =
            json!({"hooks": {"Stop": group}, "statusLine": {"type": "command", "command": "s"}});
        fs::write(directory.join("10-a.json"), settings.to_string()).unwrap();
        fs::write(directory.with_file_name("managed-settings.json"), "{").unwrap();
        let runtimes = Adopted::all();
        let runtime = runtimes.into_iter().find(|it| it.name == "claude-code");
        let mut search = Search {
            enabled: BTreeSet::new(),
            found: Elsewhere::default(),
            home: None,
            is_confined: &|_, _| false,
            machine: machine.path(),
            plugin: None,
            projects: &[],
            runtime: runtime.unwrap(),
            switches: &Switches::default(),
        };
        search.all();
        let found = search.found;
        let commands: Vec<_> = found.loose.iter().map(|it| &*it.command).collect();
        assert_eq!(commands, ["/opt/g.sh", "s"]);
        assert_eq!(found.unread.len(), 1, "{:?}", found.unread);
    }
}

//! Declarations beside hooks: found by the files of a command, read, and put in force as profiles.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;

use hookjail_base::model::{ProfileName, plain};
use hookjail_client::{Failure, program::current_directory, run_as};
use hookjail_daemon::{config::Config, daemon::Assembly, hooks::load::peek};
use hookjail_policy::{
    GrantedBy,
    declaration::{self, Declaration, FILE, Needs, extending},
};

use super::{Context, profile, profile_files};

/// Maximum number of declarations in a directory.
const MOST: usize = 200;

/// A declaration with its place.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) declaration: Declaration,
    pub(super) file: PathBuf,
    /// The profile of its needs, if it names any.
    pub(super) profile: Option<ProfileName>,
    /// The text of a profile of its own.
    text: Option<String>,
}

/// The declarations beside the hooks of some settings.
#[derive(Clone, Debug, Default)]
pub(super) struct Declarations {
    all: Vec<Declared>,
    /// The files that are no declarations, with the reasons.
    broken: BTreeMap<PathBuf, String>,
}

/// A hook's declaration in words.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(super) struct Statement {
    /// The profile and the parts that its needs are or extend; none where it declares none.
    pub(super) extends: Vec<String>,
    pub(super) file: PathBuf,
    /// The hosts that its needs name, as they are written.
    pub(super) hosts: Vec<String>,
    /// The lifecycle point of the settings, where it declares others alone.
    #[serde(skip)]
    pub(super) lacks_point: Option<String>,
    pub(super) name: String,
    /// The needs beyond those of the profile that they extend.
    pub(super) needs: Vec<String>,
    /// The profile of its needs.
    pub(super) profile: Option<String>,
    pub(super) purpose: String,
    /// The names of the secrets that its needs name.
    pub(super) secrets: Vec<String>,
    /// The needs beyond the profile that hooks have without a declaration.
    pub(super) wider: Vec<String>,
}

impl Declarations {
    /// Reads the declarations in directories: `hook.toml`, and files whose names end with `.hook.toml`.
    ///
    /// Needs that are no profile on this host make a declaration a broken one.
    pub(super) fn read(directories: &BTreeSet<PathBuf>, config: &Config) -> Self {
        let mut found = Self::default();
        for file in directories.iter().flat_map(|it| files(it)) {
            match Declared::read(&file, config) {
                Ok(declared) => found.all.push(declared),
                Err(why) => drop(found.broken.insert(file, why)),
            }
        }
        found.without_mixed()
    }

    /// Leaves out declarations with one profile's name for other needs: a name has a part of their digest alone.
    fn without_mixed(mut self) -> Self {
        let is_mixed = |it: &Declared| self.all.iter().any(|other| it.mixes_with(other));
        let (mixed, all) = self.all.iter().cloned().partition(is_mixed);
        let mixed: Vec<Declared> = mixed;
        self.broken.extend(mixed.into_iter().map(|it| {
            let why = "another declaration has its profile's name for other needs; change `name`";
            (it.file, why.to_owned())
        }));
        self.all = all;
        self
    }

    /// Returns the declaration of a command that starts in the current directory, where it names needs.
    ///
    /// # Errors
    ///
    /// Fails where a declaration beside its script cannot be used.
    #[cfg(target_os = "linux")]
    pub(super) fn of_command(
        command: &[OsString],
        config: &Config,
    ) -> Result<Option<Declared>, Failure> {
        let starts_in = current_directory()?;
        let words = command
            .iter()
            .map(|word| word.to_string_lossy().into_owned());
        let words: Vec<_> = words.collect();
        Self::with_needs(&words, &starts_in, config).map_err(Failure::new)
    }

    /// Returns the declaration of a command that starts in a directory, where it names needs.
    ///
    /// # Errors
    ///
    /// Fails where a declaration beside its script cannot be used.
    pub(super) fn with_needs(
        argv: &[String],
        starts_in: &Path,
        config: &Config,
    ) -> Result<Option<Declared>, String> {
        let files = files_of(argv, starts_in).into_iter();
        let directories = files.filter_map(|file| file.parent().map(Path::to_owned));
        let all = Self::read(&directories.collect(), config);
        let found = all.find(argv, starts_in)?;
        Ok(found.filter(|it| it.profile.is_some()).cloned())
    }

    /// Returns a configuration in which the profiles of all needs are proposed.
    pub(super) fn propose(&self, mut config: Config) -> Config {
        let all = self.all.iter().filter_map(Declared::proposal);
        config.proposed_profiles.extend(all);
        config
    }

    /// Returns the declaration of a command that starts in a directory.
    ///
    /// # Errors
    ///
    /// Fails where a declaration beside its script is broken, or two declare it.
    pub(super) fn find(
        &self,
        argv: &[String],
        starts_in: &Path,
    ) -> Result<Option<&Declared>, String> {
        let mut of_command = (self.all.iter()).filter(|it| it.declares(argv, starts_in));
        if let Some(found) = of_command.next() {
            return match of_command.next() {
                None => Ok(Some(found)),
                Some(other) => Err(format!(
                    "`{}` and `{}` both declare it; keep one",
                    found.file.display(),
                    other.file.display()
                )),
            };
        }
        let scripts = files_of(argv, starts_in).into_iter();
        let mut names = scripts.flat_map(|file| declaration_paths(&file));
        match names.find_map(|it| self.broken.get_key_value(&it)) {
            Some((file, why)) => Err(format!("its `{}` cannot be used: {why}", file.display())),
            None => Ok(None),
        }
    }

    /// Writes the profiles of needs that are not there yet, as far as these names are of such, and has a running daemon read them.
    ///
    /// # Errors
    ///
    /// Fails where a file cannot be written, or the daemon refuses to reload.
    pub(super) fn put_in_force(
        &self,
        context: &Context,
        profiles: &BTreeSet<&str>,
    ) -> Result<Vec<PathBuf>, Failure> {
        let config = context.load()?;
        let directory = profile_files::directory(&config, context);
        let mut written = Vec::new();
        for declared in &self.all {
            let Some((name, text)) = declared.proposal() else {
                continue;
            };
            let file = directory.join(format!("{name}.toml"));
            if !profiles.contains(&*name) || written.contains(&file) || file.exists() {
                continue;
            }
            profile_files::write(&file, &file_text(&declared.file, &text))?;
            written.push(file);
        }
        if !written.is_empty() {
            profile_files::reload(context)?;
        }
        Ok(written)
    }
}

impl Declared {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Returns why it is no declaration, or its needs are no profile on this host.
    pub(super) fn read(file: &Path, config: &Config) -> Result<Self, String> {
        let text = peek(file).map_err(|error| error.to_string())?;
        let declaration = Declaration::parse(&text).map_err(|error| error.to_string())?;
        let (profile, text) = declaration.profile().unzip();
        let declared = Self {
            declaration,
            file: file.to_owned(),
            profile,
            text: text.flatten(),
        };
        declared.check(config)?;
        Ok(declared)
    }

    /// Checks that its needs are a profile on this host, and that no other file has its name.
    fn check(&self, config: &Config) -> Result<(), String> {
        let Some(name) = &self.profile else {
            return Ok(());
        };
        let find = |proposals: Vec<(String, String)>| {
            let mut config = config.clone();
            config.proposed_profiles = proposals;
            let registry = Assembly::registry(&config);
            let registry = registry.map_err(|error| Failure::from(error).message)?;
            profile::find(&registry, name.as_str()).map_err(|failure| failure.message)
        };
        let proposal: Vec<_> = self.proposal().into_iter().collect();
        let is_made = !proposal.is_empty();
        let policy = find(proposal).map_err(|why| format!("`needs`: {why}"))?;
        match is_made.then(|| find(Vec::new())) {
            Some(Ok(registered)) if registered.digest != policy.digest => Err(format!(
                "profile {name} exists with other content; remove its file, or change `name`"
            )),
            Some(Ok(_) | Err(_)) | None => Ok(()),
        }
    }

    /// Returns whether another declaration has its profile's name, and other needs.
    fn mixes_with(&self, other: &Self) -> bool {
        self.profile.is_some() && self.profile == other.profile && self.text != other.text
    }

    /// Returns name and text of a profile of its own.
    pub(super) fn proposal(&self) -> Option<(String, String)> {
        Some((self.profile.as_ref()?.to_string(), self.text.clone()?))
    }

    /// Returns whether it declares a command that starts in a directory: its words are the first of that, and words that name files
    /// lead to the same ones.
    fn declares(&self, argv: &[String], starts_in: &Path) -> bool {
        let argv = without_variables(argv);
        let words = &self.declaration.command;
        let directory = self.file.parent().unwrap_or(Path::new("/"));
        let is_same = |(index, (declared, word)): (usize, (&String, &String))| {
            let file = |directory: &Path, word: &str| directory.join(word).canonicalize().ok();
            declared == word
                || index == 0
                    && !declared.contains('/')
                    && Path::new(word).file_name() == Some(declared.as_ref())
                || file(directory, declared).is_some_and(|it| file(starts_in, word) == Some(it))
        };
        words.len() <= argv.len() && words.iter().zip(argv).enumerate().all(is_same)
    }

    /// Returns the files, runtimes and points that it names and that are not there.
    pub(super) fn problems(&self) -> Vec<String> {
        let directory = self.file.parent().unwrap_or(Path::new("/"));
        let Declaration {
            command,
            points,
            tests,
            ..
        } = &self.declaration;
        let mut problems = Vec::new();
        if files_of(command, directory).is_empty() {
            problems
                .push("`command` names no file beside or below; name the hook's script".to_owned());
        }
        let missing = tests.iter().filter(|test| !directory.join(test).is_file());
        problems.extend(
            missing.map(|test| format!("`tests` names `{}`, which is no file", test.display())),
        );
        for (name, points) in points {
            match run_as::parse(name) {
                Ok(Some(runtime)) => {
                    let known = runtime.mode.facts().points;
                    let is_known = |name: &str| known.iter().any(|point| point.name == name);
                    let unknown = points
                        .iter()
                        .filter(|it| !is_known(runtime.mode.spelled(it)));
                    problems.extend(unknown.map(|it| {
                        format!("`points.{name}` names `{it}`, which is no point of it")
                    }));
                }
                Ok(None) => problems.push("`points` has no name of a runtime".to_owned()),
                Err(why) => problems.push(format!("`points`: {why}")),
            }
        }
        problems
    }

    /// Returns whether it declares a runtime's lifecycle point, or any.
    pub(super) fn has_point(&self, runtime: &str, point: &str) -> bool {
        let points = &self.declaration.points;
        points.is_empty()
            || points
                .get(runtime)
                .is_some_and(|points| points.iter().any(|it| it == point))
    }

    /// Describes it. `usual` is the profile that hooks have without a declaration.
    ///
    /// # Errors
    ///
    /// Fails where its needs are no profile on this host.
    pub(super) fn statement(&self, config: &Config, usual: &str) -> Result<Statement, String> {
        let beyond = match &self.declaration.needs {
            Some(needs) => self.beyond(config, needs, usual)?,
            None => Beyond::default(),
        };
        let texts = |of_needs: fn(&Needs) -> Vec<&str>| {
            let texts = self.declaration.needs.iter().flat_map(of_needs);
            texts.map(str::to_owned).collect()
        };
        Ok(Statement {
            extends: texts(Needs::extends),
            file: self.file.clone(),
            hosts: texts(Needs::hosts),
            lacks_point: None,
            name: self.declaration.name.clone(),
            needs: beyond.base,
            profile: self.profile.as_ref().map(ToString::to_string),
            purpose: self.declaration.purpose.clone(),
            secrets: texts(Needs::secrets),
            wider: beyond.usual,
        })
    }

    /// Compares its needs with the profile and the parts that they extend, and with the usual profile.
    fn beyond(&self, config: &Config, needs: &Needs, usual: &str) -> Result<Beyond, String> {
        let extends = needs.extends();
        let [first, parts @ ..] = extends.as_slice() else {
            return Ok(Beyond::default());
        };
        let mut alone = config.clone();
        alone.proposed_profiles = vec![
            (BASE.to_owned(), extending(&extends)),
            (USUAL.to_owned(), extending(&[&[usual], parts].concat())),
        ];
        alone.proposed_profiles.extend(self.proposal());
        let registry = Assembly::registry(&alone).map_err(|error| Failure::from(error).message)?;
        let find = |name: &str| profile::find(&registry, name).map_err(|failure| failure.message);
        let name = self.profile.as_ref().map_or(*first, ProfileName::as_str);
        let policy = find(name)?;
        let mut base = (*find(BASE)?).clone();
        if !needs.sets_variables() {
            base.environment = Arc::clone(&policy.environment);
        }
        let base = policy.wider_than(&base);
        // Profiles that callers may select are no more than the usual one.
        let is_usual = *first == usual || find(first)?.granted_by == GrantedBy::Anyone;
        let other = (!is_usual).then(|| format!("profile {first}"));
        let parts = find(USUAL)?.wider_than(&*find(usual)?);
        let usual = other.into_iter().chain(parts).chain(base.clone());
        Ok(Beyond {
            usual: usual.collect(),
            base,
        })
    }
}

/// Needs beyond those of other profiles, in words.
#[derive(Default)]
struct Beyond {
    /// Beyond what they extend.
    base: Vec<String>,
    /// Beyond the usual profile.
    usual: Vec<String>,
}

/// The names of profiles that needs are compared with.
const BASE: &str = "hook-compared-base";
const USUAL: &str = "hook-compared-usual";

impl Statement {
    /// Returns its lines for people.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{}: {}", self.name, self.purpose)];
        if let [base, parts @ ..] = self.extends.as_slice() {
            let parts = match parts {
                [] => String::new(),
                parts => format!(" with {}", parts.join(", ")),
            };
            let more = match self.needs.as_slice() {
                [] => String::new(),
                needs => format!(", and: {}", needs.join("; ")),
            };
            lines.push(format!("needs profile {base}{parts}{more}"));
        }
        lines
    }
}

/// Returns the text of a profile's file. The name of the declaration's file begins no line of it.
fn file_text(declared_by: &Path, text: &str) -> String {
    let place = plain(&declared_by.display().to_string());
    format!("# Declared by {place}\n{text}")
}

/// Returns the text of a declaration of a command, whose needs are a profile's.
///
/// # Errors
///
/// Fails where the command is not UTF-8, or the profile no TOML.
#[cfg(target_os = "linux")]
pub(super) fn text(command: &[OsString], file: &Path, draft: &str) -> Result<String, Failure> {
    let directory = file.parent().filter(|it| !it.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new(".")).canonicalize()?;
    let word = |word: &OsString| {
        let text = word.to_str()?;
        let below = Path::new(word).canonicalize().ok();
        let below = below
            .as_deref()
            .and_then(|it| it.strip_prefix(&directory).ok());
        let below = below
            .filter(|it| !it.as_os_str().is_empty())
            .and_then(Path::to_str);
        Some(toml::Value::String(below.unwrap_or(text).to_owned()))
    };
    let words: Option<Vec<_>> = command.iter().map(word).collect();
    let words = words.ok_or_else(|| Failure::new("the command is not UTF-8"))?;
    let mut needs: toml::Table = toml::from_str(draft)?;
    declaration::OPERATORS
        .into_iter()
        .for_each(|key| drop(needs.remove(key)));
    let script = files_of_words(command);
    let name = script.unwrap_or_else(|| "hook".to_owned());
    let head = [
        ("name", toml::Value::String(name)),
        (
            "purpose",
            toml::Value::String("not described yet".to_owned()),
        ),
        ("command", toml::Value::Array(words)),
        ("needs", toml::Value::Table(needs)),
    ];
    let table = head.map(|(key, value)| (key.to_owned(), value));
    Ok(toml::to_string(
        &table.into_iter().collect::<toml::Table>(),
    )?)
}

/// Returns the name of the last file that a command names, without its extension.
#[cfg(target_os = "linux")]
fn files_of_words(command: &[OsString]) -> Option<String> {
    let mut files = command.iter().rev().map(Path::new);
    let file = files.find(|file| file.is_file())?;
    Some(file.file_stem()?.to_string_lossy().into_owned())
}

/// Returns the declarations in a directory, in order.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let paths = names.map(|name| directory.join(name));
    let mut files: Vec<_> = paths.filter(|path| is_declaration(path)).collect();
    files.sort();
    files.truncate(MOST);
    files
}

/// Returns whether a file has the name of a declaration.
pub(super) fn is_declaration(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name == FILE
        || name
            .strip_suffix(FILE)
            .is_some_and(|stem| stem.ends_with('.'))
}

/// Returns the names of the declarations that a script may have beside it.
fn declaration_paths(script: &Path) -> Vec<PathBuf> {
    let stem = script.file_stem().unwrap_or_default().to_string_lossy();
    let names = [format!("{stem}.{FILE}"), FILE.to_owned()];
    let directory = script.parent().unwrap_or(Path::new("/"));
    names.into_iter().map(|name| directory.join(name)).collect()
}

/// Returns the files that the words of a command name.
pub(super) fn files_of(argv: &[String], starts_in: &Path) -> Vec<PathBuf> {
    let words = without_variables(argv).iter();
    let words = words.filter(|word| !word.starts_with('-'));
    let paths = words.map(|word| starts_in.join(word));
    paths.filter(|path| path.is_file()).collect()
}

/// Returns a command without the words that set its variables.
fn without_variables(argv: &[String]) -> &[String] {
    match argv {
        [env, rest @ ..] if env == "/usr/bin/env" => {
            let set = rest.iter().take_while(|word| word.contains('=')).count();
            rest.get(set..).unwrap_or_default()
        }
        argv => argv,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(file: &str, profile: &str, text: Option<&str>) -> Declared {
        let declaration = "name = \"n\"\npurpose = \"p\"\ncommand = \"./c\"";
        Declared {
            declaration: Declaration::parse(declaration).unwrap(),
            file: file.into(),
            profile: ProfileName::parse(profile),
            text: text.map(str::to_owned),
        }
    }

    #[test]
    fn declarations_with_one_name_for_other_needs_are_left_out() {
        let narrow = "extends = \"strict\"\n";
        let all = Declarations {
            all: vec![
                declared("/a", "hook-n-1", Some(narrow)),
                declared("/b", "hook-n-1", Some("extends = \"network\"\n")),
                declared("/c", "hook-n-1", None),
                declared("/d", "hook-m-2", Some(narrow)),
                declared("/e", "hook-m-2", Some(narrow)),
            ],
            broken: BTreeMap::new(),
        };
        let left = all.without_mixed();
        let files: Vec<_> = left
            .all
            .iter()
            .map(|it| it.file.display().to_string())
            .collect();
        assert_eq!(files, ["/d", "/e"]);
        let broken: Vec<_> = left
            .broken
            .keys()
            .map(|it| it.display().to_string())
            .collect();
        assert_eq!(broken, ["/a", "/b", "/c"]);
    }

    #[test]
    fn the_name_of_a_file_adds_nothing_to_its_profile() {
        let place = Path::new("/p/x\nnetwork = \"outbound\"\n#/hook.toml");
        let text = file_text(place, "extends = \"strict\"\n");
        let read: toml::Table = toml::from_str(&text).unwrap();
        assert_eq!(read.keys().collect::<Vec<_>>(), ["extends"], "{text}");
    }
}

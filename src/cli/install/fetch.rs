//! Packages that hooks take from the network, and the commands that fetch them without running a hook.

use std::{
    collections::BTreeSet,
    env, iter,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Deserialize;

use super::unserved;
use crate::consent::allowlist::Entry;

/// The profile under which packages are fetched.
pub(super) const PROFILE: &str = "develop-online";

/// The wall time of a fetch.
const TIMEOUT: &str = "10m";

/// A command that fetches packages, and runs nothing of a hook.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Fetch {
    /// The number of named packages.
    pub(super) packages: usize,
    words: Vec<String>,
}

/// The metadata of a Python script, as `uv run` reads them.
#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    dependencies: Vec<String>,
}

impl Fetch {
    /// Returns the fetches of a command, and of its scripts, which may start in a project.
    pub(super) fn all(command: &str, entry: Option<&Entry>, project: &Path) -> BTreeSet<Self> {
        let scripts: Vec<_> = entry.into_iter().flat_map(unserved::scripts).collect();
        let texts = iter::once(command).chain(scripts.iter().map(|(_, text)| text.as_str()));
        let by_uv = texts.clone().any(|text| unserved::names(text, "uv"))
            || scripts.iter().any(|(_, text)| shebang(text).contains("uv"));
        let of_scripts = scripts.iter().filter(|_| by_uv);
        let of_scripts = of_scripts.filter_map(|(path, text)| Self::of_script(path, text));
        let modules = project.join("node_modules");
        let is_there = |package: &str| modules.join(package).exists();
        texts
            .flat_map(|text| Self::of_shell(text, is_there))
            .chain(of_scripts)
            .collect()
    }

    /// Returns the fetch of a Python script that names packages.
    fn of_script(path: &str, text: &str) -> Option<Self> {
        let packages = dependencies(text);
        (packages > 0).then(|| Self {
            packages,
            words: ["uv", "sync", "--script", path].map(str::to_owned).into(),
        })
    }

    /// Returns the fetches of a shell's text that calls `npx`.
    fn of_shell(text: &str, is_there: impl Fn(&str) -> bool) -> Vec<Self> {
        let calls = unserved::arguments(text, "npx");
        let sets = calls.filter_map(npx_packages);
        let sets = sets.filter(|packages| !packages.iter().all(|it| is_there(it)));
        let fetch = |packages: Vec<String>| {
            let named = packages.iter().flat_map(|package| ["--package", package]);
            let words = ["npx", "--yes"].into_iter().chain(named);
            let words = words.chain(["--call", "true"]).map(str::to_owned);
            Self {
                packages: packages.len(),
                words: words.collect(),
            }
        };
        sets.map(fetch).collect()
    }

    /// Returns the command line.
    pub(super) fn line(&self) -> String {
        let words = self.words.iter().map(String::as_str);
        shlex::try_join(words).unwrap_or_else(|_| self.words.join(" "))
    }

    /// Returns the remark for packages that are not fetched.
    pub(super) fn remark(&self) -> String {
        format!(
            "takes a network once: packages come from the network, which the profile lacks; fetch them once: hookjail run --profile \
             {PROFILE} -- {}",
            self.line()
        )
    }

    /// Runs the command, confined, in a directory that is its workspace, with a directory for its caches.
    ///
    /// # Errors
    ///
    /// Returns how the command ended, where it failed.
    #[expect(
        clippy::disallowed_methods,
        reason = "hookjail itself, as a private daemon is started before any thread"
    )]
    pub(super) fn run(
        &self,
        config: Option<&PathBuf>,
        directory: &Path,
        caches: Option<&Path>,
    ) -> Result<(), String> {
        let program = env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        if let Some(file) = config {
            command.arg("--config").arg(file);
        }
        command.args(["run", "--private", "--mirror", "--profile", PROFILE]);
        command.args(["--timeout", TIMEOUT, "--"]).args(&self.words);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.envs(caches.map(|caches| ("XDG_CACHE_HOME", caches)));
        let ended = command.current_dir(directory).status();
        match ended.map_err(|error| error.to_string())? {
            status if status.success() => Ok(()),
            status => Err(status.to_string()),
        }
    }
}

/// Returns the first line of a script.
fn shebang(text: &str) -> &str {
    text.lines()
        .next()
        .filter(|line| line.starts_with("#!"))
        .unwrap_or_default()
}

/// Counts the packages that a Python script names.
fn dependencies(text: &str) -> usize {
    let block = text
        .lines()
        .skip_while(|line| line.trim() != "# /// script");
    let block = block.skip(1).take_while(|line| line.trim() != "# ///");
    let block = block.map(|line| line.strip_prefix('#').unwrap_or_default());
    let block: Vec<_> = block.collect();
    let metadata: Option<Metadata> = toml::from_str(&block.join("\n")).ok();
    metadata.map_or(0, |metadata| metadata.dependencies.len())
}

/// Returns the packages that a call of `npx` fetches; `None` for a call that fetches none, or names them in another way.
fn npx_packages(arguments: &str) -> Option<Vec<String>> {
    let mut packages = Vec::new();
    let mut words = shlex::Shlex::new(arguments);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-q" | "-y" | "--quiet" | "--yes" => {}
            "-p" | "--package" => packages.push(words.next()?),
            "-c" | "--call" => break,
            option => match option.strip_prefix("--package=") {
                Some(package) => packages.push(package.to_owned()),
                None if option.starts_with('-') => return None,
                None => {
                    if packages.is_empty() {
                        packages.push(word);
                    }
                    break;
                }
            },
        }
    }
    let is_known = !packages.is_empty() && packages.iter().all(|package| is_of_registry(package));
    is_known.then_some(packages)
}

/// Returns whether a text names a package of a registry, and no directory, repository or variable.
fn is_of_registry(package: &str) -> bool {
    let (scope, name) = match package.strip_prefix('@').and_then(|it| it.split_once('/')) {
        Some((scope, name)) => (scope, name),
        None => ("s", package),
    };
    let is_part = |part: &str| {
        let letters = |it: char| it.is_ascii_alphanumeric() || "-._~^@".contains(it);
        part.starts_with(|it: char| it.is_ascii_alphanumeric()) && part.chars().all(letters)
    };
    is_part(scope) && is_part(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_a_python_script_are_counted_as_uv_reads_them() {
        let script = |dependencies: &str| {
            format!(
                "#!/usr/bin/env -S uv run --script\n# /// script\n{dependencies}# ///\nimport x\n"
            )
        };
        for (text, expected) in [
            (script("# dependencies = [\"x\"]\n"), 1),
            (
                script(
                    "# requires-python = \">=3.11\"\n# dependencies = [\n#   \"x<3\",\n#   \"y[z]\",\n# ]\n",
                ),
                2,
            ),
            (script("# dependencies = []\n"), 0),
            (script(""), 0),
            ("print('dependencies = [\"x\"]')".to_owned(), 0),
        ] {
            assert_eq!(dependencies(&text), expected, "{text}");
        }
        let fetch = Fetch::of_script("/p/a b.py", &script("# dependencies = [\"x\"]\n")).unwrap();
        assert_eq!(fetch.line(), "uv sync --script '/p/a b.py'");
        assert!(
            fetch
                .remark()
                .ends_with("hookjail run --profile develop-online -- uv sync --script '/p/a b.py'")
        );
    }

    #[test]
    fn packages_of_npx_are_fetched_without_their_programs() {
        let lines = |text: &str| {
            let all = Fetch::of_shell(text, |package| package == "eslint");
            all.iter().map(Fetch::line).collect::<Vec<_>>()
        };
        for (text, expected) in [
            (
                "npx prettier --check .",
                "npx --yes --package prettier --call true",
            ),
            (
                "cat | npx -y @biomejs/biome@2 check; true",
                "npx --yes --package @biomejs/biome@2 --call true",
            ),
            (
                "npx -p typescript tsc && true",
                "npx --yes --package typescript --call true",
            ),
            (
                "npx --package=a -p b -c 'a | b'",
                "npx --yes --package a --package b --call true",
            ),
        ] {
            assert_eq!(lines(text), [expected], "{text}");
        }
        for none in [
            "npx eslint .",
            "npx --no-install prettier",
            "npx \"$TOOL\"",
            "npx ./tool",
            "npx owner/repository",
            "echo npx prettier",
            "# npx prettier",
            "#!/usr/bin/env python3\nnpx prettier\n",
            "npx",
        ] {
            assert!(lines(none).is_empty(), "{none}");
        }
    }
}

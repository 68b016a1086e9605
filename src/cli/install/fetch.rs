//! Packages that hooks take from the network, and the commands that fetch them without running a hook.

use std::{
    collections::BTreeSet,
    env, iter,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Deserialize;

use super::{super::rows::shell_line, unserved};
use hookjail_daemon::consent::allowlist::Entry;

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

/// The words that fetch the packages of `npx` and run no code of theirs. A project's configuration may name another shell.
const NPX: [&str; 5] = [
    "npx",
    "--yes",
    "--ignore-scripts",
    "--script-shell",
    "/bin/sh",
];

/// The words that fetch the packages of a Python script and build none.
const UV: [&str; 5] = ["uv", "run", "--isolated", "--no-project", "--no-build"];

/// The metadata of a Python script, as `uv run` reads them.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Metadata {
    #[serde(default)]
    dependencies: Vec<String>,
    requires_python: Option<String>,
}

impl Fetch {
    /// Returns the fetches of a command, and of its scripts, which may start in a project.
    pub(super) fn all(command: &str, entry: Option<&Entry>, project: &Path) -> BTreeSet<Self> {
        let scripts: Vec<_> = entry.into_iter().flat_map(unserved::scripts).collect();
        let texts = iter::once(command).chain(scripts.iter().map(|(_, text)| text.as_str()));
        let by_uv = texts.clone().any(|text| unserved::names(text, "uv"))
            || scripts.iter().any(|(_, text)| shebang(text).contains("uv"));
        let of_scripts = scripts.iter().filter(|_| by_uv);
        let of_scripts = of_scripts.filter_map(|(_, text)| Self::of_script(text));
        let modules = project.join("node_modules");
        let is_there = |package: &str| modules.join(package).exists();
        texts
            .flat_map(|text| Self::of_shell(text, is_there))
            .chain(of_scripts)
            .collect()
    }

    /// Returns the fetch of a Python script that names packages of an index. Nothing else of the script counts then.
    fn of_script(text: &str) -> Option<Self> {
        let Metadata {
            dependencies,
            requires_python,
        } = metadata(text)?;
        let is_known = !dependencies.is_empty()
            && dependencies.iter().all(|it| is_of_index(it))
            && requires_python.iter().all(|it| is_version(it));
        let python = requires_python.iter().flat_map(|it| ["--python", it]);
        let packages = dependencies.iter().flat_map(|it| ["--with", it]);
        let words = UV.into_iter().chain(python).chain(packages);
        is_known.then(|| Self {
            packages: dependencies.len(),
            words: words.chain(["true"]).map(str::to_owned).collect(),
        })
    }

    /// Returns the fetches of a shell's text that calls `npx`.
    fn of_shell(text: &str, is_there: impl Fn(&str) -> bool) -> Vec<Self> {
        let calls = unserved::arguments(text, "npx");
        let sets = calls.filter_map(npx_packages);
        let sets = sets.filter(|packages| !packages.iter().all(|it| is_there(it)));
        let fetch = |packages: Vec<String>| {
            let named = packages.iter().flat_map(|package| ["--package", package]);
            let words = NPX.into_iter().chain(named);
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
        shell_line(&self.words)
    }

    /// Returns the remark for packages that are not fetched.
    pub(super) fn remark(&self) -> String {
        format!(
            "takes a network once: packages come from the network, which the profile lacks; run once: hookjail run --profile \
             {PROFILE} -- {}",
            self.line()
        )
    }

    /// Runs the command, confined, in an empty directory that is its workspace, with a directory for its caches.
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

/// Returns a Python script's metadata.
fn metadata(text: &str) -> Option<Metadata> {
    let block = text
        .lines()
        .skip_while(|line| line.trim() != "# /// script");
    let block = block.skip(1).take_while(|line| line.trim() != "# ///");
    let block = block.map(|line| line.strip_prefix('#').unwrap_or_default());
    let block: Vec<_> = block.collect();
    toml::from_str(&block.join("\n")).ok()
}

/// Returns whether a text names a package of an index, and no address or path.
fn is_of_index(package: &str) -> bool {
    let is_part = |it: char| it.is_ascii_alphanumeric() || " -._[]<>=!~*+,;()'\"".contains(it);
    package.starts_with(|it: char| it.is_ascii_alphanumeric()) && package.chars().all(is_part)
}

/// Returns whether a text is versions of Python, and no path of an interpreter.
fn is_version(python: &str) -> bool {
    python
        .chars()
        .all(|it| it.is_ascii_digit() || " .<>=!~*,".contains(it))
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
    fn packages_of_a_python_script_are_those_that_uv_reads_and_nothing_else_of_it_counts() {
        let line = |metadata: &str| {
            let begin = "#!/usr/bin/env -S uv run --script\n# /// script\n";
            let fetch = Fetch::of_script(&format!("{begin}{metadata}# ///\nimport x\n"))?;
            Some(fetch.line())
        };
        for (metadata, expected) in [
            ("# dependencies = [\"x\"]\n", "--with x"),
            (
                "# requires-python = \">=3.11\"\n# dependencies = [\n#   \"x<3\",\n#   \"y[z]\",\n# ]\n",
                "--python '>=3.11' --with 'x<3' --with 'y[z]'",
            ),
            (
                "# dependencies = [\"x\"]\n# [tool.uv]\n# index-url = \"https://a.example\"\n# [tool.uv.sources]\n# x = { path = \".\" }\n",
                "--with x",
            ),
        ] {
            let expected = format!("uv run --isolated --no-project --no-build {expected} true");
            assert_eq!(line(metadata), Some(expected), "{metadata}");
        }
        for none in [
            "",
            "# dependencies = []\n",
            "# dependencies = [\"x @ file:///p\"]\n",
            "# dependencies = [\"x\", \"git+https://a.example/x\"]\n",
            "# dependencies = [\"./x\"]\n",
            "# dependencies = [\"-r\"]\n",
            "# requires-python = \"/p/python\"\n# dependencies = [\"x\"]\n",
        ] {
            assert_eq!(line(none), None, "{none}");
        }
        assert!(Fetch::of_script("print('dependencies = [\"x\"]')").is_none());
        let fetch = Fetch::of_script("# /// script\n# dependencies = [\"x\"]\n# ///\n").unwrap();
        let remark = format!("hookjail run --profile develop-online -- {}", fetch.line());
        assert!(fetch.remark().ends_with(&remark));
    }

    #[test]
    fn packages_of_npx_are_fetched_without_their_programs() {
        let lines = |text: &str| {
            let all = Fetch::of_shell(text, |package| package == "eslint");
            all.iter().map(Fetch::line).collect::<Vec<_>>()
        };
        for (text, expected) in [
            ("npx prettier --check .", "--package prettier --call true"),
            (
                "cat | npx -y @biomejs/biome@2 check; exit 0",
                "--package @biomejs/biome@2 --call true",
            ),
            (
                "npx -p typescript tsc && true",
                "--package typescript --call true",
            ),
            (
                "npx --package=a -p b -c 'a | b'",
                "--package a --package b --call true",
            ),
        ] {
            let expected = format!("npx --yes --ignore-scripts --script-shell /bin/sh {expected}");
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

//! The import graph of the daemon, whose modules must form no cycle, and names that only one place may have. Between
//! crates the manifests decide.
//!
//! `cargo test --test imports -- --nocapture` prints the graph.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and this one is also read"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use regex::Regex;

/// From each module to those that it imports from.
type Graph = BTreeMap<String, BTreeSet<String>>;

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new("(?m)//.*$").unwrap());
static DECLARATION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)\buse crate::(.*?);").unwrap());
static PATH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bcrate::(\w+)").unwrap());

/// Returns the first segments of what the `use` declarations and paths of a text take from this crate.
fn imported(text: &str) -> BTreeSet<String> {
    let text = COMMENT.replace_all(text, "");
    let mut names = BTreeSet::new();
    for found in DECLARATION.captures_iter(&text) {
        let tree = found[1].trim();
        let Some(inner) = tree.strip_prefix('{') else {
            names.extend(tree.split([':', ' ']).next().map(str::to_owned));
            continue;
        };
        let mut depth = 0;
        let mut name = String::new();
        for c in inner.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => names.extend(Some(std::mem::take(&mut name))),
                _ if depth == 0 => name.push(c),
                _ => {}
            }
        }
        names.insert(name);
    }
    names.extend(PATH.captures_iter(&text).map(|found| found[1].to_owned()));
    let first = |name: &String| name.trim().split("::").next().unwrap().to_owned();
    names
        .iter()
        .map(first)
        .filter(|name| !name.is_empty())
        .collect()
}

/// Returns the folder of the daemon.
fn daemon() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/daemon/src")
}

static GRAPH: LazyLock<Graph> = LazyLock::new(graph);

fn graph() -> Graph {
    let root = daemon();
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut graph = Graph::new();
    for path in files {
        let below = path.strip_prefix(&root).unwrap().to_string_lossy();
        let module = below.split('/').next().unwrap().trim_end_matches(".rs");
        // Of the whole crate; or what only tests import.
        if ["lib", "main", "bin", "testing"].contains(&module) || below.contains("tests") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let known = graph.entry(module.to_owned()).or_default();
        known.extend(imported(product).into_iter().filter(|it| it != module));
    }
    graph
}

/// Returns the modules that a module imports by itself or by others.
fn reached<'a>(graph: &'a Graph, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut todo: Vec<&str> = graph[from].iter().map(String::as_str).collect();
    while let Some(name) = todo.pop() {
        if reached.insert(name) {
            todo.extend(graph.get(name).into_iter().flatten().map(String::as_str));
        }
    }
    reached
}

#[test]
fn no_module_is_known_by_those_it_knows() {
    let graph = &*GRAPH;
    for (module, known) in graph {
        println!(
            "{module}: {}",
            known.iter().cloned().collect::<Vec<_>>().join(" ")
        );
    }
    assert!(graph.len() > 10, "{graph:?}");
    let in_rings: BTreeSet<&str> = graph
        .keys()
        .filter(|module| reached(graph, module).contains(module.as_str()))
        .map(String::as_str)
        .collect();

    assert_eq!(in_rings, BTreeSet::new());
}

/// The public items of the crate, beside its entry point.
const PUBLIC: [&str; 5] = [
    "cli::Arguments",
    "hookjail_base::model",
    "hookjail_contract as contract",
    "hookjail_policy as policy",
    "hookjail_proto as pb",
];

#[test]
fn the_crate_shows_its_pure_modules_and_its_messages_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let text = fs::read_to_string(root.join("lib.rs")).unwrap();
    let public = Regex::new(r"(?m)^pub (mod|use) (.*);$").unwrap();
    let public = public.captures_iter(&text).map(|found| found[2].to_owned());

    let public: BTreeSet<_> = public.collect();

    let expected = PUBLIC.into_iter().chain(["cli::main"]);
    assert_eq!(public, expected.map(str::to_owned).collect());
}

/// Items that tests reach are for tests: if the crate used them, its modules would be reached past their parents.
#[test]
fn only_tests_use_what_is_shown_to_tests() {
    let root = daemon();
    let mut files = Vec::new();
    sources(&root, &mut files);
    let uses = |path: &&PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        imported(&text).contains("testing") || text.contains("testing::")
    };

    let users: Vec<_> = files.iter().filter(uses).collect();

    assert_eq!(users, Vec::<&PathBuf>::new());
}

/// That a start is in the journal is shown by the types of `pipeline`, and a sandbox starts what it is ordered to.
#[test]
fn only_the_pipeline_orders_a_hook_to_be_started() {
    let root = daemon();
    let mut files = Vec::new();
    sources(&root, &mut files);
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut files,
    );
    let orders = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        Regex::new(r"\b(Hook)?Task( \{|<'_> \{)")
            .unwrap()
            .is_match(&text)
    };
    files.retain(orders);
    let names = files.iter();

    let ordering: BTreeSet<_> = names
        .map(|path| path.strip_prefix(&root).unwrap_or(path))
        .collect();

    let plan = BTreeSet::from(["announce.rs", "plan.rs"].map(|it| Path::new("pipeline").join(it)));
    assert_eq!(ordering, plan.iter().map(PathBuf::as_path).collect());
}

/// A child that `sys` launches is confined only by its job: the sandbox alone makes jobs.
#[test]
fn only_the_sandbox_launches_a_child() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let launches = |directory: &Path| {
        let mut files = Vec::new();
        sources(directory, &mut files);
        let names =
            Regex::new(r"\bsys::(\{[^}]*\b)?(launch|start|execute|Job|JobParts)\b").unwrap();
        files.retain(|path| names.is_match(&fs::read_to_string(path).unwrap()));
        files
    };

    for above in ["src", "crates/daemon/src", "crates/client/src"] {
        assert_eq!(launches(&root.join(above)), Vec::<PathBuf>::new());
    }
    assert_ne!(
        launches(&root.join("crates/sandbox/src")),
        Vec::<PathBuf>::new()
    );
}

/// The program that starts for each hook holds nothing of the daemon: its code is the client, whose manifest names no other crate of ours.
#[test]
fn the_small_program_is_made_of_the_client_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = |text: &str| -> BTreeSet<String> {
        let names = Regex::new(r"\bhookjail(_[a-z]+)?\b::|(?m)^hookjail-[a-z]+\b").unwrap();
        let found = names.find_iter(text);
        found.map(|found| found.as_str().to_owned()).collect()
    };
    let program = fs::read_to_string(root.join("src/bin/hookjail-run.rs")).unwrap();
    let manifest = fs::read_to_string(root.join("crates/client/Cargo.toml")).unwrap();
    let dependencies = manifest.split("[dependencies]").nth(1).unwrap();
    let dependencies = dependencies.split("\n[").next().unwrap();

    let (linked, below) = (crates(&program), crates(dependencies));

    assert_eq!(linked, ["hookjail_client::".to_owned()].into());
    let expected = ["base", "contract", "proto", "sys"].map(|name| format!("hookjail-{name}"));
    assert_eq!(below, expected.into());
}

static RUNTIMES: LazyLock<Regex> = LazyLock::new(|| {
    let names = r"(?i)reyn|base[ _-]?coat|\bloom|ownware|docker[-_ ]?agent|\binfer(_|s?\b)|claude|codex|copilot|\bcursor|gemini|qwen";
    Regex::new(names).unwrap()
});

/// Folders whose business is to name runtimes, and why.
const OF_RUNTIMES: [(&str, &str); 2] = [
    ("contract/", "a folder for each"),
    ("proto/", "generated: the contracts' names on the wire"),
];

/// The number of lines of other files that name one, and the reasons. These lines are texts for people, or data.
const NAMED: [(&str, usize, &str); 10] = [
    (
        "cli/consent/mod.rs",
        1,
        "help: by whom a file that is imported may be written",
    ),
    ("cli/dispatch.rs", 3, "help: for whom an option is"),
    ("cli/help.rs", 4, "help: examples"),
    ("cli/interpret.rs", 1, "help: an example of the input"),
    (
        "cli/learned/mod.rs",
        1,
        "a part of a shipped profile is called so",
    ),
    (
        "client/arguments.rs",
        1,
        "help: examples of an option's values",
    ),
    (
        "daemon/config/file.rs",
        12,
        "the configuration's keys, and their descriptions in its schema",
    ),
    (
        "policy/profile/references.rs",
        13,
        "directories of a home, among those of programs that are no runtimes; `policy` has no contract",
    ),
    (
        "policy/registry/mod.rs",
        2,
        "a part of a shipped profile is called so",
    ),
    (
        "policy/workspace_roots.rs",
        2,
        "data: where agents make working trees",
    ),
];

/// Counts the lines of each file's product part, comments and texts too, that name a runtime.
fn naming() -> BTreeMap<String, usize> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    sources(&root.join("crates"), &mut files);
    let mut naming = BTreeMap::new();
    for path in files {
        // A crate stands beside the folders of the daemon: `policy/names.rs`.
        let below = path.strip_prefix(root).unwrap().to_string_lossy();
        let below = below.strip_prefix("src/").map_or_else(
            || below.replacen("crates/", "", 1).replacen("/src/", "/", 1),
            str::to_owned,
        );
        if below.contains("tests") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let lines = product.lines().filter(|line| RUNTIMES.is_match(line));
        let count = lines.count();
        if count > 0 {
            naming.insert(below, count);
        }
    }
    naming
}

#[test]
fn only_a_runtimes_folder_names_it() {
    let mut naming = naming();
    for (folder, reason) in OF_RUNTIMES {
        let is_below = |path: &String| path.starts_with(folder);
        assert!(
            naming.keys().any(is_below),
            "{folder} ({reason}) names none"
        );
        naming.retain(|path, _| !is_below(path));
    }
    let expected = NAMED.map(|(file, lines, _)| (file.to_owned(), lines));

    assert_eq!(naming, BTreeMap::from(expected));
}

#[test]
fn a_runtimes_name_is_found_however_it_is_written() {
    for line in [
        "Mode::ClaudeCode",
        "// As Claude Code does.",
        "\"docker_agent\"",
        "infer's list",
        "infer_lists(x)",
        "reyn_allowlist",
        "BASECOAT",
    ] {
        assert!(RUNTIMES.is_match(line), "{line}");
    }
    assert!(!RUNTIMES.is_match("is inferred, bloom, precursor"));
}

#[test]
fn imports_are_found_however_they_are_written() {
    let text = "use crate::{a::{b, c}, d, e::f};\nuse crate::g::h;\n// use crate::no;\nfn x() { crate::i::j() }\n";

    let found = imported(text);

    assert_eq!(found, ["a", "d", "e", "g", "i"].map(str::to_owned).into());
}

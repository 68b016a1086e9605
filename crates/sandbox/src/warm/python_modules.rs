//! The modules that a Python script imports, as far as they can be loaded before its run.

/// Modules of Python's own that look at nothing of a run when they are loaded: not at its variables, the time or the working
/// directory. So `logging` is not among them, which notes when it was loaded.
const LOADED_AHEAD: [&str; 46] = [
    "argparse",
    "ast",
    "base64",
    "collections",
    "configparser",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "difflib",
    "enum",
    "fnmatch",
    "functools",
    "glob",
    "hashlib",
    "hmac",
    "html",
    "inspect",
    "io",
    "itertools",
    "json",
    "math",
    "operator",
    "pathlib",
    "pprint",
    "re",
    "shlex",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "stat",
    "string",
    "struct",
    "subprocess",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "tomllib",
    "traceback",
    "types",
    "typing",
    "unicodedata",
    "urllib.parse",
];

/// Returns which of them the lines of a script name that import something.
///
/// One that is missed is loaded by the script itself, and one too many only takes memory.
pub(super) fn imported(script: &[u8]) -> Vec<&'static str> {
    let text = String::from_utf8_lossy(script);
    let lines = text.lines().map(str::trim_start);
    let lines = lines.filter(|line| line.starts_with("import ") || line.starts_with("from "));
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let words: Vec<&str> = lines.flat_map(|line| line.split(|c| !is_part(c))).collect();
    let named = LOADED_AHEAD.into_iter().filter(|name| words.contains(name));
    named.collect()
}

/// Returns whether Python takes a file or directory of this name for a module in the place of one that may be loaded ahead.
#[cfg(target_os = "linux")]
pub(crate) fn shadows(name: &std::ffi::OsStr) -> bool {
    let stem = name.to_str().and_then(|name| name.split('.').next());
    let modules = LOADED_AHEAD.into_iter();
    let mut outermost = modules.filter_map(|module| module.split('.').next());
    stem.is_some_and(|stem| outermost.any(|module| module == stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_in_the_lines_that_import() {
        let script = b"#!/usr/bin/env python3\n\"\"\"json is not imported here: import csv\"\"\"\nimport os, re as r\nfrom urllib.parse import quote\n  import logging, jsonschema\nx = 'import glob'\n";
        assert_eq!(imported(script), ["re", "urllib.parse"]);
        assert_eq!(
            imported(b"\xff\nfrom pathlib import Path; import json\r\n"),
            ["json", "pathlib"]
        );
        assert!(imported(b"").is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_neighbour_shadows_by_the_name_before_its_first_dot() {
        for name in [
            "json",
            "json.py",
            "json.cpython-313-x86_64-linux-gnu.so",
            "urllib",
        ] {
            assert!(shadows(std::ffi::OsStr::new(name)), "{name}");
        }
        for name in ["jsonschema.py", "guard.py", ".json", "os.py", ""] {
            assert!(!shadows(std::ffi::OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn the_list_is_sorted_and_nothing_is_in_it_twice() {
        assert!(LOADED_AHEAD.is_sorted_by(|a, b| a < b));
    }
}

//! Files among what is granted that may hold a token: configurations of tools, and of repositories that were cloned with one.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The largest file that is read, bytes. A larger one counts as one with a token.
const MOST_BYTES: u64 = 1 << 20;

/// Endings of keys whose values are tokens.
const KEYS: [&str; 8] = [
    "_auth",
    "token",
    "password",
    "passphrase",
    "passwd",
    "secret",
    "key",
    "extraheader",
];

/// Returns the files at places that hold a token, without links. A `*` in a place stands for one name.
pub fn found_at(places: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for place in places {
        let mut paths = vec![PathBuf::new()];
        for name in place.iter() {
            let below = |path: PathBuf| match name == "*" {
                false => vec![path.join(name)],
                true => {
                    let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                    entries.map(|entry| entry.path()).collect()
                }
            };
            paths = paths.into_iter().flat_map(below).collect();
        }
        let real = paths.iter().filter_map(|path| path.canonicalize().ok());
        found.extend(real.filter(|path| holds_token(path)));
    }
    found.sort();
    found.dedup();
    found
}

/// Returns whether a place may be named: absolute, and with no pattern but whole names.
pub(crate) fn is_place(path: &Path) -> bool {
    let is_plain = |name: &std::ffi::OsStr| name == "*" || !name.to_string_lossy().contains('*');
    path.is_absolute()
        && path.file_name().is_some_and(|name| name != "*")
        && path.iter().all(is_plain)
}

fn holds_token(path: &Path) -> bool {
    let Ok(found) = path.metadata() else {
        return false;
    };
    if !found.is_file() {
        return false;
    }
    if found.len() > MOST_BYTES {
        return true;
    }
    // One that cannot be read now may hold one.
    fs::read(path).map_or(true, |text| has_token(&String::from_utf8_lossy(&text)))
}

/// Returns whether a configuration has a key of a token with a value, or an address with a password. Comments count, too.
fn has_token(text: &str) -> bool {
    if text.trim_start().starts_with('<') {
        return has_element(text);
    }
    text.lines().any(|line| {
        let line =
            line.trim_start_matches(|it: char| matches!(it, '#' | ';') || it.is_whitespace());
        has_key(line) || has_password(line)
    })
}

fn is_key(name: &str) -> bool {
    let name = name.to_lowercase();
    KEYS.iter().any(|end| name.ends_with(end))
}

fn has_key(line: &str) -> bool {
    // A table of one line, which has the value itself.
    let is_table = |(key, value): (&str, &str)| is_key(key.trim()) && value.trim().starts_with('{');
    // In JSON and in tables of one line there are several.
    let mut entries = line.split([',', '{', '}']);
    line.split_once('=').is_some_and(is_table)
        || entries.any(|entry| {
            let split = ['=', ':'].map(|sign| entry.split_once(sign));
            split.into_iter().flatten().any(|(key, value)| {
                let key = key.trim().trim_matches(['"', '\'']);
                let value = value.trim().trim_matches(['"', '\'']);
                // Prose in a comment has several words.
                !value.is_empty()
                    && !matches!(value, "null" | "true" | "false")
                    && !key.contains(char::is_whitespace)
                    && is_key(key)
            })
        })
}

/// Returns whether XML has an element of a token with a value. Comments do not count: Maven comes with examples in them.
fn has_element(text: &str) -> bool {
    let mut parts = text.split("<!--");
    let first = parts.next();
    let after = parts.filter_map(|part| Some(part.split_once("-->")?.1));
    let text: String = first.into_iter().chain(after).collect();
    let mut elements = text.split('<').filter_map(|it| it.split_once('>'));
    elements.any(|(name, value)| {
        let value = value.trim();
        !value.is_empty() && !value.starts_with("${") && is_key(name)
    })
}

fn has_password(line: &str) -> bool {
    let of_address = line.match_indices("://").any(|(position, _)| {
        let scheme = line[..position]
            .rsplit(|it: char| !it.is_ascii_alphanumeric())
            .next();
        let is_web = scheme.is_some_and(|it| it.to_lowercase().starts_with("http"));
        let authority = &line[position + 3..];
        let end = authority
            .find(|it: char| matches!(it, '/' | '"' | '\'' | '?' | '#') || it.is_whitespace());
        let authority = &authority[..end.unwrap_or(authority.len())];
        // Over the web a name alone is a token; elsewhere it is whom to log in as.
        authority
            .rsplit_once('@')
            .is_some_and(|(user, _)| is_web || user.contains(':'))
    });
    // Of a proxy, without a scheme.
    let mut words =
        line.split(|it: char| matches!(it, '/' | '"' | '\'' | '=' | ',') || it.is_whitespace());
    of_address
        || words.any(|word| {
            let user = word
                .rsplit_once('@')
                .and_then(|(user, _)| user.split_once(':'));
            user.is_some_and(|(name, password)| !name.is_empty() && !password.is_empty())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_in_what_tools_write_and_nothing_is_found_in_the_rest() {
        for (text, has) in [
            (
                "[registries.own]\nindex = \"https://own.example/index\"\ntoken = \"abc\"\n",
                true,
            ),
            (
                "[registries]\nown = { index = \"x\", token = \"abc\" }\n",
                true,
            ),
            (
                "[http]\nproxy = \"http://ada:pass@proxy.example:3128\"\n",
                true,
            ),
            (
                "[remote \"origin\"]\n\turl = https://ghp_abc@forge.example/a/b.git\n",
                true,
            ),
            (
                "[remote \"origin\"]\n\turl = https://ada:abc@forge.example/a/b.git\n",
                true,
            ),
            ("[http]\n\textraheader = AUTHORIZATION: basic abc\n", true),
            (
                "{\"pip_args\": [\"--index-url\", \"https://ada:abc@own.example/simple\"]}",
                true,
            ),
            ("{\"auth\": {\"token\": \"abc\"}}", true),
            (
                "[tool]\nindex = [{ url = \"https://__token__:abc@own.example/simple\" }]\n",
                true,
            ),
            (
                "[build]\nrustc-wrapper = \"sccache\"\n[target.x]\nlinker = \"clang\"\n",
                false,
            ),
            (
                "[registries.own]\nindex = \"sparse+https://own.example/index\"\n# token = \"abc\"\n",
                true,
            ),
            ("[http]\nproxy = \"ada:abc@proxy.example:3128\"\n", true),
            ("[env]\nAWS_SECRET_ACCESS_KEY = \"abc\"\n", true),
            ("[env]\nAPI_KEY = { value = \"abc\" }\n", true),
            ("//own.example/:_authToken=abc\n", true),
            ("_auth = YWRhOmFiYw\n", true),
            ("package = \"npm:@scope/name\"\n", false),
            (
                "<settings><server><password>abc</password></server></settings>",
                true,
            ),
            (
                "<?xml?>\n<!-- <password>example</password> -->\n<a/>",
                false,
            ),
            (
                "<a><privateKey>${user.home}/.ssh/id</privateKey></a>",
                false,
            ),
            ("# The key: see the manual\n", false),
            ("package = \"@scope/name\"\n", false),
            (
                "[registries.own]\ncredential-provider = \"cargo:token-from-stdout x\"\n",
                false,
            ),
            (
                "[remote \"origin\"]\n\turl = https://forge.example/a/b.git\n",
                false,
            ),
            (
                "[remote \"origin\"]\n\turl = git@forge.example:a/b.git\n",
                false,
            ),
            (
                "[remote \"origin\"]\n\turl = ssh://git@forge.example/a/b.git\n",
                false,
            ),
            ("{\"token\": null, \"password\": \"\"}", false),
            ("", false),
        ] {
            assert_eq!(has_token(text), has, "{text}");
        }
    }

    #[test]
    fn files_are_found_by_whole_names() {
        let place = tempfile::tempdir().unwrap();
        let path = |below: &str| place.path().canonicalize().unwrap().join(below);
        for (below, text) in [
            ("p/a/.git/config", "token = x"),
            ("p/b/.git/config", "x = y"),
            ("p/config", "token = x"),
        ] {
            fs::create_dir_all(path(below).parent().unwrap()).unwrap();
            fs::write(path(below), text).unwrap();
        }
        assert_eq!(
            found_at(&[path("p/*/.git/config")]),
            [path("p/a/.git/config")]
        );
        assert_eq!(
            found_at(&[path("p/config"), path("none/*/x")]),
            [path("p/config")]
        );
        for (place, is) in [
            ("/a/*/b", true),
            ("/a/b", true),
            ("/a/*", false),
            ("/a/x*/b", false),
            ("a/b", false),
        ] {
            assert_eq!(is_place(Path::new(place)), is, "{place}");
        }
    }
}

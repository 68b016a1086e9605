//! Reads `[[secret]]`: the secrets to redact, without their values.

use regex::bytes::RegexBuilder;

use hookjail_base::{
    model::{is_plain, variable::is_name},
    redact::secret::{MAX_NAME, MAX_SECRETS, Registration, SecretSource},
};

use super::{ConfigProblem, file::SecretEntry};

/// The largest compiled pattern.
const PATTERN_BYTES: usize = 1 << 20;

/// Returns the secret of a name, which has one value.
///
/// # Errors
///
/// Returns a predicate of the key that names it.
pub(super) fn with_value(
    secrets: &[Registration],
    name: &str,
) -> Result<Registration, &'static str> {
    let registration = secrets.iter().find(|known| known.name == name);
    let registration =
        registration.ok_or("stands for a secret that no `[[secret]]` has as its `name`")?;
    match has_value(registration) {
        true => Ok(registration.clone()),
        false => Err(
            "stands for a secret that is a pattern; give one with `file`, `env` or `credential`",
        ),
    }
}

/// Returns the secrets that have one value each.
pub(super) fn with_values(secrets: &[Registration]) -> Vec<Registration> {
    secrets.iter().filter(|it| has_value(it)).cloned().collect()
}

const fn has_value(registration: &Registration) -> bool {
    match registration.source {
        SecretSource::Credential(_) | SecretSource::Env(_) | SecretSource::File(_) => true,
        SecretSource::Pattern(_) => false,
    }
}

/// Reads the entries.
///
/// # Errors
///
/// Names the key that is wrong, and the entry.
pub(super) fn read(entries: Vec<SecretEntry>) -> Result<Vec<Registration>, ConfigProblem> {
    if entries.len() > MAX_SECRETS {
        let problem = format!(
            "stands there {} times; {MAX_SECRETS} is the most",
            entries.len()
        );
        return Err(ConfigProblem::key("secret", problem));
    }
    let mut read: Vec<Registration> = Vec::new();
    for entry in entries {
        let name = entry.name.clone();
        let registration = match read.iter().any(|known| known.name == name) {
            true => Err(ConfigProblem::key(
                "secret.name",
                "is another secret's already",
            )),
            false => one(entry),
        };
        read.push(registration.map_err(|problem| problem.in_entry(&name))?);
    }
    Ok(read)
}

fn one(entry: SecretEntry) -> Result<Registration, ConfigProblem> {
    let SecretEntry {
        credential,
        env,
        file,
        name,
        pattern,
    } = entry;
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !(1..=MAX_NAME).contains(&name.len()) || !name.chars().all(of_a_name) {
        let problem = format!("is not 1 to {MAX_NAME} of `A-Z a-z 0-9 - _`");
        return Err(ConfigProblem::key("secret.name", problem));
    }
    let source = match (credential, env, file, pattern) {
        (Some(credential), None, None, None) => {
            if credential.contains(['/', '\0']) || matches!(&*credential, "" | "." | "..") {
                let problem = "is not the name of a file";
                return Err(ConfigProblem::key("secret.credential", problem));
            }
            SecretSource::Credential(credential)
        }
        (None, Some(env), None, None) => {
            if !is_name(&env) {
                let problem = "is not the name of a variable";
                return Err(ConfigProblem::key("secret.env", problem));
            }
            SecretSource::Env(env)
        }
        (None, None, Some(file), None) => {
            if !is_plain(&file) {
                let problem = "is not an absolute path without `.` and `..`";
                return Err(ConfigProblem::key("secret.file", problem));
            }
            SecretSource::File(file)
        }
        (None, None, None, Some(pattern)) => {
            let regex = RegexBuilder::new(&pattern)
                .size_limit(PATTERN_BYTES)
                .build()
                .map_err(|error| ConfigProblem::key("secret.pattern", error.to_string()))?;
            if regex.is_match(b"") {
                let problem = "matches nothing at all, which is everywhere";
                return Err(ConfigProblem::key("secret.pattern", problem));
            }
            SecretSource::Pattern(regex)
        }
        _ => {
            let problem =
                "or one of `env`, `credential` and `pattern` must be given, and no second one";
            return Err(ConfigProblem::key("secret.file", problem));
        }
    };
    Ok(Registration { name, source })
}

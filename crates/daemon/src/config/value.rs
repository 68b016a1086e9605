//! Reads values of keys: a value that has the type of its key and is still invalid is an error at the key.

use std::{
    collections::BTreeMap,
    fmt::Display,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use hookjail_base::{
    model::{ProfileName, is_plain},
    util::{
        keyed_toml,
        units::{Size, Span},
    },
};
use hookjail_sandbox::{CgroupPlace, RunAs};

use super::choice;
use crate::hooks::valve::OnLimit;

/// The longest that a question to the operator may stay open.
const MAX_CONSENT_WAIT: Duration = Duration::from_secs(3600);

/// Reads a value and makes another one of it, or the problem.
pub(super) fn parsed<'de, W: Deserialize<'de>, T, P: Display, D: Deserializer<'de>>(
    from: D,
    parse: impl FnOnce(W) -> Result<T, P>,
) -> Result<T, D::Error> {
    parse(W::deserialize(from)?).map_err(keyed_toml::invalid)
}

/// Reads a value that must fulfil a condition.
pub(super) fn fitting<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
    fits: impl FnOnce(&T) -> bool,
    problem: impl Display,
) -> Result<T, D::Error> {
    parsed(from, |value| match fits(&value) {
        true => Ok(value),
        false => Err(problem),
    })
}

/// Reads a number of a range.
pub(super) fn number<'de, D: Deserializer<'de>, const LEAST: usize, const MOST: usize>(
    from: D,
) -> Result<usize, D::Error> {
    let problem = format_args!("must be {LEAST} to {MOST}");
    fitting(from, |it| (LEAST..=MOST).contains(it), problem)
}

/// Reads a size of a range, bytes.
pub(super) fn size<'de, D: Deserializer<'de>, const LEAST: u64, const MOST: u64>(
    from: D,
) -> Result<Size, D::Error> {
    let problem = format!("must be {} to {}", Size(LEAST), Size(MOST));
    fitting(from, |it: &Size| (LEAST..=MOST).contains(&it.0), problem)
}

pub(super) fn consent_wait<'de, D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
    let fits = |Span(wait): &Span| !wait.is_zero() && *wait <= MAX_CONSENT_WAIT;
    fitting(from, fits, "must be more than 0 and at most 1h")
}

pub(super) fn calls_per_minute<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<u64>, D::Error> {
    fitting(from, |calls| *calls > 0, "must be 1 or more").map(Some)
}

pub(super) fn cpu_per_minute<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Span>, D::Error> {
    fitting(from, |Span(time)| !time.is_zero(), "must be more than 0").map(Some)
}

pub(super) fn journal_per_minute<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Size>, D::Error> {
    size::<_, 1024, { u64::MAX }>(from).map(Some)
}

pub(super) fn uid_range<'de, D: Deserializer<'de>>(from: D) -> Result<[u32; 2], D::Error> {
    parsed(from, |[first, last]: [u32; 2]| {
        match first != 0 && first <= last && last != u32::MAX {
            true => Ok([first, last]),
            false => Err(format!("[{first}, {last}] is no range of uids without 0")),
        }
    })
}

/// Reads an absolute path.
pub(super) fn path<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    parsed(from, absolute)
}

pub(super) fn some_path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    path(from).map(Some)
}

/// Reads absolute paths.
pub(super) fn paths<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
    parsed(from, |paths: Vec<PathBuf>| {
        let paths = paths.into_iter().map(absolute);
        paths.collect::<Result<Vec<_>, _>>()
    })
}

pub(super) fn some_paths<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<PathBuf>>, D::Error> {
    paths(from).map(Some)
}

/// Reads an absolute path without `.` and `..`.
pub(super) fn some_plain_path<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<PathBuf>, D::Error> {
    parsed(from, |path: PathBuf| match is_plain(&path) {
        true => Ok(Some(path)),
        false => {
            let path = path.display();
            Err(format!(
                "is `{path}`, which is not an absolute path without `.` and `..`"
            ))
        }
    })
}

fn absolute(path: PathBuf) -> Result<PathBuf, String> {
    match path.is_absolute() {
        true => Ok(path),
        false => Err(format!("`{}` is not an absolute path", path.display())),
    }
}

/// Writes a path, which need be no text where the environment has it.
pub(super) fn shown<S: Serializer>(path: &Path, to_file: S) -> Result<S::Ok, S::Error> {
    let path = Some(path.to_string_lossy()).filter(|path| !path.is_empty());
    path.serialize(to_file)
}

pub(super) fn some_shown<S: Serializer>(
    path: &Option<PathBuf>,
    to_file: S,
) -> Result<S::Ok, S::Error> {
    shown(path.as_deref().unwrap_or(Path::new("")), to_file)
}

/// Parses the name of a profile.
pub(super) fn profile(name: &str) -> Result<ProfileName, String> {
    ProfileName::parse(name).ok_or_else(|| format!("`{name}` is no name of a profile"))
}

pub(super) fn some_profiles<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<ProfileName>>, D::Error> {
    parsed(from, |names: Vec<String>| {
        let names = names.iter().map(|name| profile(name));
        names.collect::<Result<_, _>>().map(Some)
    })
}

pub(super) fn run_as<'de, D: Deserializer<'de>>(from: D) -> Result<RunAs, D::Error> {
    parsed(from, |word: String| user(&word))
}

pub(super) fn run_as_profiles<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<ProfileName, RunAs>, D::Error> {
    parsed(from, |profiles: BTreeMap<String, String>| {
        let read = |(name, word): (&String, &String)| Ok((profile(name)?, user(word)?));
        profiles.iter().map(read).collect::<Result<_, String>>()
    })
}

fn user(word: &str) -> Result<RunAs, String> {
    let mut all = RunAs::ALL.into_iter();
    let problem = || format!("`{word}` is neither `caller` nor `pool`");
    all.find(|it| it.as_str() == word).ok_or_else(problem)
}

pub(super) fn cgroup<'de, D: Deserializer<'de>>(from: D) -> Result<CgroupPlace, D::Error> {
    parsed(from, |text: String| match &*text {
        "auto" => Ok(CgroupPlace::Auto),
        "none" => Ok(CgroupPlace::None),
        path if is_plain(Path::new(path)) => match cfg!(target_os = "linux") {
            true => Ok(CgroupPlace::Below(path.into())),
            false => Err("is a path, and only Linux has cgroups".to_owned()),
        },
        other => Err(format!(
            "is `{other}`; use \"auto\", \"none\" or an absolute path without `.` and `..`"
        )),
    })
}

pub(super) fn on_hook_turn_limit<'de, D: Deserializer<'de>>(from: D) -> Result<OnLimit, D::Error> {
    parsed(from, |word: String| {
        OnLimit::parse(&word).ok_or("must be `warn`, `ask_user` or `abort`")
    })
}

pub(super) fn socket_mode<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    parsed(from, |word: String| {
        choice(&word, [("0600", 0o600), ("0660", 0o660)])
    })
}

pub(super) fn octal<S: Serializer>(mode: &u32, to_file: S) -> Result<S::Ok, S::Error> {
    to_file.collect_str(&format_args!("{mode:04o}"))
}

pub(super) fn listed<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    parsed(from, |word: String| {
        choice(&word, [("gate", ()), ("consent", ())]).map(|()| Some(word))
    })
}

/// Reads the address at which metrics are served.
///
/// Metrics have no authentication, so only loopback addresses are accepted.
pub(super) fn loopback<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    parsed(from, |written: String| {
        match written.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(Some(address)),
            Ok(address) => Err(format!(
                "is `{written}`, and without authentication only loopback addresses are allowed; use `127.0.0.1:{port}` or `[::1]:{port}` behind a local proxy or sidecar",
                port = address.port()
            )),
            Err(_) => Err(format!(
                "is `{written}`, which is no address with a port, such as `127.0.0.1:9464` or `[::1]:9464`"
            )),
        }
    })
}

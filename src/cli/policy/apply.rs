//! `hookjail policy apply`: puts a signed policy in force.

use std::{
    collections::BTreeMap,
    fs::{self, File, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use nix::unistd::{geteuid, mkdtemp};
use serde_json::json;

use hookjail_base::util::trusted_file;
use hookjail_client::{Failure, output};
use hookjail_daemon::{
    config::{APPLYING, Candidate, MANAGED},
    daemon::Assembly,
};

use super::{
    super::{Context, profile, signature},
    archive::{self, DIRECTORIES, FIRST, PolicyFiles},
};

/// The namespace of a policy's signature.
const NAMESPACE: &str = "hookjail-policy";

/// Verify a signed policy, and put it in force for this host; as root.
///
/// The archive is a tar file with managed.toml, and managed.d/*.toml, profiles/*.toml and hooks/* as needed.
/// Its directories replace the ones in force.
/// The key must be one of /etc/hookjail/allowed_signers: ssh-keygen -Y sign -n hookjail-policy -f KEY ARCHIVE.
#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    /// The archive
    archive: PathBuf,
    /// The signature [default: ARCHIVE.sig]
    #[arg(long, value_name = "FILE")]
    signature: Option<PathBuf>,
    /// Put an older version in force
    #[arg(long)]
    downgrade: bool,
}

/// A change of a file.
#[derive(Debug, Eq, PartialEq)]
struct FileChange {
    path: String,
    what: &'static str,
}

impl ApplyArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        if !geteuid().is_root() {
            let message =
                "policies are root's; apply it as root: sudo hookjail policy apply ARCHIVE";
            return Err(Failure::new(message));
        }
        let place = Path::new(MANAGED);
        prepare(place)?;
        let staging = Staging::new(place)?;
        let (archive, signer) = self.verify(place)?;
        let unusable = |why: String| {
            let shown = self.archive.display();
            Failure::new(format!("policy `{shown}` is not applied: {why}"))
        };
        let files = PolicyFiles::unpack(&archive).map_err(unusable)?;
        let new = staging.path.join("new");
        fs::create_dir(&new)?;
        files.write(&new)?;
        let version =
            check(context, place, &new, &files).map_err(|failure| unusable(failure.message))?;
        // The files in force may be broken, which a new policy mends.
        let former = context.load().ok().and_then(|it| it.policy_version);
        if let (Some(former), Some(version)) = (&former, &version)
            && !self.downgrade
            && is_older(version, former)
        {
            let why = format!(
                "version {version} is older than {former}; put it in force nevertheless by --downgrade"
            );
            return Err(unusable(why));
        }
        let changes = changes(place, &files)?;
        put_in_force(place, &new, &staging.path, &files)?;
        let (former, version) = (
            former.as_deref().unwrap_or("none"),
            version.as_deref().unwrap_or("none"),
        );
        if context.call.json {
            let changes: Vec<_> = changes
                .iter()
                .map(|it| json!({ "path": it.path, "what": it.what }))
                .collect();
            output::json_line(&json!({
                "changes": changes,
                "formerVersion": former,
                "signer": signer,
                "version": version,
            }));
        } else {
            for FileChange { path, what } in &changes {
                output::line(&format!("{what:8}  {path}"));
            }
            output::line(&format!(
                "version {version}, former {former}, signed by {signer}"
            ));
            output::line("private runs have it from now on, daemons after: hookjail reload");
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the archive and the principal that signed it.
    fn verify(&self, place: &Path) -> Result<(Vec<u8>, String), Failure> {
        let bytes = archive::read(&self.archive).map_err(|error| {
            Failure::new(format!("cannot read `{}`: {error}", self.archive.display()))
        })?;
        let signature = self.signature.clone().unwrap_or_else(|| {
            let mut name = self.archive.clone().into_os_string();
            name.push(".sig");
            name.into()
        });
        let signers = place.join("allowed_signers");
        let signer = signature::verify(&bytes, (&self.archive, &signature), &signers, NAMESPACE)?;
        Ok((bytes, signer))
    }
}

/// Makes the directory of the administrator's files, or checks that only root can change it.
fn prepare(place: &Path) -> Result<(), Failure> {
    fs::create_dir_all(place)?;
    let metadata = place.symlink_metadata()?;
    trusted_file::check_roots(&metadata)
        .map_err(|error| Failure::new(format!("cannot use `{}`: {error}", place.display())))
}

/// Loads what an archive would put in force, and returns its version.
fn check(
    context: &Context,
    place: &Path,
    new: &Path,
    files: &PolicyFiles,
) -> Result<Option<String>, Failure> {
    // Directories that the archive lacks stay.
    let whole = |name: &str| match files.directories.contains(name) {
        true => new.join(name),
        false => place.join(name),
    };
    let configuration = place.join("hookjail.toml");
    let configuration = configuration.exists().then_some(configuration);
    let view = View::new(new, &whole("managed.d"))?;
    let mut candidate =
        Candidate::load(&view.path, configuration.as_deref(), context.environment())?;
    if files.directories.contains("profiles") {
        candidate.move_profiles(&place.join("profiles"), &new.join("profiles"));
    }
    let registry = Assembly::registry(candidate.config())?;
    if let Some((name, why)) = registry.broken().next() {
        return Err(Failure::new(format!(
            "its profile `{name}` cannot be loaded: {why}"
        )));
    }
    for (name, profile, words) in candidate.required() {
        profile::find(&registry, profile).map_err(|failure| {
            Failure::new(format!("its required hook `{name}`: {}", failure.message))
        })?;
        for word in words {
            let path = Path::new(word);
            let Ok(below) = path.strip_prefix(place.join("hooks")) else {
                continue;
            };
            if !whole("hooks").join(below).is_file() {
                let shown = path.display();
                return Err(Failure::new(format!(
                    "its required hook `{name}` names `{shown}`, which is not there"
                )));
            }
        }
    }
    Ok(candidate.version().map(str::to_owned))
}

/// Returns whether a version is older than another: both are numbers with dots or dashes alike, such as `2026-11-30.1`.
fn is_older(version: &str, than: &str) -> bool {
    let parts = |text: &str| -> Option<(Vec<u64>, String)> {
        let numbers = text.split(['.', '-']).map(|it| it.parse().ok());
        let marks = text.chars().filter(|it| !it.is_ascii_digit()).collect();
        Some((numbers.collect::<Option<_>>()?, marks))
    };
    let (one, other) = (parts(version), parts(than));
    one.zip(other)
        .is_some_and(|((one, its), (other, theirs))| its == theirs && one < other)
}

/// Returns the files that change, by path.
fn changes(place: &Path, files: &PolicyFiles) -> io::Result<Vec<FileChange>> {
    let mut found: BTreeMap<PathBuf, &'static str> = BTreeMap::new();
    for (path, file) in &files.files {
        match fs::read(place.join(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                found.insert(path.clone(), "added");
            }
            Ok(bytes) if bytes == file.bytes => {}
            Ok(_) | Err(_) => {
                found.insert(path.clone(), "changed");
            }
        }
    }
    for name in &files.directories {
        let entries = match fs::read_dir(place.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let path = Path::new(name).join(entry?.file_name());
            if !files.files.contains_key(&path) {
                found.insert(path, "removed");
            }
        }
    }
    let change = |(path, what): (PathBuf, &'static str)| FileChange {
        path: path.display().to_string(),
        what,
    };
    Ok(found.into_iter().map(change).collect())
}

/// Replaces the files in force. While that lasts, and where it fails, nothing loads.
fn put_in_force(
    place: &Path,
    new: &Path,
    staging: &Path,
    files: &PolicyFiles,
) -> Result<(), Failure> {
    let mark = place.join(APPLYING);
    trusted_file::replace(&mark, b"", 0o644)?;
    let replace = |name: &str| -> io::Result<()> {
        match fs::rename(place.join(name), staging.join(format!("former-{name}"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        fs::rename(new.join(name), place.join(name))
    };
    let directories = DIRECTORIES.into_iter();
    let mut names = directories
        .filter(|name| files.directories.contains(*name))
        .chain([FIRST]);
    let outcome = names.try_for_each(replace);
    outcome.and_then(|()| {
        File::open(place)?.sync_all()?;
        fs::remove_file(&mark)
    })
    .map_err(|error| {
        let place = place.display();
        Failure::new(format!(
            "the policy is in `{place}` in part, so nothing runs: {error}; apply it again: hookjail policy apply ARCHIVE"
        ))
    })
}

/// A directory beside the files in force, which is removed on drop.
struct Staging {
    path: PathBuf,
}

impl Staging {
    fn new(place: &Path) -> Result<Self, Failure> {
        let path = mkdtemp(&place.join(".policy-XXXXXX"))?;
        Ok(Self { path })
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // The directory has root's own files alone, and has no effect if it stays.
        drop(fs::remove_dir_all(&self.path));
    }
}

/// The administrator's files as they would be: `managed.toml` of an archive, with the `managed.d` that counts then.
struct View {
    path: PathBuf,
}

impl View {
    fn new(new: &Path, more: &Path) -> Result<Self, Failure> {
        let path = new.with_file_name("view");
        fs::create_dir(&path)?;
        fs::copy(new.join(FIRST), path.join(FIRST))?;
        if more.is_dir() {
            let target = path.join("managed.d");
            fs::create_dir(&target)?;
            fs::set_permissions(&target, Permissions::from_mode(0o755))?;
            for entry in fs::read_dir(more)? {
                let entry = entry?;
                if entry.path().extension().is_some_and(|it| it == "toml") {
                    fs::copy(entry.path(), target.join(entry.file_name()))?;
                }
            }
        }
        Ok(Self { path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_numbers_alike_are_compared_and_others_are_not() {
        for (version, than) in [
            ("1", "2"),
            ("9", "10"),
            ("2026-11-30.1", "2026-11-30.2"),
            ("2026-9-30.9", "2026-11-30.1"),
            ("1.2.3", "1.10.0"),
        ] {
            assert!(is_older(version, than), "{version} {than}");
            assert!(!is_older(than, version), "{than} {version}");
        }
        for (one, other) in [
            ("1", "1"),
            ("1.0", "2"),
            ("1-0", "1.1"),
            ("base 12", "base 13"),
            ("1, 2", "2, 2"),
            ("", "1"),
        ] {
            assert!(!is_older(one, other), "{one} {other}");
        }
    }
}

//! Finds the smallest change of a profile that would allow a refused operation.

use std::{fmt, path::Path};

use super::{
    GrantedPath, Grantor, How, Lack, Reach,
    operation::{FileKind, Operation, Target},
    words,
};
use crate::{
    Access, GrantPlace, GrantSpec,
    egress::Egress,
    forbidden::Forbidden,
    located::Located,
    profile::grants::ungrantable,
    rights::{FileRight, FileRights, Rights},
};

/// The smallest change of a profile that would allow a refused operation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Remedy {
    /// This rule under `egress`.
    Egress(Egress),
    /// These grants under `files.named`.
    Grants(Vec<GrantSpec>),
    /// No change can, for this reason.
    Never(String),
    /// A key of the profile with another value.
    Setting(&'static str, &'static str),
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Egress(rule) => write!(f, "egress = [\"{rule}\"]"),
            Self::Grants(grants) => {
                let entry = |grant: &GrantSpec| grant.entry(&grant.place.to_string());
                let grants: Vec<_> = grants.iter().map(entry).collect();
                write!(f, "files.named = [{}]", grants.join(", "))
            }
            Self::Never(why) => write!(f, "nothing can: {why}"),
            Self::Setting(key, value) => write!(f, "{key} = \"{value}\""),
        }
    }
}

const SMALLEST_FIRST: [Access; 4] = [
    Access::Read,
    Access::WriteFile,
    Access::Execute,
    Access::Write,
];

impl Reach {
    /// Returns what would allow an operation.
    pub(super) fn remedy(
        &self,
        operation: Operation,
        target: &Target,
        destination: Option<&Target>,
        lack: Lack<'_>,
        forbidden: &Forbidden,
    ) -> Remedy {
        let never = |why: &str| Remedy::Never(why.to_owned());
        if lack.lacks.is_empty() {
            return never(
                "a file may not be moved or linked to a place where more can be done with it; copy it",
            );
        }
        if matches!(lack.how, How::NotBetween(_)) && !self.handled.has(FileRight::Refer) {
            return never("this kernel's Landlock never allows it; copy it");
        }
        if operation == Operation::Write
            && target.kind == FileKind::Missing
            && target.parent.exists()
        {
            // A grant of a file created before the start is smaller than one of the directory in which to create it.
            let lacking = FileRights::new(&[FileRight::WriteFile]);
            let found = self.grants_for(vec![(&target.object, lacking)], &target.object, forbidden);
            if let Ok((_, grants)) = found {
                return Remedy::Grants(grants);
            }
        }
        let (extended, grants) = match self.grants_for(lack.lacks, &target.object, forbidden) {
            Ok(found) => found,
            Err(remedy) => return remedy,
        };
        // The result is checked: two grants may contradict each other.
        match extended.judge(operation, target, destination) {
            Ok(_) => Remedy::Grants(grants),
            Err(_) => {
                never("no set of grants allows it without allowing more at its new place; copy it")
            }
        }
    }

    /// Finds the smallest grants for the rights that are lacking. They cover the smallest places, with the smallest
    /// access. `object` is the operation's own path; other places are directories. Returns the extended reach and the
    /// grants as a profile spells them, or why the rules for profiles forbid them.
    fn grants_for(
        &self,
        lacks: Vec<(&Located, FileRights)>,
        object: &Located,
        forbidden: &Forbidden,
    ) -> Result<(Self, Vec<GrantSpec>), Remedy> {
        let mut extended = self.clone();
        let mut files = self.files.clone();
        let mut grants: Vec<GrantSpec> = Vec::new();
        for (place, lacking) in lacks {
            let is_object = std::ptr::eq(place, object);
            let (grant, granted) = self.grant_for(place, is_object, lacking, forbidden)?;
            extended.granted.push(granted);
            grants.retain(|other| other.place != grant.place);
            grants.push(grant);
        }
        files
            .named
            .retain(|old| grants.iter().all(|grant| grant.place != old.place));
        files.named.extend(grants.iter().cloned());
        if let Some((inner, outer)) = files.below_writable() {
            return Err(Remedy::Never(format!(
                "no profile that grants `{}` read-only can grant `{}` writable",
                self.spelled(inner).place,
                self.spelled(outer).place
            )));
        }
        let grants = grants.iter().map(|grant| self.spelled(grant)).collect();
        Ok((extended, grants))
    }

    /// Finds the smallest grant for rights lacking on a place, and the granted place.
    fn grant_for(
        &self,
        place: &Located,
        is_object: bool,
        lacking: FileRights,
        forbidden: &Forbidden,
    ) -> Result<(GrantSpec, GrantedPath), Remedy> {
        // Creating a file needs a directory that exists. A file to be read can be named before it exists, and one that
        // cannot be examined from here may exist.
        let exists = |path: &&Path| is_object || path.try_exists().unwrap_or(true);
        let path = place.path().ancestors().find(exists);
        let path = path.unwrap_or(place.path());
        if let Some(why) = ungrantable(path) {
            return Err(Remedy::Never(format!(
                "`{}` can never be granted: {why}",
                path.display()
            )));
        }
        if let Ok(Some(forbidden_path)) = forbidden.reached_by(path) {
            return Err(Remedy::Never(format!(
                "`{}` can never be granted: the path reaches the daemon's own `{}`",
                path.display(),
                forbidden_path.display()
            )));
        }
        let kind = FileKind::from_path(path, true);
        let is_directory = match kind {
            FileKind::Directory => true,
            FileKind::Missing | FileKind::Unknown => {
                !is_object || lacking.has(FileRight::ReadDirectory)
            }
            FileKind::File | FileKind::Link | FileKind::Special => false,
        };
        // A grant replaces an earlier one on the same path, so it must allow as much.
        let is_same =
            |grant: &&GrantSpec| matches!(&grant.place, GrantPlace::Path(of) if of == path);
        let before = self.files.named.iter().filter(is_same);
        let wanted = before.fold(lacking, |wanted, grant| {
            wanted.and(Rights::for_access(grant.access, is_directory).allowed())
        });
        let enough = SMALLEST_FIRST.into_iter().find(|&access| {
            let allowed = Rights::for_access(access, is_directory).allowed();
            // A file to write is granted as a file; on a directory it would be refused when it is opened.
            (access != Access::WriteFile || !is_directory)
                && wanted.common(self.handled).without(allowed).is_empty()
        });
        let access = enough.ok_or_else(|| {
            let words = words(lacking);
            Remedy::Never(format!("no profile lets a hook {words}"))
        })?;
        let grant = GrantSpec {
            access,
            // A missing file would make every run be refused.
            create: access == Access::WriteFile && kind == FileKind::Missing,
            optional: false,
            place: GrantPlace::Path(path.to_owned()),
        };
        let granted = GrantedPath {
            by: Grantor::Profile(grant.clone()),
            place: Located::find(path).unwrap_or_else(|_| Located::imagined(path)),
            rights: Rights::for_access(access, is_directory),
        };
        Ok((grant, granted))
    }

    /// Returns a grant as a profile would spell it: below `${workspace}` where it lies there.
    pub(super) fn spelled(&self, grant: &GrantSpec) -> GrantSpec {
        let below = match (&grant.place, &self.workspace) {
            (GrantPlace::Path(path), Some(workspace)) => path.strip_prefix(workspace).ok(),
            (_, _) => None,
        };
        let place = below.map_or_else(
            || grant.place.clone(),
            |below| GrantPlace::Workspace {
                below: below.to_owned(),
                if_bound: false,
            },
        );
        GrantSpec {
            place,
            ..grant.clone()
        }
    }
}

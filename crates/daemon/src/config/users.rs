//! Reads lists of users: uids, names, and groups.

use nix::unistd::{Group, Uid, User};

use hookjail_base::model::Users;

use super::{ConfigProblem, file::UserEntry};
use crate::hooks::load::FileUser;

/// The group whose members may call a root daemon where the configuration names no callers: that of the shipped socket.
const USUAL_GROUP: &str = "hookjail";

/// Looks the users of a key up in the system's database.
///
/// # Errors
///
/// Names a user or a group that is not there, or the error of looking.
pub(super) fn read(key: &'static str, entries: &[UserEntry]) -> Result<Users, ConfigProblem> {
    let mut users = Users::default();
    for entry in entries {
        let name = match entry {
            UserEntry::Uid(uid) => {
                users.uids.push(*uid);
                continue;
            }
            UserEntry::Name(name) => name,
        };
        let problem = |problem: String| ConfigProblem::key(key, problem);
        let failed = |errno| problem(format!("`{name}` cannot be looked up: {errno}"));
        match name.strip_prefix('@') {
            Some(group) => match Group::from_name(group).map_err(failed)? {
                Some(group) => add(&mut users, &group),
                None => {
                    return Err(problem(format!("`{name}`: there is no group `{group}`")));
                }
            },
            None => match User::from_name(name).map_err(failed)? {
                Some(user) => users.uids.push(user.uid.as_raw()),
                None => {
                    let why = format!("there is no user `{name}`; write a group as `@{name}`");
                    return Err(problem(why));
                }
            },
        }
    }
    Ok(users)
}

/// Looks the user of a file of hooks up.
///
/// # Errors
///
/// Names a user that is not there.
pub(super) fn of_file(entry: &UserEntry) -> Result<FileUser, ConfigProblem> {
    let (name, found) = match entry {
        UserEntry::Uid(uid) => (uid.to_string(), User::from_uid(Uid::from_raw(*uid))),
        UserEntry::Name(name) => (name.clone(), User::from_name(name)),
    };
    let problem = |why: String| ConfigProblem::key("hooks_file.user", why);
    let found = found.map_err(|errno| problem(format!("`{name}` cannot be looked up: {errno}")))?;
    let user = found.ok_or_else(|| problem(format!("there is no user `{name}`")))?;
    Ok(FileUser {
        gid: user.gid.as_raw(),
        uid: user.uid.as_raw(),
    })
}

/// Returns the users who may call a daemon whose configuration does not name any.
pub(super) fn usual(root: bool) -> Users {
    let mut users = Users::default();
    // Without the group, or a database that can be read, there are none.
    let group = root.then(|| Group::from_name(USUAL_GROUP));
    if let Some(Ok(Some(group))) = group {
        add(&mut users, &group);
    }
    users
}

fn add(users: &mut Users, group: &Group) {
    users.groups.push(group.gid.as_raw());
    let members = group.mem.iter();
    let members = members.filter_map(|name| User::from_name(name).ok()?);
    users.members.extend(members.map(|user| user.uid.as_raw()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> UserEntry {
        UserEntry::Name(name.to_owned())
    }

    #[test]
    fn users_are_uids_names_and_groups_and_what_is_not_there_is_named() {
        let read = |entries: &[UserEntry]| read("server.callers", entries);
        let users = read(&[UserEntry::Uid(4711), name("root"), name("@root")]).unwrap();
        assert_eq!((users.uids, users.groups), (vec![4711, 0], vec![0]));
        for (entry, expected) in [
            ("no-such-user", "there is no user `no-such-user`"),
            ("@no-such-group", "there is no group `no-such-group`"),
            ("", "there is no user"),
            ("@", "there is no group"),
        ] {
            let error = read(&[name(entry)]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(error.contains("server.callers"), "{error}");
        }
    }

    #[test]
    fn a_users_daemon_has_no_other_callers_by_default() {
        assert_eq!(usual(false), Users::default());
    }
}

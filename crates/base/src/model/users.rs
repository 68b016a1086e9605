//! Users that the operator lists.

use super::Peer;

/// Users by uid and by group.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Users {
    /// Groups: whose members count.
    pub groups: Vec<u32>,
    /// Known members of these groups. Others are recognised when they connect.
    pub members: Vec<u32>,
    /// Users.
    pub uids: Vec<u32>,
}

impl Users {
    /// Returns whether a process belongs to them: by its uid, or by a group that it had when it connected.
    pub fn contain(&self, peer: &Peer) -> bool {
        let is_member = |group| self.groups.contains(group);
        self.uids.contains(&peer.uid) || is_member(&peer.gid) || peer.groups.iter().any(is_member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_by_its_uid_and_by_each_of_its_groups_and_by_nothing_else() {
        let users = Users {
            groups: vec![50],
            members: vec![7],
            uids: vec![1000],
        };
        for (uid, gid, groups, expected) in [
            (1000, 1, &[][..], true),
            (2000, 50, &[], true),
            (2000, 1, &[4, 50], true),
            (50, 1000, &[1000], false),
            // A listed member may have left the group since.
            (7, 7, &[], false),
            (0, 0, &[0], false),
        ] {
            let peer = Peer {
                gid,
                groups: groups.into(),
                pid: None,
                remote: None,
                uid,
            };
            assert_eq!(users.contain(&peer), expected, "{peer} {groups:?}");
        }
    }
}

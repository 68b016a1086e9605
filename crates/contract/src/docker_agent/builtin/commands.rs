//! Classifies shell commands by their words.
//!
//! This is no shell parser: a command counts as dangerous wherever its words occur, and as harmless only where it is
//! nothing but one known program with plain arguments. Everything between is unknown. This is no confinement: commands
//! can be hidden from it.

use std::str::SplitWhitespace;

/// Class of a command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Class {
    /// The command destroys something.
    Destructive(&'static Operation),
    /// The command only reads.
    Safe,
    /// Not classifiable.
    Unknown,
}

/// A destructive operation and the words that identify it.
///
/// The first of `words` is the program, the others stand behind it in this order with anything between. Words that start
/// with `-` are options and stand anywhere behind it, letters also among others (`-rf` has `-r`). A word that ends in `*` is
/// a prefix, and `|` separates alternatives, of which the first gives the name.
#[derive(Debug, PartialEq)]
pub(super) struct Operation {
    /// The kind of loss.
    pub(super) category: &'static str,
    /// The extent of the loss.
    pub(super) radius: Radius,
    words: &'static str,
}

/// Extent of a loss.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Radius {
    /// The loss is easily restored.
    Low,
    /// The loss can be restored at a cost.
    Medium,
    /// The loss is permanent.
    High,
}

impl Radius {
    /// Returns its name as hooks and runtimes spell it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Low => "low",
            Self::Medium => "medium",
        }
    }
}

impl Operation {
    /// Returns its name: the words that identify it.
    pub(super) fn name(&self) -> String {
        let first = |word: &'static str| word.split('|').next().unwrap_or(word);
        let words: Vec<_> = self.words.split(' ').map(first).collect();
        words.join(" ")
    }

    /// Returns whether the words of a simple command contain it.
    fn is_in(&self, words: &[&str]) -> bool {
        let mut wanted = self.words.split(' ');
        let Some(program) = wanted.next() else {
            return false;
        };
        // Words after a later occurrence also come after the first one.
        let Some(position) = words.iter().position(|word| is_program(program, word)) else {
            return false;
        };
        let behind = &words[position + 1..];
        let mut rest = behind.iter();
        wanted.all(|wanted| {
            if wanted.starts_with('-') && wanted != "--" {
                behind.iter().any(|word| is_option(wanted, word))
            } else {
                rest.any(|word| is_word(wanted, word))
            }
        })
    }
}

const fn high(words: &'static str, category: &'static str) -> Operation {
    Operation {
        category,
        radius: Radius::High,
        words,
    }
}

const fn low(words: &'static str, category: &'static str) -> Operation {
    Operation {
        category,
        radius: Radius::Low,
        words,
    }
}

const fn medium(words: &'static str, category: &'static str) -> Operation {
    Operation {
        category,
        radius: Radius::Medium,
        words,
    }
}

/// The maximum length of a command that is classified, bytes.
const LONGEST: usize = 16 * 1024;

/// A redirection by which the shell itself empties a file.
static REDIRECTION: Operation = medium("> <file>", "fs-overwrite");

static OPERATIONS: [Operation; 105] = [
    high("rm -r|-R|--recursive", "fs-delete"),
    medium("rm -f|--force", "fs-delete"),
    low("rm", "fs-delete"),
    low("rmdir", "fs-delete"),
    low("unlink", "fs-delete"),
    high("find -delete", "fs-delete"),
    high("find -exec|-execdir|-ok|-okdir rm", "fs-delete"),
    high("xargs rm", "fs-delete"),
    high("shred", "fs-secure-delete"),
    high("dd of=/dev/*", "block-device"),
    high("dd of=*", "fs-overwrite"),
    high("mkfs*|mke2fs", "block-device"),
    high("mkswap", "block-device"),
    high("wipefs", "block-device"),
    high("blkdiscard", "block-device"),
    high("fdisk|sfdisk|cfdisk|gdisk|sgdisk|parted", "block-device"),
    medium("truncate", "fs-overwrite"),
    medium("tee", "fs-overwrite"),
    medium("mv", "fs-modify"),
    medium("cp -f|--force", "fs-modify"),
    high("rsync --delete*|--remove-source-files", "fs-modify"),
    medium("ln -f|--force", "fs-modify"),
    medium("sed -i|--in-place*", "fs-modify"),
    medium("perl -i", "fs-modify"),
    medium("chmod -R|--recursive", "fs-permissions"),
    medium("chown -R|--recursive", "fs-permissions"),
    medium("chgrp -R|--recursive", "fs-permissions"),
    high("remove-item -recurse", "fs-delete"),
    medium("remove-item -force", "fs-delete"),
    low("remove-item", "fs-delete"),
    medium("clear-content", "fs-overwrite"),
    high("git reset --hard", "git-discard"),
    high("git checkout -f|--force", "git-discard"),
    high("git checkout --", "git-discard"),
    high("git checkout .", "git-discard"),
    high("git restore .", "git-discard"),
    medium("git restore", "git-discard"),
    high("git clean -f|--force", "git-discard"),
    high("git switch --discard-changes|-f|--force", "git-discard"),
    high("git stash clear", "git-discard"),
    medium("git stash drop", "git-discard"),
    medium("git worktree remove", "git-discard"),
    medium("git push -f|--force*", "git-history"),
    medium("git push -d|--delete|--mirror|--prune", "git-history"),
    medium("git push +*", "git-history"),
    medium("git branch -D", "git-history"),
    medium("git tag -d|--delete", "git-history"),
    medium("git update-ref -d", "git-history"),
    medium("git rebase", "git-history"),
    high("git filter-branch|filter-repo", "git-history"),
    high("git reflog expire|delete", "git-history"),
    high("docker|podman volume rm|remove", "dk-volume-del"),
    high("docker|podman volume prune -a|--all", "dk-volume-del"),
    medium("docker|podman volume prune", "dk-volume-del"),
    high("docker|podman rm -v|--volumes", "dk-container-del"),
    high("docker|podman rm -f|--force", "dk-container-del"),
    medium("docker|podman rm", "dk-container-del"),
    medium("docker|podman container prune", "dk-container-del"),
    medium("docker|podman rmi", "dk-image-del"),
    medium("docker|podman image rm", "dk-image-del"),
    medium("docker|podman image prune -a|--all", "dk-image-del"),
    low("docker|podman image prune", "dk-image-del"),
    high("docker|podman system prune -a|--all|--volumes", "dk-system"),
    medium("docker|podman system prune", "dk-system"),
    high("docker|podman compose down -v|--volumes", "dk-compose"),
    medium("docker|podman compose down", "dk-compose"),
    high("docker-compose down -v|--volumes", "dk-compose"),
    medium("docker-compose down", "dk-compose"),
    low("docker|podman network rm|prune", "dk-network-del"),
    medium("docker|podman stop|kill", "dk-container-stop"),
    high("kubectl|oc delete", "k8s-delete"),
    medium("kubectl|oc drain", "k8s-drain"),
    medium("kubectl|oc scale --replicas=0", "k8s-scale"),
    high("helm uninstall|delete", "k8s-delete"),
    high("terraform|tofu destroy", "iac-destroy"),
    high(
        "terraform|tofu apply -auto-approve|--auto-approve",
        "iac-apply",
    ),
    high("pulumi destroy", "iac-destroy"),
    high("drop database|table|schema", "db-drop"),
    high("truncate table", "db-delete"),
    high("delete from", "db-delete"),
    high("dropdb", "db-drop"),
    high("redis-cli flushall|flushdb", "db-delete"),
    high("aws s3 rm|rb", "cloud-delete"),
    high("aws delete-*", "cloud-delete"),
    high("aws terminate-instances", "cloud-delete"),
    high("gcloud delete", "cloud-delete"),
    high("gsutil rm", "cloud-delete"),
    high("az delete", "cloud-delete"),
    high("shutdown", "system"),
    high("reboot|halt|poweroff", "system"),
    medium("systemctl stop|disable|mask", "system"),
    medium("kill -9|-KILL|-SIGKILL", "process"),
    medium("killall", "process"),
    medium("pkill", "process"),
    high("iptables|ip6tables -F|--flush", "network"),
    high("nft flush", "network"),
    high("ufw disable", "network"),
    high("userdel|deluser", "system"),
    high("crontab -r", "system"),
    medium(
        "apt|apt-get|dnf|yum|zypper remove|purge|autoremove",
        "package",
    ),
    medium("pacman -R", "package"),
    medium("brew uninstall|remove", "package"),
    low("pip|pip3 uninstall", "package"),
    low("npm|pnpm|yarn uninstall|remove", "package"),
    low("cargo uninstall", "package"),
];

/// Commands that read only, and beginnings of options with which they do not.
const SAFE: [(&str, &[&str]); 65] = [
    ("basename", &[]),
    ("cargo --version", &[]),
    ("cat", &[]),
    ("cmp", &[]),
    ("cut", &[]),
    ("date", &["-s", "--s"]),
    ("df", &[]),
    ("diff", &[]),
    ("dirname", &[]),
    ("docker compose logs", &[]),
    ("docker compose ps", &[]),
    ("docker container ls", &[]),
    ("docker image ls", &[]),
    ("docker images", &[]),
    ("docker info", &[]),
    ("docker inspect", &[]),
    ("docker logs", &[]),
    ("docker network ls", &[]),
    ("docker port", &[]),
    ("docker ps", &[]),
    ("docker top", &[]),
    ("docker version", &[]),
    ("docker volume ls", &[]),
    ("du", &[]),
    ("echo", &[]),
    ("egrep", &[]),
    ("fgrep", &[]),
    ("free", &[]),
    ("git blame", &["--c", "--textc"]),
    ("git branch --list", &[]),
    ("git branch --show-current", &[]),
    ("git diff", &["--ext", "--ou", "--textc"]),
    ("git log", &["--ext", "--ou", "--textc"]),
    ("git ls-files", &[]),
    ("git rev-parse", &[]),
    ("git show", &["--ext", "--ou", "--textc"]),
    ("git status", &[]),
    ("go version", &[]),
    ("grep", &[]),
    ("head", &[]),
    ("id", &[]),
    ("jq", &[]),
    ("kubectl describe", &[]),
    ("kubectl get", &[]),
    ("kubectl logs", &[]),
    ("kubectl version", &[]),
    ("ls", &[]),
    ("nl", &[]),
    ("node --version", &[]),
    ("npm --version", &[]),
    ("ps", &[]),
    ("pwd", &[]),
    ("python --version", &[]),
    ("python3 --version", &[]),
    ("readlink", &[]),
    ("realpath", &[]),
    ("rustc --version", &[]),
    ("sha256sum", &[]),
    ("stat", &[]),
    ("tail", &[]),
    ("type", &[]),
    ("uname", &[]),
    ("wc", &[]),
    ("which", &[]),
    ("whoami", &[]),
];

/// Classifies a command. Of several operations the worst counts, of equals the first. A command that is too long is
/// unknown.
pub(super) fn class(command: &str) -> Class {
    if command.len() > LONGEST {
        return Class::Unknown;
    }
    let plain: String = command.chars().filter(|c| !"'\"\\".contains(*c)).collect();
    let mut worst: Option<&Operation> = empties(command).then_some(&REDIRECTION);
    for simple in plain.split([';', '&', '|', '(', ')', '`', '{', '}', '\n']) {
        let words: Vec<_> = simple
            .split(|c: char| c.is_whitespace() || "<>$".contains(c))
            .filter(|word| !word.is_empty())
            .collect();
        for operation in &OPERATIONS {
            let is_worse = worst.is_none_or(|worst| operation.radius > worst.radius);
            if is_worse && operation.is_in(&words) {
                worst = Some(operation);
            }
        }
    }
    match worst {
        Some(operation) => Class::Destructive(operation),
        None if is_safe(command) => Class::Safe,
        None => Class::Unknown,
    }
}

/// Returns whether a redirection empties a file.
fn empties(command: &str) -> bool {
    let mut rest = command;
    while let Some((before, behind)) = rest.split_once('>') {
        let appends = before.ends_with('>') || behind.starts_with('>');
        let to_descriptor = behind.starts_with('&');
        let to_nothing = behind.trim_start().starts_with("/dev/null");
        if !appends && !to_descriptor && !to_nothing {
            return true;
        }
        rest = behind.strip_prefix('>').unwrap_or(behind);
    }
    false
}

fn is_safe(command: &str) -> bool {
    const SHELL: &str = ";&|<>$`(){}\\\n\r!#";

    if command.contains(|c: char| SHELL.contains(c)) {
        return false;
    }
    SAFE.iter().any(|(known, refused)| {
        let mut words = command.split_whitespace();
        let is_known = known.split(' ').all(|word| words.next() == Some(word));
        is_known && !has_option(words, refused)
    })
}

/// Returns whether an option begins with one of these. Programs accept abbreviated long options, and a quoted word
/// counts as one because quotes can hide an option.
fn has_option(mut words: SplitWhitespace<'_>, beginnings: &[&str]) -> bool {
    words.any(|word| {
        let hides = !beginnings.is_empty() && word.contains(['\'', '"']);
        hides || beginnings.iter().any(|start| word.starts_with(start))
    })
}

/// Returns whether a word is the program, in any directory.
fn is_program(wanted: &str, word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    is_word(wanted, name)
}

fn is_word(wanted: &str, word: &str) -> bool {
    wanted
        .split('|')
        .any(|wanted| match wanted.strip_suffix('*') {
            Some(start) => word
                .get(..start.len())
                .is_some_and(|head| head.eq_ignore_ascii_case(start)),
            None => wanted.eq_ignore_ascii_case(word),
        })
}

fn is_option(wanted: &str, word: &str) -> bool {
    wanted.split('|').any(|wanted| {
        let letter = wanted.strip_prefix('-').filter(|rest| rest.len() == 1);
        match letter {
            Some(letter) => {
                let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
                letters.is_some_and(|letters| letters.contains(letter))
            }
            None => is_word(wanted, word),
        }
    })
}

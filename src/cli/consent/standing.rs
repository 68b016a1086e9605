//! The standing of a command: whether it would run now, and what changed since it was allowed.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use jiff::Timestamp;

use hookjail_client::Failure;
use hookjail_daemon::{
    config::Config,
    consent::{
        allowlist::{Allowlist, Check, Entry},
        approved::Approved,
        lookup::{Consented, Sought},
        trees::Trees,
    },
};

use super::{BoundConsent, Ground, Terms, bind};

/// The user's list of consents, with the texts that were approved.
pub(in crate::cli) struct Book<'a> {
    approved: Approved,
    config: &'a Config,
    /// The profiles and the root, or why they cannot be read: then no command has a standing.
    ground: Result<Ground, String>,
    list: Allowlist,
}

/// The standing of one command.
pub(in crate::cli) struct Standing {
    /// The consents that would make it run, with the bounds of those that it has.
    pub(in crate::cli) bound: Vec<BoundConsent>,
    /// The reason why it is refused, and the difference of the change; `None` = it runs.
    pub(in crate::cli) refused: Option<Refused>,
}

/// The reason why a command is refused.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Refused {
    /// The difference to what was approved, unified; empty where that text is not kept.
    pub(in crate::cli) diff: String,
    pub(in crate::cli) why: String,
}

impl<'a> Book<'a> {
    /// Opens the list.
    ///
    /// # Errors
    ///
    /// Fails where it cannot be read.
    pub(in crate::cli) fn open(config: &'a Config) -> Result<Self, Failure> {
        let path = config.allowlist();
        Ok(Self {
            approved: Approved::for_allowlist(&path),
            ground: Ground::read(config).map_err(|failure| failure.message),
            list: Allowlist::load(&path)?,
            config,
        })
    }

    fn bind(&self, terms: &Terms, argv: Vec<OsString>) -> Result<Vec<BoundConsent>, Failure> {
        let ground = self.ground.as_ref();
        bind(ground.map_err(Failure::new)?, terms, argv)
    }

    /// Returns the standing of a command that runs in a workspace, or without one.
    ///
    /// # Errors
    ///
    /// As [`bind`].
    pub(in crate::cli) fn standing(
        &self,
        terms: Terms,
        argv: Vec<OsString>,
        workspace: Option<&Path>,
    ) -> Result<Standing, Failure> {
        let mut bound = self.bind(&terms, argv.clone())?;
        let spelled = |entry: &&Entry| {
            let mut spellings = bound.iter().map(|it| &it.entry.command);
            spellings.any(|command| *command == entry.command)
        };
        let consents = self.list.entries().iter().rev().filter(spelled);
        let mut consents = consents.filter(|it| it.profile.as_deref() == Some(&terms.profile));
        if let Some(consent) = consents.find(|it| it.is_for(workspace, workspace)) {
            let is_over = |end: &Timestamp| *end <= Timestamp::now();
            let terms = Terms {
                data: consent.data.iter().map(Into::into).collect(),
                until: consent.expires_at.filter(|end| !is_over(end)),
                within: consent.working_dir_scope.clone(),
                ..terms
            };
            // An argument that was data and is gone is no reason to refuse the question.
            bound = self.bind(&terms, argv).unwrap_or(bound);
        }
        let refused = bound.first().and_then(|it| self.refused(it, workspace));
        Ok(Standing { bound, refused })
    }

    /// Returns in one word how a consent stands.
    pub(super) fn state(&self, entry: &Entry) -> &'static str {
        let (Some(profile), false) = (&entry.profile, entry.is_unbound()) else {
            return "unbound";
        };
        let scope = entry.working_dir_scope.clone();
        let terms = Terms {
            data: entry.data.iter().map(Into::into).collect(),
            profile: profile.clone(),
            starts_in: scope.clone(),
            until: entry.expires_at,
            within: scope.clone(),
        };
        let words = shlex::split(&entry.command).unwrap_or_default();
        let bound = self.bind(&terms, words.into_iter().map(Into::into).collect());
        let bound = bound.unwrap_or_default();
        let mut same = bound.iter().filter(|it| it.entry.command == entry.command);
        match same.next().map(|it| self.check(it, scope.as_deref())) {
            None => "gone",
            Some(Check::Hit) => "allowed",
            Some(Check::Missing | Check::Changed { .. }) => "changed",
            Some(Check::Expired) => "ended",
            Some(Check::OtherProfile { .. }) => "profile changed",
        }
    }

    fn check(&self, bound: &BoundConsent, workspace: Option<&Path>) -> Check {
        let sought = Sought {
            command: &bound.entry.command,
            digests: &bound.entry.digests,
            is_grant: true,
            policy: &bound.policy,
            working_dir: workspace,
            workspace,
        };
        let consented = Consented {
            approved: &self.approved,
            list: &self.list,
            references: &self.config.references,
        };
        consented.check(&sought, || Trees::find(workspace?))
    }

    fn refused(&self, bound: &BoundConsent, workspace: Option<&Path>) -> Option<Refused> {
        let policy = &*bound.policy;
        let (references, approved) = (&self.config.references, &self.approved);
        let (why, diff) = match self.check(bound, workspace) {
            Check::Hit => return None,
            Check::Missing => ("not allowed yet".to_owned(), String::new()),
            Check::Expired => ("its consent has expired".to_owned(), String::new()),
            Check::Changed { path, was, .. } => {
                let diff = was.as_ref().map(|was| self.script_diff(bound, was, &path));
                let why = match was {
                    Some(_) => format!("`{path}` changed since it was allowed"),
                    None => format!("`{path}` was not part of the command when it was allowed"),
                };
                (why, diff.unwrap_or_default())
            }
            Check::OtherProfile { was } => {
                let name = &policy.name;
                let wider = was.and_then(|was| approved.wider(&was, policy, references));
                let why = match wider {
                    Some(wider) => format!("profile {name} allows more now: {}", wider.join(", ")),
                    None => format!("profile {name} changed since it was allowed"),
                };
                (why, String::new())
            }
        };
        Some(Refused { diff, why })
    }

    fn script_diff(&self, bound: &BoundConsent, was: &str, path: &str) -> String {
        let mut scripts = bound.scripts.iter();
        let script = scripts.find(|script| script.path == Path::new(path));
        script.map_or_else(String::new, |it| {
            self.approved.diff(was, path, (&it.file, &it.sha256))
        })
    }

    /// Returns the consents that are limited to directories at or below one, with their commands' words; all of them for `None`.
    pub(in crate::cli) fn consents(
        &self,
        directory: Option<&Path>,
    ) -> Vec<(&Entry, Vec<OsString>)> {
        let is_asked = |entry: &&Entry| {
            let scope = entry.working_dir_scope.as_deref();
            !entry.is_unbound()
                && entry.profile.is_some()
                && directory.is_none_or(|it| scope.is_some_and(|scope| scope.starts_with(it)))
        };
        let entries = self.list.entries().iter().filter(is_asked);
        let words = entries.filter_map(|entry| {
            let words = shlex::split(&entry.command)?;
            Some((entry, words.into_iter().map(OsString::from).collect()))
        });
        words.collect()
    }

    /// Returns the directories to which consents are limited.
    pub(in crate::cli) fn scopes(&self) -> Vec<PathBuf> {
        let scopes = self.list.entries().iter();
        let mut scopes: Vec<_> = scopes
            .filter_map(|it| it.working_dir_scope.clone())
            .collect();
        scopes.sort();
        scopes.dedup();
        scopes
    }
}

//! A profile that was learnt, put in force: written, allowed, and named by the settings.

use std::{
    ffi::OsString,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use hookjail_base::model::{ProfileName, plain};
use hookjail_client::Failure;
use hookjail_daemon::daemon::Assembly;

use super::{
    Context,
    consent::{self, Ground, Terms},
    install::Placed,
    observed::find_profile,
    profile_files,
    rows::shell_line,
};

/// The begin of a file's first line, before the command that it was learnt of.
const MARK: &str = "# By hookjail learn, for: ";

/// A profile for a command.
pub(super) struct Proposal<'a> {
    pub(super) command: &'a [OsString],
    pub(super) name: &'a ProfileName,
    /// The command's places in settings.
    pub(super) placed: &'a [Placed],
    /// The text of the profile.
    pub(super) text: &'a str,
}

impl Proposal<'_> {
    fn first_line(&self) -> String {
        format!("{MARK}{}\n", plain(&shell_line(self.command)))
    }

    /// Returns the path of the profile's file.
    ///
    /// # Errors
    ///
    /// Fails where there is a file of that name that was not learnt of this command.
    pub(super) fn file(&self, context: &Context) -> Result<PathBuf, Failure> {
        let directory = profile_files::directory(&context.load()?, context);
        let file = directory.join(format!("{}.toml", self.name));
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(file),
            Err(error) => {
                let message = format!("cannot read `{}`: {error}", file.display());
                return Err(Failure::new(message));
            }
        };
        // The same words may stand there in other quotes.
        let words = |line: &str| shlex::split(line.strip_prefix(MARK)?);
        let known = text.lines().next().and_then(words);
        match known.is_some() && known == words(&self.first_line()) {
            true => Ok(file),
            false => Err(Failure::new(format!(
                "`{}` is another hook's, or was written by hand; use another --name",
                file.display()
            ))),
        }
    }

    /// Returns the question before it is put in force.
    pub(super) fn question(&self) -> String {
        let files: Vec<_> = self.placed.iter().map(|it| it.file.display()).collect();
        let settings = match files.as_slice() {
            [] => String::new(),
            [file] => format!(", and use it in {file}"),
            [file, more @ ..] => format!(", and use it in {file} and {} more", more.len()),
        };
        format!(
            "Write profile {}, allow the command under it{settings}? [y/N] ",
            self.name
        )
    }

    /// Writes the profile, has a daemon of this user take it over, and only then allows the command and changes the settings.
    ///
    /// Returns what was done.
    ///
    /// # Errors
    ///
    /// Fails where a step fails. The steps before it stay.
    pub(super) fn put_in_force(
        &self,
        context: &Context,
        file: &Path,
    ) -> Result<Vec<String>, Failure> {
        let text = format!("{}{}", self.first_line(), self.text);
        profile_files::write(file, &text)?;
        let mut done = vec![format!("wrote {}", file.display())];
        let config = context.load()?;
        find_profile(&Assembly::registry(&config)?, self.name.as_str())?;
        if profile_files::reload(context)? {
            done.push("the daemon reloaded its profiles".to_owned());
        }
        for placed in self.placed {
            placed.switch(context, &config, self.name.as_str())?;
            done.push(format!("allowed, and changed in {}", placed.file.display()));
        }
        if self.placed.is_empty() {
            let terms = Terms {
                data: Vec::new(),
                profile: self.name.to_string(),
                starts_in: None,
                until: None,
                within: None,
            };
            let bound = consent::bind(&Ground::read(&config)?, &terms, self.command.to_vec())?;
            consent::record(&config, bound.iter())?;
            done.push(format!("allowed {}", shell_line(self.command)));
            done.extend(consent::other_list(context));
        }
        Ok(done)
    }
}

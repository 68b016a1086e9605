//! A private daemon's two pipes from the process that started it, and the directory of its socket.

use std::{
    fs::{DirBuilder, File},
    io::{self, Write},
    os::{fd::AsFd, unix::fs::DirBuilderExt},
    path::{Path, PathBuf},
    thread,
};

use nix::unistd::{dup2_stdin, dup2_stdout};
use tokio_util::sync::CancellationToken;

use hookjail_sandbox as sandbox;

/// The process that started a private daemon.
#[derive(Debug)]
pub(super) struct Parent {
    stdin: File,
    stdout: File,
}

impl Parent {
    /// Takes stdin and stdout from this process, so that nothing that it starts has them: the parent would not see this process's
    /// end, nor this process the parent's.
    ///
    /// # Errors
    ///
    /// Returns the error of a duplication, or of opening `/dev/null`.
    pub(super) fn take() -> io::Result<Self> {
        let stdin = io::stdin().as_fd().try_clone_to_owned()?.into();
        let stdout = io::stdout().as_fd().try_clone_to_owned()?.into();
        let null = File::options().read(true).write(true).open("/dev/null")?;
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        Ok(Self { stdin, stdout })
    }

    /// Begins to wait for the parent's end, or for it to close stdin, and then cancels. Returns the pipe on which the parent gets the
    /// socket's address.
    ///
    /// # Errors
    ///
    /// Returns the error of starting a thread.
    pub(super) fn watch(self, shutdown: CancellationToken) -> io::Result<ToParent> {
        let Self { mut stdin, stdout } = self;
        // Not the runtime's: its end would wait for this thread.
        thread::Builder::new()
            .name("parent".to_owned())
            .spawn(move || {
                // Input from the parent has no meaning.
                match io::copy(&mut stdin, &mut io::sink()) {
                    Ok(_) => tracing::info!("stdin has ended"),
                    Err(error) => tracing::warn!(%error, "stdin cannot be read any more"),
                }
                shutdown.cancel();
            })?;
        Ok(ToParent(stdout))
    }
}

/// Where the parent reads of the socket.
#[derive(Debug)]
pub(super) struct ToParent(File);

impl ToParent {
    /// Writes where the socket is, and closes stdout.
    ///
    /// # Errors
    ///
    /// Returns the error of writing; fails where the path is not UTF-8.
    pub(super) fn report(mut self, socket: &Path) -> io::Result<()> {
        let path = socket.to_str().ok_or_else(|| {
            let message = format!("`{}` is not UTF-8; set TMPDIR", socket.display());
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })?;
        let address = format!("unix://{path}");
        let message = serde_json::json!({ "address": address, "pid": std::process::id() });
        self.0.write_all(format!("{message}\n").as_bytes())
    }
}

/// The directory of a private daemon's socket, removed with all that is in it when dropped.
#[derive(Debug)]
pub(super) struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    /// Makes the directory of a socket, for this user alone.
    ///
    /// # Errors
    ///
    /// Fails where something has its name.
    pub(super) fn create(socket: &Path) -> io::Result<Self> {
        let directory = socket.parent().ok_or(io::ErrorKind::InvalidInput)?;
        DirBuilder::new().mode(0o700).create(directory)?;
        Ok(Self(directory.to_owned()))
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        if let Err(error) = sandbox::remove(&self.0) {
            let path = self.0.display();
            tracing::warn!(%error, %path, "the directory of the socket cannot be removed");
        }
    }
}

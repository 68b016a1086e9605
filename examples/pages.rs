//! Writes the manual's pages of `hookjail` to a directory: `cargo run --example pages -- DIR`.
//!
//! The program itself has none: they are for packages.

use std::{
    env,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::Path,
};

use hookjail::Arguments;

/// The sections of the program's own page that no help has.
const PROGRAM: &str = r#".SH "EXIT STATUS"
.TP
0
success, and the hook's own code under \fBrun\fR
.TP
1
no: a hook would be refused, a profile is not confirmed, a journal does not hold
.TP
2
an invalid command line; under \fBrun \-\-as\fR a denial
.TP
124
the hook's deadline ended it
.TP
125
hookjail failed or refused, and the hook did not run
.TP
126, 127
the hook cannot be executed, or is not found
.TP
128+N
signal N ended the hook
.SH FILES
.TP
~/.config/hookjail/hookjail.toml, /etc/hookjail/hookjail.toml
the configuration of a user and of root
.TP
~/.config/hookjail/profiles/*.toml
own profiles
.TP
~/.local/state/hookjail/allowlist.json
allowed commands
.TP
~/.local/state/hookjail/audit/
the journal
.TP
~/.local/state/hookjail/daemon.log
the log of the user's own daemon
.SH ENVIRONMENT
.TP
HOOKJAIL_ADDR
the socket of the daemon
.TP
NO_COLOR
no colours at a terminal
.TP
XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_RUNTIME_DIR
the places of the files above
"#;

/// The section of the page of `hookjail run`, whose name is that of a program too.
const RUN: &str = r#".SH NOTES
The program \fBhookjail\-run\fR takes the options of \fBhookjail run\fR with \fB\-\-as\fR. This small program is for lines of settings that start often.
"#;

fn main() -> io::Result<()> {
    let directory = env::args_os().nth(1);
    let directory = directory.ok_or_else(|| io::Error::other("which directory?"))?;
    let pages = Path::new(&directory).join("man1");
    fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(Arguments::whole(), &pages)?;
    for (page, text) in [("hookjail.1", PROGRAM), ("hookjail-run.1", RUN)] {
        let mut file = OpenOptions::new().append(true).open(pages.join(page))?;
        file.write_all(text.as_bytes())?;
    }
    Ok(())
}

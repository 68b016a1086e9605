//! `hookjail-run --shell-prefix`: takes every line that a runtime passes to a shell, and stands in for lines of hooks.
//!
//! A runtime passes lines of hooks, of its own tool and of servers of tools to one program. Only hooks are confined. The
//! environment and stdin that the runtime provides decide the kind of a line, as a hook's author chooses the line. For each
//! hook the runtime sets the variable of its project or plugin, and writes an event to its stdin. A line that is neither a
//! tool's nor a server's runs as a hook does.

use std::{
    env,
    ffi::OsString,
    io,
    os::{fd::AsRawFd, unix::process::CommandExt},
    path::Path,
    process::{Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::socket::{MsgFlags, recv},
};
use serde_json::Value;

use hookjail_contract::{adopt::Adopted, settings::Holds, words::words};
use hookjail_sys::{give_last_answer_after, hold_no_signals};

use crate::{
    output,
    program::{NOT_EXECUTABLE, resolve_program},
    run_as,
};

/// The option that a command line of this kind begins with.
pub const OPTION: &str = "--shell-prefix";

/// The shell for lines of hooks that are more than one command.
const SHELL: &str = "/bin/sh";

/// The shells that a runtime may name for lines of its tool.
const SHELLS: [&str; 2] = ["bash", "zsh"];

/// The largest first message of a server's client, bytes.
const MAX_MESSAGE: usize = 64 * 1024;

/// The time for that message to arrive.
const MESSAGE_TIME: Duration = Duration::from_secs(10);

/// The pause between two looks at stdin.
const PAUSE: Duration = Duration::from_millis(5);

/// A line that a runtime hands to a shell.
#[derive(Debug)]
pub struct ShellLine {
    line: String,
    /// The words of `run` before the command.
    options: Vec<OsString>,
    /// The calling program's name.
    program: OsString,
    runtime: Option<Adopted>,
}

/// The kinds of lines that a runtime hands to a shell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LineKind {
    Hook,
    Server,
    Tool,
}

impl ShellLine {
    /// Recognises a command line with [`OPTION`]; `None` without it.
    pub fn taken(words: &[OsString]) -> Option<Self> {
        let (program, rest) = words.split_first()?;
        let (option, rest) = rest.split_first()?;
        let (line, options) = rest.split_last().filter(|_| option == OPTION)?;
        let options = options.strip_suffix(&["--".into()]).unwrap_or(options);
        let name = options.iter().skip_while(|word| *word != "--as").nth(1);
        let runtime = name.and_then(|name| run_as::parse(&name.to_string_lossy()).ok());
        Some(Self {
            line: line.to_str()?.to_owned(),
            options: options.to_vec(),
            program: program.clone(),
            runtime: runtime.flatten(),
        })
    }

    /// Returns the words of `run --as` for the line as a hook's.
    ///
    /// Its program is found as `install` finds it: one command without a shell, with the variables that the runtime sets.
    pub fn words(&self) -> Vec<OsString> {
        let mut all = vec![self.program.clone(), "run".into()];
        all.extend_from_slice(&self.options);
        all.push("--".into());
        let value = |name: &str| {
            let is_known = name == "HOME"
                || self
                    .variables(&[Holds::Project, Holds::Plugin])
                    .any(|it| it == name);
            env::var(name).ok().filter(|_| is_known)
        };
        all.extend(command(&self.line, &self.of_plugin(), value));
        all
    }

    /// Runs the line as it is, where it is no hook's. Returns where that fails, with the code, and `None` for a hook's.
    pub fn run_if_no_hook(&self) -> Option<ExitCode> {
        let mut command = match self.kind() {
            LineKind::Hook => return None,
            LineKind::Tool => {
                let shell = env::var_os("SHELL").filter(|shell| {
                    let shell = Path::new(shell);
                    shell.is_absolute() && SHELLS.iter().any(|name| shell.ends_with(name))
                });
                let mut command = Command::new(shell.unwrap_or_else(|| SHELL.into()));
                command.arg("-c").arg(&self.line);
                command
            }
            LineKind::Server => {
                let words = shlex::split(&self.line)?;
                let (program, arguments) = words.split_first()?;
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
        };
        // The pending timer and blocked signals would survive `execve`.
        give_last_answer_after(None);
        hold_no_signals();
        let error = command.exec();
        output::stderr(&format!(
            "hookjail: cannot start a line that is no hook's: {error}"
        ));
        Some(ExitCode::from(NOT_EXECUTABLE))
    }

    fn variables(&self, kinds: &[Holds]) -> impl Iterator<Item = &'static str> {
        let all = self.runtime.map_or(&[][..], |runtime| runtime.variables);
        all.iter()
            .filter(|(_, holds)| kinds.contains(holds))
            .map(|(name, _)| *name)
    }

    /// Returns the variables of a plugin, with their values.
    fn of_plugin(&self) -> Vec<(&'static str, String)> {
        let names = self.variables(&[Holds::Plugin]);
        names
            .filter_map(|name| Some((name, env::var(name).ok()?)))
            .collect()
    }

    fn kind(&self) -> LineKind {
        let Some(prefix) = self.runtime.and_then(|runtime| runtime.shell_prefix) else {
            return LineKind::Hook;
        };
        let is_set = |name| env::var_os(name).is_some();
        let mut names = self.variables(&[Holds::Project, Holds::Plugin]);
        if !names.any(is_set) {
            return match self.line.contains(prefix.of_tools) {
                true => LineKind::Tool,
                false => LineKind::Hook,
            };
        }
        match first_message().is_some_and(|message| is_of_a_server(&message)) {
            true => LineKind::Server,
            false => LineKind::Hook,
        }
    }
}

/// Returns the command of a hook's line.
///
/// A plugin's variables are part of it: a consent is for the plugin at its place.
pub fn command(
    line: &str,
    of_plugin: &[(&str, String)],
    value: impl Fn(&str) -> Option<String>,
) -> Vec<OsString> {
    let of_plugin = of_plugin
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let mut variables: Vec<_> = of_plugin.collect();
    if !variables.is_empty() {
        variables.insert(0, "/usr/bin/env".to_owned());
    }
    let words = words(line, value);
    // A program that is not found may be a shell built-in.
    let words = words.filter(|words| resolve_program(vec![words[0].clone().into()]).is_ok());
    let words = words.unwrap_or_else(|| [SHELL, "-c", line].map(str::to_owned).to_vec());
    variables.into_iter().chain(words).map(Into::into).collect()
}

/// Returns the first line on stdin, and leaves it there; `None` where stdin is no socket, or an event stands there.
fn first_message() -> Option<String> {
    let stdin = io::stdin();
    let since = Instant::now();
    let mut bytes = vec![0; MAX_MESSAGE];
    while since.elapsed() < MESSAGE_TIME {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        let length = match recv(stdin.as_raw_fd(), &mut bytes, flags) {
            Ok(0) => return None,
            Ok(length) => length,
            Err(Errno::EAGAIN | Errno::EINTR) => 0,
            Err(_) => return None,
        };
        let found = &bytes[..length];
        if let Some(end) = found.iter().position(|byte| *byte == b'\n') {
            return String::from_utf8(found[..end].to_vec()).ok();
        }
        // An event need not end with a line break.
        if length == MAX_MESSAGE || !may_be_a_request(found) {
            return None;
        }
        thread::sleep(PAUSE);
    }
    None
}

/// Returns whether a message of which only the begin has arrived may be one to a server of tools, by its first member.
fn may_be_a_request(begin: &[u8]) -> bool {
    let members = ["{\"jsonrpc\"", "{\"method\"", "{\"id\"", "{\"params\""];
    let mut members = members.iter().map(|member| member.as_bytes());
    members.any(|member| begin.starts_with(member) || member.starts_with(begin))
}

/// Returns whether a message is one to a server of tools: a request, and no event of a hook.
fn is_of_a_server(message: &str) -> bool {
    let Ok(Value::Object(message)) = serde_json::from_str(message) else {
        return false;
    };
    let is_event = message.contains_key("hook_event_name") || message.contains_key("session_id");
    let is_request = message.get("jsonrpc").is_some_and(|it| it == "2.0");
    is_request && !is_event && message.get("method").is_some_and(Value::is_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_to_servers_are_no_events() {
        for (message, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#,
                true,
            ),
            (
                r#"{"method":"initialize","params":{},"jsonrpc":"2.0","id":0}"#,
                true,
            ),
            (
                r#"{"session_id":"s","jsonrpc":"2.0","method":"initialize"}"#,
                false,
            ),
            (
                r#"{"hook_event_name":"Stop","jsonrpc":"2.0","method":"x"}"#,
                false,
            ),
            (
                r#"{"tool_input":{"jsonrpc":"2.0","method":"initialize"}}"#,
                false,
            ),
            (r#"["jsonrpc"]"#, false),
            ("", false),
        ] {
            assert_eq!(is_of_a_server(message), expected, "{message}");
            let begin = &message.as_bytes()[..message.len() / 2];
            assert!(!expected || may_be_a_request(begin), "{message}");
        }
        assert!(may_be_a_request(b"") && !may_be_a_request(b"{\"session_id\":"));
    }

    #[test]
    fn a_plugins_place_is_part_of_its_command() {
        let value = |name: &str| (name == "CLAUDE_PLUGIN_ROOT").then(|| "/bin".to_owned());
        let of_plugin = [("CLAUDE_PLUGIN_ROOT", "/bin".to_owned())];
        let line = "\"${CLAUDE_PLUGIN_ROOT}\"/sh -x";
        let with = command(line, &of_plugin, value);
        assert_eq!(
            with,
            ["/usr/bin/env", "CLAUDE_PLUGIN_ROOT=/bin", "/bin/sh", "-x"]
        );
        assert_eq!(
            command("true | cat", &[], value),
            [SHELL, "-c", "true | cat"]
        );
    }
}

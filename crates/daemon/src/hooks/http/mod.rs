//! Hooks that are posted to a URL: allowlist, and the command line of curl.
//!
//! Nothing here opens a connection. A hook of this kind becomes a command like any other, confined and recorded: a
//! shell, which writes curl's configuration into the run's own directory and starts curl. The URL and the values of
//! headers are passed by the environment and that file alone, because every user on the host may read command lines.

use std::{collections::BTreeMap, ffi::OsString, fs::File, os::unix::ffi::OsStringExt, path::Path};

use hookjail_base::{
    model::{Backing, Command, ProfileName},
    redact::secret::Registration,
    refusal::chain,
};
use hookjail_contract::{Piece, pieces};
use hookjail_policy::{Network, egress::Egress};
use hookjail_sandbox::program::only_roots;

use super::{Action, Registered, load::Loaded};
pub(crate) use hookjail_contract::{Allowed, Denied, Post, PostDecision, Url};

use crate::{pipeline::Rules, request::Request};

/// The program that posts.
pub(super) const CURL: &str = "/usr/bin/curl";

const SHELL: &str = "/bin/sh";

/// The variable with curl's configuration.
const VARIABLE: &str = "HOOK_REQUEST";

/// The largest configuration for curl, bytes. A variable's value is bounded by the kernel, and a line by curl.
const MAX_BYTES: usize = 64 * 1024;

/// The shell script that posts stdin. Every failure exits with 1, since curl's own codes have another meaning for
/// runtimes: 2 would be a denial.
///
/// Redirects are not followed, since the operator did not allow their targets. Proxies of the environment, curl's own
/// configuration, user names in URLs and URL patterns are switched off. A reply longer than a hook's output may be is a
/// failure; where the server does not announce its length, the profile's limit for files stops it.
const SCRIPT: &str = r#"[ -x /usr/bin/curl ] || { echo "there is no /usr/bin/curl, which posts such hooks" >&2; exit 1; }
umask 077
cd "$TMPDIR" && printf %s "$HOOK_REQUEST" >request || exit 1
unset HOOK_REQUEST
status=$(/usr/bin/curl --disable --config request --data-binary @- --disallow-username-in-url --globoff \
  --max-filesize 10485760 --noproxy '*' --output reply --path-as-is --proto =http,https --show-error --silent --tlsv1.2 \
  --user-agent hookjail --write-out '%{response_code}') || exit 1
case $status in
  2??) ;;
  *) echo "the server answered with status $status" >&2; exit 1 ;;
esac
[ -e reply ] && [ "$0" != webhook ] || exit 0
[ "$(wc -c <reply)" -le 10485760 ] || { echo "the answer has more than 10 MiB" >&2; exit 1; }
cat reply || exit 1"#;

/// The operator's allowlist of URLs and of variables in headers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Posting {
    /// The URLs; each allows those below it.
    pub allow: Vec<Place>,
    /// Names of variables, each with its secret.
    pub variables: BTreeMap<String, Registration>,
}

/// A URL of the allowlist.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Its host, as a rule of `egress`.
    pub host: Egress,
    /// Whether `egress.allow` has the host.
    pub is_reached: bool,
    /// The URL.
    pub url: Url,
}

impl Posting {
    /// Returns the hosts to which hooks are posted.
    pub(crate) fn hosts(&self) -> Vec<Egress> {
        let reached = self.allow.iter().filter(|it| it.is_reached);
        reached.map(|it| it.host.clone()).collect()
    }
}

/// Sets a request's command to post the event. Its words and profile come from hookjail and the operator's
/// configuration, and nothing of the workspace is granted.
///
/// # Errors
///
/// Fails if the operator's configuration denies the post, or was not applied to it.
pub(crate) fn put(post: &Post, request: &mut Request, rules: &Rules) -> Result<(), Denied> {
    let allowed = match &post.standing {
        PostDecision::Allowed(allowed) => allowed,
        PostDecision::Denied(denied) => return Err(denied.clone()),
        PostDecision::Unasked => {
            return Err(Denied::never(
                "the operator's configuration was not applied to it",
            ));
        }
    };
    let allowing_url = allowed.by.to_string();
    // A webhook only forwards a payload: the server's reply must not reach the agent.
    let kind = if post.payload.is_none() {
        "http"
    } else {
        "webhook"
    };
    let words = [SHELL, "-c", SCRIPT, kind, &allowing_url];
    request.hook.command = Command::Argv(words.iter().map(OsString::from).collect());
    let carried = OsString::from_vec(allowed.request.clone());
    request.hook.configured_env = BTreeMap::from([(VARIABLE.to_owned(), carried)]);
    request.narrow.without_named_grants = true;
    let profile = ProfileName::parse(hookjail_contract::POST_PROFILE);
    let policy = profile.and_then(|name| rules.registry.find(&name));
    if policy.is_some_and(|it| it.network == Network::Named) {
        request.narrow.egress = vec![allowed.host.clone()];
    }
    // As for the shell: a curl that another user can replace needs a consent.
    let is_roots = File::open(CURL).is_ok_and(|file| only_roots(Path::new(CURL), &file).is_some());
    if is_roots {
        request.backing = Backing::Own;
    }
    Ok(())
}

/// Returns the decision of the operator's configuration on a hook.
fn judged(
    post: &Post,
    posting: &Posting,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Allowed, Denied> {
    let mut places = posting.allow.iter();
    let Some(place) = places.find(|place| post.url.is_within(&place.url)) else {
        let url = post.url.to_string();
        return Err(Denied {
            lines: format!("[http]\nallow = [{}]", toml::Value::from(url.clone())),
            why: format!("the operator does not let hooks be posted to `{url}` (`http.allow`)"),
        });
    };
    if !place.is_reached {
        let Place { host, url, .. } = place;
        return Err(Denied {
            lines: format!("[egress]\nallow = [\"{host}\"]"),
            why: format!("`http.allow` names `{url}`, whose host `egress.allow` does not have"),
        });
    }
    let mut text = Vec::new();
    set(&mut text, "url", post.url.whole().as_bytes());
    let has = |name: &str| {
        post.headers
            .iter()
            .any(|(header, _)| header.eq_ignore_ascii_case(name))
    };
    if !has("content-type") {
        set(&mut text, "header", b"Content-Type: application/json");
    }
    // Without it curl waits a second before it sends a large body.
    set(&mut text, "header", b"Expect:");
    for (name, value) in &post.headers {
        let mut filled = Vec::new();
        for piece in pieces(value) {
            match piece {
                Piece::Text(text) => filled.extend_from_slice(text.as_bytes()),
                Piece::Variable(variable) if post.variables.iter().any(|it| it == variable) => {
                    filled.extend(posting.value(variable, &environment)?);
                }
                // A variable that is not declared is empty, as in the runtimes.
                Piece::Variable(_) => {}
            }
        }
        let blank = filled.iter().all(u8::is_ascii_whitespace);
        let line = if blank {
            // With a colon curl would send no such header.
            format!("{name};").into_bytes()
        } else {
            [format!("{name}: ").as_bytes(), &filled].concat()
        };
        set(&mut text, "header", &line);
    }
    if text.len() > MAX_BYTES {
        return Err(Denied::never(format!(
            "its URL and headers have more than {MAX_BYTES} bytes"
        )));
    }
    Ok(Allowed {
        by: place.url.clone(),
        host: place.host.to_string(),
        request: text,
    })
}

impl Posting {
    /// Returns the value of a variable.
    fn value(
        &self,
        variable: &str,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Vec<u8>, Denied> {
        let Some(registration) = self.variables.get(variable) else {
            return Err(Denied {
                lines: format!(
                    "[http.variables]\n{variable} = \"NAME\"\n[[secret]]\nname = \"NAME\"\nenv = \"{variable}\""
                ),
                why: format!("the operator gives its headers no `{variable}` (`http.variables`)"),
            });
        };
        let cannot =
            |why: String| Denied::never(format!("its headers cannot have `{variable}`: {why}"));
        let secret = registration.read(environment);
        let secret = secret.map_err(|error| cannot(chain(&error)))?;
        let value = secret
            .value()
            .ok_or_else(|| cannot("its secret is a pattern".to_owned()))?;
        if value.iter().any(u8::is_ascii_control) {
            return Err(cannot("its value has a control character".to_owned()));
        }
        Ok(value.to_vec())
    }
}

/// Applies the operator's configuration to all posted hooks.
pub(crate) fn decide(
    loaded: &mut Loaded,
    posting: &Posting,
    environment: impl Fn(&str) -> Option<OsString>,
) {
    for hook in &mut loaded.hooks {
        let Action::Http(post) = &mut hook.action else {
            continue;
        };
        match judged(post, posting, &environment) {
            Ok(allowed) => {
                post.standing = PostDecision::Allowed(allowed);
                grant(hook);
            }
            Err(denied) => {
                loaded.warnings.push(format!("{}: {denied}", hook.source));
                post.standing = PostDecision::Denied(denied);
            }
        }
    }
}

/// Grants the profile of HTTP hooks. No other is of use to them, so a profile that the operator sets for a file applies
/// to its commands only.
fn grant(hook: &mut Registered) {
    hook.profile = ProfileName::parse(hookjail_contract::POST_PROFILE);
    hook.profile_granted = true;
}

/// Adds a line of curl's configuration.
fn set(text: &mut Vec<u8>, name: &str, value: &[u8]) {
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b" = \"");
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    text.extend_from_slice(b"\"\n");
}

#[cfg(test)]
mod tests;

//! Reads `[http]`: allowed URLs of HTTP hooks, and variables of their headers.

use std::collections::BTreeMap;

use hookjail_base::{model::variable::is_name, redact::secret::Registration};

use super::{ConfigProblem, file::HttpEntry, secret};
use hookjail_policy::egress::Egress;

use crate::hooks::http::{Place, Posting, Url};

/// Reads the entry. `bound` is `egress.allow`.
///
/// # Errors
///
/// Names the invalid key, and its value.
pub(super) fn read(
    entry: HttpEntry,
    bound: Option<&[Egress]>,
    secrets: &[Registration],
) -> Result<Posting, ConfigProblem> {
    let allow = entry.allow.iter().map(|text| {
        let url = Url::parse(text).map_err(|problem| wrong("http.allow", text, problem))?;
        if url.has_query() {
            let problem = "has a query; leave it out, all queries of its path are allowed with it";
            return Err(wrong("http.allow", text, problem));
        }
        let host = Egress::of_url(&url)
            .map_err(|problem| wrong("http.allow", text, &problem.to_string()))?;
        let is_reached = bound.is_none_or(|bound| bound.iter().any(|outer| host.is_within(outer)));
        Ok(Place {
            host,
            is_reached,
            url,
        })
    });
    let allow = allow.collect::<Result<_, _>>()?;
    let mut variables = BTreeMap::new();
    for (variable, name) in entry.variables {
        if !is_name(&variable) {
            let problem = "is not the name of a variable";
            return Err(wrong("http.variables", &variable, problem));
        }
        let registration = secret::with_value(secrets, &name);
        let registration =
            registration.map_err(|problem| wrong("http.variables", &variable, problem))?;
        variables.insert(variable, registration);
    }
    Ok(Posting { allow, variables })
}

fn wrong(key: &'static str, what: &str, problem: &str) -> ConfigProblem {
    ConfigProblem::key(key, format!("{problem} (`{what}`)"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use hookjail_base::redact::secret::SecretSource;
    use regex::bytes::Regex;

    use super::*;

    fn secrets() -> [Registration; 2] {
        let named = |name: &str, source| Registration {
            name: name.to_owned(),
            source,
        };
        let pattern = Regex::new("TICKET-[0-9]+").unwrap();
        [
            named("token", SecretSource::File(PathBuf::from("/etc/token"))),
            named("ticket", SecretSource::Pattern(pattern)),
        ]
    }

    fn read(allow: &str, variable: (&str, &str)) -> Result<Posting, String> {
        let (name, secret) = variable;
        let entry = HttpEntry {
            allow: vec![allow.to_owned()],
            variables: BTreeMap::from([(name.to_owned(), secret.to_owned())]),
        };
        super::read(
            entry,
            Some(&["*.in.example:443".parse().unwrap()]),
            &secrets(),
        )
        .map_err(|problem| problem.to_string())
    }

    #[test]
    fn an_entry_is_a_url_without_a_query_and_a_variable_stands_for_a_secret_that_is_known() {
        let posting = read("https://a/agent", ("TOKEN", "token")).unwrap();
        let urls: Vec<_> = posting.allow.iter().map(|it| it.url.clone()).collect();
        assert_eq!(urls, [Url::parse("https://a:443/agent").unwrap()]);
        assert_eq!(posting.variables["TOKEN"].name, "token");
        for (url, is_reached) in [
            ("https://a.in.example/x", true),
            ("https://a.in.example:8443/x", false),
            ("http://a.in.example/x", false),
            ("https://in.example/x", false),
        ] {
            let place = &read(url, ("TOKEN", "token")).unwrap().allow[0];
            assert_eq!(place.is_reached, is_reached, "{url}");
        }
        for (allow, variable, expected) in [
            ("a/agent", ("TOKEN", "token"), "`http.allow` "),
            ("https://*.a/", ("TOKEN", "token"), "`http.allow` "),
            (
                "https://a..b/",
                ("TOKEN", "token"),
                "`http.allow` names no host",
            ),
            (
                "https://a/?x=1",
                ("TOKEN", "token"),
                "`http.allow` has a query",
            ),
            (
                "https://a/",
                ("A-B", "token"),
                "`http.variables` is not the name",
            ),
            (
                "https://a/",
                ("TOKEN", "tokens"),
                "`http.variables` stands for a secret that no",
            ),
            (
                "https://a/",
                ("TOKEN", "ticket"),
                "`http.variables` stands for a secret that is a pattern",
            ),
        ] {
            let problem = read(allow, variable).unwrap_err();
            assert!(problem.starts_with(expected), "{problem}");
        }
    }
}

use proptest::prelude::*;

use super::*;

fn rule(text: &str) -> RequestRule {
    toml::from_str(text).unwrap()
}

fn api() -> RequestRule {
    rule(
        "url = \"https://api.example.org/repos/acme\"\nmethods = [\"GET\", \"POST\"]\nsecret = \"token\"\nheader = \"Authorization: Bearer {secret}\"",
    )
}

fn webhook() -> RequestRule {
    rule(
        "url = \"https://hooks.example.org/services/\"\nsecret = \"hook\"\nvariable = \"WEBHOOK_URL\"",
    )
}

#[test]
fn a_request_is_allowed_by_its_method_and_the_path_at_or_below_its_rules() {
    let rules = [api()];
    let egress: Egress = "api.example.org:443 https".parse().unwrap();
    let is_allowed = |method: &str, path: &str| granted(&rules, &egress, method, path).is_ok();
    for (method, path, expected) in [
        ("GET", "/repos/acme", true),
        ("POST", "/repos/acme/issues", true),
        ("GET", "/repos/acme/group%2Fproject", true),
        ("GET", "/repos/acme/a..b/.c/...", true),
        ("DELETE", "/repos/acme", false),
        ("get", "/repos/acme", false),
        ("GET", "/", false),
        ("GET", "/repos/acmes", false),
        ("GET", "/repos", false),
        ("GET", "/Repos/acme", false),
        ("GET", "//repos/acme", false),
        ("GET", "*", false),
        ("GET", "/repos/acme/../other", false),
        ("GET", "/repos/acme/..", false),
        ("GET", "/repos/acme/%2e%2E/other", false),
        ("GET", "/repos/acme/..%2Fother", false),
        ("GET", "/repos/acme/..%5cother", false),
        ("GET", "/repos/acme/..\\other", false),
        ("GET", "/repos/acme/..;x=1/other", false),
        ("GET", "/repos/acme/%252e%252e/other", false),
        ("GET", "/repos/acme/%00", false),
        ("GET", "/repos/acme/%", false),
        ("GET", "/repos/acme%2Fx", false),
    ] {
        assert_eq!(is_allowed(method, path), expected, "{method} {path}");
    }
    let why = granted(&rules, &egress, "DELETE", "/x").unwrap_err();
    assert_eq!(why, "was sent `DELETE /x`, which is not in `requests`");
    // A host without rules of its own has no limits, and one whose rule is the whole of it no paths.
    let other: Egress = "api.example.org:8443 https".parse().unwrap();
    assert_eq!(granted(&rules, &other, "DELETE", "/x/../y"), Ok(None));
    let whole = [rule("url = \"https://api.example.org\"")];
    assert!(
        granted(&whole, &egress, "DELETE", "/x/../y")
            .unwrap()
            .is_some()
    );
}

#[test]
fn a_secret_url_is_asked_for_by_its_stand_in_alone_and_keeps_the_query() {
    let rules = [webhook()];
    let (variable, stand_in) = rules[0].stand_in().unwrap();
    assert_eq!(
        (variable, &*stand_in),
        ("WEBHOOK_URL", "http://hooks.example.org/hookjail/hook")
    );
    let egress = rules[0].egress();
    assert!(granted(&rules, &egress, "POST", "/hookjail/hook").is_ok());
    for path in [
        "/services/",
        "/services/T/B",
        "/hookjail/hook/",
        "/hookjail/other",
    ] {
        assert!(granted(&rules, &egress, "POST", path).is_err(), "{path}");
    }
    let path_of = |secret: &str, query| rules[0].secret_path(secret.as_bytes(), query);
    for (secret, query, expected) in [
        (
            "https://hooks.example.org/services/T/B",
            None,
            Some("/services/T/B"),
        ),
        (
            "https://hooks.example.org/services/T?a=b",
            Some("c=d"),
            Some("/services/T?a=b&c=d"),
        ),
        (
            "https://hooks.example.org/services/T",
            Some("c=d"),
            Some("/services/T?c=d"),
        ),
        ("https://hooks.example.org/other/T", None, None),
        ("https://other.example.org/services/T", None, None),
        ("http://hooks.example.org/services/T", None, None),
        ("https://hooks.example.org:8443/services/T", None, None),
        ("/services/T", None, None),
        ("not a URL", None, None),
    ] {
        assert_eq!(path_of(secret, query).as_deref(), expected, "{secret}");
    }
    let elsewhere = rule("url = \"https://h.example:8443\"\nsecret = \"s\"\nvariable = \"U\"");
    assert_eq!(
        elsewhere.stand_in().unwrap().1,
        "http://h.example:8443/hookjail/s"
    );
}

#[test]
fn a_header_has_one_secret_and_is_none_that_frames_a_request() {
    let header = |text: &str| SecretHeader::try_from(text.to_owned());
    let bearer = header("Authorization: Bearer {secret}!").unwrap();
    assert_eq!(bearer.value_with(b"abc"), b"Bearer abc!");
    assert_eq!(String::from(bearer), "Authorization: Bearer {secret}!");
    for text in [
        "Authorization",
        "Authorization:{secret}",
        "Authorization: Bearer",
        "X: {secret}{secret}",
        ": {secret}",
        "A B: {secret}",
        "Host: {secret}",
        "transfer-encoding: {secret}",
        "X: {secret}\r\nY: z",
    ] {
        assert!(header(text).is_err(), "{text}");
    }
}

#[test]
fn a_rule_has_what_its_secret_needs_and_nothing_beside() {
    let problem = |text: &str| {
        let url = "url = \"https://a.example\"\n";
        rule(&format!("{url}{text}")).problem().map(|(key, _)| key)
    };
    let header = "header = \"X: {secret}\"\n";
    let (secret, variable) = ("secret = \"s\"\n", "variable = \"U\"\n");
    for (parts, expected) in [
        (vec![], None),
        (vec![secret, header], None),
        (vec![secret, variable], None),
        (vec![secret], Some("secret")),
        (vec![header], Some("header")),
        (vec![variable], Some("variable")),
        (vec![secret, header, variable], Some("variable")),
        (vec![secret, "variable = \"LD_PRELOAD\""], Some("variable")),
        (vec![secret, "variable = \"a b\""], Some("variable")),
        (vec!["methods = [\"get\"]"], Some("methods")),
        (vec!["methods = [\"\"]"], Some("methods")),
    ] {
        assert_eq!(problem(&parts.concat()), expected, "{parts:?}");
    }
    for url in [
        "http://a.example",
        "https://a.example/?x",
        "https://10.0.0.1/",
        "https://[::1]/",
        "https://a.example/../b",
        "https://user@a.example/",
        "a.example",
    ] {
        assert!(RequestUrl::try_from(url.to_owned()).is_err(), "{url}");
    }
}

#[test]
fn a_rule_is_shown_with_its_methods_url_and_the_name_of_its_secret() {
    assert_eq!(
        api().to_string(),
        "GET, POST https://api.example.org/repos/acme with the secret `token` as `Authorization`"
    );
    assert_eq!(
        webhook().to_string(),
        "https://hooks.example.org/services/ by the secret `hook`, which is its URL"
    );
    assert_eq!(
        rule("url = \"https://a.example\"").to_string(),
        "https://a.example/"
    );
}

#[test]
fn another_rule_for_the_host_of_requests_is_found() {
    let found = |texts: &[&str]| {
        let allowed: Vec<_> = texts.iter().map(|it| it.parse().unwrap()).collect();
        unlimited_rule(&allowed, &api()).map(ToString::to_string)
    };
    let implied = "api.example.org:443 https";
    assert_eq!(
        found(&[implied, "api.example.org:80 http", "b.example.org:443"]),
        None
    );
    for other in [
        "api.example.org:443",
        "*.example.org:443",
        "api.example.org:443 any",
        "api.example.org:443 http",
        "*.example.org:443 https",
    ] {
        assert_eq!(found(&[implied, other]).as_deref(), Some(other));
    }
}

/// Pieces of paths that lead out.
const PIECES: [&str; 16] = [
    "/", "\\", ".", "..", "%", "%2e", "%2E", "%2f", "%5c", "%25", "25", "2e", ";", "a", "below",
    "%00",
];

proptest! {
    #[test]
    fn no_allowed_path_leads_out_as_any_server_reads_it(
        pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..10)
    ) {
        let path = format!("/below/{}", pieces.concat());
        let rule = rule("url = \"https://a.example/below\"");
        let egress = rule.egress();
        let is_allowed = granted(&[rule], &egress, "GET", &path).is_ok();
        // Resolved as a server does that decodes up to three times.
        let mut read = path.into_bytes();
        for _ in 0..4 {
            let text = String::from_utf8_lossy(&read).replace('\\', "/");
            let mut depth = 0_i32;
            for segment in text.split('/').skip(1) {
                match segment.split(';').next() {
                    Some("..") => depth -= 1,
                    Some("." | "") => {}
                    Some(_) | None => depth += 1,
                }
                prop_assert!(!is_allowed || depth >= 0, "{text}");
            }
            prop_assert!(!is_allowed || depth >= 1, "{text}");
            read = decoded(&read);
        }
    }
}

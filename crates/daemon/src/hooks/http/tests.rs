use hookjail_base::redact::secret::SecretSource;

use super::*;

fn post(headers: &[(&str, &str)], variables: &[&str]) -> Post {
    let headers = headers.iter().copied().collect();
    Post::new("https://a/agent/x?key=1", &headers, variables).unwrap()
}

fn place(url: &str) -> Place {
    let url = Url::parse(url).unwrap();
    Place {
        host: Egress::of_url(&url).unwrap(),
        is_reached: true,
        url,
    }
}

fn posting() -> Posting {
    let variable = |name: &str| Registration {
        name: name.to_lowercase(),
        source: SecretSource::Env(format!("DAEMON_{name}")),
    };
    let variables = ["TOKEN", "TEAM", "LINES"];
    Posting {
        allow: vec![place("http://b"), place("https://a/agent")],
        variables: variables
            .map(|name| (name.to_owned(), variable(name)))
            .into(),
    }
}

fn environment(name: &str) -> Option<OsString> {
    match name {
        "DAEMON_TOKEN" => Some("s3cr3t\"\\value".into()),
        "DAEMON_LINES" => Some("8bytes..\r\nX-Other: 1".into()),
        "TEAM" => Some("of the daemon's own environment".into()),
        _ => None,
    }
}

fn request(post: &Post) -> Result<String, String> {
    let judged = judged(post, &posting(), environment);
    judged
        .map(|allowed| String::from_utf8(allowed.request).unwrap())
        .map_err(|denied| denied.to_string())
}

#[test]
fn headers_have_the_variables_that_the_hook_lists_and_the_operator_gives() {
    let headers = [
        ("Authorization", "Bearer ${TOKEN}"),
        ("X-Both", "$TOKEN-$HOME.$"),
        ("X-None", "$HOME"),
        ("X-Price", "5$ ${} $1"),
    ];
    let post = post(&headers, &["TOKEN"]);
    let expected = r#"url = "https://a/agent/x?key=1"
header = "Content-Type: application/json"
header = "Expect:"
header = "Authorization: Bearer s3cr3t\"\\value"
header = "X-Both: s3cr3t\"\\value-.$"
header = "X-None;"
header = "X-Price: 5$ ${} $1"
"#;
    assert_eq!(request(&post).unwrap(), expected);
    assert_eq!(post.unlisted(), ["HOME", "HOME"]);
}

#[test]
fn a_hooks_own_content_type_takes_the_place_of_the_usual_one() {
    let post = post(&[("content-type", "application/cloudevents+json")], &[]);
    let request = request(&post).unwrap();
    assert_eq!(request.to_lowercase().matches("content-type").count(), 1);
}

#[test]
fn without_its_variable_a_hook_is_not_posted() {
    let denied = |variable: &str| {
        let value = format!("${variable}");
        request(&post(&[("X", &value)], &[variable])).unwrap_err()
    };
    let lines = "the operator gives its headers no `HOME` (`http.variables`); to let it through: [http.variables] \
                 HOME = \"NAME\" [[secret]] name = \"NAME\" env = \"HOME\"";
    assert_eq!(denied("HOME"), lines);
    assert!(denied("TEAM").contains("`DAEMON_TEAM` is not set"));
    assert!(denied("LINES").ends_with("its value has a control character"));
}

#[test]
fn what_is_not_on_the_list_is_not_posted_and_the_lines_that_would_be_needed_are_told() {
    let posting = Posting {
        allow: vec![place("https://a/agen")],
        ..Posting::default()
    };
    let denied = judged(&post(&[], &[]), &posting, environment).unwrap_err();
    let expected = Denied {
        lines: "[http]\nallow = [\"https://a/agent/x\"]".to_owned(),
        why: "the operator does not let hooks be posted to `https://a/agent/x` (`http.allow`)"
            .to_owned(),
    };
    assert_eq!(denied, expected);
}

#[test]
fn a_host_outside_of_egress_allow_is_not_posted_to() {
    let mut posting = posting();
    posting.allow[1].is_reached = false;

    let denied = judged(&post(&[], &[]), &posting, environment).unwrap_err();

    assert_eq!(
        denied.to_string(),
        "`http.allow` names `https://a/agent`, whose host `egress.allow` does not have; \
         to let it through: [egress] allow = [\"a:443\"]"
    );
    assert_eq!(posting.hosts(), [place("http://b").host]);
}

#[test]
fn nobody_sets_headers_that_are_curls_or_that_would_end_a_line() {
    for (name, value) in [
        ("Host", "b"),
        ("content-length", "1"),
        ("Transfer-Encoding", "chunked"),
        ("X Y", "z"),
        ("X:Y", "z"),
        ("@/etc/passwd", ""),
        ("", "z"),
        ("X", "y\r\nHost: b"),
    ] {
        let headers = BTreeMap::from([(name, value)]);
        assert!(Post::new("https://a", &headers, &[]).is_err(), "{name:?}");
    }
    let long = "x".repeat(MAX_BYTES);
    assert!(request(&post(&[("X", &long)], &[])).is_err());
}

#[test]
fn what_is_shown_of_a_hook_that_may_be_posted_holds_no_secret() {
    let mut post = post(&[("Authorization", "Bearer $TOKEN")], &["TOKEN"]);
    let allowed = judged(&post, &posting(), environment).unwrap();
    post.standing = PostDecision::Allowed(allowed);
    let shown = format!("{post:?}");
    assert!(shown.contains("Bearer $TOKEN"), "{shown}");
    assert!(!shown.contains("s3cr3t"), "{shown}");
}

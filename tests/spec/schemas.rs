//! The published schemas take what the program takes and writes, and refuse what it refuses.

use std::{fs, path::Path, sync::LazyLock};

use hookjail::{
    pb,
    policy::profile::{ProfileCause, ProfileFile},
};
use hookjail_daemon::testing::{
    config::{Config, ConfigProblem, ProcessEnv},
    schema::Form,
};
use hookjail_journal::record::Line;
use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    support::{Daemon, SHIPPED, Setup, hook, journal, program, sh},
    witness::event,
};

fn validator(form: Form) -> Validator {
    jsonschema::validator_for(&form.schema()).unwrap()
}

/// Asserts that a value has the form.
fn assert_has(form: Form, value: &Value, what: &str) {
    let validator = validator(form);
    let errors: Vec<_> = validator
        .iter_errors(value)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{what}: {errors:#?}");
}

fn value(text: &str) -> Value {
    serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap()
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Returns the examples in TOML of a document.
fn examples(path: &str) -> Vec<String> {
    let text = read(path);
    let blocks = text.split("```toml\n").skip(1);
    let blocks: Vec<_> = blocks
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect();
    assert!(!blocks.is_empty(), "{path}");
    blocks
}

/// Result of reading a text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Read {
    /// The text has the form, and keeps every rule.
    Accepted,
    /// The text does not have the form: an unknown key, a wrong type, a missing key.
    Formless,
    /// The text has the form, but breaks a rule.
    Senseless,
}

type Reader = fn(&str) -> Read;

fn read_config(text: &str) -> Read {
    let mut environment = ProcessEnv::default();
    environment.paths.root = true;
    match Config::parse(text, &environment) {
        Ok(_) => Read::Accepted,
        Err(ConfigProblem::Syntax(_)) => Read::Formless,
        Err(_) => Read::Senseless,
    }
}

fn read_profile(text: &str) -> Read {
    match ProfileFile::parse(text) {
        Ok(_) => Read::Accepted,
        // The rules of a grant are kept while it is read.
        Err(ProfileCause::Key { key, .. }) if key.starts_with("files.") => Read::Senseless,
        Err(ProfileCause::Key { .. } | ProfileCause::Syntax(_)) => Read::Formless,
        Err(_) => Read::Senseless,
    }
}

fn profiles() -> Vec<String> {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("sandbox-profiles");
    let shipped = fs::read_dir(shipped).unwrap();
    let mut all: Vec<_> = shipped
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    assert!(all.len() >= SHIPPED.len());
    all.extend(examples("docs/profiles.md"));
    all.push(read("examples/profiles/webhook.toml"));
    all
}

fn configurations() -> Vec<String> {
    let mut all = vec![read("examples/hookjail.toml"), String::new()];
    for path in [
        "docs/configuration.md",
        "docs/runtimes/docker-agent.md",
        "README.md",
    ] {
        if read(path).contains("```toml") {
            all.extend(examples(path));
        }
    }
    all
}

#[test]
fn shipped_profiles_and_the_examples_of_the_documents_have_their_form() {
    for text in profiles() {
        assert_eq!(read_profile(&text), Read::Accepted, "{text}");
        assert_has(Form::Profile, &value(&text), &text);
    }
    for text in configurations() {
        assert_ne!(read_config(&text), Read::Formless, "{text}");
        assert_has(Form::Config, &value(&text), &text);
    }
}

/// Returns every value that differs from this one in one place: by the type of a value, an unknown key, or a missing key.
fn changed(value: &Value) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    match value {
        Value::Array(values) => {
            for (index, below) in values.iter().enumerate() {
                for below in changed(below) {
                    let mut values = values.clone();
                    values[index] = below;
                    all.push(values.into());
                }
            }
        }
        Value::Object(members) => {
            for (key, below) in members {
                for below in changed(below) {
                    let mut members = members.clone();
                    members[key] = below;
                    all.push(members.into());
                }
                let mut members = members.clone();
                members.remove(key);
                all.push(members.into());
            }
            let mut more = members.clone();
            more.insert("no_such_key".to_owned(), json!("x"));
            all.push(more.into());
        }
        Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) => {}
    }
    let others = [
        json!("?"),
        json!(""),
        json!(7),
        json!(-1),
        json!(1.5),
        json!(true),
        json!([]),
        json!(["?"]),
        json!({ "x": "y" }),
    ];
    // A list in the place of a table is not tried: the reader takes its values in the order of the keys, which no schema
    // describes.
    let fits = |other: &Value| other != value && !(value.is_object() && other.is_array());
    all.extend(others.into_iter().filter(fits));
    all
}

#[test]
fn schema_and_reader_refuse_the_same_changes_of_every_example() {
    let forms: [(Form, Vec<String>, Reader); 2] = [
        (Form::Config, configurations(), read_config),
        (Form::Profile, profiles(), read_profile),
    ];
    for (form, examples, reader) in forms {
        let validator = validator(form);
        let (mut refused, mut taken) = (0, 0);
        for example in examples {
            for change in changed(&value(&example)) {
                // TOML has tables at its top, and no null.
                let Ok(text) = toml::to_string(&change) else {
                    continue;
                };
                let has_form = validator.is_valid(&change);
                match reader(&text) {
                    Read::Accepted => assert!(has_form, "{form:?} refuses what is read:\n{text}"),
                    Read::Formless => {
                        assert!(!has_form, "{form:?} takes what is not read:\n{text}")
                    }
                    // A schema may have the rule or not.
                    Read::Senseless => {}
                }
                if has_form {
                    taken += 1;
                } else {
                    refused += 1;
                }
            }
        }
        assert!(refused > 100 && taken > 20, "{form:?}: {refused} {taken}");
    }
}

proptest! {
    #[test]
    fn schema_and_reader_take_the_same_sizes_and_durations(
        digits in "[0-9]{0,6}",
        unit in "(|B|KiB|MiB|GiB|KB|ms|s|m|h|d| s|none)",
        number in -3_i64..100_000,
    ) {
        // Made once for all cases: making one takes longer than using it.
        static CONFIG: LazyLock<Validator> = LazyLock::new(|| validator(Form::Config));
        static PROFILE: LazyLock<Validator> = LazyLock::new(|| validator(Form::Profile));
        let text = format!("{digits}{unit}");
        // By the form alone, which values out of range have.
        let config_of = |key: &str, value: &str| format!("[{}]\n{} = {value}\n", key.split('.').next().unwrap(), key.split('.').nth(1).unwrap());
        for (key, value_text) in [
            ("server.drain", format!("{text:?}")),
            ("server.drain", number.to_string()),
            ("hooks.event_max", format!("{text:?}")),
            ("hooks.event_max", number.to_string()),
        ] {
            let text = config_of(key, &value_text);
            prop_assert_eq!(CONFIG.is_valid(&value(&text)), read_config(&text) != Read::Formless, "{}", text);
        }
        for value_text in [format!("{text:?}"), number.to_string()] {
            for key in ["address_space", "file_size"] {
                let text = format!("description = \"x\"\n[limits]\n{key} = {value_text}\n");
                prop_assert_eq!(PROFILE.is_valid(&value(&text)), read_profile(&text) != Read::Formless, "{}", text);
            }
        }
    }
}

#[test]
fn the_values_that_a_schema_lists_are_those_that_are_read() {
    let schema = Form::Config.schema();
    let listed = |table: &str, key: &str| {
        let values = &schema["$defs"][table]["properties"][key]["enum"];
        let values: Vec<_> = values
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        assert!(values.len() > 1, "{table}.{key}");
        values
    };
    let hook = "[[hook]]\ncontract = \"loom\"\npoint = \"tool.post\"\ncommand = [\"x\"]";
    for (table, key, before) in [
        ("HooksEntry", "on_hook_turn_limit", "[hooks]"),
        ("ServerEntry", "socket_mode", "[server]"),
        ("HookEntry", "on_failure", hook),
        (
            "HooksFileEntry",
            "contract",
            "[[hooks_file]]\npath = \"/x\"",
        ),
    ] {
        for value in listed(table, key) {
            assert_eq!(
                read_config(&format!("{before}\n{key} = \"{value}\"\n")),
                Read::Accepted,
                "{key} = {value}"
            );
        }
        assert_eq!(
            read_config(&format!("{before}\n{key} = \"other\"\n")),
            Read::Senseless,
            "{key}"
        );
    }
    for (order, expected) in [("landlock", true), ("noop", true), ("docker", false)] {
        let text = format!("[backends]\norder = [\"{order}\"]\n");
        assert_eq!(read_config(&text) == Read::Accepted, expected, "{order}");
        assert_eq!(
            validator(Form::Config).is_valid(&value(&text)),
            expected,
            "{order}"
        );
    }
}

#[tokio::test]
async fn the_lines_that_a_daemon_writes_have_their_form() {
    let daemon = Daemon::with(Setup {
        config: "[audit]\ncapture = [\"event\", \"stdout\", \"stderr\"]\n".to_owned(),
        ..Setup::default()
    })
    .await;
    let mut request = sh("strict", "cat; printf '\\377' >&2; exit 3");
    request.event = event("{}");
    daemon.run(request).await.unwrap();
    daemon.run(sh("strict", ": &")).await.unwrap();
    daemon.run(hook(["/no/such/program"])).await.unwrap_err();
    let malformed = pb::ExecuteRequest {
        profile: "Not a name".to_owned(),
        ..hook(["/bin/true"])
    };
    daemon.run(malformed).await.unwrap_err();
    // One is open when this daemon dies, and one line is not finished.
    let mut client = daemon.client();
    let running = sh("pipeline", "sleep 60");
    let call = tokio::spawn(async move { client.execute(running).await });
    crate::witness::until("the start", || daemon.records().len() == 7).await;
    let directory = daemon.kill();
    call.abort();
    let path = directory.path().join("state/audit/journal.jsonl");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], b"{\"sequence\":8,"].concat()).unwrap();
    let daemon = Daemon::in_directory(directory, Setup::default())
        .await
        .unwrap();

    let records = daemon.journal();
    let kinds = |kind: &str| {
        records
            .iter()
            .filter(|record| record["record"] == kind)
            .count()
    };
    for kind in ["started", "ended", "refused", "interrupted", "torn"] {
        assert!(kinds(kind) > 0, "{kind}: {:?}", daemon.records());
    }
    for record in &records {
        assert_has(Form::Audit, record, &record.to_string());
        serde_json::from_value::<Line>(record.clone()).unwrap();
    }
    // A line less of anything that must be there, and a value of another type.
    let validator = validator(Form::Audit);
    for record in &records {
        for change in changed(record) {
            let read = serde_json::from_value::<Line>(change.clone());
            // Hashes are of a form that only the chain looks at.
            if validator.is_valid(&change) {
                assert!(read.is_ok(), "{change}: {read:?}");
            }
            if read.is_err() {
                assert!(!validator.is_valid(&change), "{change}");
            }
        }
    }
    assert_eq!(journal(daemon.path()).len(), records.len());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "tests start hookjail itself")]
fn an_allowlist_as_it_is_written_has_its_form_and_the_command_line_prints_every_schema() {
    let home = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let config = home.path().join("hookjail.toml");
        let state = home.path().join("state");
        fs::write(
            &config,
            format!("[paths]\nstate = {state:?}\nruntime = {state:?}\n"),
        )
        .unwrap();
        let output = crate::support::command(program())
            .arg("--config")
            .arg(&config)
            .args(words)
            .env("HOME", home.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        output.stdout
    };
    run(&["allow", "--", "/bin/sh", "-c", "true"]);
    run(&[
        "allow",
        "--until",
        "2099-01-01T00:00:00Z",
        "--",
        "/bin/true",
    ]);
    let list = fs::read(home.path().join("state/allowlist.json")).unwrap();
    let list: Value = serde_json::from_slice(&list).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 2);
    assert_has(Form::Allowlist, &list, "the allowlist");
    // One of reyn's.
    let reyns = json!([{ "command": "x", "approved_at": "2026-06-01T00:00:00Z", "script_mtime": 1.5, "more": {} }]);
    assert_has(Form::Allowlist, &reyns, "reyn's allowlist");
    let validator = validator(Form::Allowlist);
    for wrong in [
        json!({}),
        json!(["x"]),
        json!([{ "command": "x" }]),
        json!([{ "command": 1, "approved_at": "x" }]),
        json!([{ "command": "x", "approved_at": "x", "digests": [{ "path": "/x" }] }]),
        json!([{ "command": "x", "approved_at": "x", "digests": [{ "path": "/x", "sha256": "x", "role": "y" }] }]),
    ] {
        assert!(!validator.is_valid(&wrong), "{wrong}");
        let read = serde_json::from_value::<Vec<hookjail_daemon::testing::consent::allowlist::Entry>>(
            wrong.clone(),
        );
        assert!(read.is_err(), "{wrong}");
    }

    for form in Form::ALL {
        let printed: Value = serde_json::from_slice(&run(&["schema", form.name()])).unwrap();
        assert_eq!(printed, form.schema());
        let line = run(&["--json", "schema", form.name()]);
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let kept = read(&format!("schemas/{}.schema.json", form.name()));
        assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), printed);
    }
    assert_eq!(run(&["profile", "schema"]), run(&["schema", "profile"]));
}

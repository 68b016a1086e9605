//! Tables of keys in the documents, made from the schemas.

use serde_json::Value;

use super::{add_links, assert_section, table_of};
use crate::schema::Form;

/// Table of a page: the keys of a form below one key, and links of their texts.
struct Table {
    page: &'static str,
    form: Form,
    /// The key of the TOML table. Keys below it have no rows in tables of keys above it.
    above: &'static str,
    /// Lines of a key and a link, whose text is a phrase of the key's row.
    links: &'static str,
}

/// Returns a schema without `$ref` and without the choice of `null`.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(name) = schema["$ref"].as_str() {
        return resolved(root, root.pointer(name.trim_start_matches('#')).unwrap());
    }
    match schema["anyOf"].as_array().map(Vec::as_slice) {
        Some([inner, other]) if other["type"] == "null" => resolved(root, inner),
        _ => schema,
    }
}

/// Returns the members of an array, or nothing.
fn members(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the cells of a key's default and meaning.
fn cells(root: &Value, property: &Value, is_required: bool) -> String {
    let inner = resolved(root, property);
    let items = resolved(root, &inner["items"]);
    let text = property["description"].as_str().unwrap().replace('\n', " ");
    let (mut meaning, default) = match (text.split_once(" Default: "), &property["default"]) {
        (Some((meaning, default)), _) => (meaning.to_owned(), default.trim_end_matches('.').into()),
        (None, _) if is_required => (text, "required".to_owned()),
        (None, Value::Null) => (text, String::new()),
        (None, _) if inner["properties"].is_object() => (text, String::new()),
        (None, default) => (text, format!("`{default}`")),
    };
    for value in members(&inner["oneOf"]) {
        let does = value["description"].as_str().unwrap().replace('\n', " ");
        meaning += &format!(" `{}`: {does}", value["const"]);
    }
    let choices = members(&property["enum"]).chain(members(&items["oneOf"]).map(|it| &it["const"]));
    let choices: Vec<_> = choices
        .filter(|value| !value.is_null())
        .map(|value| format!("`{value}`"))
        .collect();
    if !choices.is_empty() {
        meaning += &format!(" Values: {}.", choices.join(", "));
    }
    let [least, most] = ["minimum", "maximum"].map(|limit| property[limit].as_f64());
    match (least, most) {
        (Some(least), Some(most)) => meaning += &format!(" {least} to {most}."),
        (Some(least), None) if least > 0.0 => meaning += &format!(" At least {least}."),
        _ => {}
    }
    format!("{default} | {}", meaning.replace('|', "\\|"))
}

/// Adds the rows of the keys below one key: key, default and meaning.
fn add_rows(
    root: &Value,
    above: &str,
    schema: &Value,
    tables: &[&str],
    rows: &mut Vec<(String, String)>,
) {
    for (name, property) in schema["properties"].as_object().unwrap() {
        let key = match above {
            "" => name.clone(),
            _ => format!("{above}.{name}"),
        };
        let inner = resolved(root, property);
        let items = resolved(root, &inner["items"]);
        let is_required = members(&schema["required"]).any(|it| it == name);
        let row = |key: &str| (key.to_owned(), cells(root, property, is_required));
        let is_elsewhere = tables.contains(&key.as_str());
        if items["properties"].is_object() {
            rows.push(row(&format!("[[{key}]]")));
        } else if !inner["properties"].is_object() {
            rows.push(row(&key));
        } else if is_elsewhere {
            rows.push(row(&format!("[{key}]")));
        }
        let below = [inner, items]
            .into_iter()
            .find(|it| it["properties"].is_object());
        if let Some(below) = below.filter(|_| !is_elsewhere) {
            add_rows(root, &key, below, tables, rows);
        }
    }
}

#[test]
fn the_tables_in_the_docs_are_those_of_the_schemas() {
    for table in TABLES {
        let root = table.form.schema();
        let tables = TABLES.iter().filter(|other| other.form == table.form);
        let tables: Vec<_> = tables.map(|other| other.above).collect();
        let mut schema = &root;
        for name in table.above.split('.').filter(|name| !name.is_empty()) {
            schema = resolved(&root, &schema["properties"][name]);
            if schema["items"].is_object() {
                schema = resolved(&root, &schema["items"]);
            }
        }
        let mut rows = Vec::new();
        add_rows(&root, table.above, schema, &tables, &mut rows);
        add_links(&mut rows, table.links);
        let name = format!("keys {}", table.above);
        let text = table_of(&["key", "default", "meaning"], &rows);
        assert_section(table.page, name.trim_end(), &text);
    }
}

/// The generated tables.
const TABLES: &[Table] = &[
    Table {
        page: "configuration",
        form: Form::Config,
        above: "",
        links: "\
audit.capture [redaction of registered secrets](#secrets)
audit.fsync [synced to disk](#the-journal)
audit.readers [listed](#lists-of-users)
backends.order [Backends in order of preference](#backends)
consent.accept_hooks [variables of the environment](#environment-variables)
consent.operators [answer for the operator](#questions-to-the-operator)
consent.runtime [`ConsentService`](api.md#consent)
[container] [backend `container`](#containers)
egress.allow [Rules](profiles.md#hosts-by-name)
egress.allow [HTTP hooks](#http-hooks)
egress.ca [requests](profiles.md#requests-with-a-secret)
egress.proxy [named hosts](profiles.md#hosts-by-name)
[[hook]] [Options of a command](#hooks)
hooks.calls_per_minute [runs of each uid](api.md#rates)
hooks.cgroup [Cgroup](#limits-by-cgroups)
hooks.max_concurrent [divided among uids](api.md#places)
hooks.max_hook_driven_turns [loop valve](runtimes/reyn.md#the-loop-valve)
hooks.max_queued [divided among uids](api.md#places)
hooks.run_as [User of a root daemon's hooks](#users-of-hooks)
hooks.workspace_roots [by the daemon's user](#workspaces)
[[hooks_file]] [Hook config](#hook-configs)
http.allow [HTTP hooks](#http-hooks)
infer.all [infer's hooks](runtimes/infer.md#the-list)
infer.listed [consent](runtimes/infer.md#the-list-as-consent)
metrics.listen [metrics](operations.md#prometheus-and-grafana)
[network] [Listener](network.md)
notify.command [notices of hooks](profiles.md#notices)
profiles.dirs [Directories of profiles](#files-of-profiles)
[[secret]] [Value to redact](#secrets)
server.admin_socket [administers](#reload)
server.callers [Permitted callers](#lists-of-users)
server.max_bytes_in_flight [divided among uids](api.md#limits)
server.max_connections [divided among uids](api.md#limits)
traces.endpoint [traces](operations.md#traces)
",
    },
    Table {
        page: "configuration",
        form: Form::Config,
        above: "container",
        links: "\
container.root [Root file system](#a-root-of-their-own)
",
    },
    Table {
        page: "configuration",
        form: Form::Config,
        above: "hook",
        links: "\
hook.builtin [Built-in hook](runtimes/docker-agent.md#built-in-hooks)
hook.command [contract's shell or split into words](contracts.md#command-lines)
hook.contract [Contract](contracts.md)
hook.env [Variables](#variables-of-a-configured-hook)
hook.on_failure [Effect of a failure](contracts.md#what-a-failure-does)
hook.template_push [reyn's scheme](runtimes/reyn.md#template_push)
",
    },
    Table {
        page: "configuration",
        form: Form::Config,
        above: "hooks_file",
        links: "\
hooks_file.base [relative paths in its commands](contracts.md#command-lines)
hooks_file.judge [judging model](runtimes/docker-agent.md#models-that-judge)
hooks_file.plugin [plugin's directory](contracts.md#variables-that-say-where-things-are)
[[hooks_file.rule]] [Settings of some of the file's hooks](#rules-for-hooks-of-a-file)
hooks_file.user [own file](#users-own-hook-configs)
",
    },
    Table {
        page: "configuration",
        form: Form::Config,
        above: "hooks_file.rule",
        links: "",
    },
    Table {
        page: "configuration",
        form: Form::Config,
        above: "secret",
        links: "",
    },
    Table {
        page: "network",
        form: Form::Config,
        above: "network",
        links: "\
network.plaintext [without TLS](#without-tls)
",
    },
    Table {
        page: "profiles",
        form: Form::Profile,
        above: "",
        links: "\
egress [Hosts with ports](#hosts-by-name)
environment.caller_path [would replace an interpreter](configuration.md#interpreters-that-path-finds)
extends [parts](#parts)
files.hidden [cannot be opened](#hidden-files)
files.read_only [a mount namespace](nesting.md#mounts-of-a-hooks-own)
files.state [files that last](#files-that-last)
files.named.create [a missing file is made](#files-to-add-to)
files.transcripts [transcripts](#transcripts)
files.unchanged [stay as they are](#what-agents-and-editors-obey)
limits.cpus [with a cgroup](configuration.md#limits-by-cgroups)
limits.memory [with a cgroup](configuration.md#limits-by-cgroups)
limits.scratch [the scratch directory](#a-scratch-directory-of-limited-size)
notify [notices](#notices)
output.redact [redacted from replies](#output)
[[requests]] [Requests that the daemon makes](#requests-with-a-secret)
state [files that last](#files-that-last)
view [A view of the run's own](#a-view-of-its-own)
warm [wait for the next runs](#processes-that-wait)
",
    },
    Table {
        page: "profiles",
        form: Form::Profile,
        above: "requests",
        links: "",
    },
];

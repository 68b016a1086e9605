//! Tables of messages, enums and methods in the documents, made from the comments of the protocol.

use std::{collections::BTreeMap, fs, mem, path::Path};

use super::{add_links, assert_section, table_of};

/// Table of a page: the members of a type of the protocol, and links of their texts.
struct Table {
    page: &'static str,
    /// Name of a message, an enum or a service.
    name: &'static str,
    /// Dotted names of fields whose message's fields have rows as well.
    expanded: &'static [&'static str],
    /// Lines of a row's name and a link, whose text is a phrase of the row.
    links: &'static str,
}

/// Message, enum or service of the protocol.
struct Type {
    keyword: String,
    members: Vec<Member>,
}

/// Field of a message, value of an enum or method of a service.
struct Member {
    name: String,
    /// The type of a field, empty otherwise.
    kind: String,
    comment: String,
}

/// Reads the types of the protocol with their comments.
fn protocol() -> BTreeMap<String, Type> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/hookjail/v1");
    let mut types = BTreeMap::<String, Type>::new();
    for file in fs::read_dir(directory).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let (mut current, mut comment) = (String::new(), String::new());
        for line in text.lines().map(str::trim) {
            if let Some(part) = line.strip_prefix("// ") {
                comment += if comment.is_empty() { "" } else { " " };
                comment += part;
                continue;
            }
            let comment = mem::take(&mut comment);
            let words: Vec<_> = line.split([' ', '(']).collect();
            let (name, kind) = match words[..] {
                [keyword @ ("message" | "enum" | "service"), name, ..] => {
                    let (keyword, members) = (keyword.to_owned(), Vec::new());
                    types.insert(name.to_owned(), Type { keyword, members });
                    name.clone_into(&mut current);
                    continue;
                }
                ["rpc", name, ..] => (name, ""),
                [ref kind @ .., name, "=", _] => (name, kind.last().copied().unwrap_or_default()),
                _ => continue,
            };
            if let Some(found) = types.get_mut(&current) {
                let (name, kind) = (name.to_owned(), kind.to_owned());
                assert!(!comment.is_empty(), "{current}.{name} has no comment");
                found.members.push(Member {
                    name,
                    kind,
                    comment,
                });
            }
        }
    }
    types
}

impl Type {
    /// Returns the values of an enum without its prefix: names and comments. The zero value is `UNSPECIFIED`.
    fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        let prefix = self.members[0].name.strip_suffix("UNSPECIFIED").unwrap();
        self.members.iter().map(move |value| {
            let name = value.name.strip_prefix(prefix).unwrap();
            (name, value.comment.as_str())
        })
    }
}

/// Returns the comment of a field, with the values of its enum unless a page has a table of these.
fn meaning(types: &BTreeMap<String, Type>, field: &Member) -> String {
    let mut meaning = field.comment.clone();
    let has_table = TABLES.iter().any(|table| table.name == field.kind);
    let kind = types.get(&field.kind).filter(|kind| kind.keyword == "enum");
    if let Some(kind) = kind.filter(|_| !has_table && !LISTED.contains(&field.kind.as_str())) {
        for (name, comment) in kind.values() {
            match (name, comment) {
                ("UNSPECIFIED", "Never sent.") => {}
                ("UNSPECIFIED", _) => meaning += &format!(" Unset: {comment}"),
                _ => meaning += &format!(" `{name}`: {comment}"),
            }
        }
    }
    meaning
}

/// Adds the rows of a message: names of fields below a field, and their meaning.
fn add_fields(
    types: &BTreeMap<String, Type>,
    table: &Table,
    above: &str,
    message: &str,
    rows: &mut Vec<(String, String)>,
) {
    for field in &types[message].members {
        let name = format!("{above}{}", field.name);
        rows.push((name.clone(), meaning(types, field)));
        if table.expanded.contains(&name.as_str()) {
            add_fields(types, table, &format!("{name}."), &field.kind, rows);
        }
    }
}

#[test]
fn the_tables_in_the_docs_are_those_of_the_protocol() {
    let types = protocol();
    for table in TABLES {
        let found = &types[table.name];
        let mut rows = Vec::new();
        let column = match found.keyword.as_str() {
            "message" => {
                add_fields(&types, table, "", table.name, &mut rows);
                "field"
            }
            "enum" => {
                let values = found.values().filter(|(name, _)| *name != "UNSPECIFIED");
                rows.extend(values.map(|(name, comment)| (name.to_owned(), comment.to_owned())));
                "value"
            }
            _ => {
                let methods = found.members.iter();
                rows.extend(methods.map(|method| (method.name.clone(), method.comment.clone())));
                "method"
            }
        };
        for (_, cells) in &mut rows {
            *cells = cells.replace('|', "\\|");
        }
        add_links(&mut rows, table.links);
        let text = table_of(&[column, "meaning"], &rows);
        assert_section(table.page, &format!("{column}s {}", table.name), &text);
    }
}

/// Enums whose values other tables have.
const LISTED: &[&str] = &["Axis", "Contract"];

/// The generated tables.
const TABLES: &[Table] = &[
    Table {
        page: "api",
        name: "ExecuteRequest",
        expanded: &["hook", "hook.shell", "event", "offer"],
        links: "\
request_id [repeated id](#request-ids)
hook.shell.script [contract's shell](contracts.md#command-lines)
hook.working_dir [the contract has no shell](contracts.md#command-lines)
hook.source [`${source}`](profiles.md#the-tree-that-a-working-tree-was-made-from)
contract [contract](contracts.md)
narrow [Rights to remove](profiles.md#narrowing)
timeout [Wall time](#deadline)
on_disconnect [disconnects](#clients-that-go-away)
on_failure [failed without a decision](contracts.md#what-a-failure-does)
offer.workspace [without one](profiles.md#where-there-is-no-workspace)
required [required hook](organisations.md#required-hooks)
",
    },
    Table {
        page: "api",
        name: "ExecuteResponse",
        expanded: &["outcome", "usage", "audit", "events"],
        links: "\
stdout [`output.redact`](profiles.md#output)
verdict [Meaning of the end](#verdict)
denials [operations](#denials)
denial_sources [named hosts](profiles.md#hosts-by-name)
",
    },
    Table {
        page: "api",
        name: "OutcomeKind",
        expanded: &[],
        links: "\
OUT_OF_MEMORY [cgroup](configuration.md#limits-by-cgroups)
PIDS_EXHAUSTED [cgroup](configuration.md#limits-by-cgroups)
KILLED [killed it](#runs-in-work)
",
    },
    Table {
        page: "api",
        name: "Confinement",
        expanded: &["axes", "evidence", "passed_over"],
        links: "",
    },
    Table {
        page: "api",
        name: "Verdict",
        expanded: &["push"],
        links: "\
decision [decision](contracts.md#the-verdict)
blocked_by [Cause](contracts.md#the-verdict)
skip_reason [closed list](contracts.md#why-nothing-is-delivered-or-read)
",
    },
    Table {
        page: "contracts",
        name: "Decision",
        expanded: &[],
        links: "",
    },
    Table {
        page: "contracts",
        name: "BlockedBy",
        expanded: &[],
        links: "",
    },
    Table {
        page: "api",
        name: "Denial",
        expanded: &[],
        links: "",
    },
    Table {
        page: "api",
        name: "DispatchRequest",
        expanded: &["budget", "tool", "scope", "inline_hooks"],
        links: "\
request_id [repeated id](#request-ids)
event [as for `Execute`](#request)
tool [subject](#what-matchers-look-at)
mode_key [which commands run](runtimes/infer.md#the-list)
turn_origin [loop valve](runtimes/reyn.md#the-loop-valve)
timeout [Wall time](#deadline)
on_disconnect [disconnects](#clients-that-go-away)
on_failure [failed without a decision](contracts.md#what-a-failure-does)
source [`${source}`](profiles.md#the-tree-that-a-working-tree-was-made-from)
",
    },
    Table {
        page: "api",
        name: "DispatchResponse",
        expanded: &["hooks", "hooks.refused", "reminders", "loop_valve"],
        links: "\
answer [verdict](#verdict)
loop_valve [loop valve](runtimes/reyn.md#the-loop-valve)
",
    },
    Table {
        page: "api",
        name: "ConfiguredHook",
        expanded: &[],
        links: "\
command [HTTP hook](configuration.md#http-hooks)
",
    },
    Table {
        page: "api",
        name: "PreviewResponse",
        expanded: &["grants", "refusal", "files"],
        links: "",
    },
    Table {
        page: "api",
        name: "ConsentService",
        expanded: &[],
        links: "",
    },
    Table {
        page: "api",
        name: "WatchRequest",
        expanded: &[],
        links: "",
    },
    Table {
        page: "api",
        name: "PendingConsent",
        expanded: &[],
        links: "",
    },
    Table {
        page: "api",
        name: "AllowRequest",
        expanded: &[],
        links: "",
    },
    Table {
        page: "api",
        name: "RunState",
        expanded: &[],
        links: "\
QUEUED [place](#places)
ASKING [consent](#consent)
",
    },
    Table {
        page: "api",
        name: "AuditFilter",
        expanded: &[],
        links: "",
    },
];

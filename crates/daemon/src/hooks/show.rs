//! Registered hooks as JSON, for display and for programs.

use serde_json::{Map, Value, json};

use hookjail_base::model::{Command, Lines, OnFailure};
use hookjail_base::util::units::Span;
use hookjail_contract::{
    Entry, OnError,
    hook_file::{ReadFile, spelled},
};

use super::{Action, Owner, Registered, Supplied, http::PostDecision};

/// Returns the content of a hook file as one JSON object.
pub fn file(read: &ReadFile) -> Value {
    let hooks: Vec<_> = read.hooks.iter().map(object).collect();
    json!({ "disabled": read.disabled, "hooks": hooks, "warnings": read.warnings })
}

/// Returns a hook as one JSON object, without default members. Of its environment it has only the names.
pub fn object(hook: &Registered) -> Value {
    let defaults = hook.mode.defaults(&hook.point);
    let timeout = hook.entry.timeout.or(defaults.timeout);
    let names: Vec<_> = hook.configured_env.keys().collect();
    let (key, value) = match &hook.action {
        Action::Command(Command::Argv(argv)) => {
            let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
            ("argv", json!(words))
        }
        Action::Command(Command::Line { text, .. }) => ("command", json!(text)),
        Action::Builtin(builtin) => ("builtin", json!(builtin.name())),
        Action::Http(post) => ("http", json!(post.url.to_string())),
        Action::Approve(wait) => ("approve_ms", json!(wait.as_millis())),
        Action::Log(log) => ("log", json!(log.level())),
        Action::Supplied(Supplied::Query(query)) => ("builtin", json!(query.name())),
        Action::Supplied(Supplied::Save(save)) => ("save_json", json!(save.path())),
        Action::Supplied(Supplied::Template(_)) => ("template", json!("push")),
        Action::Unsupported(why) => ("unsupported", json!(why)),
    };
    let builtin = hook.action.as_builtin();
    let args = builtin.map(|(_, args, _)| args).unwrap_or_default();
    let runs = hook
        .action
        .supplied()
        .map(|supplied| json!(supplied.argv()));
    let posted = posted(&hook.action);
    let parts = [
        (key, Some(value)),
        ("after_block", hook.runs_after_block.then(|| json!("run"))),
        ("args", (!args.is_empty()).then(|| json!(args))),
        ("kind", hook.entry.advisory.then(|| json!("advisory"))),
        ("runs", runs),
        ("contract", Some(json!(hook.mode.facts().contract))),
        ("env", (!names.is_empty()).then(|| json!(names))),
        (
            "if",
            hook.filter.as_ref().map(|filter| json!(filter.as_str())),
        ),
        ("matcher", Some(json!(hook.matching))),
        (
            "mode",
            Some(json!(hook.mode.mode_name())).filter(|mode| *mode != ""),
        ),
        ("name", Some(json!(hook.name))),
        ("owner", Some(json!(owner(&hook.owner)))),
        ("point", Some(json!(hook.point))),
        ("profile", Some(json!(hook.runs_under()))),
        ("source", Some(json!(hook.source))),
        (
            "timeout_ms",
            timeout.map(|timeout| json!(timeout.as_millis())),
        ),
        (
            "working_dir",
            hook.working_dir.as_ref().map(|path| json!(path)),
        ),
    ];
    let all = parts.into_iter().chain(posted).chain(reading(&hook.entry));
    let object: Map<_, _> = all
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect();
    Value::Object(object)
}

/// Returns a posted hook's headers, and the decision of the operator's configuration.
fn posted(action: &Action) -> [(&'static str, Option<Value>); 3] {
    let Action::Http(post) = action else {
        return Default::default();
    };
    let (allowed, denied) = match &post.standing {
        PostDecision::Allowed(allowed) => (Some(json!(allowed.by.to_string())), None),
        PostDecision::Denied(denied) => (None, Some(json!(denied.to_string()))),
        PostDecision::Unasked => (None, None),
    };
    let headers = post.headers();
    [
        ("allowed_by", allowed),
        ("denied", denied),
        ("headers", (!headers.is_empty()).then(|| json!(headers))),
    ]
}

/// Returns the members of an entry that affect how its end is interpreted.
fn reading(entry: &Entry) -> [(&'static str, Option<Value>); 8] {
    let set = |is: bool| is.then_some(Value::Bool(true));
    let context = entry.context_chars;
    let is_usual = context == Entry::default().context_chars;
    let on_error = match entry.on_error {
        OnError::Block => Some(json!("block")),
        OnError::Ignore => Some(json!("ignore")),
        OnError::Warn => None,
    };
    let on_failure = match entry.on_failure {
        OnFailure::Closed => Some(json!("closed")),
        OnFailure::Contract => None,
        OnFailure::Open => Some(json!("open")),
    };
    [
        ("background", set(entry.background)),
        ("context_chars", (!is_usual).then(|| json!(context))),
        ("in_turn", set(entry.in_turn)),
        ("on_error", on_error),
        ("on_failure", on_failure),
        ("preempt", set(entry.preempt)),
        ("priority", entry.priority.map(Value::from)),
        ("strict_output", set(entry.strict_output)),
    ]
}

/// Adds a hook as lines for people, the first with its name.
pub fn add(hook: &Registered, text: &mut Lines) {
    let mut lines = vec![format!("{} ({})", hook.name, hook.mode.facts().contract)];
    match &hook.action {
        Action::Command(command) => lines.extend(runs(&spelled(command))),
        Action::Builtin(builtin) => lines.push(serves(builtin.name(), &builtin.args())),
        Action::Supplied(supplied) => {
            lines.push(match supplied {
                Supplied::Query(query) => serves(query.name(), &query.args()),
                Supplied::Save(save) => format!("saves    {}", save.path().display()),
                Supplied::Template(_) => "renders  a push".to_owned(),
            });
            lines.extend(runs(&hook.action.line()));
        }
        Action::Http(post) => {
            lines.push(format!("posts    to {}", post.url));
            if !post.headers().is_empty() {
                lines.push(format!("headers  {}", post.headers().join(", ")));
            }
            lines.push(match &post.standing {
                PostDecision::Allowed(allowed) => {
                    format!("allowed  by {} (`http.allow`)", allowed.by)
                }
                PostDecision::Denied(denied) => format!("refused  NOT_ALLOWLISTED: {denied}"),
                PostDecision::Unasked => {
                    "allowed  where `http.allow` of the configuration allows it".to_owned()
                }
            });
        }
        Action::Approve(wait) => lines.push(format!("asks     the operator, for {}", Span(*wait))),
        Action::Log(log) => lines.push(format!("logs     {}", log.level())),
        Action::Unsupported(why) => lines.push(format!("refused  UNSUPPORTED: {why}")),
    }
    if !hook.matching.is_empty() {
        lines.push(format!("matcher  {}", hook.matching));
    }
    if let Some(filter) = &hook.filter {
        lines.push(format!("if       {}", filter.as_str()));
    }
    lines.push(format!("profile  {}", hook.runs_under()));
    let default = hook.mode.defaults(&hook.point).timeout;
    let runs = matches!(
        hook.action,
        Action::Command(_) | Action::Supplied(_) | Action::Http(_)
    );
    if let Some(timeout) = hook.entry.timeout.or(default).filter(|_| runs) {
        lines.push(format!("timeout  {}", Span(timeout)));
    }
    if hook.entry.advisory {
        lines.push("kind     advisory, decides nothing".to_owned());
    }
    if hook.runs_after_block {
        lines.push("after    a block too, only looking on".to_owned());
    }
    if !hook.configured_env.is_empty() {
        let names: Vec<_> = hook.configured_env.keys().map(String::as_str).collect();
        lines.push(format!("sets     {}", names.join(", ")));
    }
    if hook.owner != Owner::Operator {
        lines.push(format!("owner    {}", owner(&hook.owner)));
    }
    lines.push(format!("from     {}", hook.source));
    for (index, line) in lines.iter().enumerate() {
        let indentation = if index == 0 { "  " } else { "      " };
        text.add(format!("{indentation}{line}"));
    }
}

/// Returns a command as lines, as many as it has.
fn runs(command: &str) -> impl Iterator<Item = String> {
    let lines = command.trim().split('\n').enumerate();
    lines.map(|(index, line)| {
        let label = if index == 0 { "runs    " } else { "       |" };
        format!("{label} {line}")
    })
}

fn serves(name: &str, args: &[String]) -> String {
    let words = [&[name.to_owned()], args].concat();
    format!("serves   {}", words.join(" "))
}

fn owner(owner: &Owner) -> String {
    match owner {
        Owner::Agent(name) => format!("agent {name}"),
        Owner::Operator => "operator".to_owned(),
        Owner::Plugin(name) => format!("plugin {name}"),
        Owner::Required => "required".to_owned(),
        Owner::Skill(name) => format!("skill {name}"),
    }
}

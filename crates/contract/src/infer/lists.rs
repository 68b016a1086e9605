//! infer's command lists by agent mode.

use std::path::Path;

use serde_json::Value;

use super::gate::{self, Gate};
use crate::{
    AgentMode,
    hook_file::{
        Item, MAX_BYTES, ReadError,
        yaml::{self, Version},
    },
};

/// Commands that only read; allowed in every mode by default.
const READING: [&str; 3] = ["git (diff|log|show|status)( .*)?", "ls( .*)?", "pwd"];

/// The entries of the gate: regular expressions for whole commands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lists {
    /// Configured entries for every mode.
    pub all: Vec<String>,
    /// For `auto`.
    pub auto: Vec<String>,
    /// Whether a configured entry that names a program counts as consent to its commands.
    pub are_consent: bool,
    /// Default entries for every mode, where none are configured.
    pub default: Vec<String>,
    /// For `plan`.
    pub plan: Vec<String>,
    /// For `standard`.
    pub standard: Vec<String>,
}

impl Default for Lists {
    /// Allows commands that only read, and in `auto` everything.
    fn default() -> Self {
        Self {
            all: Vec::new(),
            are_consent: false,
            auto: vec![".*".to_owned()],
            default: READING.map(str::to_owned).into(),
            plan: Vec::new(),
            standard: Vec::new(),
        }
    }
}

impl Lists {
    /// Decides whether a command may run in a workspace and a mode.
    pub fn decide(&self, command: &str, mode: AgentMode, workspace: Option<&Path>) -> Gate {
        let list: Vec<_> = self
            .default
            .iter()
            .cloned()
            .chain(self.configured(mode))
            .collect();
        gate::gate(command, &list, workspace)
    }

    /// Returns whether being on the list counts as consent to a command in a workspace and a mode.
    pub fn stand_for(&self, command: &str, mode: AgentMode, workspace: Option<&Path>) -> bool {
        let list: Vec<_> = self.configured(mode).collect();
        self.are_consent && gate::names(command, &list, workspace)
    }

    /// Returns warnings about entries with less effect than intended.
    ///
    /// Such entries are no regular expressions or, where entries count as consent, name no program.
    pub fn warnings(&self) -> Vec<String> {
        let default = Self::default();
        let lists = [
            ("every mode", &self.all, &default.all),
            ("`auto`", &self.auto, &default.auto),
            ("`plan`", &self.plan, &default.plan),
            ("`standard`", &self.standard, &default.standard),
        ];
        let written = lists
            .into_iter()
            .filter(|(_, list, default)| list != default);
        let of_list = |(mode, list, _): (&str, &Vec<String>, _)| {
            let problem = |entry: &String| {
                let problem = gate::fault(entry).or_else(|| {
                    let is_heard = !self.are_consent || gate::names_programs(entry);
                    let problem = "names no program, and is consent to nothing; put a spelled-out word before \
                                   any pattern (a dot as `\\.`)";
                    (!is_heard).then_some(problem)
                })?;
                Some(format!("infer's list for {mode}: `{entry}` {problem}"))
            };
            list.iter().filter_map(problem).collect::<Vec<_>>()
        };
        written.flat_map(of_list).collect()
    }

    /// Merges the lists: one not `written` is from infer's own configuration, or the default. `append` has further
    /// entries for every mode, separated by commas or line breaks.
    pub fn joined(
        written: &WrittenLists,
        of_file: WrittenLists,
        append: &str,
        are_consent: bool,
    ) -> Self {
        let default = Self::default();
        let one = |written: &Option<Vec<String>>, of_file| written.clone().or(of_file);
        let all = one(&written.all, of_file.all);
        let entries = append.split([',', '\n']).map(str::trim);
        let appended = entries.filter(|entry| !entry.is_empty()).map(str::to_owned);
        Self {
            default: if all.is_some() {
                Vec::new()
            } else {
                default.default
            },
            all: all
                .unwrap_or_default()
                .into_iter()
                .chain(appended)
                .collect(),
            are_consent,
            auto: one(&written.auto, of_file.auto).unwrap_or(default.auto),
            plan: one(&written.plan, of_file.plan).unwrap_or_default(),
            standard: one(&written.standard, of_file.standard).unwrap_or_default(),
        }
    }

    /// Returns the configured entries for a mode.
    fn configured(&self, mode: AgentMode) -> impl Iterator<Item = String> {
        let of_mode: &[_] = match mode {
            AgentMode::Auto => &self.auto,
            AgentMode::Other | AgentMode::ReadOnly => &[],
            AgentMode::Plan => &self.plan,
            AgentMode::Standard => &self.standard,
        };
        self.all.iter().chain(of_mode).cloned()
    }
}

/// infer's configured command lists by agent mode, each optional.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WrittenLists {
    /// For every mode.
    pub all: Option<Vec<String>>,
    /// For `auto`.
    pub auto: Option<Vec<String>>,
    /// For `plan`.
    pub plan: Option<Vec<String>>,
    /// For `standard`.
    pub standard: Option<Vec<String>>,
}

impl WrittenLists {
    /// Parses the lists of infer's own configuration, `tools.bash.mode.MODE.allow`. Its other content is irrelevant to
    /// hooks.
    ///
    /// # Errors
    ///
    /// Fails for a text that is not YAML or too large, and for a list of the wrong type.
    pub fn parse(text: &str, name: &str) -> Result<Self, ReadError> {
        let nothing = Value::Null;
        let whole = Item::root(name, &nothing);
        if text.len() > MAX_BYTES {
            return Err(whole.wrong(format!("is larger than {MAX_BYTES} bytes")));
        }
        let value = yaml::parse(text, Version::V1_2).map_err(|problem| whole.wrong(problem))?;
        let root = Item::root(name, &value);
        let modes = ["tools", "bash", "mode"]
            .iter()
            .try_fold(root, |item, key| item.down(key));
        let list = |mode: &str| {
            let allow = modes.as_ref()?.down(mode)?.field("allow")?;
            Some(
                allow
                    .texts()
                    .map(|texts| texts.into_iter().map(str::to_owned).collect()),
            )
        };
        Ok(Self {
            all: list("all").transpose()?,
            auto: list("auto").transpose()?,
            plan: list("plan").transpose()?,
            standard: list("standard").transpose()?,
        })
    }
}

//! The operator's rules for hooks of a file.

use std::time::Duration;

use hookjail_base::model::{OnFailure, ProfileName};

use super::Registered;

/// A rule about hooks of a file: selection and settings.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rule {
    /// Whether it is excluded from decisions; `None` = its verdict counts.
    pub advisory: Option<bool>,
    /// The command line, verbatim, quoted where needed; `None` = any.
    pub command: Option<String>,
    /// The hook's name; `None` = any.
    pub name: Option<String>,
    /// Effect of its failures; `None` = that of its entry.
    pub on_failure: Option<OnFailure>,
    /// The lifecycle point; `None` = any.
    pub point: Option<String>,
    /// The profile; `None` = that of its entry, its file or its contract.
    pub profile: Option<ProfileName>,
    /// Its wall time; `None` = that of its entry or its contract.
    pub timeout: Option<Duration>,
}

impl Rule {
    /// Returns whether the rule selects a hook.
    pub(crate) fn means(&self, hook: &Registered) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        is(&self.name, &hook.name)
            && is(&self.point, &hook.point)
            && is(&self.command, hook.action.line().trim())
    }
}

/// Applies matching rules to a hook: for each setting, the first that has it.
pub(crate) fn apply(rules: &[Rule], hook: &mut Registered) {
    let meant: Vec<_> = rules.iter().filter(|rule| rule.means(hook)).collect();
    if let Some(profile) = meant.iter().find_map(|rule| rule.profile.clone()) {
        hook.profile = Some(profile);
        hook.profile_granted = true;
    }
    if let Some(timeout) = meant.iter().find_map(|rule| rule.timeout) {
        hook.entry.timeout = Some(timeout);
    }
    if let Some(advisory) = meant.iter().find_map(|rule| rule.advisory) {
        hook.entry.advisory = advisory;
    }
    if let Some(on_failure) = meant.iter().find_map(|rule| rule.on_failure) {
        hook.entry.on_failure = on_failure;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hookjail_contract::hook_file::{Origin, Switches, read};

    const INFER: &str = "enabled: true\nhooks:\n\
        - {name: fmt, hook: post_tool, command: 'gofmt  -l .', timeout: 3}\n\
        - {name: log, hook: post_session, command: c}\n";

    fn hooks() -> Vec<Registered> {
        let origin = Origin {
            base: None,
            name: "hooks.yaml",
        };
        let read = read("infer", INFER, &origin, &Switches::default());
        read.unwrap().hooks
    }

    #[test]
    fn a_rule_means_hooks_by_name_point_and_command_and_all_that_it_names_must_fit() {
        let some = |text: &str| Some(text.to_owned());
        let means = |rule: Rule| hooks().iter().map(|it| rule.means(it)).collect::<Vec<_>>();
        let name = Rule {
            name: some("fmt"),
            ..Rule::default()
        };
        assert_eq!(means(name.clone()), [true, false]);
        let command = Rule {
            command: some("gofmt  -l ."),
            ..name.clone()
        };
        assert_eq!(means(command), [true, false]);
        let point = Rule {
            point: some("post_session"),
            ..Rule::default()
        };
        assert_eq!(means(point.clone()), [false, true]);
        assert_eq!(
            means(Rule {
                name: name.name,
                ..point
            }),
            [false, false]
        );
    }

    #[test]
    fn the_first_rule_that_says_something_decides_it_and_the_entry_the_rest() {
        let profile = |name: &str| ProfileName::parse(name);
        let rules = [
            Rule {
                advisory: Some(true),
                name: Some("fmt".to_owned()),
                profile: profile("workspace-rw"),
                ..Rule::default()
            },
            Rule {
                advisory: Some(false),
                on_failure: Some(OnFailure::Closed),
                point: Some("post_tool".to_owned()),
                profile: profile("strict"),
                ..Rule::default()
            },
        ];
        let mut hooks = hooks();
        for hook in &mut hooks {
            apply(&rules, hook);
        }
        let found: Vec<_> = hooks
            .iter()
            .map(|it| (it.profile.clone(), it.profile_granted, it.entry.on_failure))
            .collect();
        assert_eq!(
            found,
            [
                (profile("workspace-rw"), true, OnFailure::Closed),
                (None, false, OnFailure::Contract)
            ]
        );
        let advisory = hooks.iter().map(|it| it.entry.advisory);
        assert_eq!(advisory.collect::<Vec<_>>(), [true, false]);
        assert_eq!(hooks[0].entry.timeout, Some(Duration::from_secs(3)));
    }
}

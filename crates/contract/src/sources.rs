//! Where runtimes take commands from, beside the settings whose lines `hookjail install` rewrites.

use serde_json::Value;

use super::hook_file::yaml;

/// The places of a runtime's other commands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sources {
    /// The members of settings and of `places` with a command that is no hook, by their path.
    pub members: &'static [&'static str],
    /// The ones of `members` that the runtime hands to its shell prefix as it does hooks.
    pub prefixed: &'static [&'static str],
    /// The variable that names another directory than the user's usual one for settings.
    pub moved_by: Option<&'static str>,
    /// Files with hooks.
    pub places: &'static [Place],
    /// The plugins, if it has any.
    pub plugins: Option<Plugins>,
}

impl Sources {
    /// No other place.
    pub const NONE: Self = Self {
        members: &[],
        prefixed: &[],
        moved_by: None,
        places: &[],
        plugins: None,
    };
}

/// Files with hooks. A component `*` of the path is any name, `**` any directories.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// The form of the files.
    pub form: Form,
    /// Where the path begins.
    pub root: Root,
    /// The path below the root.
    pub path: &'static str,
    /// Why `hookjail install` does not rewrite the lines in it, and what confines them.
    pub why: &'static str,
}

/// Why an administrator's files are not rewritten.
pub(super) const ADMINISTRATOR: &str =
    "an administrator's settings are not rewritten; confine it there";

impl Place {
    pub(super) const fn new(form: Form, root: Root, path: &'static str, why: &'static str) -> Self {
        Self {
            form,
            root,
            path,
            why,
        }
    }
}

/// Where a path begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Root {
    /// The root directory: an administrator's files.
    Machine,
    /// The project's directory.
    Project,
    /// The user's home.
    User,
}

/// The form of a file with hooks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// `hooks` in the YAML between the first two lines `---` of a text.
    FrontMatter,
    /// `hooks` in the runtime's settings.
    Settings,
    /// `hooks` in TOML.
    Toml,
}

/// A runtime's plugins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Plugins {
    /// The member of settings that enables them.
    pub enabled: &'static str,
    /// Texts with hooks in their front matter, below a plugin.
    pub front_matter: &'static [&'static str],
    /// The file with hooks that every plugin may have.
    pub hooks: &'static str,
    /// The list of those that are installed, below the user's home.
    pub installed: &'static str,
    /// Directories that are plugins where they have a manifest, below the home and the project.
    pub loose: &'static [&'static str],
    /// The file of a marketplace with the plugins that it has.
    pub market: &'static str,
    /// The list of marketplaces, below the user's home.
    pub markets: &'static str,
    /// The file with a member `hooks`: hooks, or paths of files with hooks.
    pub manifest: &'static str,
    /// The file with the plugin's own settings.
    pub settings: &'static str,
    /// Why `hookjail install` does not rewrite the lines in them, and what confines them.
    pub why: &'static str,
}

/// Returns the values between the first two lines `---` of a text; null where there are none.
///
/// # Errors
///
/// Fails where they are no YAML.
pub fn front_matter(text: &str) -> Result<Value, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    if lines.next().is_none_or(|line| line.trim_end() != "---") {
        return Ok(Value::Null);
    }
    let matter: String = lines.take_while(|line| line.trim_end() != "---").collect();
    yaml::parse(&matter, yaml::Version::V1_2)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_before_a_text_are_read_and_others_are_none() {
        let text = "\u{feff}---\nname: a\nhooks: {Stop: [1]}\r\n---\nx: y\n---\n";
        assert_eq!(
            front_matter(text).unwrap(),
            json!({"name": "a", "hooks": {"Stop": [1]}})
        );
        for text in ["", "# a\n---\nhooks: 1\n---\n", "----\na: b\n"] {
            assert_eq!(front_matter(text).unwrap(), Value::Null, "{text:?}");
        }
        assert!(front_matter("---\n\thooks: {\n").is_err());
    }
}

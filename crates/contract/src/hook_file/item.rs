//! A value of a file with its position, for error messages.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use hookjail_base::model::{InvalidField, is_plain, variable::settable};

use super::ReadError;
use crate::{Entry, Matcher, Mode};

/// The longest name, bytes.
const NAME_BYTES: usize = 256;

/// A value of a file, with its position.
#[derive(Clone, Debug)]
pub(crate) struct Item<'a> {
    entry: String,
    field: String,
    file: &'a str,
    value: &'a Value,
}

impl<'a> Item<'a> {
    /// Returns the whole of a file.
    pub(crate) const fn root(file: &'a str, value: &'a Value) -> Self {
        Self {
            entry: String::new(),
            field: String::new(),
            file,
            value,
        }
    }

    /// Builds the error for a problem of this value.
    pub(crate) fn wrong(&self, problem: impl Into<String>) -> ReadError {
        ReadError {
            entry: self.entry.clone(),
            field: self.field.clone(),
            file: self.file.to_owned(),
            problem: problem.into(),
        }
    }

    /// Builds the error for a problem of a field, present or not.
    pub(crate) fn wrong_at(&self, field: &str, problem: impl Into<String>) -> ReadError {
        ReadError {
            field: join(&self.field, field),
            ..self.wrong(problem)
        }
    }

    /// Returns the path of its entry: `hooks.PreToolUse[0].hooks[1]`.
    pub(crate) fn entry(&self) -> &str {
        &self.entry
    }

    /// Returns its position for display.
    pub(crate) fn place(&self) -> String {
        let parts = [self.file, &self.entry, &self.field];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(": ")
    }

    /// Returns the value itself.
    pub(crate) const fn value(&self) -> &'a Value {
        self.value
    }

    /// Returns a member that leads to entries; absent and null are the same.
    pub(crate) fn down(&self, key: &str) -> Option<Self> {
        Some(Self {
            entry: join(&self.entry, key),
            value: self.member(key)?,
            ..self.clone()
        })
    }

    /// Returns a member that describes this entry; absent and null are the same.
    pub(crate) fn field(&self, key: &str) -> Option<Self> {
        Some(Self {
            field: join(&self.field, key),
            value: self.member(key)?,
            ..self.clone()
        })
    }

    fn member(&self, key: &str) -> Option<&'a Value> {
        self.value.get(key).filter(|value| !value.is_null())
    }

    /// Returns it as a map.
    pub(crate) fn map(&self) -> Result<&'a Map<String, Value>, ReadError> {
        let map = self.value.as_object();
        map.ok_or_else(|| self.wrong("must be a map of keys to values"))
    }

    /// Returns all members, each of which leads to entries.
    pub(crate) fn down_all(&self) -> Result<Vec<(&'a str, Self)>, ReadError> {
        let members = self.map()?.keys().map(String::as_str);
        Ok(members
            .filter_map(|key| Some((key, self.down(key)?)))
            .collect())
    }

    /// Returns the items of a list, each an entry or a group of entries.
    pub(crate) fn entries(&self) -> Result<Vec<Self>, ReadError> {
        let list = self.value.as_array();
        let list = list.ok_or_else(|| self.wrong("must be a list"))?;
        let item = |(index, value)| {
            let item = Self {
                entry: format!("{}[{index}]", self.entry),
                value,
                ..self.clone()
            };
            item.map()?;
            Ok(item)
        };
        list.iter().enumerate().map(item).collect()
    }

    /// Rejects all keys but these.
    pub(crate) fn only(&self, keys: &[&str]) -> Result<(), ReadError> {
        match self.others(keys)?.first() {
            None => Ok(()),
            Some(other) => {
                let keys: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
                let problem = format!("is not a key here; use one of {}", keys.join(", "));
                Err(self.wrong_at(other, problem))
            }
        }
    }

    /// Returns all keys but these.
    pub(crate) fn others(&self, keys: &[&str]) -> Result<Vec<&'a str>, ReadError> {
        let all = self.map()?.keys().map(String::as_str);
        Ok(all.filter(|key| !keys.contains(key)).collect())
    }

    /// Returns it as a string.
    pub(crate) fn text(&self) -> Result<&'a str, ReadError> {
        let text = self.value.as_str();
        let text = text.ok_or_else(|| self.wrong("must be a text; put it between quotes"))?;
        if text.contains('\0') {
            return Err(self.wrong("holds a NUL byte"));
        }
        Ok(text)
    }

    /// Returns a member as a string that is not blank.
    pub(crate) fn required(&self, key: &str) -> Result<&'a str, ReadError> {
        self.present(key)?.filled()
    }

    /// Returns a required member, which must be a string.
    pub(crate) fn present(&self, key: &str) -> Result<Self, ReadError> {
        let absent = || self.wrong_at(key, "is missing; add a text");
        self.field(key).ok_or_else(absent)
    }

    /// Returns the name in its `name`, if any.
    pub(crate) fn own_name(&self) -> Result<Option<String>, ReadError> {
        let name = self.field("name").map(|name| name.name()).transpose()?;
        let name = name.map(str::trim).filter(|name| !name.is_empty());
        Ok(name.map(ToOwned::to_owned))
    }

    /// Returns it as a string that is not blank.
    pub(crate) fn filled(&self) -> Result<&'a str, ReadError> {
        let text = self.text()?;
        if text.trim().is_empty() {
            return Err(self.wrong("is blank"));
        }
        Ok(text)
    }

    /// Returns it as a name that can be written to a log.
    pub(crate) fn name(&self) -> Result<&'a str, ReadError> {
        let name = self.text()?;
        if name.len() > NAME_BYTES {
            return Err(self.wrong(format!("is longer than {NAME_BYTES} bytes")));
        }
        if name.chars().any(char::is_control) {
            return Err(self.wrong("holds a control character"));
        }
        Ok(name)
    }

    /// Returns it as true or false.
    pub(crate) fn boolean(&self) -> Result<bool, ReadError> {
        let value = self.value.as_bool();
        value.ok_or_else(|| self.wrong("must be true or false"))
    }

    /// Returns whether a member is present and true.
    pub(crate) fn is_set(&self, key: &str) -> Result<bool, ReadError> {
        self.field(key).map_or(Ok(false), |field| field.boolean())
    }

    /// Returns it as a list of strings.
    pub(crate) fn texts(&self) -> Result<Vec<&'a str>, ReadError> {
        let list = self.value.as_array();
        let list = list.ok_or_else(|| self.wrong("must be a list of texts"))?;
        let text = |(index, value)| {
            let item = Self {
                field: format!("{}[{index}]", self.field),
                value,
                ..self.clone()
            };
            item.text()
        };
        list.iter().enumerate().map(text).collect()
    }

    /// Returns it as environment variables that an operator can set.
    pub(crate) fn variables(&self) -> Result<BTreeMap<String, OsString>, ReadError> {
        let mut all = BTreeMap::new();
        for name in self.map()?.keys() {
            settable(name)
                .map_err(|problem| self.wrong_at(&name.escape_debug().to_string(), problem))?;
            let value = self.field(name).map(|field| field.text()).transpose()?;
            all.insert(name.clone(), value.unwrap_or_default().into());
        }
        Ok(all)
    }

    /// Returns it as a directory; a relative path starts at `base`.
    pub(crate) fn directory(&self, base: Option<&Path>) -> Result<PathBuf, ReadError> {
        let text = self.filled()?;
        if text.starts_with('~') || text.contains('$') {
            let problem =
                format!("is `{text}`, which is not expanded here; give the absolute path");
            return Err(self.wrong(problem));
        }
        let path = match base {
            _ if Path::new(text).is_absolute() => PathBuf::from(text),
            Some(base) => base.join(text),
            None => {
                let problem = format!(
                    "is `{text}`, which is relative; give the absolute path, or the `base` of this `[[hooks_file]]`"
                );
                return Err(self.wrong(problem));
            }
        };
        // Without `.`, which leads nowhere else.
        let path: PathBuf = path.components().collect();
        if !is_plain(&path) {
            let problem = format!("is `{text}`, which has a component `..`");
            return Err(self.wrong(problem));
        }
        Ok(path)
    }

    /// Parses those of its keys that affect how an end is interpreted.
    pub(crate) fn reading(&self, mode: Mode, keys: &[&str]) -> Result<Entry, ReadError> {
        let member = |key: &&str| Some(((*key).to_owned(), self.member(key)?.clone()));
        let config = keys.iter().filter_map(member).collect();
        mode.entry(&config).map_err(|error| self.within(&error))
    }

    /// Parses its matcher; an absent one matches every event.
    pub(crate) fn matcher(&self, mode: Mode, point: &str) -> Result<(Matcher, String), ReadError> {
        let Some(field) = self.field("matcher") else {
            return Ok((Matcher::Always, String::new()));
        };
        let text = field.text()?;
        let matcher = Matcher::parse(mode, point, text).map_err(|error| self.within(&error))?;
        Ok((matcher, text.to_owned()))
    }

    /// Converts a field's error to one with a file and position.
    pub(crate) fn within(&self, error: &InvalidField) -> ReadError {
        let field = error.field.strip_prefix("config.").unwrap_or(&error.field);
        self.wrong_at(field, error.problem.clone())
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

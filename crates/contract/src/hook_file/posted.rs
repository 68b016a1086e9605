//! Entries that are posted to a URL: the keys common to all runtimes.

use std::collections::BTreeMap;

use super::{Action, Gathered, Item, ReadError};
use crate::Post;

/// The keys for URL and headers of an entry.
pub(crate) const KEYS: [&str; 3] = ["allowedEnvVars", "headers", "url"];

/// Parses URL and headers of an entry.
///
/// An entry that its runtime accepts and that cannot be posted here becomes a hook that is refused.
pub(crate) fn post(file: &mut Gathered<'_>, entry: &Item<'_>) -> Result<Action, ReadError> {
    let url = entry.required("url")?;
    let mut headers = BTreeMap::new();
    if let Some(map) = entry.field("headers") {
        for name in map.map()?.keys() {
            let value = map.field(name).map(|value| value.text()).transpose()?;
            headers.insert(name.as_str(), value.unwrap_or_default());
        }
    }
    let variables = entry.field("allowedEnvVars");
    let variables = variables.map(|list| list.texts()).transpose()?;
    let post = match Post::new(url, &headers, &variables.unwrap_or_default()) {
        Ok(post) => post,
        Err(why) => return Ok(Action::Unsupported(why)),
    };
    for variable in post.unlisted() {
        let problem =
            format!("`{variable}` is not in `allowedEnvVars`: nothing stands in its place");
        file.warn(entry, &problem);
    }
    Ok(Action::Http(Box::new(post)))
}

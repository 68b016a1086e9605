//! Reads the arguments of `notify-send`.

use super::{MOST_TEXT, MOST_TITLE, Notice, Urgency, plain};

/// Options with a value, by their long and short names. All others have none.
const WITH_VALUE: [(&str, Option<char>); 12] = [
    ("action", Some('A')),
    ("activation-token-fd", None),
    ("app-icon", Some('n')),
    ("app-name", Some('a')),
    ("category", Some('c')),
    ("expire-time", Some('t')),
    ("hint", Some('h')),
    ("icon", Some('i')),
    ("id-fd", None),
    ("replace-id", Some('r')),
    ("selected-action-fd", None),
    (URGENCY, Some('u')),
];

const URGENCY: &str = "urgency";

/// Returns the notice that a call asks for; `None` without a title.
pub(super) fn notice(arguments: &[String]) -> Option<Notice> {
    let mut urgency = Urgency::default();
    let mut plain_words = Vec::new();
    let mut arguments = arguments.iter().map(String::as_str);
    let mut take = |name: &str, value: Option<&str>| {
        if name == URGENCY {
            urgency = Urgency::parse(value.unwrap_or_default());
        }
    };
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            plain_words.extend(arguments.by_ref());
        } else if let Some(long) = argument.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            if let Some((known, _)) = WITH_VALUE.iter().find(|(known, _)| *known == name) {
                take(known, value.or_else(|| arguments.next()));
            }
        } else if let Some(cluster) = argument.strip_prefix('-').filter(|it| !it.is_empty()) {
            for (index, letter) in cluster.char_indices() {
                let mut with_value = WITH_VALUE.iter();
                let Some((name, _)) = with_value.find(|(_, short)| *short == Some(letter)) else {
                    continue;
                };
                let rest = &cluster[index + letter.len_utf8()..];
                let value = Some(rest).filter(|rest| !rest.is_empty());
                take(name, value.or_else(|| arguments.next()));
                break;
            }
        } else {
            plain_words.push(argument);
        }
    }
    let mut words = plain_words.into_iter();
    let title = plain(words.next()?, MOST_TITLE);
    // The program makes line breaks of these.
    let text = words.next().unwrap_or_default().replace("\\n", " ");
    (!title.is_empty()).then(|| Notice {
        sound: false,
        text: plain(&text, MOST_TEXT),
        title,
        urgency,
    })
}

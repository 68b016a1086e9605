//! Generated sections of the documents.

mod keys;
mod messages;

use std::{env, fs, path::Path};

/// Compares the section of a page between the markers of this name with a text. With `UPDATE_DOCS=1` the section is written instead.
pub(crate) fn assert_section(page: &str, name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/{page}.md"));
    let kept = fs::read_to_string(&path).unwrap();
    let [begin, end] = ["begin", "end"].map(|edge| format!("<!-- {name}: {edge} -->"));
    let (before, rest) = kept.split_once(&begin).unwrap_or_else(|| panic!("{begin}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{end}"));
    let new = format!("{before}{begin}\n\n{text}\n{end}{after}");
    if env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::write(path, new).unwrap();
    } else {
        assert_eq!(kept, new, "run this test with UPDATE_DOCS=1");
    }
}

/// Replaces phrases of rows by links. Each line has the name of a row and a link, whose text is the phrase.
pub(crate) fn add_links(rows: &mut [(String, String)], links: &str) {
    for line in links.lines() {
        let (name, link) = line.split_once(' ').unwrap();
        let (phrase, _) = link[1..].split_once("](").unwrap();
        let row = rows.iter_mut().find(|(known, _)| known == name);
        let (_, cells) = row.unwrap_or_else(|| panic!("{name}"));
        assert!(cells.contains(phrase), "{name}: {phrase}: {cells}");
        *cells = cells.replacen(phrase, link, 1);
    }
}

/// Returns a table of rows, each a name and its other cells.
pub(crate) fn table_of(head: &[&str], rows: &[(String, String)]) -> String {
    let mut table = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for (name, cells) in rows {
        table += &format!("| `{name}` | {cells} |\n");
    }
    table
}

//! Diffs of texts for people.

use std::time::{Duration, Instant};

use similar::{
    algorithms::{Capture, Replace, myers},
    group_diff_ops,
    udiff::UnifiedHunkHeader,
};

/// The largest diff that is shown.
const MAX_DIFF_BYTES: usize = 64 * 1024;

/// Marks a last line without an end.
const NO_NEWLINE: &str = "\n\\ No newline at end of file\n";

/// Returns the unified diff of two texts, each with its name. `TextDiff` is not used, as its algorithms would be a twentieth of
/// the program.
pub fn unified((old_name, old): (&str, &str), (new_name, new): (&str, &str)) -> String {
    let old: Vec<_> = old.split_inclusive('\n').collect();
    let new: Vec<_> = new.split_inclusive('\n').collect();
    let deadline = Instant::now() + Duration::from_millis(200);
    let mut hook = Replace::new(Capture::new());
    let (all_old, all_new) = (0..old.len(), 0..new.len());
    let Ok(()) = myers::diff_deadline(&mut hook, &old, all_old, &new, all_new, Some(deadline));
    let mut text = format!("--- {old_name}\n+++ {new_name}\n");
    for hunk in group_diff_ops(hook.into_inner().into_ops(), 3) {
        text.push_str(&format!("{}\n", UnifiedHunkHeader::new(&hunk)));
        for (tag, lines) in hunk.iter().flat_map(|op| op.iter_slices(&old, &new)) {
            for line in lines {
                let end = if line.ends_with('\n') { "" } else { NO_NEWLINE };
                text.push_str(&format!("{tag}{line}{end}"));
            }
        }
    }
    if text.len() > MAX_DIFF_BYTES {
        let end = (0..=MAX_DIFF_BYTES)
            .rev()
            .find(|index| text.is_char_boundary(*index));
        text.truncate(end.unwrap_or_default());
        text.push_str("\n… the rest of the diff is not shown\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_what_changed_with_three_lines_around_it() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\nend";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\nend\n";

        let diff = unified(("/hook (approved)", old), ("/hook (now)", new));

        let expected = "--- /hook (approved)\n+++ /hook (now)\n@@ -2,9 +2,9 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n 9\n-end\n\
            \\ No newline at end of file\n+end\n";
        assert_eq!(diff, expected);
    }
}

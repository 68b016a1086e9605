//! Places in which runtimes keep transcripts, of which a hook reads its own.

use std::path::{Component, Path, PathBuf};

use super::{Access, Files, GrantPlace, GrantSpec};

/// Returns the path that a place opens for an event: the place with the names of a transcript in the places of its `*`. `None` where
/// the transcript lies elsewhere.
pub(crate) fn opened(place: &Path, transcript: &Path) -> Option<PathBuf> {
    let levels = levels(place);
    let below = transcript
        .strip_prefix(place.ancestors().nth(levels)?)
        .ok()?;
    let is_plain = below
        .components()
        .all(|it| matches!(it, Component::Normal(_)));
    let count = below.components().count();
    let granted = transcript.ancestors().nth(count.checked_sub(levels)?)?;
    is_plain.then(|| granted.to_owned())
}

/// Returns whether a path ends in `*`, and has them nowhere else.
pub(crate) fn is_place(path: &Path) -> bool {
    let levels = levels(path);
    let directory = path.ancestors().nth(levels);
    levels > 0
        && directory.is_some_and(|it| it.parent().is_some() && !it.to_string_lossy().contains('*'))
}

fn levels(place: &Path) -> usize {
    let names = place.components().rev();
    names.take_while(|name| name.as_os_str() == "*").count()
}

impl Files {
    /// Grants all that lies at the places of transcripts of a profile: no event is known, and hooks ask for their own.
    pub fn grant_transcripts(&mut self, profile: &Self) {
        let places = profile.transcripts.iter();
        let directories = places.filter_map(|place| place.ancestors().nth(levels(place)));
        self.named.extend(directories.map(|directory| GrantSpec {
            access: Access::Read,
            create: false,
            optional: true,
            place: GrantPlace::Path(directory.to_owned()),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_opens_what_a_transcript_names_there_and_nothing_above() {
        for (place, transcript, expected) in [
            (
                "/h/.c/projects/*",
                "/h/.c/projects/-p/s.jsonl",
                Some("/h/.c/projects/-p"),
            ),
            (
                "/h/.c/projects/*",
                "/h/.c/projects/-p/s/agents/a.jsonl",
                Some("/h/.c/projects/-p"),
            ),
            (
                "/h/.c/projects/*",
                "/h/.c/projects/s.jsonl",
                Some("/h/.c/projects/s.jsonl"),
            ),
            (
                "/h/.c/s/*/*",
                "/h/.c/s/2026/r.jsonl",
                Some("/h/.c/s/2026/r.jsonl"),
            ),
            ("/h/.c/s/*/*", "/h/.c/s/2026", None),
            ("/h/.c/projects/*", "/h/.c/projects", None),
            ("/h/.c/projects/*", "/h/.c/projects/../x/y", None),
            ("/h/.c/projects/*", "/h/.c/projects/-p/../-q/s.jsonl", None),
            ("/h/.c/projects/*", "/h/.ssh/id", None),
            ("/h/.c/projects/*", "relative", None),
        ] {
            let found = opened(Path::new(place), Path::new(transcript));
            assert_eq!(
                found.as_deref(),
                expected.map(Path::new),
                "{place} {transcript}"
            );
        }
    }

    #[test]
    fn a_place_ends_in_stars_below_a_directory() {
        for (path, is) in [
            ("/a/*", true),
            ("/a/*/*", true),
            ("/a", false),
            ("/*", false),
            ("/a/*/b/*", false),
            ("/a*/*", false),
        ] {
            assert_eq!(is_place(Path::new(path)), is, "{path}");
        }
    }
}

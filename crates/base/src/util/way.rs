//! Follows a path by hand, to see the links on its way.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

/// Maximum number of links on the way of a path, as of the kernel.
const MOST_LINKS: usize = 40;

/// The way of a path, name by name.
#[derive(Debug)]
pub struct Way {
    /// Its end, without links.
    pub end: PathBuf,
    /// Whether all of it is there and can be examined.
    pub is_whole: bool,
    /// The links on it, each by its path without others.
    pub links: Vec<PathBuf>,
}

impl Way {
    /// Follows an absolute path, and the link that it may be.
    pub fn follow(path: &Path) -> Self {
        let mut way = Self {
            end: PathBuf::new(),
            is_whole: true,
            links: Vec::new(),
        };
        let mut rest = path.to_owned();
        loop {
            let mut names = rest.components();
            let Some(name) = names.next() else { return way };
            let mut after = names.as_path().to_owned();
            match name {
                Component::CurDir => {}
                Component::ParentDir => drop(way.end.pop()),
                Component::Prefix(_) | Component::RootDir => way.end.push(name),
                Component::Normal(name) => {
                    let next = way.end.join(name);
                    match fs::read_link(&next) {
                        Ok(text) if way.links.len() < MOST_LINKS => {
                            way.links.push(next);
                            after = text.join(after);
                        }
                        Err(error) if error.kind() == io::ErrorKind::InvalidInput => way.end = next,
                        Ok(_) | Err(_) => {
                            way.end = next;
                            way.is_whole = false;
                            return way;
                        }
                    }
                }
            }
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_way_has_its_links_and_ends_where_nothing_is() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let path = |below: &str| root.join(below);
        fs::create_dir_all(path("a/b")).unwrap();
        symlink("../a/./b", path("a/direct")).unwrap();
        symlink("direct/../b", path("a/through")).unwrap();
        symlink(path("a/missing/x"), path("a/nowhere")).unwrap();
        symlink("around", path("a/around")).unwrap();
        symlink("../../..", path("a/b/above")).unwrap();
        for (link, end, is_whole, links) in [
            ("a/direct", "a/b", true, vec!["a/direct"]),
            ("a/through", "a/b", true, vec!["a/through", "a/direct"]),
            ("a/nowhere", "a/missing", false, vec!["a/nowhere"]),
        ] {
            let way = Way::follow(&path(link));
            assert_eq!((way.end, way.is_whole), (path(end), is_whole), "{link}");
            let links: Vec<_> = links.into_iter().map(path).collect();
            assert_eq!(way.links, links, "{link}");
        }
        assert!(!Way::follow(&path("a/around")).is_whole);
        let above = Way::follow(&path("a/b/above")).end;
        assert_eq!(Some(&*above), root.parent());
    }
}

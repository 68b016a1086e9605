//! Compares a container's mounts with its order. Pure, over the text of `/proc/self/mountinfo`.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use crate::container::{
    bundle::PROC,
    channel::{Expected, path},
};

/// Mounts of every container beside the ordered ones.
const OF_CONTAINERS: [&str; 2] = ["/", PROC];

/// A mount, as the kernel lists it.
#[derive(Debug)]
struct Mount {
    options: Vec<String>,
    point: PathBuf,
}

/// Compares the mounts with the order.
///
/// A mount below an expected one is part of it, and must not allow more.
///
/// # Errors
///
/// Names the first mount that is unexpected or allows too much, or the missing one.
pub(crate) fn examine(mountinfo: &str, expected: &[Expected]) -> Result<(), String> {
    let mounts: Vec<Mount> = mountinfo
        .lines()
        .map(|line| parse(line).ok_or_else(|| format!("`{line}` is no line of mountinfo")))
        .collect::<Result<_, _>>()?;
    for Mount { options, point } in &mounts {
        let has = |option: &str| options.iter().any(|known| known == option);
        let shown = point.display();
        // The innermost expected mount that contains the path decides.
        let place = expected
            .iter()
            .filter(|place| point.starts_with(path(&place.path)))
            .max_by_key(|place| path(&place.path).components().count());
        let Some(place) = place else {
            if !OF_CONTAINERS.iter().any(|known| point == Path::new(known)) {
                return Err(format!("`{shown}` is mounted, which nothing grants"));
            }
            if point == Path::new("/") && !has("ro") {
                return Err("the container's root can be written".to_owned());
            }
            continue;
        };
        if !place.writable && !has("ro") {
            return Err(format!("`{shown}` can be written, which nothing grants"));
        }
        if !place.executable && !has("noexec") {
            return Err(format!("`{shown}` can be executed, which nothing grants"));
        }
        if !has("nosuid") {
            return Err(format!("`{shown}` honours set-user-id programs"));
        }
    }
    // Only the container's own places are checked here; the others are checked by inode.
    let missing = expected.iter().find(|place| {
        let point = path(&place.path);
        place.inode.is_none() && !mounts.iter().any(|mount| mount.point == point)
    });
    match missing {
        Some(place) => Err(format!("`{}` is not mounted", path(&place.path).display())),
        None => Ok(()),
    }
}

/// Parses a line: `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`. See proc_pid_mountinfo(5).
fn parse(line: &str) -> Option<Mount> {
    let mut fields = line.split(' ').skip(4);
    let point = unescaped(fields.next()?)?;
    let options = fields.next()?.split(',').map(str::to_owned).collect();
    Some(Mount { options, point })
}

/// Decodes the kernel's escapes, such as `\040` for a space.
fn unescaped(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'\\' {
            bytes.push(first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(3)?;
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 8).ok()?);
        rest = after;
    }
    Some(OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(path: &str, executable: bool, writable: bool) -> Expected {
        Expected {
            executable,
            inode: None,
            limits: None,
            path: std::ffi::CString::new(path).unwrap(),
            writable,
        }
    }

    const ROOT: &str = "1 0 0:1 / / ro,relatime - ext4 /dev/x rw\n2 1 0:2 / /proc ro,nosuid,nodev,noexec - proc proc rw\n";

    fn with(lines: &str) -> String {
        format!("{ROOT}{lines}")
    }

    #[test]
    fn what_is_mounted_beside_or_beyond_the_plan_is_named() {
        let plan = [
            expected("/usr", true, false),
            expected("/work dir", false, true),
            expected("/data", false, false),
        ];
        let good = with(
            "3 1 0:3 / /usr ro,nosuid,nodev - ext4 /dev/x rw\n\
             4 1 0:4 / /work\\040dir rw,nosuid,nodev,noexec - ext4 /dev/x rw\n\
             5 1 0:5 / /data ro,nosuid,nodev,noexec - ext4 /dev/x rw\n\
             6 3 0:6 / /usr/local ro,nosuid - ext4 /dev/y rw\n",
        );
        assert_eq!(examine(&good, &plan), Ok(()));
        let cases = [
            (good.replace("/usr ro", "/usr rw"), "`/usr` can be written"),
            (
                good.replace("/usr/local ro", "/usr/local rw"),
                "`/usr/local` can be written",
            ),
            (
                good.replace("/data ro,nosuid,nodev,noexec", "/data ro,nosuid,nodev"),
                "`/data` can be executed",
            ),
            (
                good.replace("/usr ro,nosuid", "/usr ro"),
                "`/usr` honours set-user-id",
            ),
            (
                good.replace("/ / ro", "/ / rw"),
                "the container's root can be written",
            ),
            (
                good.replace("/data ro", "/etc ro"),
                "`/etc` is mounted, which nothing grants",
            ),
            (
                good.replace("\\040dir", ""),
                "`/work` is mounted, which nothing grants",
            ),
            (with(""), "`/usr` is not mounted"),
            ("nonsense".to_owned(), "`nonsense` is no line of mountinfo"),
        ];
        for (mountinfo, words) in cases {
            let why = examine(&mountinfo, &plan).unwrap_err();
            assert!(why.starts_with(words), "{why} instead of {words}");
        }
    }
}

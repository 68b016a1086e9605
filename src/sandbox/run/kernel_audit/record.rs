//! Parser for the kernel's audit records about refusals.
//!
//! A record is words with a space between them, each `key=value`. What others chose, such as a file's name, the kernel puts
//! between quotation marks if it holds printable ASCII without quotation marks and spaces, and writes in hexadecimal if not:
//! no name can look like a second word. Where a text is not so, it is not taken for a record.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

/// `AUDIT_CONFIG_CHANGE`: the audit configuration was changed.
const CONFIG_CHANGE: u16 = 1305;

/// `AUDIT_SECCOMP`.
const SECCOMP: u16 = 1326;

/// `AUDIT_LANDLOCK_ACCESS`.
const LANDLOCK_ACCESS: u16 = 1423;

/// `AUDIT_LANDLOCK_DOMAIN`.
const LANDLOCK_DOMAIN: u16 = 1424;

/// `AUDIT_ARCH_X86_64`.
const X86_64: &str = "c000003e";

/// Limit on kinds of access in one record: more than any kernel knows.
const KINDS: usize = 64;

/// An audit record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::sandbox) enum Record {
    /// Landlock refused an access.
    Access(u64, Access),
    /// First record of a domain: its id, and the process that created it.
    Allocated { domain: u64, pid: i32 },
    /// A filter refused a system call, or killed for one.
    Call(Call),
    /// The audit configuration was changed.
    Change,
    /// A domain was freed.
    Deallocated { domain: u64 },
    /// Any other record.
    Other,
}

/// An access that Landlock refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::sandbox) struct Access {
    /// Kinds of access, by the kernel's names.
    pub(in crate::sandbox) kinds: Vec<String>,
    /// The file or directory, if its path is known.
    pub(in crate::sandbox) path: Option<PathBuf>,
}

/// A system call that a filter refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::sandbox) struct Call {
    /// Whether it killed its process.
    pub(in crate::sandbox) killed: bool,
    /// The system call's number; `None` if made by another architecture's convention.
    pub(in crate::sandbox) number: Option<u32>,
    /// The process id.
    pub(in crate::sandbox) pid: i32,
}

/// A text that is not in the kernel's form for its type.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a record that is not understood")]
pub(in crate::sandbox) struct Malformed;

/// Parses the text of a record of a type.
///
/// # Errors
///
/// It is of a type that is known here, and not as the kernel writes that.
pub(in crate::sandbox) fn parse(kind: u16, text: &[u8]) -> Result<Record, Malformed> {
    match kind {
        CONFIG_CHANGE => Ok(Record::Change),
        LANDLOCK_ACCESS => access(&Words::of(text)?),
        LANDLOCK_DOMAIN => domain(&Words::of(text)?),
        SECCOMP => call(&Words::of(text)?),
        _ => Ok(Record::Other),
    }
}

fn access(words: &Words<'_>) -> Result<Record, Malformed> {
    let kinds: Vec<_> = words
        .value("blockers")?
        .split(',')
        .map(str::to_owned)
        .collect();
    let is_name = |kind: &String| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'.' | b'_');
        (1..=64).contains(&kind.len()) && kind.bytes().all(plain)
    };
    if kinds.len() > KINDS || !kinds.iter().all(is_name) {
        return Err(Malformed);
    }
    let path = words.untrusted("path")?.map(PathBuf::from);
    Ok(Record::Access(
        words.domain()?,
        Access {
            kinds,
            // The kernel says `<too_long>` and the like of a path that it cannot tell.
            path: path.filter(|path: &PathBuf| Path::is_absolute(path)),
        },
    ))
}

fn domain(words: &Words<'_>) -> Result<Record, Malformed> {
    let domain = words.domain()?;
    match words.value("status")? {
        "allocated" => Ok(Record::Allocated {
            domain,
            pid: words.pid()?,
        }),
        "deallocated" => Ok(Record::Deallocated { domain }),
        _ => Err(Malformed),
    }
}

fn call(words: &Words<'_>) -> Result<Record, Malformed> {
    let number = |key| words.value(key)?.parse::<u32>().map_err(|_| Malformed);
    let code = words.value("code")?;
    let code = code.strip_prefix("0x").ok_or(Malformed)?;
    let code = u32::from_str_radix(code, 16).map_err(|_| Malformed)?;
    let killed = match code & libc::SECCOMP_RET_ACTION_FULL {
        libc::SECCOMP_RET_KILL_PROCESS | libc::SECCOMP_RET_KILL_THREAD => true,
        // With which errno is not said.
        libc::SECCOMP_RET_ERRNO => false,
        _ => return Ok(Record::Other),
    };
    Ok(Record::Call(Call {
        killed,
        number: (words.value("arch")? == X86_64)
            .then(|| number("syscall"))
            .transpose()?,
        pid: words.pid()?,
    }))
}

/// Key-value pairs of a record.
struct Words<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Words<'a> {
    fn of(text: &'a [u8]) -> Result<Self, Malformed> {
        let text = text.strip_suffix(b"\0").unwrap_or(text);
        // The kernel encodes everything that is not ASCII.
        if !text.is_ascii() {
            return Err(Malformed);
        }
        let text = str::from_utf8(text).map_err(|_| Malformed)?;
        let (stamp, words) = text.split_once(": ").ok_or(Malformed)?;
        if !stamp.starts_with("audit(") || !stamp.ends_with(')') {
            return Err(Malformed);
        }
        // Two spaces stand where the kernel left a word out.
        words
            .split(' ')
            .filter(|word| !word.is_empty())
            .map(|word| word.split_once('=').ok_or(Malformed))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn find(&self, key: &str) -> Result<Option<&'a str>, Malformed> {
        let mut found = self.0.iter().filter(|(of, _)| *of == key);
        match (found.next(), found.next()) {
            (first, None) => Ok(first.map(|(_, value)| *value)),
            // The kernel says nothing twice.
            (_, Some(_)) => Err(Malformed),
        }
    }

    /// Returns a value that the kernel chose.
    fn value(&self, key: &str) -> Result<&'a str, Malformed> {
        self.find(key)?.ok_or(Malformed)
    }

    /// Returns a value that a process may have chosen.
    fn untrusted(&self, key: &str) -> Result<Option<OsString>, Malformed> {
        let Some(value) = self.find(key)? else {
            return Ok(None);
        };
        let bytes = match value.strip_prefix('"') {
            Some(rest) => {
                let inner = rest.strip_suffix('"').ok_or(Malformed)?;
                if inner.contains('"') {
                    return Err(Malformed);
                }
                inner.as_bytes().to_vec()
            }
            None => unhex(value)?,
        };
        Ok(Some(OsString::from_vec(bytes)))
    }

    fn domain(&self) -> Result<u64, Malformed> {
        u64::from_str_radix(self.value("domain")?, 16).map_err(|_| Malformed)
    }

    fn pid(&self) -> Result<i32, Malformed> {
        let pid = self.value("pid")?.parse().map_err(|_| Malformed)?;
        if pid > 0 { Ok(pid) } else { Err(Malformed) }
    }
}

fn unhex(text: &str) -> Result<Vec<u8>, Malformed> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return Err(Malformed);
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    pairs
        .iter()
        .map(|&[high, low]| {
            let value = digit(high)? << 4 | digit(low)?;
            u8::try_from(value).ok()
        })
        .collect::<Option<_>>()
        .ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(kind: u16, rest: &str) -> Result<Record, Malformed> {
        parse(
            kind,
            format!("audit(1732188082.123:456): {rest}").as_bytes(),
        )
    }

    fn refused(kinds: &[&str], path: Option<&str>) -> Access {
        Access {
            kinds: kinds.iter().map(|&kind| kind.to_owned()).collect(),
            path: path.map(PathBuf::from),
        }
    }

    #[test]
    fn what_landlock_refuses_is_read() {
        assert_eq!(
            read(
                1423,
                "domain=195ba459b blockers=fs.make_reg,fs.refer path=\"/usr/local\" dev=\"vda2\" ino=365"
            ),
            Ok(Record::Access(
                0x1_95ba_459b,
                refused(&["fs.make_reg", "fs.refer"], Some("/usr/local"))
            ))
        );
        // Without a file, and with a name that takes the kernel to hexadecimal.
        assert_eq!(
            read(
                1423,
                "domain=1 blockers=scope.signal opid=1 ocomm=\"systemd\""
            ),
            Ok(Record::Access(1, refused(&["scope.signal"], None)))
        );
        assert_eq!(
            read(
                1423,
                "domain=1 blockers=fs.read_file path=2F746D702F612062 dev=\"vda2\" ino=1"
            ),
            Ok(Record::Access(
                1,
                refused(&["fs.read_file"], Some("/tmp/a b"))
            ))
        );
        assert_eq!(
            read(
                1423,
                "domain=1 blockers=fs.read_file path=\"<too_long>\" dev=\"vda2\" ino=1"
            ),
            Ok(Record::Access(1, refused(&["fs.read_file"], None)))
        );
    }

    #[test]
    fn domains_come_and_go() {
        assert_eq!(
            read(
                1424,
                "domain=195ba459b status=allocated mode=enforcing pid=300 uid=0 exe=\"/root/sandboxer\" comm=\"sandboxer\""
            ),
            Ok(Record::Allocated {
                domain: 0x1_95ba_459b,
                pid: 300
            })
        );
        assert_eq!(
            read(1424, "domain=195ba459b status=deallocated denials=3"),
            Ok(Record::Deallocated {
                domain: 0x1_95ba_459b
            })
        );
        for wrong in [
            "domain=1 status=allocated mode=enforcing uid=0",
            "domain=1 status=allocated pid=-4",
            "domain=1 status=allocated pid=0",
            "domain=xyz status=deallocated",
            "domain=1 status=other",
            "status=deallocated",
        ] {
            assert_eq!(read(1424, wrong), Err(Malformed), "{wrong}");
        }
    }

    #[test]
    fn killed_and_refused_calls_are_told_apart() {
        let call = |signal, arch, code| {
            read(
                1326,
                &format!(
                    "auid=4294967295 uid=1001 gid=1001 ses=4294967295 pid=77 comm=\"attempt\" exe=\"/tmp/attempt\" sig={signal} arch={arch} syscall=165 compat=0 ip=0x7f code={code}"
                ),
            )
        };
        let made = |killed, number| {
            Ok(Record::Call(Call {
                killed,
                number,
                pid: 77,
            }))
        };
        assert_eq!(call(31, "c000003e", "0x80000000"), made(true, Some(165)));
        assert_eq!(call(31, "40000003", "0x80000000"), made(true, None));
        assert_eq!(call(0, "c000003e", "0x50000"), made(false, Some(165)));
        assert_eq!(call(0, "c000003e", "0x7fc00000"), Ok(Record::Other));
        assert_eq!(call(0, "c000003e", "7"), Err(Malformed));
    }

    #[test]
    fn no_name_of_a_file_can_pass_for_a_word() {
        // As the kernel would never write it: a name with quotation marks or spaces comes in hexadecimal.
        for forged in [
            "domain=1 blockers=fs.read_file path=\"a\" domain=2\" dev=\"vda2\"",
            "domain=1 blockers=fs.read_file path=\"a\"b\"",
            "domain=1 blockers=fs.read_file path=\"/a path=\"/b\"",
            "domain=1 blockers=fs.read_file path=\"/a\" path=\"/b\"",
            "domain=1 blockers=fs.read_file path=\"/a",
            "domain=1 blockers=fs.read_file path=2F6",
            "domain=1 blockers=fs.read_file path=/etc/passwd",
            "domain=1 blockers=fs.read_file path=",
            "domain=1 blockers= path=\"/a\"",
            "domain=1 blockers=fs.read\u{e9} path=\"/a\"",
            "domain=1 blockers=FS path=\"/a\"",
            "domain=1 path=\"/a\"",
            "blockers=fs.read_file path=\"/a\"",
            "domain=1 blockers=fs.read_file word",
        ] {
            assert_eq!(read(1423, forged), Err(Malformed), "{forged}");
        }
        // A file that is named like a record is a file.
        let name = "/tmp/a\" domain=2 path=\"/etc/shadow";
        let hex: String = name.bytes().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(
            read(
                1423,
                &format!("domain=1 blockers=fs.read_file path={hex} dev=\"vda2\" ino=1")
            ),
            Ok(Record::Access(1, refused(&["fs.read_file"], Some(name))))
        );
        let name = "/tmp/domain=2";
        assert_eq!(
            read(
                1423,
                &format!("domain=1 blockers=fs.read_file path=\"{name}\"")
            ),
            Ok(Record::Access(1, refused(&["fs.read_file"], Some(name))))
        );
    }

    #[test]
    fn what_is_cut_off_or_of_another_type_is_no_record() {
        for text in [
            "",
            "audit(1.2:3):",
            "audit(1.2:3): ",
            "domain=1 blockers=fs.execute",
        ] {
            assert_eq!(parse(1423, text.as_bytes()), Err(Malformed), "{text}");
        }
        assert_eq!(parse(1300, b"anything"), Ok(Record::Other));
        assert_eq!(parse(1305, b"anything"), Ok(Record::Change));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(kind in 1300_u16..1430, bytes: Vec<u8>, text in "[ =\"a-f0-9.,]{0,80}") {
            drop(parse(kind, &bytes));
            drop(read(kind, &text));
        }

        #[test]
        fn whatever_a_file_is_named_its_path_comes_back(name in "/[^\0]{0,60}") {
            let plain = name.bytes().all(|byte| (0x21..=0x7e).contains(&byte) && byte != b'"');
            let path = if plain {
                format!("\"{name}\"")
            } else {
                name.bytes().map(|byte| format!("{byte:02X}")).collect()
            };
            let record = read(1423, &format!("domain=a blockers=fs.execute path={path} dev=\"x\" ino=1"));
            prop_assert_eq!(record, Ok(Record::Access(10, refused(&["fs.execute"], Some(&name)))));
        }
    }
}

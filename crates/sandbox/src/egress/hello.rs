//! Reads the server name of a TLS client's first message (RFC 8446, 6066), which may come in any number of records and segments.

use hookjail_policy::egress::HostName;

/// Maximum length of a first message, bytes. Each piece that arrives has the message read anew, and clients send some 2,000.
pub(super) const LONGEST: usize = 16 * 1024;

/// The longest fragment of a record (RFC 8446, 5.1).
const LONGEST_FRAGMENT: usize = 1 << 14;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// The kind of a connection's first bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Hello {
    /// The beginning of a client's first message.
    Incomplete,
    /// A first message with this server name; `None` = without.
    Names(Option<HostName>),
    /// No TLS, or a first message that no client sends.
    Other(&'static str),
}

/// Reads the first bytes of a connection.
pub(super) fn read(bytes: &[u8]) -> Hello {
    let message = match handshake(bytes) {
        Ok(message) => message,
        Err(other) => return other,
    };
    match server_name(&message) {
        Some(Ok(name)) => Hello::Names(name),
        Some(Err(why)) => Hello::Other(why),
        None => Hello::Other("got a malformed first message"),
    }
}

/// Returns the body of the first handshake message, put together of the records.
fn handshake(mut bytes: &[u8]) -> Result<Vec<u8>, Hello> {
    let mut message = Vec::new();
    loop {
        if let [kind, high, middle, low, body @ ..] = &*message {
            if *kind != CLIENT_HELLO {
                return Err(Hello::Other("got a first message that is no client's"));
            }
            let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
            if length > LONGEST {
                return Err(Hello::Other("got a first message that is too long"));
            }
            if let Some(body) = body.get(..length) {
                return Ok(body.to_vec());
            }
        }
        let [kind, rest @ ..] = bytes else {
            return Err(Hello::Incomplete);
        };
        if *kind != HANDSHAKE {
            return Err(Hello::Other(
                "got no TLS; write ` any` behind the port where it speaks something else",
            ));
        }
        let [major, _, high, low, rest @ ..] = rest else {
            return Err(Hello::Incomplete);
        };
        let length = usize::from(*high) << 8 | usize::from(*low);
        if *major != 3 || !(1..=LONGEST_FRAGMENT).contains(&length) {
            return Err(Hello::Other(
                "got no TLS; write ` any` behind the port where it speaks something else",
            ));
        }
        // The head of the message decides early, before its record is whole.
        let fragment = rest.get(..length);
        message.extend(fragment.unwrap_or(rest));
        bytes = match fragment {
            Some(_) => &rest[length..],
            None => &[],
        };
    }
}

/// Bytes that are read from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// Takes a number of some bytes.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        let taken = self.take(bytes)?;
        Some(
            taken
                .iter()
                .fold(0, |number, byte| number << 8 | usize::from(*byte)),
        )
    }

    /// Takes what a length of some bytes precedes.
    fn counted(&mut self, bytes: usize) -> Option<Self> {
        let length = self.number(bytes)?;
        self.take(length).map(Self)
    }
}

/// Returns the server name of a first message's body, or why it is refused. `None` where it is malformed.
fn server_name(body: &[u8]) -> Option<Result<Option<HostName>, &'static str>> {
    let mut body = Reader(body);
    // Version and random; session, ciphers, compressions.
    body.take(2 + 32)?;
    body.counted(1)?;
    body.counted(2)?;
    body.counted(1)?;
    if body.0.is_empty() {
        return Some(Ok(None));
    }
    let mut extensions = body.counted(2)?;
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = u16::try_from(extensions.number(2)?).ok()?;
        let mut data = extensions.counted(2)?;
        match kind {
            ENCRYPTED_CLIENT_HELLO => {
                return Some(Err("was asked for by an encrypted server name"));
            }
            SERVER_NAME if found.is_some() => return None,
            SERVER_NAME => {
                let mut names = data.counted(2)?;
                if names.number(1)? != usize::from(HOST_NAME) {
                    return None;
                }
                let name = names.counted(2)?.0;
                if !names.0.is_empty() || !data.0.is_empty() {
                    return None;
                }
                let name = str::from_utf8(name).ok().and_then(HostName::parse);
                found = Some(name?);
            }
            _ => {}
        }
    }
    body.0.is_empty().then_some(Ok(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(bytes: usize, data: &[u8]) -> Vec<u8> {
        let length = data.len().to_be_bytes();
        [&length[8 - bytes..], data].concat()
    }

    fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &counted(2, data)].concat()
    }

    fn named(name: &str) -> Vec<u8> {
        let entry = [&[HOST_NAME][..], &counted(2, name.as_bytes())].concat();
        extension(SERVER_NAME, &counted(2, &entry))
    }

    fn hello(extensions: &[u8]) -> Vec<u8> {
        let body = [
            &[3, 3][..],
            &[7; 32],
            &counted(1, &[1; 32]),
            &counted(2, &[0x13, 1]),
            &counted(1, &[0]),
            &counted(2, extensions),
        ];
        [&[CLIENT_HELLO][..], &counted(3, &body.concat())].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| [&[HANDSHAKE, 3, 1][..], &counted(2, part)].concat();
        message.chunks(size).flat_map(record).collect()
    }

    fn name_of(bytes: &[u8]) -> Option<String> {
        match read(bytes) {
            Hello::Names(name) => name.map(|it| it.to_string()),
            Hello::Incomplete | Hello::Other(_) => None,
        }
    }

    #[test]
    fn a_name_is_found_however_the_message_is_cut() {
        let others = extension(0x0033, &[9; 1400]);
        let message = hello(&[others, named("Hooks.Example.org")].concat());
        for size in [1, 2, 3, 5, 64, 1000, 16384] {
            let bytes = records(&message, size);
            assert_eq!(
                name_of(&bytes).as_deref(),
                Some("hooks.example.org"),
                "{size}"
            );
            let with_more = [&bytes[..], b"\x17\x03\x03more"].concat();
            assert_eq!(name_of(&with_more).as_deref(), Some("hooks.example.org"));
        }
        let bytes = records(&message, 100);
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length]), Hello::Incomplete, "{length}");
        }
    }

    #[test]
    fn a_message_without_a_name_has_none() {
        assert_eq!(read(&records(&hello(&[]), 100)), Hello::Names(None));
        let bytes = records(&hello(&extension(0x002b, &[2, 3, 4])), 100);
        assert_eq!(read(&bytes), Hello::Names(None));
    }

    #[test]
    fn what_hides_its_name_or_is_no_first_message_is_refused() {
        let refused =
            |extensions: &[u8]| matches!(read(&records(&hello(extensions), 100)), Hello::Other(_));
        let outer = [extension(ENCRYPTED_CLIENT_HELLO, &[0; 40]), named("a.org")].concat();
        assert!(refused(&outer));
        let twice = [named("a.org"), named("b.org")].concat();
        assert!(refused(&twice));
        let two = [
            &[HOST_NAME][..],
            &counted(2, b"a.org"),
            &[HOST_NAME],
            &counted(2, b"b.org"),
        ]
        .concat();
        assert!(refused(&extension(SERVER_NAME, &counted(2, &two))));
        for name in ["", "10.0.0.1", "a.org\0", "a..org", "a/b"] {
            assert!(refused(&named(name)), "{name}");
        }
        assert!(!refused(&named("a.org")), "the control");
        for bytes in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"\x16\x02\x01\x00\x05",
            b"\x16\x03\x01\x00\x00",
            b"\x16\x03\x01\x41\x00",
            b"\x80\x2e\x01",
        ] {
            assert!(matches!(read(bytes), Hello::Other(_)), "{bytes:?}");
        }
        // A server's message; and one that would be longer than any.
        assert!(matches!(
            read(&records(&[2, 0, 0, 1, 0], 100)),
            Hello::Other(_)
        ));
        assert!(matches!(
            read(&records(&[1, 9, 0, 0], 100)),
            Hello::Other(_)
        ));
    }

    #[test]
    fn no_length_leads_beyond_the_message() {
        let good = records(&hello(&named("a.example.org")), 200);
        for position in 0..good.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = good.clone();
                bytes[position] = value;
                read(&bytes);
            }
        }
    }
}

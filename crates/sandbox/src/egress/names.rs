//! Answers a hook's questions for names: each name gets an address of the run's own, and no question leaves the machine.

use std::net::Ipv4Addr;

use hookjail_policy::egress::HostName;

/// The longest question that is read, bytes.
pub(super) const LONGEST: usize = 4096;

/// Length of a message's header, bytes.
const HEADER: usize = 12;

/// Where the name of the question lies.
const NAME_OF_QUESTION: u16 = 12;

/// Seconds for which an answer may be kept.
const LIFETIME: u32 = 300;

const TYPE_A: u16 = 1;
const CLASS_IN: u16 = 1;

/// Flags of a message: an answer, recursion desired and available.
const ANSWER: u16 = 0x8000;
const RECURSION_WANTED: u16 = 0x0100;
const RECURSION_AVAILABLE: u16 = 0x0080;
const OPERATION: u16 = 0x7800;

/// Result codes (RFC 1035).
const FORMAT_ERROR: u16 = 1;
const SERVER_FAILURE: u16 = 2;
const NOT_IMPLEMENTED: u16 = 4;

/// A question, as far as it decides the answer.
#[derive(Debug)]
struct Question<'a> {
    /// The bytes of the question, which the answer repeats.
    bytes: &'a [u8],
    class: u16,
    kind: u16,
    name: Option<HostName>,
}

/// Returns the answer to a DNS message; `None` where it is too short for one. `address` returns the address of a name, `None` where
/// the run has too many names.
pub(super) fn answer(
    message: &[u8],
    address: impl FnOnce(&HostName) -> Option<Ipv4Addr>,
) -> Option<Vec<u8>> {
    let word = |position: usize| {
        Some(u16::from_be_bytes([
            *message.get(position)?,
            *message.get(position + 1)?,
        ]))
    };
    let (id, flags, questions) = (word(0)?, word(2)?, word(4)?);
    let body = message.get(HEADER..)?;
    if flags & ANSWER != 0 {
        return None;
    }
    let empty = |code| reply(id, flags, code, None, None);
    if flags & OPERATION != 0 {
        return Some(empty(NOT_IMPLEMENTED));
    }
    let Some(question) = question(body).filter(|_| questions == 1) else {
        return Some(empty(FORMAT_ERROR));
    };
    let asks = question.kind == TYPE_A && question.class == CLASS_IN;
    let Some(name) = question.name.as_ref().filter(|_| asks) else {
        // There is a name, and nothing else of it.
        return Some(reply(id, flags, 0, Some(question.bytes), None));
    };
    Some(match address(name) {
        Some(address) => reply(id, flags, 0, Some(question.bytes), Some(address)),
        None => reply(id, flags, SERVER_FAILURE, Some(question.bytes), None),
    })
}

/// Reads the question at the beginning of a message's body. A name in a question is never compressed.
fn question(body: &[u8]) -> Option<Question<'_>> {
    let mut labels = Vec::new();
    let mut position = 0;
    loop {
        let length = usize::from(*body.get(position)?);
        position += 1;
        if length == 0 {
            break;
        }
        // The two highest bits mark a pointer, or are reserved.
        if length > 63 {
            return None;
        }
        labels.push(body.get(position..position + length)?);
        position += length;
        if position > 255 {
            return None;
        }
    }
    let word = |position: usize| {
        Some(u16::from_be_bytes([
            *body.get(position)?,
            *body.get(position + 1)?,
        ]))
    };
    let name = labels.join(&b'.');
    let name = str::from_utf8(&name).ok().and_then(HostName::parse);
    Some(Question {
        kind: word(position)?,
        class: word(position + 2)?,
        bytes: &body[..position + 4],
        name,
    })
}

fn reply(
    id: u16,
    flags: u16,
    code: u16,
    question: Option<&[u8]>,
    address: Option<Ipv4Addr>,
) -> Vec<u8> {
    let flags = ANSWER | flags & (OPERATION | RECURSION_WANTED) | RECURSION_AVAILABLE | code;
    let counts = [
        u16::from(question.is_some()),
        u16::from(address.is_some()),
        0,
        0,
    ];
    let words = [id, flags].into_iter().chain(counts);
    let mut bytes: Vec<u8> = words.flat_map(u16::to_be_bytes).collect();
    bytes.extend(question.unwrap_or_default());
    if let Some(address) = address {
        let words = [0xc000 | NAME_OF_QUESTION, TYPE_A, CLASS_IN];
        bytes.extend(words.into_iter().flat_map(u16::to_be_bytes));
        bytes.extend(LIFETIME.to_be_bytes());
        bytes.extend(4_u16.to_be_bytes());
        bytes.extend(address.octets());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

    fn ask(name: &[&str], kind: u16, more: &[u8]) -> Vec<u8> {
        let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name {
            message.push(u8::try_from(label.len()).unwrap());
            message.extend(label.bytes());
        }
        message.push(0);
        message.extend(kind.to_be_bytes());
        message.extend([0, 1]);
        message.extend(more);
        message
    }

    fn code(message: &[u8]) -> Option<u8> {
        answer(message, |_| Some(ADDRESS)).map(|it| it[3] & 15)
    }

    #[test]
    fn a_name_gets_its_address_in_lower_case() {
        let message = ask(&["Hooks", "Example", "ORG"], TYPE_A, &[]);
        let mut looked_up = None;
        let reply = answer(&message, |name| {
            looked_up = Some(name.to_string());
            Some(ADDRESS)
        });
        assert_eq!(looked_up.as_deref(), Some("hooks.example.org"));
        let mut expected = message.clone();
        expected[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        expected.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 198, 18, 0, 1]);
        assert_eq!(reply.unwrap(), expected);
    }

    #[test]
    fn other_questions_are_answered_empty_whatever_follows_them() {
        // AAAA, PTR, TXT, SRV, ANY; and an option of EDNS.
        let option = [0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0];
        for kind in [28, 12, 16, 33, 255] {
            let message = ask(&["a", "org"], kind, &option);
            let reply = answer(&message, |_| panic!("no address was asked for")).unwrap();
            assert_eq!(reply[3] & 15, 0);
            assert_eq!(reply[6..8], [0, 0], "{kind}");
        }
        let message = ask(&["a", "org"], TYPE_A, &option);
        assert_eq!(answer(&message, |_| Some(ADDRESS)).unwrap()[6..8], [0, 1]);
        // A name that no host has.
        let reply = answer(&ask(&["a b"], TYPE_A, &[]), |_| Some(ADDRESS)).unwrap();
        assert_eq!(reply[6..8], [0, 0]);
    }

    #[test]
    fn what_is_no_question_is_refused_or_dropped() {
        let good = ask(&["a", "org"], TYPE_A, &[]);
        for length in 0..HEADER {
            assert_eq!(code(&good[..length]), None, "{length}");
        }
        for length in HEADER..good.len() {
            assert_eq!(code(&good[..length]), Some(1), "{length}");
        }
        let changed = |position: usize, value: u8| {
            let mut message = good.clone();
            message[position] = value;
            message
        };
        // An answer; an update; two questions; a compressed name; a label without end.
        assert_eq!(code(&changed(2, 0x81)), None);
        assert_eq!(code(&changed(2, 0x29)), Some(4));
        assert_eq!(code(&changed(5, 2)), Some(1));
        assert_eq!(code(&changed(12, 0xc0)), Some(1));
        assert_eq!(code(&changed(12, 63)), Some(1));
        let long: Vec<_> = std::iter::repeat_n("abcdefgh", 40).collect();
        assert_eq!(code(&ask(&long, TYPE_A, &[])), Some(1));
    }

    #[test]
    fn a_run_with_too_many_names_is_a_failure_of_the_server() {
        let reply = answer(&ask(&["a", "org"], TYPE_A, &[]), |_| None).unwrap();
        assert_eq!((reply[3] & 15, &reply[6..8]), (2, &[0, 0][..]));
    }
}

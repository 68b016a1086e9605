//! Syscalls as they are handed to `tests/probes/player.c`, and chance that can be repeated.

use std::fmt;

/// Where the player puts what arguments point to: 6 places of this size, from here on.
const ARENA: u64 = 0x7a00_0000_0000;
const SLOT: u64 = 0x4000;
const JUNK: u64 = ARENA + 0x10_0000;

/// One call. The number is what goes into the register: 64 bits, of which the kernel looks at the lower half.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Call {
    pub(super) nr: u64,
    pub(super) args: Vec<Arg>,
}

/// One argument.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Arg {
    /// The value itself.
    Value(u64),
    /// A path that means a file: of its resolution before the call the player reports.
    Path {
        /// The argument with the descriptor it is relative to.
        dir: Option<u8>,
        /// Whether a symbolic link at its end is followed.
        follow: bool,
        text: String,
    },
    /// Other text.
    Text(String),
    /// A path with this number of parts.
    Long(u64),
    /// These bytes.
    Bytes(Vec<u8>),
    /// 512 bytes of zeros: an empty signal mask, no time at all.
    Zeros,
    /// Two buffers.
    Vector,
    /// A message to an address.
    Message(Vec<u8>),
    /// An argument vector of one word.
    Words,
    /// Memory that may be unmapped.
    Junk,
}

impl Call {
    /// Returns the number the kernel sees.
    pub(super) fn number(&self) -> u32 {
        u32::try_from(self.nr & 0xffff_ffff).unwrap()
    }

    /// Returns what is in the registers.
    pub(super) fn values(&self) -> [u64; 6] {
        let mut values = [0; 6];
        for ((index, arg), value) in (0..).zip(&self.args).zip(&mut values) {
            *value = match arg {
                Arg::Value(value) => *value,
                Arg::Junk => JUNK,
                Arg::Bytes(_)
                | Arg::Long(_)
                | Arg::Message(_)
                | Arg::Path { .. }
                | Arg::Text(_)
                | Arg::Vector
                | Arg::Words
                | Arg::Zeros => ARENA + index * SLOT,
            };
        }
        values
    }

    /// Returns the same call with each argument in turn replaced by zero, where it is not zero already.
    pub(super) fn simpler(&self) -> impl Iterator<Item = Self> + '_ {
        (0..self.args.len())
            .filter(|&index| self.args[index] != Arg::Value(0))
            .map(|index| {
                let mut call = self.clone();
                call.args[index] = Arg::Value(0);
                call
            })
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.nr)?;
        for (index, arg) in self.args.iter().enumerate() {
            write!(f, "{}{arg}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| {
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        };
        match self {
            Self::Value(value) => write!(f, "x{value:x}"),
            Self::Path { dir, follow, text } => {
                let dir = dir.map_or('-', |dir| char::from(b'0' + dir));
                write!(f, "P{dir}{}{text}", if *follow { 'f' } else { 'p' })
            }
            Self::Text(text) => write!(f, "s{text}"),
            Self::Long(parts) => write!(f, "L{parts:x}"),
            Self::Bytes(bytes) => f.write_str("b").and_then(|()| hex(f, bytes)),
            Self::Zeros => f.write_str("z"),
            Self::Vector => f.write_str("v"),
            Self::Message(bytes) => f.write_str("m").and_then(|()| hex(f, bytes)),
            Self::Words => f.write_str("e"),
            Self::Junk => f.write_str("j"),
        }
    }
}

/// Writes calls as the player reads them.
pub(super) fn encode(calls: &[Call], must_be_refused: impl Fn(&Call) -> bool) -> String {
    let mark = |call| if must_be_refused(call) { "!" } else { "" };
    let calls: Vec<_> = calls
        .iter()
        .map(|call| format!("{}{call}", mark(call)))
        .collect();
    calls.join(";")
}

/// Reads calls as [`encode`] writes them, without marks.
pub(super) fn decode(text: &str) -> Vec<Call> {
    let number = |text: &str| u64::from_str_radix(text, 16).expect("a hexadecimal number");
    let bytes = |text: &str| {
        let pairs = text.as_bytes().chunks(2);
        pairs
            .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    };
    let arg = |text: &str| {
        let (kind, rest) = text.split_at(1);
        match kind {
            "x" => Arg::Value(number(rest)),
            "P" => Arg::Path {
                dir: rest[..1].parse().ok(),
                follow: &rest[1..2] == "f",
                text: rest[2..].to_owned(),
            },
            "s" => Arg::Text(rest.to_owned()),
            "L" => Arg::Long(number(rest)),
            "b" => Arg::Bytes(bytes(rest)),
            "z" => Arg::Zeros,
            "v" => Arg::Vector,
            "m" => Arg::Message(bytes(rest)),
            "e" => Arg::Words,
            "j" => Arg::Junk,
            other => unreachable!("no argument begins with `{other}`"),
        }
    };
    let call = |text: &str| {
        let (nr, args) = text.split_once(':').unwrap_or((text, ""));
        let args = args.split(',').filter(|arg| !arg.is_empty());
        Call {
            nr: number(nr),
            args: args.map(arg).collect(),
        }
    };
    text.split(';').map(call).collect()
}

/// Chance that the same seed repeats: Sebastiano Vigna's SplitMix64.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below a limit.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    /// Returns true once in this number of times.
    pub(super) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let index = self.below(u64::try_from(from.len()).unwrap());
        &from[usize::try_from(index).unwrap()]
    }
}

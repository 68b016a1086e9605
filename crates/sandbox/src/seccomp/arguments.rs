//! Tests on syscall arguments, as filters make them. They compare plain numbers, never values behind a pointer.

/// One test on one argument.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ArgTest {
    /// Index of the argument, from 0 to 5.
    pub index: u8,
    /// Expected value.
    pub wanted: Wanted,
    /// Width that the kernel reads, and therefore the test.
    pub width: Width,
}

/// Expected value of an argument.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Wanted {
    /// This value.
    Exactly(u64),
    /// This value in the bits of the mask; the other bits are free.
    Masked {
        /// The compared bits.
        mask: u64,
        /// Their value.
        value: u64,
    },
    /// The process group the hook leads: its process id, negative.
    OwnGroup,
    /// The process id of the hook.
    OwnPid,
}

/// Compared width of an argument.
///
/// The kernel truncates an `int` to its lower half, so a test of all bits would depend on a dirty upper half. A pointer
/// takes the whole argument.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Width {
    /// The lower 32 bits.
    Dword,
    /// All 64 bits.
    Qword,
}

impl ArgTest {
    /// Returns a test that the `int` at `index` is `value`.
    #[must_use]
    pub const fn int(index: u8, value: u64) -> Self {
        Self {
            index,
            wanted: Wanted::Exactly(value),
            width: Width::Dword,
        }
    }

    /// Returns a test that the `int` at `index` equals `value` in the bits of `mask`.
    #[must_use]
    pub const fn bits(index: u8, mask: u64, value: u64) -> Self {
        Self {
            index,
            wanted: Wanted::Masked { mask, value },
            width: Width::Dword,
        }
    }

    /// Returns a test that the pointer at `index` is null.
    #[must_use]
    pub const fn null(index: u8) -> Self {
        Self {
            index,
            wanted: Wanted::Exactly(0),
            width: Width::Qword,
        }
    }

    /// Returns a test that the process id at `index` is the hook's own.
    #[must_use]
    pub const fn own_pid(index: u8) -> Self {
        Self {
            index,
            wanted: Wanted::OwnPid,
            width: Width::Dword,
        }
    }

    /// Returns a test that the process id at `index` names the group the hook leads.
    #[must_use]
    pub const fn own_group(index: u8) -> Self {
        Self {
            index,
            wanted: Wanted::OwnGroup,
            width: Width::Dword,
        }
    }

    /// Returns whether the test depends on the hook's process id, known only once it exists.
    #[must_use]
    pub const fn is_personal(&self) -> bool {
        matches!(self.wanted, Wanted::OwnGroup | Wanted::OwnPid)
    }

    /// Returns whether an argument passes. `None`: that depends on the hook's process id.
    #[must_use]
    pub const fn passes(&self, argument: u64) -> Option<bool> {
        let width = self.width.mask();
        match self.wanted {
            Wanted::Exactly(value) => Some((argument ^ value) & width == 0),
            Wanted::Masked { mask, value } => Some((argument ^ value) & mask & width == 0),
            Wanted::OwnGroup | Wanted::OwnPid => None,
        }
    }

    /// Returns whether this test holds wherever `known` does. `None`: `known` does not decide it.
    #[must_use]
    pub fn follows_from(&self, known: &Self) -> Option<bool> {
        if self == known {
            return Some(true);
        }
        let Wanted::Exactly(argument) = known.wanted else {
            return None;
        };
        let covered = known.width == Width::Qword || self.width == Width::Dword;
        if self.index != known.index || !covered {
            return None;
        }
        self.passes(argument)
    }
}

impl Width {
    /// Returns the compared bits.
    #[must_use]
    pub const fn mask(self) -> u64 {
        match self {
            Self::Dword => 0xffff_ffff,
            Self::Qword => u64::MAX,
        }
    }
}

//! Syscalls of this architecture, by number and name.
//!
//! A number that is not here does not exist for a hook: the filters answer ENOSYS, as a kernel without it would.

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
compile_error!(
    "the syscall tables cover x86_64 and aarch64 only, so filters for this architecture cannot be built"
);

use std::ops::RangeInclusive;

/// Makes `nr`, with a constant for each call, and `TABLE`.
///
/// Behind `absent from` stand calls that only another architecture has. Their constants are numbers that no call can have,
/// so that one list of rules serves every architecture, and a misspelt name still does not compile.
macro_rules! table {
    ($($number:literal $name:ident,)* $(absent from $first:literal: $($absent:ident,)*)?) => {
        /// Every syscall by its kernel name.
        #[expect(non_upper_case_globals, reason = "named as the kernel names them")]
        pub mod nr {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub const $name: u32 = $number;
            )*
            $(
                #[expect(non_camel_case_types, reason = "named as the kernel names them")]
                #[repr(u32)]
                enum Absent { $($absent,)* }
                $(
                    #[doc = concat!("`", stringify!($absent), "`, which this architecture does not have")]
                    pub const $absent: u32 = $first + Absent::$absent as u32;
                )*
            )?
        }

        /// Every syscall, in ascending order of numbers.
        pub const TABLE: &[(u32, &str)] = &[$(($number, stringify!($name)),)*];
    };
}

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use self::aarch64 as here;

#[cfg(target_arch = "x86_64")]
use self::x86_64 as here;

pub(crate) use self::here::TARGET;
pub use self::here::{AUDIT_ARCH, FOREIGN};
pub use self::here::{TABLE, nr};

/// Returns whether a number is of another ABI with this architecture's name.
#[must_use]
pub fn is_foreign(number: u32) -> bool {
    FOREIGN.is_some_and(|first| number >= first)
}

/// Returns the name of a syscall; `None` if the table lacks its number.
#[must_use]
pub fn name(number: u32) -> Option<&'static str> {
    let index = TABLE
        .binary_search_by_key(&number, |&(number, _)| number)
        .ok()?;
    Some(TABLE[index].1)
}

/// Iterates over all numbers of the table, in ascending order.
pub fn numbers() -> impl Iterator<Item = u32> {
    TABLE.iter().map(|&(number, _)| number)
}

/// Returns the highest number of the table.
#[must_use]
pub const fn newest() -> u32 {
    TABLE[TABLE.len() - 1].0
}

/// Iterates over the unassigned ranges of numbers below [`newest`], in ascending order.
pub fn holes() -> impl Iterator<Item = RangeInclusive<u32>> {
    TABLE
        .windows(2)
        .filter(|pair| pair[1].0 - pair[0].0 > 1)
        .map(|pair| pair[0].0 + 1..=pair[1].0 - 1)
}

#[cfg(test)]
mod tests;

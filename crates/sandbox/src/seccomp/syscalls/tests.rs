use crate::seccomp::syscalls::{TABLE, holes, name, newest, numbers};

macro_rules! libc_knows {
    ($($constant:ident)*) => {
        pub(crate) const LIBC: &[(&str, libc::c_long)] = &[$((stringify!($constant), libc::$constant),)*];
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

#[test]
fn table_agrees_with_libc() {
    for &(constant, number) in here::LIBC {
        let expected = constant.strip_prefix("SYS_");
        assert_eq!(name(u32::try_from(number).unwrap()), expected, "{constant}");
    }
}

#[test]
fn calls_libc_does_not_know_are_named_here() {
    let beyond: Vec<_> = TABLE
        .iter()
        .copied()
        .filter(|&(number, _)| {
            here::LIBC
                .iter()
                .all(|&(_, known)| known != i64::from(number))
        })
        .collect();
    assert_eq!(beyond, here::BEYOND_LIBC);
}

#[test]
fn table_is_complete_and_in_order() {
    assert!(TABLE.is_sorted_by(|one, next| one.0 < next.0));
    assert_eq!(holes().collect::<Vec<_>>(), here::HOLES);
    assert_eq!(numbers().next(), Some(0));
    assert_eq!(newest(), 471);
}

#[test]
fn younger_calls_have_one_number_everywhere() {
    for (number, call) in [
        (424, "pidfd_send_signal"),
        (435, "clone3"),
        (446, "landlock_restrict_self"),
        (471, "rseq_slice_yield"),
    ] {
        assert_eq!(name(number), Some(call));
    }
}

#[test]
fn number_without_a_call_has_no_name() {
    for number in [335, 423, newest() + 1, u32::MAX] {
        assert_eq!(name(number), None);
    }
}

//! The first process of a run's own process tree: a program that sleeps until it is killed.
//!
//! The kernel ends every process of a pid namespace with its first one, and gives that one the orphans. The first process
//! ignores SIGCHLD, so the kernel reaps them. As a program of its own, this process has nothing of the daemon's memory.

use std::{
    ffi::{CStr, CString},
    fs::File,
    io::{self, Write as _},
    os::fd::{AsRawFd, OwnedFd},
    sync::Arc,
};

use nix::{
    errno::Errno,
    sys::memfd::{MFdFlags, memfd_create},
};

use super::PointerList;

/// Name of the program, and of its process.
const NAME: &CStr = c"hookjail-init";

/// Address before the program's code.
const BASE: u64 = 0x1000_0000;

/// `pause` in a loop.
#[cfg(target_arch = "x86_64")]
const CODE: [u8; 9] = [
    0xb8, 0x22, 0, 0, 0, // mov eax, SYS_pause
    0x0f, 0x05, // syscall
    0xeb, 0xf7, // jmp to the first instruction
];

/// `ppoll` of nothing and without a limit, in a loop: this architecture has no `pause`.
#[cfg(target_arch = "aarch64")]
const CODE: [u8; 32] = words([
    0xd280_0000, // mov x0, #0
    0xd280_0001, // mov x1, #0
    0xd280_0002, // mov x2, #0
    0xd280_0003, // mov x3, #0
    0xd280_0004, // mov x4, #0
    0xd280_0928, // mov x8, #SYS_ppoll
    0xd400_0001, // svc #0
    0x17ff_fff9, // b to the first instruction
]);

#[cfg(target_arch = "aarch64")]
const fn words(words: [u32; 8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    let mut index = 0;
    while index < bytes.len() {
        bytes[index] = words[index / 4].to_le_bytes()[index % 4];
        index += 1;
    }
    bytes
}

/// The first process of every process tree of a daemon's runs.
#[derive(Clone, Debug)]
pub struct Init {
    /// The program's arguments.
    argv: Arc<[CString; 1]>,
    /// The daemon: readable once it has ended.
    pub(super) daemon: Arc<OwnedFd>,
    /// The program of the first process, opened for reading.
    pub(super) program: Arc<OwnedFd>,
}

impl Init {
    /// Prepares process trees.
    ///
    /// # Errors
    ///
    /// Returns the error of making the program's file, or of opening this process.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            argv: Arc::new([NAME.to_owned()]),
            daemon: Arc::new(super::process(std::process::id().cast_signed())?),
            program: Arc::new(in_memory()?),
        })
    }

    /// Returns the program's arguments, which live as long as this value.
    pub(super) fn argv(&self) -> PointerList {
        PointerList::new(&*self.argv)
    }
}

/// Returns the program's file: `elf(5)`. Its code is position-independent and begins at its first byte.
fn executable() -> Vec<u8> {
    const EXECUTABLE: u16 = 2;
    const LOAD: u32 = 1;
    const STACK: u32 = 0x6474_e551;
    const PAGE: u64 = 0x1_0000;
    const ELF_HEADER: usize = 64;
    const PROGRAM_HEADER: usize = 56;
    const SEGMENTS: usize = 2;
    const HEADERS: usize = ELF_HEADER + SEGMENTS * PROGRAM_HEADER;
    let (read, write, execute) = (4, 2, 1);
    let machine: u16 = if cfg!(target_arch = "x86_64") {
        62
    } else {
        183
    };
    let loaded = (HEADERS + CODE.len()) as u64;
    // 64-bit, little-endian, version 1.
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for half in [EXECUTABLE, machine] {
        file.extend(half.to_le_bytes());
    }
    file.extend(1_u32.to_le_bytes());
    for word in [BASE + HEADERS as u64, ELF_HEADER as u64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    let sizes = [ELF_HEADER, PROGRAM_HEADER, SEGMENTS, 0, 0, 0];
    for half in sizes.map(|size| size as u16) {
        file.extend(half.to_le_bytes());
    }
    for (kind, flags, words) in [
        (LOAD, read | execute, [0, BASE, BASE, loaded, loaded, PAGE]),
        (STACK, read | write, [0; 6]),
    ] {
        file.extend(u32::to_le_bytes(kind));
        file.extend(u32::to_le_bytes(flags));
        for word in words {
            file.extend(u64::to_le_bytes(word));
        }
    }
    file.extend(CODE);
    file
}

/// Returns the program as a file in memory: directories of daemons may execute nothing, as `/run` on some systems.
fn in_memory() -> io::Result<OwnedFd> {
    const EXECUTABLE: MFdFlags = MFdFlags::from_bits_retain(0x10);
    let flags = MFdFlags::MFD_CLOEXEC;
    // Kernels before 6.3 do not have the flag, and execute every such file.
    let file = match memfd_create(NAME, flags | EXECUTABLE) {
        Err(Errno::EINVAL) => memfd_create(NAME, flags)?,
        file => file?,
    };
    let mut file = File::from(file);
    file.write_all(&executable())?;
    // A file that is open for writing cannot be executed.
    Ok(File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?.into())
}

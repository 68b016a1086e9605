//! Writes programs of a few instructions as files: `elf(5)`.

const ELF_HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;

/// A part of a program's memory beside its code: readable and writable, zeroed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zeroed {
    /// Its first address.
    pub address: u64,
    /// Its size, bytes.
    pub size: u64,
}

/// Returns the file of a program. Its code is position-independent, begins at its first byte, and is loaded behind `base`.
pub(super) fn program(code: &[u8], base: u64, zeroed: Option<Zeroed>) -> Vec<u8> {
    const EXECUTABLE: u16 = 2;
    const LOAD: u32 = 1;
    const STACK: u32 = 0x6474_e551;
    const PAGE: u64 = 0x1_0000;
    let (read, write, execute) = (4, 2, 1);
    let machine: u16 = if cfg!(target_arch = "x86_64") {
        62
    } else {
        183
    };
    let segments = 2 + usize::from(zeroed.is_some());
    let headers = ELF_HEADER + segments * PROGRAM_HEADER;
    let loaded = (headers + code.len()) as u64;
    let mut file = Vec::with_capacity(headers + code.len());
    // 64-bit, little-endian, version 1.
    file.extend([0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for half in [EXECUTABLE, machine] {
        file.extend(half.to_le_bytes());
    }
    file.extend(1_u32.to_le_bytes());
    for word in [base + headers as u64, ELF_HEADER as u64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    let sizes = [ELF_HEADER, PROGRAM_HEADER, segments, 0, 0, 0];
    for half in sizes.map(|size| size as u16) {
        file.extend(half.to_le_bytes());
    }
    let mut put = |kind: u32, flags: u32, words: [u64; 6]| {
        file.extend(kind.to_le_bytes());
        file.extend(flags.to_le_bytes());
        for word in words {
            file.extend(word.to_le_bytes());
        }
    };
    put(LOAD, read | execute, [0, base, base, loaded, loaded, PAGE]);
    if let Some(Zeroed { address, size }) = zeroed {
        put(LOAD, read | write, [0, address, address, 0, size, PAGE]);
    }
    put(STACK, read | write, [0; 6]);
    file.extend(code);
    file
}

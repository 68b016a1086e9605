//! Writes the manual's pages of `hookjail` to a directory: `cargo run --example pages -- DIR`.
//!
//! The program itself has none: they are for packages.

use std::{env, fs, io, path::Path};

use hookjail::Arguments;

fn main() -> io::Result<()> {
    let directory = env::args_os().nth(1);
    let directory = directory.ok_or_else(|| io::Error::other("which directory?"))?;
    let pages = Path::new(&directory).join("man1");
    fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(Arguments::whole(), &pages)
}

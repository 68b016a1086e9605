//! Writes the manual's pages and the shells' completions of `hookjail` to a directory: `cargo run --example pages -- DIR`.
//!
//! The program itself has neither: they are for packages.

use std::{env, fs, io, path::Path};

use clap::CommandFactory;
use clap_complete::{Shell, generate_to};
use hookjail::Arguments;

fn main() -> io::Result<()> {
    let directory = env::args_os().nth(1);
    let directory = directory.ok_or_else(|| io::Error::other("which directory?"))?;
    let directory = Path::new(&directory);
    let (pages, completions) = (directory.join("man1"), directory.join("completions"));
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    clap_mangen::generate_to(Arguments::command(), &pages)?;
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        generate_to(shell, &mut Arguments::command(), "hookjail", &completions)?;
    }
    Ok(())
}

//! Links `hookjail-run` to the compiler's archive for unwinding, where there is one.
//!
//! A runtime starts that program for each hook. By default every start loads `libgcc_s.so.1`, which takes a tenth of the start.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script asks the compiler"
)]

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(directory) = archives() {
        let directory = directory.display();
        println!("cargo::rustc-link-arg-bin=hookjail-run=-L{directory}");
    }
}

/// Makes a directory in which the linker finds archives under the name of the library; `None` where the library stays.
fn archives() -> Option<PathBuf> {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|it| it == value);
    let is_native = env::var_os("HOST") == env::var_os("TARGET");
    if !is_native || !is("CARGO_CFG_TARGET_OS", "linux") || !is("CARGO_CFG_TARGET_ENV", "gnu") {
        return None;
    }
    let found = ["libgcc_eh.a", "libgcc.a"].map(archive);
    let [Some(unwinder), Some(rest)] = found else {
        return None;
    };
    let directory = PathBuf::from(env::var_os("OUT_DIR")?);
    // The library itself is such a script where GCC installs it.
    let script = format!("GROUP ( \"{unwinder}\" \"{rest}\" )\n");
    fs::write(directory.join("libgcc_s.so"), script).ok()?;
    Some(directory)
}

/// Returns the path of an archive of the linking compiler.
fn archive(name: &str) -> Option<String> {
    let compiler = env::var_os("RUSTC_LINKER").unwrap_or_else(|| OsString::from("cc"));
    let printed = Command::new(compiler)
        .arg(format!("-print-file-name={name}"))
        .output()
        .ok()?;
    let path = String::from_utf8(printed.stdout).ok()?;
    let path = path.trim();
    // The bare name is printed for an archive that is absent.
    let is_there = Path::new(path).is_absolute() && Path::new(path).is_file();
    (is_there && !path.contains(['"', '\n'])).then(|| path.to_owned())
}

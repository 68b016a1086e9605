//! Compiles the protocol without `protoc` on the machine.
use std::{env, error::Error, fs, path::Path};

const PROTOS: [&str; 6] = [
    "hookjail/v1/types.proto",
    "hookjail/v1/hook_service.proto",
    "hookjail/v1/consent_service.proto",
    "hookjail/v1/audit_service.proto",
    "hookjail/v1/sandbox_service.proto",
    "hookjail/v1/admin_service.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler
        .include_imports(true)
        .include_source_info(true)
        .open_files(PROTOS)?;
    let out = env::var("OUT_DIR")?;
    fs::write(
        Path::new(&out).join("hookjail.bin"),
        compiler.encode_file_descriptor_set(),
    )?;
    tonic_prost_build::configure()
        .bytes(".hookjail.v1")
        .emit_rerun_if_changed(false)
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}

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
        // In one order, whatever was sent: equal requests have equal bytes.
        .btree_map(".hookjail.v1")
        .emit_rerun_if_changed(false)
        .compile_fds(compiler.file_descriptor_set())?;
    let generated = Path::new(&out).join("hookjail.v1.rs");
    fs::write(&generated, with_reasons(&fs::read_to_string(&generated)?))?;
    Ok(())
}

/// Gives the generated code's `allow` attributes the reason that the lints here ask for.
fn with_reasons(code: &str) -> String {
    let mut parts = code.split("[allow(");
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (lints, rest) = part.split_once(")]").unwrap_or((part, ""));
        let lints = lints.trim_end().trim_end_matches(',');
        result.push_str(&format!("[allow({lints}, reason = \"generated\")]{rest}"));
    }
    result
}

//! Writes the messages, clients, servers and descriptors of `hookjail.v1` to `crates/proto/src`, without `protoc` on the machine.
//!
//! From the repository's root: `cargo run --manifest-path proto/codegen/Cargo.toml [DIRECTORY]`. The generated files are
//! committed, so that a build of hookjail compiles no protocol compiler; tier 12 of `.ci/run` shows that they are fresh.
use std::{env, error::Error, fs, path::PathBuf};

const PROTOS: [&str; 6] = [
    "hookjail/v1/types.proto",
    "hookjail/v1/hook_service.proto",
    "hookjail/v1/consent_service.proto",
    "hookjail/v1/audit_service.proto",
    "hookjail/v1/sandbox_service.proto",
    "hookjail/v1/admin_service.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(
        env::args()
            .nth(1)
            .unwrap_or_else(|| "crates/proto/src".to_owned()),
    );
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler
        .include_imports(true)
        .include_source_info(true)
        .open_files(PROTOS)?;
    fs::create_dir_all(&out)?;
    fs::write(
        out.join("descriptors.bin"),
        compiler.encode_file_descriptor_set(),
    )?;
    tonic_prost_build::configure()
        .bytes(".hookjail.v1")
        // A fixed order of entries: equal requests have equal bytes.
        .btree_map(".hookjail.v1")
        .emit_rerun_if_changed(false)
        .out_dir(&out)
        .compile_fds(compiler.file_descriptor_set())?;
    let generated = out.join("hookjail.v1.rs");
    let code = with_reasons(&fs::read_to_string(&generated)?);
    fs::write(&generated, code)?;
    Ok(())
}

/// Gives the generated code's `allow` attributes the reason that the lints of hookjail require.
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

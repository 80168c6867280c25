//! The targets of the fuzzers, as plain functions: each takes any bytes and panics only if
//! something is wrong.
//!
//! `cargo test` here runs them over the checked-in corpora and over some thousand mutations of
//! these, with a stable toolchain. `cargo +nightly fuzz run TARGET` searches for more; `cargo run
//! --bin TARGET FILE` runs what it found on stable. Make that small with `cargo fuzz tmin` and put
//! it into `corpus/TARGET`.
#![forbid(unsafe_code)]

mod buffer;
mod elf;
mod filter;
mod input;
mod ipc;
mod jit;
mod perf;
mod protovm;
mod smb;
mod symbols;
mod tables;
mod traces;
mod view;
mod wire;

pub use buffer::{commits, packets, patches};
pub use elf::{elf_file, unwind_tables};
pub use filter::trace_filter;
pub use ipc::ipc_frames;
pub use jit::jit;
pub use perf::{perf_config, perf_records};
pub use protovm::protovm;
pub use smb::smb_pages;
pub use symbols::{elf_symbols, kallsyms};
pub use tables::tables;
pub use traces::traces;
pub use view::view_requests;
pub use wire::wire_fields;

/// Configs in text form, or what might be one.
pub fn config_text(data: &[u8]) {
    use ferretto_text::config;

    for unknown in [config::Unknown::Refuse, config::Unknown::Drop] {
        match config::load("fuzz", data, unknown) {
            // The parser's output must be a config.
            Ok(parsed) => {
                use ferretto_proto::Message as _;
                let decoded = ferretto_proto::TraceConfig::decode_from_slice(&parsed.bytes);
                assert!(decoded.is_ok(), "{decoded:?}");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// A fuzz target.
pub type Target = fn(&[u8]);

/// All of them, by name.
pub const TARGETS: [(&str, Target); 19] = [
    ("wire_fields", wire_fields),
    ("ipc_frames", ipc_frames),
    ("smb_pages", smb_pages),
    ("commits", commits),
    ("patches", patches),
    ("packets", packets),
    ("config_text", config_text),
    ("trace_filter", trace_filter),
    ("perf_records", perf_records),
    ("perf_config", perf_config),
    ("elf_file", elf_file),
    ("unwind_tables", unwind_tables),
    ("kallsyms", kallsyms),
    ("elf_symbols", elf_symbols),
    ("jit", jit),
    ("traces", traces),
    ("protovm", protovm),
    ("tables", tables),
    ("view_requests", view_requests),
];

/// Runs a target over the files named on the command line.
///
/// # Errors
/// If one cannot be read.
pub fn run_files(target: Target) -> std::io::Result<()> {
    std::env::args_os()
        .skip(1)
        .try_for_each(|file| std::fs::read(file).map(|data| target(&data)))
}

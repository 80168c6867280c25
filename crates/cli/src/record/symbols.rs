//! Symbolizes the callstacks of a new recording.

use ferretto_symbols::{Module, Options};
use ferretto_trace::profile;

use crate::symbolize::Names;

/// Returns packets with names from this machine's files, to append to the trace.
pub(super) fn packets(modules: &[profile::Module]) -> Vec<u8> {
    if modules.is_empty() {
        return Vec::new();
    }
    let mut options = Options::from_environment().unwrap_or_else(|error| {
        eprintln!("ferretto: {error}");
        Options::default()
    });
    options.system = true;
    // The programs have just run, so their files are unchanged.
    options.trust_paths = true;
    let modules = modules.iter().map(|module| Module {
        path: module.path.to_string(),
        build_id: module.build_id.to_vec(),
        load_bias: module.load_bias,
        offset: Some(module.offset),
        rel_pcs: module.rel_pcs.clone(),
    });
    Names::find(options, modules.collect()).packets
}

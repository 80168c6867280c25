//! Names for the callstacks of a recording that was just made.

use ferretto_symbols::{Module, Options};
use ferretto_trace::profile;

use crate::symbolize::Names;

/// Packets with the names that this machine's files give, to follow the trace.
pub(super) fn packets(modules: &[profile::Module]) -> Vec<u8> {
    if modules.is_empty() {
        return Vec::new();
    }
    let mut options = Options::from_environment().unwrap_or_else(|error| {
        anstream::eprintln!("ferretto: {error}");
        Options::default()
    });
    options.system = true;
    // The programs have just run, so the files are theirs.
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

//! Names for the callstacks of a recording that was just made.

use ferretto_symbols::{Module, Options, Symbolizer, module_symbols};
use ferretto_trace::profile;

/// Packets with the names that this machine's files give, to follow the trace.
pub(super) fn packets(modules: &[profile::Module]) -> Vec<u8> {
    let options = Options {
        // What was just run is what the files hold.
        trust_paths: true,
        ..Options::from_environment().unwrap_or_else(|error| {
            anstream::eprintln!("ferretto: {error}");
            Options {
                system: true,
                ..Options::default()
            }
        })
    };
    let modules: Vec<Module> = modules
        .iter()
        .map(|module| Module {
            path: module.path.to_string(),
            build_id: module.build_id.to_vec(),
            load_bias: module.load_bias,
            offset: Some(module.offset),
            rel_pcs: module.rel_pcs.clone(),
        })
        .collect();
    let outcomes = Symbolizer::new(options).symbolize(&modules);
    let named = modules.iter().zip(&outcomes);
    named
        .filter(|(_, outcome)| !outcome.names.is_empty())
        .flat_map(|(module, outcome)| module_symbols(module, &outcome.names))
        .collect()
}

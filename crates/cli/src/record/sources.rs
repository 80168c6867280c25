//! Data sources that a config asks for and nobody offers.

use std::time::Duration;

use ferretto_client::{Address, Consumer};
use ferretto_proto::TraceConfig;

use crate::terminal::shown;

/// How long the service may take to say what is registered.
const LIMIT: Duration = Duration::from_secs(2);

/// Programs bring this one along whenever they start.
const TRACK_EVENT: &str = "track_event";

/// One sentence for each wanted data source that is not registered. With `command` those of programs may still come
/// and are not counted. An error means that nothing is known, and gives nothing.
pub(super) fn missing(config: &TraceConfig, address: &Address, command: bool) -> Vec<String> {
    let state = Consumer::connect(address, LIMIT)
        .and_then(|mut consumer| consumer.query_service_state(LIMIT));
    let Ok(state) = state else { return Vec::new() };
    let offered: Vec<String> = state
        .data_sources
        .iter()
        .filter_map(|source| source.ds_descriptor.name.as_deref())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    let mut wanted: Vec<String> = config
        .data_sources
        .iter()
        .filter_map(|source| source.config.name.as_deref())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .filter(|name| name != TRACK_EVENT && !offered.contains(name))
        .filter(|name| !command || is_of_the_system(name))
        .collect();
    wanted.sort();
    wanted.dedup();
    wanted.iter().map(|name| sentence(name, &offered)).collect()
}

fn is_of_the_system(name: &str) -> bool {
    name.starts_with("linux.") || name.starts_with("android.")
}

fn sentence(name: &str, offered: &[String]) -> String {
    let shown = shown(name);
    let near = offered
        .iter()
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .min()
        .filter(|(distance, known)| *distance <= known.len() / 3);
    match near {
        Some((_, known)) => format!("no data source \"{shown}\" here; did you mean \"{known}\"?"),
        None => {
            format!("no data source \"{shown}\" here; it is recorded once its program connects")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_suggested() {
        let offered = ["linux.ftrace".to_owned(), "linux.sys_stats".to_owned()];
        assert!(sentence("linux.ftrce", &offered).ends_with("did you mean \"linux.ftrace\"?"));
        assert!(sentence("com.example.app", &offered).contains("once its program connects"));
    }
}

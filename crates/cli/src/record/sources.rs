//! Checks for data sources, kernel events and categories of a config that do not exist.

use std::collections::BTreeSet;
use std::time::Duration;

use ferretto_client::{Address, Consumer};
use ferretto_probes::ftrace::Misnamed;
use ferretto_proto::{
    FtraceConfig, TraceConfig, TracingServiceState, TrackEventConfig, TrackEventDescriptor,
    decode_lazy,
};

use ferretto_text::terminal::shown;

/// The timeout of the service's reply.
const LIMIT: Duration = Duration::from_secs(2);

/// The data source that programs may register at any time.
const TRACK_EVENT: &str = "track_event";

/// Returns a message for each requested data source that is not registered, and for each category
/// of track events that looks like a misspelt one of the running programs. With `command`, ignores
/// data sources that programs may still register. On errors, returns no messages.
pub(super) fn missing(config: &TraceConfig, address: &Address, command: bool) -> Vec<String> {
    let state = Consumer::connect(address, LIMIT)
        .and_then(|mut consumer| consumer.query_service_state(LIMIT));
    let Ok(state) = state else { return Vec::new() };
    let mut sentences = unregistered(config, &state, command);
    sentences.extend(misspelt_categories(config, &state));
    sentences
}

fn unregistered(config: &TraceConfig, state: &TracingServiceState, command: bool) -> Vec<String> {
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

/// Returns a message for each unknown category that is similar to a known one. Other categories and
/// patterns may belong to programs that start later.
fn misspelt_categories(config: &TraceConfig, state: &TracingServiceState) -> Vec<String> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let descriptors = state.data_sources.iter();
    let known: BTreeSet<String> = descriptors
        .filter_map(|source| {
            let encoded = &source.ds_descriptor.track_event_descriptor;
            decode_lazy::<TrackEventDescriptor>(encoded).ok()
        })
        .flat_map(|descriptor| descriptor.available_categories)
        .filter_map(|category| category.name.as_deref().map(text))
        .collect();
    let configs = config.data_sources.iter();
    let wanted: BTreeSet<String> = configs
        .filter_map(|source| {
            decode_lazy::<TrackEventConfig>(&source.config.track_event_config).ok()
        })
        .flat_map(|config| config.enabled_categories)
        .map(|name| text(&name))
        .filter(|name| !name.contains('*') && !known.contains(name))
        .collect();
    let sentence = |name: &String| {
        let near = nearest(name, known.iter().map(String::as_str))?;
        Some(format!(
            "no running program has the category {:?}; did you mean {:?}?",
            shown(name),
            shown(near)
        ))
    };
    wanted.iter().filter_map(sentence).collect()
}

fn is_of_the_system(name: &str) -> bool {
    name.starts_with("linux.") || name.starts_with("android.")
}

fn sentence(name: &str, offered: &[String]) -> String {
    let offered = offered.iter().map(String::as_str);
    match nearest(name, offered) {
        Some(near) => format!(
            "unknown data source {:?}; did you mean {near:?}?",
            shown(name)
        ),
        None => format!(
            "unknown data source {:?}; it records nothing unless a program with it connects",
            shown(name)
        ),
    }
}

/// Returns a message for each kernel event and category of a config that this machine lacks.
pub(super) fn misnamed(config: &TraceConfig) -> Vec<String> {
    let sources = config.data_sources.iter();
    let configs = sources.map(|source| &source.config.ftrace_config);
    let found = configs
        .filter(|config| config.is_some())
        .filter_map(|config| decode_lazy::<FtraceConfig>(config).ok())
        .flat_map(|config| ferretto_probes::ftrace::misnamed(&config));
    found.map(|of| misnamed_sentence(&of)).collect()
}

fn misnamed_sentence(of: &Misnamed) -> String {
    let advice = match nearest(&of.name, of.known.iter().map(String::as_str)) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => "; it records nothing".to_owned(),
    };
    format!("unknown {} {:?}{advice}", of.kind, shown(&of.name))
}

/// Returns the most similar name, if any is similar.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let longest = name.len().max(3) / 3;
    known
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .filter(|(distance, _)| *distance <= longest)
        .min()
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_categories_of_programs_get_the_nearest_name() {
        use ferretto_proto::tracing_service_state::DataSource;
        use ferretto_proto::{
            DataSourceConfig, DataSourceDescriptor, Message, TrackEventCategory, trace_config,
        };

        let offered = ["rendering", "net"].map(|name| TrackEventCategory {
            name: Some(name.into()),
            ..Default::default()
        });
        let descriptor = TrackEventDescriptor {
            available_categories: offered.into(),
            ..Default::default()
        };
        let state = TracingServiceState {
            data_sources: vec![DataSource {
                ds_descriptor: Some(DataSourceDescriptor {
                    track_event_descriptor: Some(descriptor.encode_to_vec()),
                    ..Default::default()
                })
                .into(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let wanted = ["rendring", "net", "of a program yet to come", "rend*"];
        let track_event = TrackEventConfig {
            enabled_categories: wanted.map(|name| name.as_bytes().to_vec()).into(),
            ..Default::default()
        };
        let config = TraceConfig {
            data_sources: vec![trace_config::DataSource {
                config: Some(DataSourceConfig {
                    name: Some(TRACK_EVENT.into()),
                    track_event_config: Some(track_event.encode_to_vec()),
                    ..Default::default()
                })
                .into(),
                ..Default::default()
            }],
            ..Default::default()
        };
        assert_eq!(
            misspelt_categories(&config, &state),
            ["no running program has the category \"rendring\"; did you mean \"rendering\"?"]
        );
        assert!(misspelt_categories(&config, &TracingServiceState::default()).is_empty());
    }

    #[test]
    fn a_near_name_is_suggested() {
        let offered = ["linux.ftrace".to_owned(), "linux.sys_stats".to_owned()];
        assert!(sentence("linux.ftrce", &offered).ends_with("did you mean \"linux.ftrace\"?"));
        assert!(sentence("com.example.app", &offered).contains("it records nothing unless"));
        let of = |name: &str| {
            misnamed_sentence(&Misnamed {
                name: name.to_owned(),
                known: vec!["sched/sched_switch".to_owned()],
                kind: "kernel event",
            })
        };
        assert!(of("sched/sched_swich").ends_with("did you mean \"sched/sched_switch\"?"));
        assert_eq!(
            of("a/b"),
            "unknown kernel event \"a/b\"; it records nothing"
        );
    }
}

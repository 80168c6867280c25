//! Checks for data sources, kernel events and categories of a config that do not exist.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, bail};
use ferretto_client::{Address, Consumer};
use ferretto_probes::ftrace::Misnamed;
use ferretto_proto::{
    FtraceConfig, TraceConfig, TracingServiceState, TrackEventConfig, TrackEventDescriptor,
    decode_lazy,
};

use ferretto_text::terminal::shown;

use crate::namespaces;

/// The timeout of the service's reply.
const LIMIT: Duration = Duration::from_secs(2);

/// The data source that programs may register at any time.
const TRACK_EVENT: &str = "track_event";

/// A name in a config that nothing here has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownName {
    sentence: String,
    /// It is similar to a name of the system, and no program or other kernel can have it.
    is_misspelt: bool,
}

impl UnknownName {
    fn note(sentence: String) -> Self {
        Self {
            sentence,
            is_misspelt: false,
        }
    }
}

/// Checks the names of data sources, kernel events and categories of `config`. With `command`,
/// ignores data sources that programs may still register. Returns a note for each name that may
/// record nothing; if the state of the service cannot be read, only those of the kernel.
///
/// # Errors
///
/// All misspelt names: recording without them would be a trace that lacks what was asked for.
pub(super) fn check(config: &TraceConfig, address: &Address, command: bool) -> Result<Vec<String>> {
    let state = Consumer::connect(address, LIMIT)
        .and_then(|mut consumer| consumer.query_service_state(LIMIT));
    let mut unknown = Vec::new();
    if let Ok(state) = state {
        unknown.extend(unregistered(config, &state, command));
        unknown.extend(misspelt_categories(config, &state).map(UnknownName::note));
    }
    unknown.extend(unknown_to_the_kernel(config));
    unknown.extend(two_numberings(config).map(UnknownName::note));
    let (misspelt, notes): (Vec<_>, Vec<_>) = unknown.into_iter().partition(|it| it.is_misspelt);
    let mut misspelt = misspelt.into_iter().map(|it| it.sentence);
    match misspelt.next() {
        None => Ok(notes.into_iter().map(|it| it.sentence).collect()),
        Some(first) => {
            bail!(misspelt.fold(first, |all, next| format!("{all}\n       {next}")))
        }
    }
}

/// Returns a note if this process is in a pid namespace and the kernel's events are recorded: their
/// pids are those of the machine, the pids of names, counters and track events those of the
/// namespace.
fn two_numberings(config: &TraceConfig) -> Option<String> {
    let sources = config.data_sources.iter();
    let mut names = sources.filter_map(|source| source.config.name.as_deref());
    if !namespaces::has_own_pids() || !names.any(|name| name == b"linux.ftrace") {
        return None;
    }
    Some(
        "this is a pid namespace: kernel events have the machine's pids, but names, counters and \
         track events those of the namespace, so a thread may get the name of another; \
         record on the host"
            .to_owned(),
    )
}

fn unregistered(
    config: &TraceConfig,
    state: &TracingServiceState,
    command: bool,
) -> Vec<UnknownName> {
    let mut offered: Vec<String> = state
        .data_sources
        .iter()
        .filter_map(|source| source.ds_descriptor.name.as_deref())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    offered.push(TRACK_EVENT.to_owned());
    let mut wanted: Vec<String> = config
        .data_sources
        .iter()
        .filter_map(|source| source.config.name.as_deref())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .filter(|name| !offered.contains(name))
        .collect();
    wanted.sort();
    wanted.dedup();
    let unknown = wanted.iter().map(|name| unknown_source(name, &offered));
    let is_relevant = |name: &str| !command || is_of_the_system(name);
    wanted
        .iter()
        .zip(unknown)
        .filter(|(name, unknown)| unknown.is_misspelt || is_relevant(name))
        .map(|(_, unknown)| unknown)
        .collect()
}

/// Returns a message for each unknown category that is similar to a known one. Other categories and
/// patterns may belong to programs that start later.
fn misspelt_categories(
    config: &TraceConfig,
    state: &TracingServiceState,
) -> impl Iterator<Item = String> {
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
    wanted.into_iter().filter_map(move |name| {
        let near = nearest(&name, known.iter().map(String::as_str))?;
        Some(format!(
            "no running program has the category {:?}; did you mean {:?}?",
            shown(&name),
            shown(near)
        ))
    })
}

/// Returns true for the names of sources that are part of a system, not of a program.
fn is_of_the_system(name: &str) -> bool {
    let prefixes = ["linux.", "android.", "perfetto."];
    name == TRACK_EVENT || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

fn unknown_source(name: &str, offered: &[String]) -> UnknownName {
    let near = nearest(name, offered.iter().map(String::as_str));
    let unknown = format!("unknown data source {:?}", shown(name));
    UnknownName {
        is_misspelt: near.is_some_and(is_of_the_system),
        sentence: match near {
            Some(near) => format!("{unknown}; did you mean {near:?}?"),
            None => format!("{unknown}; it records nothing unless a program with it connects"),
        },
    }
}

/// Returns the kernel events and categories of a config that this machine lacks.
fn unknown_to_the_kernel(config: &TraceConfig) -> impl Iterator<Item = UnknownName> {
    let sources = config.data_sources.iter();
    let configs = sources.map(|source| &source.config.ftrace_config);
    configs
        .filter(|config| config.is_some())
        .filter_map(|config| decode_lazy::<FtraceConfig>(config).ok())
        .flat_map(|config| ferretto_probes::ftrace::misnamed(&config))
        .map(|of| unknown_event(&of))
}

fn unknown_event(of: &Misnamed) -> UnknownName {
    let near = nearest(&of.name, of.known.iter().map(String::as_str));
    let near = near.filter(|_| !of.exists_elsewhere);
    let unknown = format!("unknown {} {:?}", of.kind, shown(&of.name));
    UnknownName {
        is_misspelt: near.is_some(),
        sentence: match near {
            Some(near) => format!("{unknown}; did you mean {near:?}?"),
            None if of.exists_elsewhere => {
                format!(
                    "this kernel has no {} {:?}; it records nothing",
                    of.kind,
                    shown(&of.name)
                )
            }
            None => format!("{unknown}; it records nothing"),
        },
    }
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
            misspelt_categories(&config, &state).collect::<Vec<_>>(),
            ["no running program has the category \"rendring\"; did you mean \"rendering\"?"]
        );
        let nobody = TracingServiceState::default();
        assert_eq!(misspelt_categories(&config, &nobody).next(), None);
    }

    #[test]
    fn only_names_near_those_of_the_system_are_misspelt() {
        let offered = ["linux.ftrace", "com.example.cache"].map(str::to_owned);
        let of = |name| {
            let unknown = unknown_source(name, &offered);
            (unknown.is_misspelt, unknown.sentence)
        };
        let (misspelt, sentence) = of("linux.ftrce");
        assert!(misspelt && sentence.ends_with("did you mean \"linux.ftrace\"?"));
        let (misspelt, sentence) = of("com.example.cach");
        assert!(!misspelt && sentence.ends_with("did you mean \"com.example.cache\"?"));
        let (misspelt, sentence) = of("com.example.app.of.another");
        assert!(!misspelt && sentence.contains("it records nothing unless"));
    }

    #[test]
    fn kernel_events_that_other_kernels_have_are_not_misspelt() {
        let of = |name: &str, exists_elsewhere| {
            let unknown = unknown_event(&Misnamed {
                name: name.to_owned(),
                known: vec!["sched/sched_switch".to_owned()],
                kind: "kernel event",
                exists_elsewhere,
            });
            (unknown.is_misspelt, unknown.sentence)
        };
        let (misspelt, sentence) = of("sched/sched_swich", false);
        assert!(misspelt && sentence.ends_with("did you mean \"sched/sched_switch\"?"));
        let (misspelt, sentence) = of("sched/sched_switch2", true);
        let expected =
            "this kernel has no kernel event \"sched/sched_switch2\"; it records nothing";
        assert_eq!((misspelt, sentence.as_str()), (false, expected));
        let expected = "unknown kernel event \"a/b\"; it records nothing";
        assert_eq!(of("a/b", false), (false, expected.to_owned()));
    }
}

//! Validation of an `FtraceConfig`.

use ferretto_proto::FtraceConfig;
use ferretto_proto::ftrace_config::print_filter::rule::Match as ProtoMatch;

use super::print_filter::{Match, Rule};
use super::syscalls::{self, Wanted};

/// The default drain period in milliseconds.
const DEFAULT_DRAIN_MS: u32 = 100;
/// The default drain period if a fill level also triggers reads.
const WATERMARK_DRAIN_MS: u32 = 1000;
/// The longest accepted drain period in milliseconds.
const MAX_DRAIN_MS: u32 = 60_000;

/// The reason why an ftrace config is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// An invalid entry of `ftrace_events`.
    #[error("ftrace_events: {0:?} is not of the form group/name, group/* or name")]
    BadEvent(String),
    /// An invalid entry of `atrace_categories` or `atrace_apps`.
    #[error("atrace: {0:?} is not printable text")]
    BadCategory(String),
    /// An invalid entry of `function_filters`.
    #[error("function_filters: {0:?} contains a colon, which would set a trigger")]
    FilterIsTrigger(String),
    /// Categories affect the whole system, not one instance.
    #[error("atrace categories and apps cannot be used with instance_name")]
    CategoriesInInstance,
    /// An invalid entry of `tracefs_options`.
    #[error("tracefs_options: {0:?} is not the name of an option")]
    BadOption(String),
}

/// One entry of `ftrace_events`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventPattern {
    /// `group/*`
    Group(String),
    /// `group/name`
    Event(String, String),
    /// `name`
    Name(String),
}

impl EventPattern {
    /// Parses one entry.
    ///
    /// # Errors
    ///
    /// Fails if the entry contains anything but printable ASCII, more than one slash, a slash at
    /// either end, or an asterisk that is not the last character.
    pub fn parse(text: &[u8]) -> Result<Self, ConfigError> {
        let bad = || ConfigError::BadEvent(String::from_utf8_lossy(text).into_owned());
        let printable = text.iter().all(|byte| (32..=126).contains(byte));
        let text = std::str::from_utf8(text)
            .ok()
            .filter(|_| printable)
            .ok_or_else(bad)?;
        let star = text.find('*');
        if text.is_empty() || star.is_some_and(|at| at + 1 != text.len()) {
            return Err(bad());
        }
        match text.split_once('/') {
            None => Ok(Self::Name(text.to_owned())),
            Some(("", _) | (_, "")) => Err(bad()),
            Some((_, name)) if name.contains('/') => Err(bad()),
            Some((group, "*")) => Ok(Self::Group(group.to_owned())),
            Some((group, name)) => Ok(Self::Event(group.to_owned(), name.to_owned())),
        }
    }
}

/// Features that affect a whole instance, so that only one data source may use them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exclusive {
    /// Thread ids to record.
    pub tids: Vec<u32>,
    /// Options to set, with their values.
    pub options: Vec<(String, bool)>,
    /// The mask of CPUs to record, in the kernel's format.
    pub cpumask: Option<String>,
}

impl Exclusive {
    /// Returns true if any of these features is used.
    pub fn is_used(&self) -> bool {
        *self != Self::default()
    }
}

/// Settings of the function graph tracer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionGraph {
    /// Functions to trace.
    pub filters: Vec<String>,
    /// The functions at which graphs start.
    pub roots: Vec<String>,
    /// The maximum depth; 0 for no limit.
    pub max_depth: u32,
}

/// The moment at which a kernel probe fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KprobeKind {
    /// On entry.
    Entry,
    /// On return.
    Return,
    /// On entry and return, as the begin and end of a slice.
    Both,
}

/// A validated ftrace config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FtraceOptions {
    /// The requested events.
    pub events: Vec<EventPattern>,
    /// The requested atrace categories.
    pub categories: Vec<String>,
    /// Set if any atrace category or app is requested.
    pub atrace: bool,
    /// Set if categories do not imply kernel events.
    pub userspace_only: bool,
    /// The kernel buffer per CPU in KiB; 0 for the default.
    pub buffer_size_kb: u32,
    /// Set if the buffer may be larger than requested.
    pub buffer_size_lower_bound: bool,
    /// The time between reads in the config, in milliseconds.
    pub drain_period_ms: Option<u32>,
    /// The fill level of a kernel buffer that triggers a read, in per cent.
    pub drain_buffer_percent: Option<u32>,
    /// Set to encode `sched_switch` and `sched_waking` compactly.
    pub compact_sched: bool,
    /// Set to write names for kernel addresses.
    pub symbolize: bool,
    /// Set to record `rss_stat` only on large changes.
    pub throttle_rss_stat: bool,
    /// Set to exclude events without a dedicated message.
    pub disable_generic: bool,
    /// Set to write such events as names and values.
    pub legacy_generic: bool,
    /// The requested system calls.
    pub syscalls: Wanted,
    /// The names in `syscall_events` that this machine does not have.
    pub unknown_syscalls: Vec<String>,
    /// The function graph tracer.
    pub function_graph: Option<FunctionGraph>,
    /// The rules for `ftrace/print`.
    pub print_rules: Vec<Rule>,
    /// Set to keep the current content of the kernel buffer.
    pub preserve_buffer: bool,
    /// Set to prefer the raw monotonic clock.
    pub use_monotonic_raw: bool,
    /// The secondary tracefs instance; empty for the top level.
    pub instance: String,
    /// Kernel probes and their kinds.
    pub kprobes: Vec<(String, KprobeKind)>,
    /// The features that only one data source may use.
    pub exclusive: Exclusive,
}

impl FtraceOptions {
    /// Validates a config.
    ///
    /// # Errors
    ///
    /// Fails if any entry is invalid.
    pub fn new(config: &FtraceConfig) -> Result<Self, ConfigError> {
        let events = config
            .ftrace_events
            .iter()
            .map(|text| EventPattern::parse(text));
        let events = events.collect::<Result<Vec<_>, _>>()?;
        let mut categories = printable(&config.atrace_categories)?;
        categories.extend(printable(&config.atrace_categories_prefer_sdk)?);
        let apps = printable(&config.atrace_apps)?;
        let instance = text(config.instance_name.as_deref());
        let atrace = !categories.is_empty() || !apps.is_empty();
        if atrace && !instance.is_empty() {
            return Err(ConfigError::CategoriesInInstance);
        }
        let (syscalls, unknown_syscalls) = wanted_syscalls(config, &events);
        Ok(Self {
            events,
            categories,
            atrace,
            userspace_only: config.atrace_userspace_only.unwrap_or(false),
            buffer_size_kb: config.buffer_size_kb.unwrap_or(0),
            buffer_size_lower_bound: config.buffer_size_lower_bound.unwrap_or(false),
            drain_period_ms: match config.drain_period_ms {
                Some(period @ 1..=MAX_DRAIN_MS) => Some(period),
                Some(_) => Some(DEFAULT_DRAIN_MS),
                None => None,
            },
            drain_buffer_percent: config.drain_buffer_percent.filter(|&percent| percent > 0),
            compact_sched: config
                .compact_sched
                .as_option()
                .and_then(|c| c.enabled)
                .unwrap_or(true),
            symbolize: config.symbolize_ksyms.unwrap_or(false),
            throttle_rss_stat: config.throttle_rss_stat.unwrap_or(false),
            disable_generic: config.disable_generic_events.unwrap_or(false),
            legacy_generic: !config.denser_generic_event_encoding.unwrap_or(true),
            syscalls,
            unknown_syscalls,
            function_graph: function_graph(config)?,
            print_rules: print_rules(config),
            preserve_buffer: config.preserve_ftrace_buffer.unwrap_or(false),
            use_monotonic_raw: config.use_monotonic_raw_clock.unwrap_or(false),
            instance,
            kprobes: kprobes(config),
            exclusive: exclusive(config)?,
        })
    }

    /// Returns the time between reads in milliseconds, depending on whether a fill level also
    /// triggers reads.
    pub fn period_ms(&self, woken_at_fill_level: bool) -> u32 {
        self.drain_period_ms.unwrap_or(if woken_at_fill_level {
            WATERMARK_DRAIN_MS
        } else {
            DEFAULT_DRAIN_MS
        })
    }
}

fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

fn printable(list: &[Vec<u8>]) -> Result<Vec<String>, ConfigError> {
    let check = |bytes: &Vec<u8>| {
        let entry = text(Some(bytes));
        let good = bytes.iter().all(|byte| (32..=126).contains(byte));
        if good {
            Ok(entry)
        } else {
            Err(ConfigError::BadCategory(entry))
        }
    };
    list.iter().map(check).collect()
}

fn wanted_syscalls(config: &FtraceConfig, events: &[EventPattern]) -> (Wanted, Vec<String>) {
    let raw = |event: &EventPattern| match event {
        EventPattern::Group(group) => group == "raw_syscalls",
        EventPattern::Event(group, _) => group == "raw_syscalls",
        EventPattern::Name(name) => name == "sys_enter" || name == "sys_exit",
    };
    if config.syscall_events.is_empty() {
        let wanted = if events.iter().any(raw) {
            Wanted::All
        } else {
            Wanted::None
        };
        return (wanted, Vec::new());
    }
    let mut unknown = Vec::new();
    let mut ids = std::collections::BTreeSet::new();
    for name in config.syscall_events.iter().map(|name| text(Some(name))) {
        match syscalls::number(&name) {
            Some(id) => _ = ids.insert(id),
            None => unknown.push(name),
        }
    }
    (Wanted::Only(ids), unknown)
}

fn function_graph(config: &FtraceConfig) -> Result<Option<FunctionGraph>, ConfigError> {
    if !config.enable_function_graph.unwrap_or(false) {
        return Ok(None);
    }
    let lossy = |list: &[Vec<u8>]| list.iter().map(|b| text(Some(b))).collect::<Vec<_>>();
    let filters = lossy(&config.function_filters);
    if let Some(filter) = filters.iter().find(|filter| filter.contains(':')) {
        return Err(ConfigError::FilterIsTrigger(filter.clone()));
    }
    Ok(Some(FunctionGraph {
        filters,
        roots: lossy(&config.function_graph_roots),
        max_depth: config.function_graph_max_depth.unwrap_or(0),
    }))
}

fn print_rules(config: &FtraceConfig) -> Vec<Rule> {
    let Some(filter) = config.print_filter.as_option() else {
        return Vec::new();
    };
    let rules = filter.rules.iter().map(|rule| Rule {
        matches: match &rule.r#match {
            Some(ProtoMatch::Prefix(prefix)) => Match::Prefix(prefix.clone()),
            Some(ProtoMatch::AtraceMsg(message)) => Match::Marker {
                kind: message.r#type.clone().unwrap_or_default(),
                prefix: message.prefix.clone().unwrap_or_default(),
            },
            None => Match::Prefix(Vec::new()),
        },
        allow: rule.allow.unwrap_or(false),
    });
    rules.collect()
}

fn kprobes(config: &FtraceConfig) -> Vec<(String, KprobeKind)> {
    use ferretto_proto::ftrace_config::kprobe_event::KprobeType as Type;
    let kind = |ty: Type| match ty {
        Type::KPROBE_TYPE_KPROBE => Some(KprobeKind::Entry),
        Type::KPROBE_TYPE_KRETPROBE => Some(KprobeKind::Return),
        Type::KPROBE_TYPE_BOTH => Some(KprobeKind::Both),
        _ => None,
    };
    let probes = config.kprobe_events.iter();
    probes
        .filter_map(|probe| Some((text(probe.probe.as_deref()), kind(probe.r#type?)?)))
        .collect()
}

fn exclusive(config: &FtraceConfig) -> Result<Exclusive, ConfigError> {
    use ferretto_proto::ftrace_config::tracefs_option::State;
    let mut options = Vec::new();
    for option in &config.tracefs_options {
        let on = match option.state {
            Some(State::STATE_ENABLED) => true,
            Some(State::STATE_DISABLED) => false,
            _ => continue,
        };
        let name = text(option.name.as_deref());
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.is_empty() || !name.bytes().all(valid) {
            return Err(ConfigError::BadOption(name));
        }
        options.push((name, on));
    }
    let mask = text(config.tracing_cpumask.as_deref());
    Ok(Exclusive {
        tids: config.tids_to_trace.clone(),
        options,
        cpumask: (!mask.is_empty()).then_some(mask),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_006_bad_event_strings_refuse_the_config() {
        for bad in ["a/b/c", "/x", "x/", "x*y", "a/b\n", "a/\u{e9}", "", "*/x"] {
            assert!(EventPattern::parse(bad.as_bytes()).is_err(), "{bad:?}");
            let config = FtraceConfig {
                ftrace_events: vec![b"sched/sched_switch".to_vec(), bad.as_bytes().to_vec()],
                ..Default::default()
            };
            assert!(FtraceOptions::new(&config).is_err(), "{bad:?}");
        }
        let event = |group: &str, name: &str| EventPattern::Event(group.into(), name.into());
        assert_eq!(
            EventPattern::parse(b"sched/*"),
            Ok(EventPattern::Group("sched".into()))
        );
        assert_eq!(EventPattern::parse(b"sched/x*"), Ok(event("sched", "x*")));
        assert_eq!(
            EventPattern::parse(b"print"),
            Ok(EventPattern::Name("print".into()))
        );
    }

    #[test]
    fn probes_022_drain_periods_outside_the_range_become_the_default() {
        let period = |ms| {
            let config = FtraceConfig {
                drain_period_ms: ms,
                ..Default::default()
            };
            FtraceOptions::new(&config).expect("valid").period_ms(false)
        };
        assert_eq!(period(None), 100);
        assert_eq!(period(Some(0)), 100);
        assert_eq!(period(Some(60_001)), 100);
        assert_eq!(period(Some(60_000)), 60_000);
        assert_eq!(period(Some(1)), 1);
    }

    #[test]
    fn probes_024_a_function_filter_with_a_colon_refuses_the_config() {
        let config = FtraceConfig {
            enable_function_graph: Some(true),
            function_filters: vec![b"do_fork:traceoff".to_vec()],
            ..Default::default()
        };
        let trigger = ConfigError::FilterIsTrigger("do_fork:traceoff".into());
        assert_eq!(FtraceOptions::new(&config), Err(trigger));
    }

    #[test]
    fn probes_050_unknown_syscalls_are_skipped_and_alone_mean_none() {
        let config = FtraceConfig {
            syscall_events: vec![b"sys_nonsense".to_vec()],
            ..Default::default()
        };
        let options = FtraceOptions::new(&config).expect("valid");
        assert_eq!(options.syscalls, Wanted::Only(Default::default()));
        assert_eq!(options.unknown_syscalls, ["sys_nonsense"]);
    }
}

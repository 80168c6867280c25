//! A checked `FtraceConfig`.

use ferretto_proto::FtraceConfig;
use ferretto_proto::ftrace_config::print_filter::rule::Match as ProtoMatch;

use super::print_filter::{Match, Rule};
use super::syscalls::{self, Wanted};

/// Drain period when the config does not say, milliseconds.
const DEFAULT_DRAIN_MS: u32 = 100;
/// The same where a fill level of the kernel's buffers causes reads, too.
const WATERMARK_DRAIN_MS: u32 = 1000;
/// Longest drain period accepted, milliseconds.
const MAX_DRAIN_MS: u32 = 60_000;

/// Why an ftrace config is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// An entry of `ftrace_events`.
    #[error("ftrace_events: {0:?} is not of the form group/name, group/* or name")]
    BadEvent(String),
    /// An entry of `atrace_categories` or `atrace_apps`.
    #[error("atrace: {0:?} is not printable text")]
    BadCategory(String),
    /// An entry of `function_filters`.
    #[error("function_filters: {0:?} contains a colon, which would set a trigger")]
    FilterIsTrigger(String),
    /// Categories act on the whole system, not on one instance.
    #[error("atrace categories and apps cannot be used with instance_name")]
    CategoriesInInstance,
    /// An entry of `tracefs_options`.
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
    /// If it has anything but printable ASCII, more than one slash, a slash at either end, or an
    /// asterisk that is not the last character.
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

/// Features that act on a whole instance and so only one data source may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exclusive {
    /// Thread ids to record.
    pub tids: Vec<u32>,
    /// Options to set, with their values.
    pub options: Vec<(String, bool)>,
    /// Mask of CPUs to record, as the kernel takes it.
    pub cpumask: Option<String>,
}

impl Exclusive {
    /// Returns true if any is used.
    pub fn is_used(&self) -> bool {
        *self != Self::default()
    }
}

/// Settings of the function graph tracer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionGraph {
    /// Functions to trace.
    pub filters: Vec<String>,
    /// Functions at which graphs begin.
    pub roots: Vec<String>,
    /// The depth to go to; 0 for no limit.
    pub max_depth: u32,
}

/// The moment at which a kernel probe fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KprobeKind {
    /// On entry.
    Entry,
    /// On return.
    Return,
    /// Both, as the begin and end of a slice.
    Both,
}

/// A checked ftrace config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FtraceOptions {
    /// Events asked for.
    pub events: Vec<EventPattern>,
    /// Atrace categories asked for.
    pub categories: Vec<String>,
    /// True if any atrace category or app was asked for.
    pub atrace: bool,
    /// Categories do not bring their kernel events.
    pub userspace_only: bool,
    /// Kernel buffer per CPU in KiB; 0 for the default.
    pub buffer_size_kb: u32,
    /// The buffer may be larger than asked for.
    pub buffer_size_lower_bound: bool,
    /// Time between reads as the config has it, milliseconds.
    pub drain_period_ms: Option<u32>,
    /// Fill level of a kernel buffer that causes a read, per cent.
    pub drain_buffer_percent: Option<u32>,
    /// Encode `sched_switch` and `sched_waking` compactly.
    pub compact_sched: bool,
    /// Write names for kernel addresses.
    pub symbolize: bool,
    /// Record `rss_stat` only when it changes much.
    pub throttle_rss_stat: bool,
    /// Refuse events without a message of their own.
    pub disable_generic: bool,
    /// Write those as names and values.
    pub legacy_generic: bool,
    /// System calls.
    pub syscalls: Wanted,
    /// Names among `syscall_events` this machine does not have.
    pub unknown_syscalls: Vec<String>,
    /// Function graph tracer.
    pub function_graph: Option<FunctionGraph>,
    /// Rules for `ftrace/print`.
    pub print_rules: Vec<Rule>,
    /// Keep the present content of the kernel buffer.
    pub preserve_buffer: bool,
    /// Prefer the raw monotonic clock.
    pub use_monotonic_raw: bool,
    /// Secondary tracefs instance; empty for the top level.
    pub instance: String,
    /// Kernel probes and which way they fire.
    pub kprobes: Vec<(String, KprobeKind)>,
    /// Features for one data source at a time.
    pub exclusive: Exclusive,
}

impl FtraceOptions {
    /// Checks a config.
    ///
    /// # Errors
    ///
    /// One bad entry refuses the whole data source.
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

    /// Time between reads, milliseconds, where the kernel also wakes us at a fill level, or not.
    pub fn period_ms(&self, woken_at_fill_level: bool) -> u32 {
        self.drain_period_ms.unwrap_or(match woken_at_fill_level {
            true => WATERMARK_DRAIN_MS,
            false => DEFAULT_DRAIN_MS,
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

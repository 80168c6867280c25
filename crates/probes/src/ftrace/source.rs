//! A running `linux.ftrace` data source.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferretto_proto::FtraceConfig;

use super::bundle::{Action, CpuState, Plan};
use super::config::{ConfigError, FtraceOptions};
use super::decoder::EventDecoder;
use super::kprobes;
use super::metadata::Metadata;
use super::page::ParseStatus;
use super::print_filter::PrintFilter;
use super::selection::{EventKey, select};
use super::stats::{Sample, SetupReport};
use super::symbols;
use super::syscalls::{self, Wanted};
use super::throttle::RssLayout;
use super::tracefs::Tracefs;
use super::translator::{Lookup, Translator};
use crate::PacketSink;

/// A data source and its state between reads.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) id: u64,
    pub(crate) options: FtraceOptions,
    pub(crate) plan: Plan,
    pub(crate) enabled: BTreeSet<EventKey>,
    pub(crate) cpus: BTreeMap<u32, CpuState>,
    pub(crate) metadata: Metadata,
    pub(crate) errors: BTreeSet<ParseStatus>,
    pub(crate) report: SetupReport,
    pub(crate) at_start: Sample,
    pub(crate) started: bool,
    pub(crate) flushed: bool,
    pub(crate) sink: Box<dyn PacketSink>,
}

impl Source {
    pub(crate) fn wanted_syscalls(&self) -> &Wanted {
        &self.options.syscalls
    }
}

/// The outcome of enabling the events of a config.
#[derive(Debug)]
pub(crate) struct Enabled {
    pub(crate) plan: Plan,
    pub(crate) events: BTreeSet<EventKey>,
    pub(crate) report: SetupReport,
}

/// Looks up and enables every event in `options`, and plans its translation.
///
/// `already` returns true if another data source has enabled an event.
pub(crate) fn enable(
    options: &FtraceOptions,
    fs: &Tracefs,
    translator: &mut Translator,
    symbols: symbols::Wanted,
    already: impl Fn(&EventKey) -> bool,
) -> Enabled {
    let mut report = SetupReport::default();
    let kprobes = kprobes::install(options, fs, &mut report);
    let turn_on = |key: &EventKey| {
        // Events of the group `ftrace` are always enabled.
        if key.0 == "ftrace" || already(key) {
            return true;
        }
        set_trigger(fs, key, true);
        fs.enable_event(&key.0, &key.1, true).is_ok()
    };
    prepare(options, fs, translator, symbols, kprobes, report, turn_on)
}

impl Plan {
    /// Plans the translation of the events in `config`, from the `events` directory under `fs`,
    /// without enabling or changing anything.
    ///
    /// # Errors
    ///
    /// Fails if the config has an invalid entry.
    pub fn from_formats(config: &FtraceConfig, fs: &Tracefs) -> Result<Self, ConfigError> {
        let options = FtraceOptions::new(config)?;
        let mut translator = Translator::new(fs);
        let mut report = SetupReport::default();
        let kprobes = kprobes::existing(&options, fs, &mut report);
        Ok(
            prepare(&options, fs, &mut translator, None, kprobes, report, |_| {
                true
            })
            .plan,
        )
    }
}

/// Looks up the events in `options`; `turn_on` enables one event and returns true on success.
fn prepare(
    options: &FtraceOptions,
    fs: &Tracefs,
    translator: &mut Translator,
    symbols: symbols::Wanted,
    kprobes: kprobes::Decoders,
    mut report: SetupReport,
    turn_on: impl Fn(&EventKey) -> bool,
) -> Enabled {
    let mut unlisted = Vec::new();
    let mut events = BTreeSet::new();
    let mut decoders = Vec::new();
    let mut wanted = select(options, fs, &mut unlisted);
    wanted.extend(kprobes.keys().cloned());
    for key in wanted {
        let (group, name) = (key.0.as_str(), key.1.as_str());
        let found = match kprobes.get(&key) {
            Some(decoder) => Lookup::Found(Arc::clone(decoder)),
            None => translator.lookup(group, name, options.disable_generic),
        };
        let decoder = match found {
            Lookup::Found(decoder) => decoder,
            Lookup::Generic => {
                report.failed.push(format!("{group}/{name}"));
                continue;
            }
            Lookup::Missing => {
                report.unknown.push(format!("{group}/{name}"));
                continue;
            }
        };
        if !turn_on(&key) {
            report.failed.push(format!("{group}/{name}"));
            continue;
        }
        decoders.push(decoder);
        events.insert(key);
    }
    let plan = plan(options, translator, decoders, symbols, &mut report);
    Enabled {
        plan,
        events,
        report,
    }
}

fn plan(
    options: &FtraceOptions,
    translator: &Translator,
    decoders: Vec<Arc<EventDecoder>>,
    symbols: symbols::Wanted,
    report: &mut SetupReport,
) -> Plan {
    let mut plan = Plan::empty(translator.commit_size());
    plan.common_pid = translator.common_pid();
    plan.strings = Arc::clone(translator.strings());
    plan.legacy_generic = options.legacy_generic;
    plan.opening_syscalls = syscalls::opening();
    plan.symbols = symbols.and_then(|loaded| {
        loaded
            .map_err(|error| {
                report
                    .failed
                    .push(format!("perfetto/symbolize_ksyms ({error})"))
            })
            .ok()
    });
    let layout = translator.compact();
    if layout.is_none() {
        let reason = "perfetto/compact_sched (unexpected sched event format)";
        report.failed.push(reason.to_owned());
    }
    for decoder in decoders {
        let (id, group) = (decoder.id, &*decoder.group);
        if group == "ftrace" && &*decoder.name == "print" && !options.print_rules.is_empty() {
            match decoder.trailing_text() {
                Some(text_offset) => {
                    let rules = options.print_rules.clone();
                    plan.print_filter = Some(PrintFilter { text_offset, rules });
                    plan.set_action(id, Action::Filtered(decoder));
                }
                None => {
                    let reason = "ftrace/print (unexpected format for filtering)";
                    report.failed.push(reason.to_owned());
                    plan.set_action(id, Action::Event(decoder));
                }
            }
        } else if options.throttle_rss_stat
            && group == "kmem"
            && &*decoder.name == "rss_stat"
            && let Some(layout) = RssLayout::new(|name, size| decoder.offset_of(name, size))
        {
            plan.throttle = Some(layout);
            plan.set_action(id, Action::Throttled(decoder));
        } else {
            plan.set_action(id, Action::Event(decoder));
        }
    }
    if let Some(layout) = layout.filter(|_| options.compact_sched) {
        let decoder = |id: u16| match plan.actions.get(usize::from(id)) {
            Some(Action::Event(decoder)) => Some(Arc::clone(decoder)),
            _ => None,
        };
        let (switch, waking) = (decoder(layout.switch_id), decoder(layout.waking_id));
        if let Some(switch) = switch {
            plan.set_action(layout.switch_id, Action::CompactSwitch(switch));
            if waking.is_some() {
                plan.set_action(layout.waking_id, Action::CompactWaking);
            }
            plan.compact = Some(layout);
        }
    }
    plan
}

/// Histogram triggers that make a synthetic event fire.
const TRIGGERS: [(&str, &str, &str); 2] = [
    (
        "rss_stat_throttled",
        "events/kmem/rss_stat/trigger",
        "hist:keys=mm_id,member:bucket=size/0x80000\
         :onchange($bucket).rss_stat_throttled(mm_id,curr,member,size)",
    ),
    (
        "suspend_resume_minimal",
        "events/power/suspend_resume/trigger",
        "hist:keys=start:size=128:onmatch(power.suspend_resume)\
         .trace(suspend_resume_minimal, start) \
         if (action == 'syscore_resume') || (action == 'timekeeping_freeze')",
    ),
];

/// Returns the trigger of a synthetic event, and its file.
pub(crate) fn trigger(group: &str, name: &str) -> Option<(&'static str, &'static str)> {
    let mut triggers = TRIGGERS.iter().filter(|_| group == "synthetic");
    let found = triggers.find(|(known, ..)| *known == name);
    found.map(|(_, file, text)| (*file, *text))
}

/// Installs or removes the trigger of a synthetic event; does nothing for other events.
pub(crate) fn set_trigger(fs: &Tracefs, key: &EventKey, on: bool) {
    let Some((file, text)) = trigger(&key.0, &key.1) else {
        return;
    };
    // With an existing or unsupported trigger, the event never fires.
    let _ = if on {
        fs.append(file, text)
    } else {
        fs.append(file, &format!("!{text}"))
    };
}

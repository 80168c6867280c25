//! Kernel probes created for a data source.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::config::{FtraceOptions, KprobeKind};
use super::decoder::{EventDecoder, Mark};
use super::format::EventFormat;
use super::selection::{EventKey, KPROBE_GROUP, KRETPROBE_GROUP};
use super::stats::SetupReport;
use super::tracefs::Tracefs;

/// The usable probes and their decoders.
pub(crate) type Decoders = BTreeMap<EventKey, Arc<EventDecoder>>;

/// The reason why a probe cannot be used.
enum Unusable {
    /// The kernel rejects it.
    Refused,
    /// Its format is missing or malformed.
    Unknown,
}

/// Creates the probes in `options`.
pub(crate) fn install(options: &FtraceOptions, fs: &Tracefs, report: &mut SetupReport) -> Decoders {
    decoders(options, report, |group, name| {
        if !create(fs, group, name) {
            return Err(Unusable::Refused);
        }
        read_format(fs, group, name).inspect_err(|_| remove(fs, group, name))
    })
}

/// Returns the existing probes in `options`, without creating any.
pub(crate) fn existing(
    options: &FtraceOptions,
    fs: &Tracefs,
    report: &mut SetupReport,
) -> Decoders {
    decoders(options, report, |group, name| read_format(fs, group, name))
}

fn read_format(fs: &Tracefs, group: &str, name: &str) -> Result<EventFormat, Unusable> {
    let text = fs.format(group, name).ok();
    let format = text.as_deref().and_then(EventFormat::parse);
    format.ok_or(Unusable::Unknown)
}

fn decoders(
    options: &FtraceOptions,
    report: &mut SetupReport,
    format_of: impl Fn(&str, &str) -> Result<EventFormat, Unusable>,
) -> Decoders {
    let mut found = Decoders::new();
    for (name, kind) in &options.kprobes {
        let wanted: &[(&str, Mark)] = match kind {
            KprobeKind::Entry => &[(KPROBE_GROUP, Mark::Instant)],
            KprobeKind::Return => &[(KRETPROBE_GROUP, Mark::Instant)],
            KprobeKind::Both => &[(KPROBE_GROUP, Mark::Begin), (KRETPROBE_GROUP, Mark::End)],
        };
        for &(group, mark) in wanted {
            let format = if is_symbol(name) {
                format_of(group, name)
            } else {
                Err(Unusable::Refused)
            };
            match format {
                Ok(format) => {
                    let decoder = EventDecoder::kprobe(group, &format, mark);
                    found.insert((group.to_owned(), name.clone()), Arc::new(decoder));
                }
                Err(Unusable::Refused) => report.failed.push(format!("{group}/{name}")),
                Err(Unusable::Unknown) => report.unknown.push(format!("{group}/{name}")),
            }
        }
    }
    found
}

fn is_symbol(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn create(fs: &Tracefs, group: &str, name: &str) -> bool {
    let line = match group {
        KRETPROBE_GROUP => format!("r1024:{group}/{name} {name}"),
        _ => format!("p:{group}/{name} {name}"),
    };
    match fs.top().append("kprobe_events", &line) {
        Ok(()) => true,
        Err(error) => error.kind() == std::io::ErrorKind::AlreadyExists,
    }
}

/// Removes a probe created by [`install`]; other events are left alone.
pub(crate) fn remove(fs: &Tracefs, group: &str, name: &str) {
    if group == KPROBE_GROUP || group == KRETPROBE_GROUP {
        let _ = fs
            .top()
            .append("kprobe_events", &format!("-:{group}/{name}"));
    }
}

/// Returns the sums of the hit and miss counters of this program's probes.
pub(crate) fn profile(fs: &Tracefs) -> (i64, i64) {
    let text = fs.top().read("kprobe_profile").unwrap_or_default();
    let counts = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next()?;
        Some((
            words.next()?.parse::<i64>().ok()?,
            words.next()?.parse::<i64>().ok()?,
        ))
    });
    counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
}

//! The packets that describe the recorded command.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use ferretto_proto::TraceConfig;
use ferretto_proto::fields::{process_stats, trace, trace_attributes, trace_packet};
use ferretto_proto::trace_attributes::Attribute;
use ferretto_proto::trace_attributes::attribute::Value;
use ferretto_trace::summary::{
    COMMAND_ATTRIBUTE, COMMAND_PID_ATTRIBUTE, CommandResources, PIDS_ATTRIBUTE,
};
use ferretto_wire::{Encoder, Sink, encode};

/// The trace attribute with the frequency policies of the CPUs, separated by commas.
const GOVERNOR_ATTRIBUTE: &str = "ferretto.cpu.governor";

/// Adds the command, or the processes of `-p`, and the frequency policies of the CPUs to the start
/// of the trace.
pub(super) fn describe(config: &mut TraceConfig, words: &[OsString], pids: &[i32]) {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
    for (key, value) in [
        (COMMAND_ATTRIBUTE, words.join(&b' ')),
        (PIDS_ATTRIBUTE, pids.join(",").into_bytes()),
        (
            GOVERNOR_ATTRIBUTE,
            governors(Path::new("/sys/devices/system/cpu/cpufreq")).into_bytes(),
        ),
    ] {
        if !value.is_empty() {
            let attributes = config.trace_attributes.get_or_insert_default();
            attributes.attribute.push(Attribute {
                key: Some(key.into()),
                value: Some(Value::StringValue(value)),
                ..Default::default()
            });
        }
    }
}

/// Returns the names of the different frequency policies of the CPUs, separated by commas. Empty if
/// the kernel does not set frequencies, as in most virtual machines.
fn governors(folder: &Path) -> String {
    let policies = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = policies.filter_map(|policy| {
        let name = fs::read_to_string(policy.path().join("scaling_governor")).ok()?;
        let name = name.trim();
        (!name.is_empty()).then(|| name.to_owned())
    });
    Vec::from_iter(names.collect::<BTreeSet<_>>()).join(",")
}

/// The facts about the command that are known only after the start of the trace.
#[derive(Debug, Clone, Default)]
pub(super) struct RanCommand(Arc<OnceLock<Facts>>);

#[derive(Debug)]
struct Facts {
    pid: i32,
    resources: CommandResources,
    /// The time of its end in nanoseconds since boot, if it ended during the recording.
    ended: Option<u64>,
}

impl RanCommand {
    pub(super) fn set(&self, pid: i32, resources: Option<CommandResources>, ended: Option<u64>) {
        // There is one command.
        let _ = self.0.set(Facts {
            pid,
            resources: resources.unwrap_or_default(),
            ended,
        });
    }

    /// Returns packets with the facts, to append to the trace; empty without a command.
    pub(super) fn packets(&self) -> Vec<u8> {
        let Some(facts) = self.0.get() else {
            return Vec::new();
        };
        encode(|out| {
            facts.attributes(out);
            facts.peak(out);
        })
    }
}

impl Facts {
    fn attributes<S: Sink + ?Sized>(&self, out: &mut Encoder<'_, S>) {
        use trace_attributes::{ATTRIBUTE, attribute};
        let pid = (COMMAND_PID_ATTRIBUTE.to_owned(), self.pid.into());
        let resources = self.resources.attributes().into_iter();
        let resources = resources.map(|(key, value)| (key, value.cast_signed()));
        out.nested(trace::PACKET, |packet| {
            packet.nested(trace_packet::TRACE_ATTRIBUTES, |attributes| {
                for (key, value) in std::iter::once(pid).chain(resources) {
                    attributes.nested(ATTRIBUTE, |entry| {
                        entry.string(attribute::KEY, &key);
                        entry.int(attribute::LONG_VALUE, value);
                    });
                }
            });
        });
    }

    /// Adds the peak memory as a value of the process's counter, as if it had been polled at the
    /// end.
    fn peak<S: Sink + ?Sized>(&self, out: &mut Encoder<'_, S>) {
        let (Some(peak), Some(ended)) = (self.resources.peak_memory, self.ended) else {
            return;
        };
        out.nested(trace::PACKET, |packet| {
            packet.varint(trace_packet::TIMESTAMP, ended);
            packet.nested(trace_packet::PROCESS_STATS, |stats| {
                stats.nested(process_stats::PROCESSES, |process| {
                    process.int(process_stats::process::PID, self.pid.into());
                    process.varint(process_stats::process::VM_HWM_KB, peak / 1024);
                });
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_frequency_policies_are_named_once() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(governors(folder.path()), "");
        for (policy, name) in [
            ("policy0", "schedutil"),
            ("policy4", "performance"),
            ("policy7", "schedutil"),
        ] {
            let policy = folder.path().join(policy);
            fs::create_dir(&policy).expect("a policy");
            fs::write(policy.join("scaling_governor"), format!("{name}\n")).expect("a name");
        }
        // It has no policy of this kind.
        fs::create_dir(folder.path().join("policy8")).expect("a policy");
        assert_eq!(governors(folder.path()), "performance,schedutil");
        assert_eq!(governors(&folder.path().join("none")), "");
    }
}

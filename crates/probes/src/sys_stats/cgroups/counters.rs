//! The files of control groups, and their counters.

use ferretto_proto::CgroupCounters as Key;

/// Values from here on mean "unlimited" in version 1.
const UNLIMITED: u64 = 1 << 62;

/// A file.
#[derive(Debug, PartialEq)]
pub(super) struct Source {
    /// The controller, which names the hierarchy in version 1.
    pub(super) controller: &'static str,
    pub(super) file: &'static str,
    format: Format,
}

/// The format of a file.
#[derive(Debug, PartialEq)]
enum Format {
    /// One number, divided by this one. The word `max` is no number.
    One(Key, u64),
    /// Lines with a key and a number, divided by this one.
    Lines(&'static [(&'static str, Key, u64)]),
    /// Ticks by key.
    Ticks(&'static [(&'static str, Key)]),
    /// For each device, words of a key and a number, such as `rbytes=7`.
    Devices(&'static [(&'static str, Key)]),
    /// For each device, lines with a key and a number, such as `8:0 Read 7`.
    DeviceLines(&'static [(&'static str, Key)]),
    /// The total times of `some` and `full`.
    Pressure(Key, Key),
}

const fn source(controller: &'static str, file: &'static str, format: Format) -> Source {
    Source {
        controller,
        file,
        format,
    }
}

/// The files of version 2.
pub(super) static V2: [Source; 14] = [
    source(
        "cpu",
        "cpu.stat",
        Format::Lines(&[
            ("usage_usec", Key::CGROUP_CPU_USAGE_US, 1),
            ("user_usec", Key::CGROUP_CPU_USER_US, 1),
            ("system_usec", Key::CGROUP_CPU_SYSTEM_US, 1),
            ("nr_periods", Key::CGROUP_CPU_PERIODS, 1),
            ("nr_throttled", Key::CGROUP_CPU_THROTTLED_PERIODS, 1),
            ("throttled_usec", Key::CGROUP_CPU_THROTTLED_US, 1),
        ]),
    ),
    source(
        "memory",
        "memory.current",
        Format::One(Key::CGROUP_MEMORY_CURRENT, 1),
    ),
    source(
        "memory",
        "memory.high",
        Format::One(Key::CGROUP_MEMORY_HIGH, 1),
    ),
    source(
        "memory",
        "memory.max",
        Format::One(Key::CGROUP_MEMORY_MAX, 1),
    ),
    source(
        "memory",
        "memory.swap.current",
        Format::One(Key::CGROUP_MEMORY_SWAP, 1),
    ),
    source(
        "memory",
        "memory.stat",
        Format::Lines(&[
            ("anon", Key::CGROUP_MEMORY_ANON, 1),
            ("file", Key::CGROUP_MEMORY_FILE, 1),
            ("pgmajfault", Key::CGROUP_MEMORY_MAJOR_FAULTS, 1),
        ]),
    ),
    source(
        "memory",
        "memory.events",
        Format::Lines(&[
            ("high", Key::CGROUP_MEMORY_HIGH_EVENTS, 1),
            ("max", Key::CGROUP_MEMORY_MAX_EVENTS, 1),
            ("oom", Key::CGROUP_MEMORY_OOM_EVENTS, 1),
            ("oom_kill", Key::CGROUP_MEMORY_OOM_KILLS, 1),
        ]),
    ),
    source(
        "io",
        "io.stat",
        Format::Devices(&[
            ("rbytes", Key::CGROUP_IO_READ_BYTES),
            ("wbytes", Key::CGROUP_IO_WRITTEN_BYTES),
            ("rios", Key::CGROUP_IO_READS),
            ("wios", Key::CGROUP_IO_WRITES),
        ]),
    ),
    source(
        "pids",
        "pids.current",
        Format::One(Key::CGROUP_PIDS_CURRENT, 1),
    ),
    source("pids", "pids.max", Format::One(Key::CGROUP_PIDS_MAX, 1)),
    source(
        "pids",
        "pids.events",
        Format::Lines(&[("max", Key::CGROUP_PIDS_MAX_EVENTS, 1)]),
    ),
    source(
        "cpu",
        "cpu.pressure",
        Format::Pressure(Key::CGROUP_PSI_CPU_SOME_US, Key::CGROUP_PSI_CPU_FULL_US),
    ),
    source(
        "io",
        "io.pressure",
        Format::Pressure(Key::CGROUP_PSI_IO_SOME_US, Key::CGROUP_PSI_IO_FULL_US),
    ),
    source(
        "memory",
        "memory.pressure",
        Format::Pressure(
            Key::CGROUP_PSI_MEMORY_SOME_US,
            Key::CGROUP_PSI_MEMORY_FULL_US,
        ),
    ),
];

/// The files of version 1. Times of the processor are in nanoseconds.
pub(super) static V1: [Source; 13] = [
    source(
        "cpuacct",
        "cpuacct.usage",
        Format::One(Key::CGROUP_CPU_USAGE_US, 1000),
    ),
    source(
        "cpuacct",
        "cpuacct.stat",
        Format::Ticks(&[
            ("user", Key::CGROUP_CPU_USER_US),
            ("system", Key::CGROUP_CPU_SYSTEM_US),
        ]),
    ),
    source(
        "cpu",
        "cpu.stat",
        Format::Lines(&[
            ("nr_periods", Key::CGROUP_CPU_PERIODS, 1),
            ("nr_throttled", Key::CGROUP_CPU_THROTTLED_PERIODS, 1),
            ("throttled_time", Key::CGROUP_CPU_THROTTLED_US, 1000),
        ]),
    ),
    source(
        "memory",
        "memory.usage_in_bytes",
        Format::One(Key::CGROUP_MEMORY_CURRENT, 1),
    ),
    source(
        "memory",
        "memory.limit_in_bytes",
        Format::One(Key::CGROUP_MEMORY_MAX, 1),
    ),
    source(
        "memory",
        "memory.failcnt",
        Format::One(Key::CGROUP_MEMORY_MAX_EVENTS, 1),
    ),
    source(
        "memory",
        "memory.stat",
        Format::Lines(&[
            ("total_rss", Key::CGROUP_MEMORY_ANON, 1),
            ("total_cache", Key::CGROUP_MEMORY_FILE, 1),
            ("total_swap", Key::CGROUP_MEMORY_SWAP, 1),
            ("total_pgmajfault", Key::CGROUP_MEMORY_MAJOR_FAULTS, 1),
        ]),
    ),
    source(
        "memory",
        "memory.oom_control",
        Format::Lines(&[("oom_kill", Key::CGROUP_MEMORY_OOM_KILLS, 1)]),
    ),
    source(
        "pids",
        "pids.current",
        Format::One(Key::CGROUP_PIDS_CURRENT, 1),
    ),
    source("pids", "pids.max", Format::One(Key::CGROUP_PIDS_MAX, 1)),
    source(
        "pids",
        "pids.events",
        Format::Lines(&[("max", Key::CGROUP_PIDS_MAX_EVENTS, 1)]),
    ),
    source(
        "blkio",
        "blkio.throttle.io_service_bytes",
        Format::DeviceLines(&[
            ("Read", Key::CGROUP_IO_READ_BYTES),
            ("Write", Key::CGROUP_IO_WRITTEN_BYTES),
        ]),
    ),
    source(
        "blkio",
        "blkio.throttle.io_serviced",
        Format::DeviceLines(&[
            ("Read", Key::CGROUP_IO_READS),
            ("Write", Key::CGROUP_IO_WRITES),
        ]),
    ),
];

impl Source {
    /// Adds the counters in the text of the file.
    pub(super) fn parse(&self, text: &str, values: &mut Vec<(Key, u64)>) {
        match &self.format {
            Format::One(key, divisor) => {
                let value = text.trim().parse::<u64>().ok();
                let limited = value.filter(|value| *value < UNLIMITED);
                values.extend(limited.map(|value| (*key, value / divisor)));
            }
            Format::Lines(keys) => {
                for (name, value) in pairs(text) {
                    let key = keys.iter().find(|(known, ..)| *known == name);
                    values.extend(key.map(|(_, key, divisor)| (*key, value / divisor)));
                }
            }
            Format::Ticks(keys) => {
                let per_second = rustix::param::clock_ticks_per_second().max(1);
                for (name, ticks) in pairs(text) {
                    let key = keys.iter().find(|(known, _)| *known == name);
                    let time = ticks.saturating_mul(1_000_000) / per_second;
                    values.extend(key.map(|(_, key)| (*key, time)));
                }
            }
            Format::Devices(keys) => {
                let words = text.split_whitespace();
                let found = words.filter_map(|word| word.split_once('='));
                let found = found.filter_map(|(name, value)| Some((name, value.parse().ok()?)));
                add_sums(keys, found, values);
            }
            Format::DeviceLines(keys) => {
                let found = text.lines().filter_map(|line| {
                    let mut words = line.split_whitespace().skip(1);
                    Some((words.next()?, words.next()?.parse().ok()?))
                });
                add_sums(keys, found, values);
            }
            Format::Pressure(some, full) => {
                for line in text.lines() {
                    let total = line.rsplit_once("total=").map(|(_, total)| total);
                    let value = total.and_then(|total| total.trim().parse().ok());
                    let key = match line.split(' ').next() {
                        Some("some") => some,
                        Some("full") => full,
                        _ => continue,
                    };
                    values.extend(value.map(|value| (*key, value)));
                }
            }
        }
    }
}

/// Adds the sums over all devices. A group that has used no device has no lines, and sums of 0.
fn add_sums<'a>(
    keys: &[(&str, Key)],
    found: impl Iterator<Item = (&'a str, u64)>,
    values: &mut Vec<(Key, u64)>,
) {
    let first = values.len();
    values.extend(keys.iter().map(|(_, key)| (*key, 0)));
    for (name, value) in found {
        if let Some(index) = keys.iter().position(|(known, _)| *known == name) {
            let sum = &mut values[first + index].1;
            *sum = sum.saturating_add(value);
        }
    }
}

/// Returns the lines of a key and a number.
fn pairs(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name, value.trim().parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(files: &[Source], file: &str, text: &str) -> Vec<(Key, u64)> {
        let source = files.iter().find(|source| source.file == file);
        let mut values = Vec::new();
        source.expect("a file").parse(text, &mut values);
        values
    }

    #[test]
    fn both_versions_have_the_same_units() {
        assert_eq!(
            parse(
                &V2,
                "cpu.stat",
                "usage_usec 7\nother 1\nthrottled_usec 3\nnr_throttled\n"
            ),
            [
                (Key::CGROUP_CPU_USAGE_US, 7),
                (Key::CGROUP_CPU_THROTTLED_US, 3)
            ]
        );
        assert_eq!(
            parse(&V1, "cpu.stat", "nr_periods 9\nthrottled_time 3000\n"),
            [
                (Key::CGROUP_CPU_PERIODS, 9),
                (Key::CGROUP_CPU_THROTTLED_US, 3)
            ]
        );
        assert_eq!(
            parse(&V1, "cpuacct.usage", "7999\n"),
            [(Key::CGROUP_CPU_USAGE_US, 7)]
        );
    }

    #[test]
    fn unlimited_groups_have_no_limit() {
        assert_eq!(parse(&V2, "memory.max", "max\n"), []);
        assert_eq!(
            parse(&V1, "memory.limit_in_bytes", "9223372036854771712\n"),
            []
        );
        assert_eq!(
            parse(&V2, "memory.max", "1048576\n"),
            [(Key::CGROUP_MEMORY_MAX, 1 << 20)]
        );
    }

    #[test]
    fn devices_are_added_up() {
        let expected = [
            (Key::CGROUP_IO_READ_BYTES, 11),
            (Key::CGROUP_IO_WRITTEN_BYTES, 2),
        ];
        let text = "8:0 rbytes=1 wbytes=2 rios=3\n8:16 rbytes=10 x\n";
        assert_eq!(parse(&V2, "io.stat", text)[..2], expected);
        let text = "8:0 Read 1\n8:0 Write 2\n8:16 Read 10\nTotal 13\n";
        assert_eq!(
            parse(&V1, "blkio.throttle.io_service_bytes", text)[..],
            expected
        );
    }

    #[test]
    fn damaged_files_have_no_counters() {
        for source in V1.iter().chain(&V2) {
            for text in [
                "",
                "\n\n",
                "some total=",
                "usage_usec -1",
                "8:0 Read",
                "=\n= =",
            ] {
                let mut values = Vec::new();
                source.parse(text, &mut values);
                assert!(
                    values.iter().all(|(_, value)| *value == 0),
                    "{source:?} {text:?}"
                );
            }
        }
    }
}

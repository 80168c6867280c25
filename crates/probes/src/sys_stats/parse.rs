//! Parsers of the files with system counters. Each appends fields of `SysStats` for the lines that
//! it understands and ignores the rest.

use ferretto_format::kernel_names;
use ferretto_proto::fields::sys_stats as field;
use ferretto_wire::Encoder;

use crate::procfs::{number, words};

type Out<'a> = Encoder<'a, Vec<u8>>;

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n')
}

/// The keys that have a counter; the first has number 1.
#[derive(Debug)]
pub(super) struct Keys {
    wanted: Vec<(&'static str, u64)>,
}

impl Keys {
    /// Keys of `/proc/meminfo`; those numbered in `wanted`, or all if it is empty.
    pub(super) fn meminfo(wanted: &[i32]) -> Self {
        Self::new(kernel_names::meminfo_keys(), wanted)
    }

    /// Keys of `/proc/vmstat`; those numbered in `wanted`, or all if it is empty.
    pub(super) fn vmstat(wanted: &[i32]) -> Self {
        Self::new(kernel_names::vmstat_keys(), wanted)
    }

    fn new(all: impl Iterator<Item = (&'static str, u64)>, wanted: &[i32]) -> Self {
        let is_wanted = |number: u64| {
            wanted.is_empty() || wanted.iter().any(|&w| i64::from(w) == number as i64)
        };
        Self {
            wanted: all.filter(|&(_, number)| is_wanted(number)).collect(),
        }
    }

    fn number(&self, key: &[u8]) -> Option<u64> {
        let found = self.wanted.iter().find(|(name, _)| name.as_bytes() == key);
        found.map(|&(_, number)| number)
    }
}

/// `/proc/meminfo`: `Key:   value kB`, values as printed.
pub(super) fn meminfo(text: &[u8], keys: &Keys, out: &mut Out<'_>) {
    use field::meminfo_value::{KEY, VALUE};
    key_values(text, keys, (field::MEMINFO, KEY, VALUE), out);
}

/// `/proc/vmstat`: `key value`.
pub(super) fn vmstat(text: &[u8], keys: &Keys, out: &mut Out<'_>) {
    use field::vmstat_value::{KEY, VALUE};
    key_values(text, keys, (field::VMSTAT, KEY, VALUE), out);
}

fn key_values(text: &[u8], keys: &Keys, fields: (u32, u32, u32), out: &mut Out<'_>) {
    for line in lines(text) {
        let mut words = words(line);
        let (Some(key), Some(value)) = (words.next(), words.next()) else {
            continue;
        };
        let key = key.strip_suffix(b":").unwrap_or(key);
        let (Some(key), Some(value)) = (keys.number(key), number(value)) else {
            continue;
        };
        out.nested(fields.0, |entry| {
            entry.varint(fields.1, key);
            entry.varint(fields.2, value);
        });
    }
}

/// The requested parts of `/proc/stat`.
#[derive(Debug, Clone, Copy)]
pub(super) struct StatParts {
    pub(super) cpu_times: bool,
    pub(super) irqs: bool,
    pub(super) softirqs: bool,
    pub(super) forks: bool,
}

/// `/proc/stat`: times of each CPU, interrupt and fork counts.
pub(super) fn stat(text: &[u8], parts: StatParts, ticks_per_second: u64, out: &mut Out<'_>) {
    for line in lines(text) {
        let mut words = words(line);
        let Some(key) = words.next() else { continue };
        match key {
            b"intr" if parts.irqs => interrupts(words, IRQ, out),
            b"softirq" if parts.softirqs => interrupts(words, SOFTIRQ, out),
            b"processes" if parts.forks => {
                if let Some(forks) = words.next().and_then(number) {
                    out.varint(field::NUM_FORKS, forks);
                }
            }
            _ if parts.cpu_times => {
                let Some(cpu) = key.strip_prefix(b"cpu").and_then(number) else {
                    continue;
                };
                cpu_times(cpu, words, ticks_per_second, out);
            }
            _ => {}
        }
    }
}

fn cpu_times<'a>(
    cpu: u64,
    words: impl Iterator<Item = &'a [u8]>,
    ticks_per_second: u64,
    out: &mut Out<'_>,
) {
    use field::cpu_times as time;
    // In the order of the columns.
    const COLUMNS: [u32; 8] = [
        time::USER_NS,
        time::USER_NICE_NS,
        time::SYSTEM_MODE_NS,
        time::IDLE_NS,
        time::IO_WAIT_NS,
        time::IRQ_NS,
        time::SOFTIRQ_NS,
        time::STEAL_NS,
    ];
    let tick_ns = 1_000_000_000 / ticks_per_second.max(1);
    out.nested(field::CPU_STAT, |entry| {
        entry.varint(time::CPU_ID, cpu);
        for (column, ticks) in COLUMNS.iter().zip(words.map_while(number)) {
            entry.varint(*column, ticks.saturating_mul(tick_ns));
        }
    });
}

/// The fields for the total and each single count, and whether zero counts are written.
const IRQ: (u32, u32, bool) = (field::NUM_IRQ_TOTAL, field::NUM_IRQ, false);
/// See [`IRQ`].
const SOFTIRQ: (u32, u32, bool) = (field::NUM_SOFTIRQ_TOTAL, field::NUM_SOFTIRQ, true);

fn interrupts<'a>(
    words: impl Iterator<Item = &'a [u8]>,
    (total, each, zeros): (u32, u32, bool),
    out: &mut Out<'_>,
) {
    use field::interrupt_count::{COUNT, IRQ};
    let mut counts = words.map_while(number);
    let Some(sum) = counts.next() else { return };
    out.varint(total, sum);
    for (irq, count) in counts.enumerate().filter(|&(_, count)| zeros || count > 0) {
        out.nested(each, |entry| {
            entry.varint(IRQ, irq as u64);
            entry.varint(COUNT, count);
        });
    }
}

/// `/proc/buddyinfo`: free blocks of each order in each zone.
pub(super) fn buddyinfo(text: &[u8], out: &mut Out<'_>) {
    use field::buddy_info as info;
    for line in lines(text) {
        let Some(comma) = line.iter().position(|&byte| byte == b',') else {
            continue;
        };
        let Some(node) = words(&line[..comma]).nth(1) else {
            continue;
        };
        let mut rest = words(&line[comma + 1..]);
        let (Some(b"zone"), Some(zone)) = (rest.next(), rest.next()) else {
            continue;
        };
        out.nested(field::BUDDY_INFO, |entry| {
            entry.bytes(info::NODE, node);
            entry.bytes(info::ZONE, zone);
            for blocks in rest.map_while(number) {
                entry.varint(info::ORDER_PAGES, blocks);
            }
        });
    }
}

/// `/proc/diskstats`.
pub(super) fn diskstats(text: &[u8], out: &mut Out<'_>) {
    use field::disk_stat as disk;
    // Index of the word in the line, and field.
    const COLUMNS: [(usize, u32); 8] = [
        (5, disk::READ_SECTORS),
        (6, disk::READ_TIME_MS),
        (9, disk::WRITE_SECTORS),
        (10, disk::WRITE_TIME_MS),
        (16, disk::DISCARD_SECTORS),
        (17, disk::DISCARD_TIME_MS),
        (18, disk::FLUSH_COUNT),
        (19, disk::FLUSH_TIME_MS),
    ];
    for line in lines(text) {
        let Some(name) = words(line).nth(2) else {
            continue;
        };
        out.nested(field::DISK_STAT, |entry| {
            entry.bytes(disk::DEVICE_NAME, name);
            let mut columns = COLUMNS.iter().peekable();
            for (index, word) in words(line).enumerate() {
                if let Some((_, field)) = columns.next_if(|(at, _)| *at == index) {
                    entry.varint(*field, number(word).unwrap_or(0));
                }
            }
        });
    }
}

/// `/proc/pressure/*`: `resource` is the field of the `some` line; `full` has the next one.
pub(super) fn pressure(text: &[u8], resource: u64, out: &mut Out<'_>) {
    use field::psi_sample::{RESOURCE, TOTAL_NS};
    for line in lines(text) {
        let mut words = words(line);
        let resource = match words.next() {
            Some(b"some") => resource,
            Some(b"full") => resource + 1,
            _ => continue,
        };
        let Some(total_us) = words.find_map(|w| number(w.strip_prefix(b"total=")?)) else {
            continue;
        };
        out.nested(field::PSI, |entry| {
            entry.varint(RESOURCE, resource);
            entry.varint(TOTAL_NS, total_us.saturating_mul(1000));
        });
    }
}

/// `/proc/slabinfo`.
pub(super) fn slabinfo(text: &[u8], out: &mut Out<'_>) {
    use field::slab_info as slab;
    for line in lines(text) {
        if line.starts_with(b"#") || line.starts_with(b"slabinfo") {
            continue;
        }
        let name = words(line).next();
        let pages = words(line).nth(5).and_then(number);
        let slabs = words(line).nth(14).and_then(number);
        let (Some(name), Some(pages), Some(slabs)) = (name, pages, slabs) else {
            continue;
        };
        out.nested(field::SLAB_INFO, |entry| {
            entry.bytes(slab::NAME, name);
            entry.varint(slab::PAGES_PER_SLAB, pages);
            entry.varint(slab::NUM_SLABS, slabs);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_proto::{Message, SysStats};

    fn parsed(write: impl FnOnce(&mut Out<'_>)) -> SysStats {
        SysStats::decode_from_slice(&ferretto_wire::encode(write)).expect("SysStats")
    }

    #[test]
    fn probes_063_unknown_and_unlisted_counters_are_left_out() {
        let text = b"nr_free_pages 10\nnr_brand_new 3\nnr_mapped 7\nnr_dirty x\n";
        let all = parsed(|out| vmstat(text, &Keys::vmstat(&[]), out));
        let values: Vec<_> = all.vmstat.iter().map(|v| v.value).collect();
        assert_eq!(values, [Some(10), Some(7)]);
        let one = parsed(|out| vmstat(text, &Keys::vmstat(&[10, 0, 9999]), out));
        assert_eq!(one.vmstat.len(), 1);
        let text = b"MemTotal:       24684096 kB\nActive(anon):       12 kB\nNew:  1 kB\n";
        let memory = parsed(|out| meminfo(text, &Keys::meminfo(&[]), out));
        let values: Vec<_> = memory
            .meminfo
            .iter()
            .map(|v| (v.key.map(|k| k as i32), v.value))
            .collect();
        assert_eq!(values, [(Some(1), Some(24_684_096)), (Some(9), Some(12))]);
    }

    #[test]
    fn probes_064_stat_has_single_cpus_in_nanoseconds() {
        let text = b"cpu  3 3 3 3 3 3 3 3 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu12 1\nintr 10 0 4 6\n\
                     ctxt 5\nprocesses 77\nsoftirq 9 0 9\n";
        let all = StatParts {
            cpu_times: true,
            irqs: true,
            softirqs: true,
            forks: true,
        };
        let stats = parsed(|out| stat(text, all, 100, out));
        assert_eq!(stats.cpu_stat.len(), 2);
        let cpu = &stats.cpu_stat[0];
        assert_eq!((cpu.cpu_id, cpu.user_ns), (Some(0), Some(10_000_000)));
        assert_eq!(
            (cpu.user_nice_ns, cpu.steal_ns),
            (Some(20_000_000), Some(80_000_000))
        );
        assert_eq!(stats.cpu_stat[1].cpu_id, Some(12));
        assert_eq!((stats.num_irq_total, stats.num_forks), (Some(10), Some(77)));
        let irqs: Vec<_> = stats
            .num_irq
            .iter()
            .map(|irq| (irq.irq, irq.count))
            .collect();
        assert_eq!(irqs, [(Some(1), Some(4)), (Some(2), Some(6))]);
        assert_eq!(
            (stats.num_softirq_total, stats.num_softirq.len()),
            (Some(9), 2)
        );
        let none = StatParts {
            cpu_times: false,
            irqs: false,
            softirqs: false,
            forks: true,
        };
        let forks = parsed(|out| stat(text, none, 100, out));
        assert_eq!((forks.cpu_stat.len(), forks.num_forks), (0, Some(77)));
    }

    #[test]
    fn disks_pressure_buddies_and_slabs_are_read() {
        let disk = b" 254 0 vda 1 2 100 3 4 5 200 6 7 8 9 10 11 300 12 13 14\n\n 8 0 sda 1 2 100\n";
        let stats = parsed(|out| diskstats(disk, out));
        let vda = &stats.disk_stat[0];
        assert_eq!(vda.device_name.as_deref(), Some(&b"vda"[..]));
        assert_eq!((vda.read_sectors, vda.read_time_ms), (Some(100), Some(3)));
        assert_eq!((vda.write_sectors, vda.write_time_ms), (Some(200), Some(6)));
        assert_eq!(
            (vda.discard_sectors, vda.discard_time_ms),
            (Some(300), Some(12))
        );
        assert_eq!((vda.flush_count, vda.flush_time_ms), (Some(13), Some(14)));
        assert_eq!(stats.disk_stat[1].flush_count, None);

        let psi = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 total=3\n?\n";
        let stats = parsed(|out| pressure(psi, 3, out));
        let values: Vec<_> = stats
            .psi
            .iter()
            .map(|p| (p.resource.map(|r| r as i32), p.total_ns))
            .collect();
        assert_eq!(values, [(Some(3), Some(12_000)), (Some(4), Some(3_000))]);

        let buddy = b"Node 0, zone      DMA      1      0      2\nnonsense\n";
        let stats = parsed(|out| buddyinfo(buddy, out));
        assert_eq!(stats.buddy_info.len(), 1);
        assert_eq!(stats.buddy_info[0].order_pages, [1, 0, 2]);

        let slab = b"slabinfo - version: 2.1\n# name <x>\n\
                     kmalloc-8k 20 24 8192 4 8 : tunables 0 0 0 : slabdata 6 6 0\n";
        let stats = parsed(|out| slabinfo(slab, out));
        let found: Vec<_> = stats
            .slab_info
            .iter()
            .map(|s| (s.pages_per_slab, s.num_slabs))
            .collect();
        assert_eq!(found, [(Some(8), Some(6))]);
    }

    #[test]
    fn parsers_never_panic() {
        let texts: [&[u8]; 8] = [
            b"cpu0 1 2\ncpu\ncpux 1\nintr\nintr 1 2 3\nsoftirq 99999999999999999999999\nprocesses\n",
            b"Node 0, zone DMA 1 2\nNode,\n,zone\nNode 0,zone\n",
            b" 8 0 sda 1 2 3 4 5 6 7\n 8\n 8 0 sda\n",
            b"some total=\nfull total=18446744073709551615\nsome\ntotal=1\n",
            b"name 1 2 3 4 5 : tunables : slabdata 1\n# x\nslabinfo\n",
            b"MemTotal:\n:\nMemFree: x\n",
            b"\0\xff\xfe\n \t\n\n",
            b"",
        ];
        let all = StatParts {
            cpu_times: true,
            irqs: true,
            softirqs: true,
            forks: true,
        };
        for text in texts {
            for end in 0..=text.len() {
                let text = &text[..end];
                parsed(|out| {
                    stat(text, all, 0, out);
                    buddyinfo(text, out);
                    diskstats(text, out);
                    pressure(text, 1, out);
                    slabinfo(text, out);
                    meminfo(text, &Keys::meminfo(&[]), out);
                    vmstat(text, &Keys::vmstat(&[]), out);
                });
            }
        }
    }
}

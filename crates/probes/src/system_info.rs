//! `linux.system_info`: constant properties of the machine.

use std::fs;
use std::path::Path;

use ferretto_proto::SystemInfoConfig;
use ferretto_proto::fields::{cpu_info, interrupt_info, trace_packet};
use ferretto_wire::Encoder;

use crate::PacketSink;
use crate::clock::boottime_ns;
use crate::procfs::{entries, number, words};
use crate::source::{DataSource, Kind};

/// Name of the system information data source.
pub const SYSTEM_INFO: &str = "linux.system_info";

/// A `linux.system_info` data source: writes the CPUs, and interrupt names if requested, once.
#[derive(Debug)]
pub(crate) struct SystemInfo {
    config: SystemInfoConfig,
    sink: Box<dyn PacketSink>,
}

impl SystemInfo {
    pub(crate) const KIND: Kind = Kind {
        name: SYSTEM_INFO,
        create: |config, sink, _| {
            let config = config.system_info_config.clone();
            let config = config.into_option().unwrap_or_default();
            Ok(Box::new(Self { config, sink }))
        },
        starting: None,
        polling: None,
        on_metadata: None,
        has_incremental_state: false,
    };
}

impl DataSource for SystemInfo {
    fn start(&mut self) {
        write_from(Path::new("/"), &self.config, self.sink.as_mut());
    }

    fn flush(&mut self) {
        self.sink.flush();
    }
}

fn write_from(root: &Path, config: &SystemInfoConfig, sink: &mut dyn PacketSink) {
    let timestamp = boottime_ns();
    let mut packet = |field: u32, message: &[u8]| {
        sink.write_packet(&ferretto_wire::encode(|packet| {
            packet.varint(trace_packet::TIMESTAMP, timestamp);
            packet.bytes(field, message);
        }));
    };
    let cpuinfo = fs::read(root.join("proc/cpuinfo")).unwrap_or_default();
    packet(
        trace_packet::CPU_INFO,
        &cpus(&cpuinfo, &root.join("sys/devices/system/cpu")),
    );
    if config.irq_names.unwrap_or(false) {
        let names = interrupts(&fs::read(root.join("proc/interrupts")).unwrap_or_default());
        if !names.is_empty() {
            packet(trace_packet::INTERRUPT_INFO, &names);
        }
    }
    sink.flush();
}

/// One processor block of `/proc/cpuinfo`.
#[derive(Debug, Default)]
struct Block {
    number: Option<u64>,
    features: u64,
    /// Implementer, architecture, variant, part and revision, as ARM kernels print them.
    arm: [Option<u64>; 5],
}

/// Returns the encoded `CpuInfo`. `sys` is `/sys/devices/system/cpu`.
fn cpus(cpuinfo: &[u8], sys: &Path) -> Vec<u8> {
    let mut name = b"unknown".to_vec();
    let mut blocks = vec![Block::default()];
    for line in cpuinfo.split(|&byte| byte == b'\n') {
        let Some((key, value)) = entries(line).next() else {
            blocks.push(Block::default());
            continue;
        };
        let Some(block) = blocks.last_mut() else {
            continue;
        };
        match key.trim_ascii() {
            b"Processor" => name = value.to_vec(),
            b"processor" => block.number = number(value),
            b"Features" | b"Flags" => block.features = feature_bits(value),
            b"CPU implementer" => block.arm[0] = hexadecimal(value),
            b"CPU architecture" => block.arm[1] = number(value),
            b"CPU variant" => block.arm[2] = hexadecimal(value),
            b"CPU part" => block.arm[3] = hexadecimal(value),
            b"CPU revision" => block.arm[4] = number(value),
            _ => {}
        }
    }
    let mut message = Vec::new();
    let mut out = Encoder::new(&mut message);
    for block in &blocks {
        let Some(id) = block.number else { continue };
        let path = sys.join(format!("cpu{id}"));
        out.nested(cpu_info::CPUS, |cpu| {
            cpu.bytes(cpu_info::cpu::PROCESSOR, &name);
            for list in ["scaling_available_frequencies", "scaling_boost_frequencies"] {
                let list = fs::read(path.join("cpufreq").join(list)).unwrap_or_default();
                for khz in words(&list).filter_map(number) {
                    cpu.varint(cpu_info::cpu::FREQUENCIES, khz);
                }
            }
            if let Some(capacity) = fs::read(path.join("cpu_capacity"))
                .ok()
                .and_then(|c| number(&c))
            {
                cpu.varint(cpu_info::cpu::CAPACITY, capacity);
            }
            if let [
                Some(implementer),
                Some(architecture),
                Some(variant),
                Some(part),
                Some(revision),
            ] = block.arm
            {
                use cpu_info::arm_cpu_identifier as arm;
                cpu.nested(cpu_info::cpu::ARM_IDENTIFIER, |id| {
                    id.varint(arm::IMPLEMENTER, implementer);
                    id.varint(arm::ARCHITECTURE, architecture);
                    id.varint(arm::VARIANT, variant);
                    id.varint(arm::PART, part);
                    id.varint(arm::REVISION, revision);
                });
            }
            if block.features != 0 {
                cpu.varint(cpu_info::cpu::FEATURES, block.features);
            }
        });
    }
    message
}

fn feature_bits(list: &[u8]) -> u64 {
    words(list).fold(0, |bits, word| match word {
        b"mte" => bits | 1,
        b"mte3" => bits | 2,
        _ => bits,
    })
}

fn hexadecimal(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

/// Returns the encoded `InterruptInfo` of `/proc/interrupts`; empty if no numbered interrupt has a
/// name.
fn interrupts(text: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    let mut out = Encoder::new(&mut message);
    for line in text.split(|&byte| byte == b'\n') {
        let Some((label, rest)) = entries(line).next() else {
            continue;
        };
        let label = label.trim_ascii();
        if label.is_empty() || !label.iter().all(u8::is_ascii_digit) {
            continue;
        }
        let (Some(irq), Some(name)) = (number(label), interrupt_name(rest)) else {
            continue;
        };
        out.nested(interrupt_info::IRQ_MAPPING, |entry| {
            entry.varint(interrupt_info::interrupt_mapping::IRQ_ID, irq);
            entry.bytes(interrupt_info::interrupt_mapping::NAME, name);
        });
    }
    message
}

/// Returns the text after the interrupt's trigger type, or the last word.
fn interrupt_name(rest: &[u8]) -> Option<&[u8]> {
    let is_trigger = |word: &[u8]| {
        matches!(word, b"Level" | b"Edge")
            || [&b"-level"[..], b"-edge", b"-fasteoi", b"-fasteoi-level"]
                .iter()
                .any(|ending| word.ends_with(ending))
    };
    let (mut name, mut last, mut left) = (None, None, rest.trim_ascii());
    while !left.is_empty() {
        let end = left
            .iter()
            .position(u8::is_ascii_whitespace)
            .unwrap_or(left.len());
        let (word, after) = left.split_at(end);
        left = after.trim_ascii();
        last = Some(word);
        if is_trigger(word) {
            name = Some(left);
        }
    }
    name.or(last).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_proto::cpu_info::cpu::Identifier;
    use ferretto_proto::{CpuInfo, InterruptInfo, Message, TracePacket};

    #[test]
    fn interrupts_have_the_names_after_their_trigger() {
        let text = b"           CPU0       CPU1\n  1:   9   0   IO-APIC   1-edge   i8042\n \
                     24:  0  12  PCI-MSIX-0000:00:01.0   0-edge  virtio0 config\n\
                     NMI:  0  0  Non-maskable interrupts\n 30:  1  2  GICv3 30 Level\n 31:  1  2  dummy\n";
        let info = InterruptInfo::decode_from_slice(&interrupts(text)).expect("InterruptInfo");
        let names: Vec<_> = info
            .irq_mapping
            .iter()
            .map(|m| (m.irq_id, m.name.clone()))
            .collect();
        let name = |text: &[u8]| Some(text.to_vec());
        assert_eq!(
            names,
            [
                (Some(1), name(b"i8042")),
                (Some(24), name(b"virtio0 config")),
                (Some(31), name(b"dummy"))
            ]
        );
    }

    #[test]
    fn processors_are_parsed_as_blocks() {
        let text = b"processor\t: 0\nFeatures\t: fp mte mte3\nCPU implementer\t: 0x41\n\
                     CPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n\
                     processor\t: 1\nmodel name\t: x\n\nHardware\t: y\n";
        let info =
            CpuInfo::decode_from_slice(&cpus(text, Path::new("/nonexistent"))).expect("CpuInfo");
        assert_eq!(info.cpus.len(), 2);
        let Some(Identifier::ArmIdentifier(arm)) = &info.cpus[0].identifier else {
            panic!("no identifier: {info:?}");
        };
        assert_eq!(
            (arm.implementer, arm.part, arm.revision),
            (Some(0x41), Some(0xd0c), Some(1))
        );
        assert_eq!(
            (info.cpus[0].features, info.cpus[1].features),
            (Some(3), None)
        );
        assert_eq!(info.cpus[0].processor.as_deref(), Some(&b"unknown"[..]));
    }

    #[test]
    fn probes_069_one_cpu_packet_and_interrupts_only_if_wanted() {
        let packets = |irq_names| {
            let mut sink: Vec<Vec<u8>> = Vec::new();
            let config = SystemInfoConfig {
                irq_names,
                ..Default::default()
            };
            write_from(Path::new("/"), &config, &mut sink);
            let decode = |bytes: &Vec<u8>| TracePacket::decode_from_slice(bytes).expect("a packet");
            sink.iter().map(decode).collect::<Vec<_>>()
        };
        use ferretto_proto::trace_packet::Data;
        let plain = packets(None);
        assert_eq!(plain.len(), 1);
        assert!(matches!(plain[0].data, Some(Data::CpuInfo(_))));
        assert!(plain[0].timestamp.is_some());
        let named = packets(Some(true));
        assert!(
            named[1..]
                .iter()
                .all(|packet| matches!(packet.data, Some(Data::InterruptInfo(_))))
        );
        assert!(named.len() <= 2);
    }
}

//! Tests of data sources that only count.

use std::collections::BTreeMap;

use ferretto_proto::perf_events::Counter;
use ferretto_proto::perf_events::Timebase;
use ferretto_proto::perf_events::timebase::{Event, Interval};
use ferretto_proto::trace_packet::Data;
use ferretto_proto::{PerfEventConfig, PerfSample, TracePacket};

use crate::daemon::world::{LIMIT, World, config, permitted, read, source, wait_until};

fn perf_sample(packet: &TracePacket) -> Option<&PerfSample> {
    match &packet.data {
        Some(Data::PerfSample(sample)) => Some(sample),
        _ => None,
    }
}

#[test]
fn perf_001_and_038_and_041_an_empty_config_counts_time() {
    if permitted(|| Some(())).is_none() {
        return;
    }
    let world = World::new();
    let mut packets = Vec::new();
    let wanted = config(vec![source(&PerfEventConfig::default())]);
    let rest = world.record(wanted, |consumer| {
        wait_until("two samples", || {
            consumer.flush(LIMIT).expect("a flush");
            packets.extend(read(consumer));
            packets.iter().filter_map(perf_sample).count() >= 2
        });
    });
    packets.extend(rest);
    let samples: Vec<&PerfSample> = packets.iter().filter_map(perf_sample).collect();
    assert!(samples.iter().all(|sample| sample.callstack_iid.is_none()));
    assert!(samples.iter().all(|sample| sample.timebase_count > Some(0)));
    let of_sequence: Vec<&TracePacket> = packets
        .iter()
        .filter(|packet| {
            packet.trace_packet_defaults.as_option().is_some()
                || packet.interned_data.as_option().is_some()
                || perf_sample(packet).is_some()
        })
        .collect();
    let flags: Vec<_> = of_sequence.iter().map(|p| p.sequence_flags).collect();
    assert!(flags[0] == Some(1) && flags[1..].iter().all(|flags| *flags == Some(2)));
    assert_eq!(of_sequence[0].timestamp_clock_id, Some(6));
    let defaults = of_sequence[0].trace_packet_defaults.as_option();
    let defaults = defaults.expect("defaults first");
    // CLOCK_MONOTONIC_RAW.
    assert_eq!(defaults.timestamp_clock_id, Some(5));
    let timebase = &defaults.perf_sample_defaults.timebase;
    assert_eq!(timebase.interval, Some(Interval::Frequency(10)));
    assert_eq!(timebase.event, Some(Event::Counter(Counter::SW_CPU_CLOCK)));
    let fixed = of_sequence[1].interned_data.as_option().expect("strings");
    for strings in [
        &fixed.build_ids,
        &fixed.mapping_paths,
        &fixed.function_names,
    ] {
        assert_eq!((strings.len(), strings[0].iid), (1, Some(0)));
    }
}

#[test]
fn perf_045_polled_counters_are_read_once_a_period_and_at_the_end() {
    if permitted(|| Some(())).is_none() {
        return;
    }
    let world = World::new();
    let polled = PerfEventConfig {
        timebase: Timebase {
            interval: Some(Interval::PollPeriodMs(20)),
            ..Default::default()
        }
        .into(),
        ..Default::default()
    };
    let mut packets = Vec::new();
    let mut last = 0;
    let rest = world.record(config(vec![source(&polled)]), |consumer| {
        wait_until("readings", || {
            consumer.flush(LIMIT).expect("a flush");
            packets.extend(read(consumer));
            packets.iter().filter_map(perf_sample).count() >= 6
        });
        last = ferretto_shm::Clock::Boottime.now();
    });
    packets.extend(rest);
    let defaults = packets
        .iter()
        .find_map(|packet| packet.trace_packet_defaults.as_option());
    // Readings have the time at which they are made.
    assert_eq!(defaults.expect("defaults").timestamp_clock_id, Some(6));
    let readings = packets
        .iter()
        .filter(|packet| perf_sample(packet).is_some());
    let mut per_cpu: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    for packet in readings {
        let sample = perf_sample(packet).expect("a sample");
        assert!(sample.pid.is_none() && sample.cpu_mode.is_none());
        let reading = (
            packet.timestamp.unwrap_or(0),
            sample.timebase_count.unwrap_or(0),
        );
        per_cpu
            .entry(sample.cpu.expect("a CPU"))
            .or_default()
            .push(reading);
    }
    for readings in per_cpu.values() {
        assert!(readings.is_sorted(), "{readings:?}");
        // One more reading at the stop.
        assert!(readings.last().expect("one").0 >= last);
        let periods = (readings.last().expect("one").0 - readings[0].0) / 20_000_000;
        assert!(readings.len() as u64 <= periods + 3);
    }
    assert!(!per_cpu.is_empty());
}

//! The packets of a recording.

use ferretto_client::Consumer;
use ferretto_proto::heapprofd_config::ContinuousDumpConfig;
use ferretto_proto::trace_config::IncrementalStateConfig;
use ferretto_proto::trace_packet::Data;
use ferretto_proto::{Message, ProfilePacket, TracePacket};

use crate::world::{LIMIT, end, every, with_program};

pub(crate) fn profile_packets(packets: &[TracePacket]) -> Vec<&ProfilePacket> {
    let data = packets.iter().map(|packet| &packet.data);
    data.filter_map(|data| match data {
        Some(Data::ProfilePacket(packet)) => Some(&**packet),
        _ => None,
    })
    .collect()
}

/// Waits until the buffer contains this many dumps.
pub(crate) fn wait_for_dumps(consumer: &mut Consumer, count: usize) {
    let until = std::time::Instant::now() + LIMIT;
    let mut seen = 0;
    while seen < count {
        assert!(
            std::time::Instant::now() < until,
            "timed out waiting for dumps"
        );
        consumer.flush(LIMIT).expect("a flush");
        let stats = consumer.trace_stats(LIMIT).expect("statistics");
        let buffers = stats.buffer_stats.iter();
        seen = buffers
            .map(|buffer| buffer.chunks_written.unwrap_or(0) as usize)
            .sum();
    }
}

#[test]
fn heap_024_sequences_begin_and_chains_end_as_readers_expect() {
    with_program(|world| {
        let recorded = world.record(&every(1), |world| world.run(&["leak", "10"]));
        let of_profiler: Vec<_> = recorded
            .packets
            .iter()
            .filter(|packet| {
                packet.interned_data.is_set() || matches!(packet.data, Some(Data::ProfilePacket(_)))
            })
            .collect();
        let first = of_profiler[0];
        assert_eq!(first.sequence_flags, Some(1));
        assert_eq!(first.timestamp, None);
        let interned = &first.interned_data;
        let zeros = [
            &interned.build_ids,
            &interned.mapping_paths,
            &interned.function_names,
        ];
        for table in zeros {
            assert_eq!((table.len(), table[0].iid), (1, Some(0)));
            assert_eq!(table[0].str.as_deref().unwrap_or_default(), b"");
        }
        let packets = profile_packets(&recorded.packets);
        for (number, packet) in packets.iter().enumerate() {
            assert_eq!(packet.index, Some(number as u64));
        }
        let last = packets.last().expect("a dump");
        assert_ne!(last.continued, Some(true));
    });
}

#[test]
fn heap_026_the_clock_of_dumps_is_in_the_trace() {
    with_program(|world| {
        let recorded = world.record(&every(1), |world| world.run(&["leak", "10"]));
        let snapshots = recorded
            .packets
            .iter()
            .filter_map(|packet| match &packet.data {
                Some(Data::ClockSnapshot(snapshot)) => Some(snapshot),
                _ => None,
            });
        const MONOTONIC_COARSE: u32 = 4;
        let mut clocks = snapshots.flat_map(|snapshot| &snapshot.clocks);
        assert!(clocks.any(|clock| clock.clock_id == Some(MONOTONIC_COARSE)));
    });
}

#[test]
fn heap_028_functions_of_excluded_files_are_not_named() {
    with_program(|world| {
        let mut config = every(1);
        let program = crate::world::program().expect("it is built");
        let path = program.display().to_string();
        config.skip_symbol_prefix = vec![path.into_bytes()];
        let recorded = world.record(&config, |world| world.run(&["leak", "10"]));
        let dump = &recorded.dumps()[0];
        assert_eq!(recorded.sums(dump, "leaked").allocated, 0);
        assert!(recorded.sums(dump, "FILTERED").allocated >= 3000);
    });
}

#[test]
fn heap_031_a_flush_is_acknowledged_without_a_dump() {
    with_program(|world| {
        let mut consumer = world.begin(&every(1));
        let mut target = world.target(&["leak-and-wait", "10"]);
        target.waits();
        consumer.flush(LIMIT).expect("it is answered");
        target.goes_on();
        target.waits();
        let recorded = end(consumer);
        assert_eq!(recorded.dumps().len(), 1);
    });
}

#[test]
fn heap_022_only_the_peak_can_be_recorded() {
    with_program(|world| {
        let mut config = every(1);
        config.dump_at_max = Some(true);
        let recorded = world.record(&config, |world| world.run(&["leak", "100"]));
        let packets = profile_packets(&recorded.packets);
        let samples = packets.iter().flat_map(|packet| &packet.process_dumps);
        let samples: Vec<_> = samples.flat_map(|dump| &dump.samples).collect();
        assert!(samples.iter().all(|sample| sample.self_allocated.is_none()));
        let peak: u64 = samples.iter().filter_map(|sample| sample.self_max).sum();
        // All leaks, the constructor's allocation, and a temporary one.
        assert!(peak >= 30_000 + 7777 + 200, "{peak}");
        let _ = TracePacket::default().encode_to_vec();
    });
}

#[test]
fn interned_data_is_repeated_after_a_ring_overwrote_it() {
    with_program(|world| {
        let mut heap = every(1);
        heap.continuous_dump_config = ContinuousDumpConfig {
            dump_interval_ms: Some(5),
            ..Default::default()
        }
        .into();
        let mut config = crate::world::config(&heap);
        config.buffers[0].size_kb = Some(32);
        config.incremental_state_config = IncrementalStateConfig {
            clear_period_ms: Some(20),
            ..Default::default()
        }
        .into();
        let mut consumer = world.begin_with(config);
        let mut target = world.target(&["leak-and-wait", "10"]);
        target.waits();
        let until = std::time::Instant::now() + LIMIT;
        let is_full = |consumer: &mut Consumer| {
            let stats = consumer.trace_stats(LIMIT).expect("statistics");
            let mut buffers = stats.buffer_stats.iter();
            buffers.any(|buffer| buffer.chunks_overwritten.unwrap_or(0) > 8)
        };
        while !is_full(&mut consumer) {
            assert!(
                std::time::Instant::now() < until,
                "timed out waiting for the ring to overwrite data"
            );
        }
        let recorded = end(consumer);
        let leaked = recorded.sums(recorded.last(target.pid(), "libc.malloc"), "leaked");
        assert_eq!(leaked.allocated, 3000);
    });
}

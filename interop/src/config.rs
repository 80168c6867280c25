//! The configs of the scenarios.
//!
//! They are encoded with our messages, so the official service and the official SDK detect their
//! errors.

use ferretto_interop_driver::PACKETS;
use ferretto_proto::fields::{test_event, trace, trace_packet};
use ferretto_proto::trace_config::trace_filter::{
    StringFilterChain, StringFilterPolicy, StringFilterRule,
};
use ferretto_proto::trace_config::trigger_config::{Trigger, TriggerMode};
use ferretto_proto::trace_config::{BufferConfig, DataSource, TraceFilter, TriggerConfig};
use ferretto_proto::{
    DataSourceConfig, Message as _, TraceConfig, TrackEventConfig, data_source_config,
};

/// Returns a config with one buffer of `size_kb` KiB, the track events of the category `interop`,
/// and [`PACKETS`].
#[must_use]
pub fn config(size_kb: u32) -> TraceConfig {
    let events = TrackEventConfig {
        disabled_categories: vec![b"*".to_vec()],
        enabled_categories: vec![b"interop".to_vec()],
        ..Default::default()
    };
    let events = DataSourceConfig {
        name: Some(b"track_event".to_vec()),
        track_event_config: Some(events.encode_to_vec()),
        ..Default::default()
    };
    let packets = DataSourceConfig {
        name: Some(PACKETS.into()),
        // A packet larger than the shared memory must wait for room.
        buffer_exhausted_policy: Some(
            data_source_config::BufferExhaustedPolicy::BUFFER_EXHAUSTED_STALL_THEN_DROP,
        ),
        ..Default::default()
    };
    TraceConfig {
        buffers: vec![BufferConfig {
            size_kb: Some(size_kb),
            ..Default::default()
        }],
        data_sources: [events, packets]
            .map(|config| DataSource {
                config: config.into(),
                ..Default::default()
            })
            .into(),
        ..Default::default()
    }
}

/// Returns a config for all track events of all programs, except categories that browsers disable
/// by default.
#[must_use]
pub fn browser_events() -> TraceConfig {
    let events = TrackEventConfig {
        enabled_categories: vec![b"*".to_vec()],
        disabled_categories: vec![b"disabled-by-default-*".to_vec()],
        ..Default::default()
    };
    let source = DataSourceConfig {
        name: Some(b"track_event".to_vec()),
        track_event_config: Some(events.encode_to_vec()),
        ..Default::default()
    };
    TraceConfig {
        buffers: vec![BufferConfig {
            size_kb: Some(128 * 1024),
            ..Default::default()
        }],
        data_sources: vec![DataSource {
            config: source.into(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Returns [`config`] for a session that waits for the trigger `go`, with a long time limit.
#[must_use]
pub fn triggered(mode: TriggerMode, stop_delay_ms: u32) -> TraceConfig {
    TraceConfig {
        trigger_config: TriggerConfig {
            trigger_mode: Some(mode),
            triggers: vec![Trigger {
                name: Some(b"go".to_vec()),
                stop_delay_ms: Some(stop_delay_ms),
                ..Default::default()
            }],
            trigger_timeout_ms: Some(600_000),
            ..Default::default()
        }
        .into(),
        ..config(4096)
    }
}

/// Returns a filter that passes only packets for testing, and removes text after `key=`.
#[must_use]
pub fn filter() -> TraceFilter {
    let packet = [
        Allowed::Simple(trace_packet::TRUSTED_UID),
        Allowed::Simple(trace_packet::TIMESTAMP),
        Allowed::Simple(trace_packet::TRUSTED_PACKET_SEQUENCE_ID),
        Allowed::Message(trace_packet::FOR_TESTING, 2),
    ];
    let rule = StringFilterRule {
        policy: Some(StringFilterPolicy::SFP_MATCH_REDACT_GROUPS),
        regex_pattern: Some(b"key=(.*)".to_vec()),
        ..Default::default()
    };
    TraceFilter {
        bytecode_v2: Some(filter_bytecode(&[
            &[Allowed::Message(trace::PACKET, 1)],
            &packet,
            &[Allowed::FilteredText(test_event::STR)],
        ])),
        string_filter_chain: StringFilterChain {
            rules: vec![rule],
            ..Default::default()
        }
        .into(),
        ..Default::default()
    }
}

/// A field that a message filter passes. Fields are in the order of their numbers.
#[derive(Clone, Copy)]
enum Allowed {
    /// A number, text or bytes, unchanged.
    Simple(u32),
    /// A message, whose fields are listed at the index.
    Message(u32, u32),
    /// Text with string rules.
    FilteredText(u32),
}

/// Encodes a message filter as in `trace_filter.bytecode_v2`: the allowed fields of each message.
/// Message 0 is `Trace`.
fn filter_bytecode(messages: &[&[Allowed]]) -> Vec<u8> {
    let mut words = Vec::new();
    for message in messages {
        for field in *message {
            match *field {
                Allowed::Simple(field) => words.push(field << 3 | 1),
                Allowed::Message(field, index) => words.extend([field << 3 | 3, index]),
                Allowed::FilteredText(field) => words.push(field << 3 | 4),
            }
        }
        words.push(0);
    }
    // FNV-1a over the words, each as four little-endian bytes.
    let bytes = words.iter().flat_map(|word: &u32| word.to_le_bytes());
    let checksum = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    words.push(checksum as u32);
    let mut encoded = Vec::new();
    for mut word in words {
        while word >= 0x80 {
            encoded.push(word as u8 | 0x80);
            word >>= 7;
        }
        encoded.push(word as u8);
    }
    encoded
}

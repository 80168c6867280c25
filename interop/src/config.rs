//! Trace configs, encoded with upstream's schema.

use perfetto_protos::data_source_config::DataSourceConfig;
use perfetto_protos::data_source_config::data_source_config::BufferExhaustedPolicy;
use perfetto_protos::trace_config::TraceConfig;
use perfetto_protos::trace_config::trace_config::{BufferConfig, DataSource};
use perfetto_protos::track_event_config::TrackEventConfig;
use protobuf::Message as _;

/// The data source of the producers whose packets have any size.
pub const PACKETS: &str = "ferretto.interop.packets";

/// One buffer of `size_kb` KiB, the track events of the category `interop`, and
/// [`PACKETS`].
///
/// # Panics
///
/// Never: the message is complete.
#[must_use]
pub fn config(size_kb: u32) -> Vec<u8> {
    let mut config = TraceConfig::new();
    let mut buffer = BufferConfig::new();
    buffer.set_size_kb(size_kb);
    config.buffers.push(buffer);
    for name in ["track_event", PACKETS] {
        let mut source = DataSourceConfig::new();
        source.set_name(name.to_owned());
        if name == PACKETS {
            // A packet larger than the shared memory has to wait for it.
            source.set_buffer_exhausted_policy(
                BufferExhaustedPolicy::BUFFER_EXHAUSTED_STALL_THEN_DROP,
            );
        }
        if name == "track_event" {
            let mut events = TrackEventConfig::new();
            events.disabled_categories.push("*".to_owned());
            events.enabled_categories.push("interop".to_owned());
            source.track_event_config = Some(events).into();
        }
        let mut entry = DataSource::new();
        entry.config = Some(source).into();
        config.data_sources.push(entry);
    }
    config.write_to_bytes().expect("a config encodes")
}

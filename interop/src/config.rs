//! Trace configs, encoded with upstream's schema.

use perfetto_protos::data_source_config::DataSourceConfig;
use perfetto_protos::trace_config::TraceConfig;
use perfetto_protos::trace_config::trace_config::{BufferConfig, DataSource};
use perfetto_protos::track_event_config::TrackEventConfig;
use protobuf::Message as _;

/// The data source of the official driver whose packets have any size.
pub const PACKETS: &str = "ferretto.interop.packets";

/// One buffer of `size_kb` KiB and these data sources.
///
/// `track_event` asks for the category `interop` alone.
///
/// # Panics
///
/// Never: the message is complete.
#[must_use]
pub fn config(size_kb: u32, sources: &[&str]) -> Vec<u8> {
    let mut config = TraceConfig::new();
    let mut buffer = BufferConfig::new();
    buffer.set_size_kb(size_kb);
    config.buffers.push(buffer);
    for name in sources {
        let mut source = DataSourceConfig::new();
        source.set_name((*name).to_owned());
        if *name == "track_event" {
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

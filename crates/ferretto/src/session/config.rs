//! A builder of recording configs.

use std::fs::File;
use std::time::Duration;

use ferretto_proto::trace_config::{
    BufferConfig, CompressionConfig, DataSource, IncrementalStateConfig, TriggerConfig,
    buffer_config, compression_config, trigger_config,
};
use ferretto_proto::{DataSourceConfig, Message as _, TraceConfig};

use super::{SessionError, TrackEvents};

/// The size of the default buffer, in KiB.
const DEFAULT_BUFFER_KB: u32 = 4096;

/// The config of a recording of a [`Session`](super::Session).
///
/// Every method sets one option. Other fields can be set in the [`message`](Self::message_mut)
/// itself. A complete message can be passed to `RecordingConfig::from(trace_config)`, or in encoded
/// form to [`decode`](Self::decode).
///
/// ```
/// use std::time::Duration;
/// use ferretto::session::{Buffer, RecordingConfig, TrackEvents};
///
/// let config = RecordingConfig::new()
///     .buffer(Buffer::ring(8192))
///     .track_events(TrackEvents::new().enable("net").enable("db.*").disable("*"))
///     .clear_incremental_state_every(Duration::from_secs(5));
/// # assert_eq!(config.message().data_sources.len(), 1);
/// ```
///
/// A config without a [`buffer`](Self::buffer) gets a ring buffer of 4 MiB.
#[derive(Debug, Default)]
pub struct RecordingConfig {
    message: TraceConfig,
    file: Option<File>,
    /// Set if the message was given as a whole and must not be completed.
    is_whole: bool,
}

/// A buffer of a recording.
#[derive(Clone, Debug)]
pub struct Buffer(BufferConfig);

/// The effect of a trigger on a recording. See [`RecordingConfig::trigger`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerMode {
    /// The recording starts with the first trigger, and ends some time after it.
    Start,
    /// The recording ends some time after the first trigger.
    Stop,
    /// The consumer is asked to clone the session, some time after each trigger.
    Clone,
}

/// The compression of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Deflate, as in gzip.
    Deflate,
    /// Zstandard with a level; 0 is the default level. A service built without Zstandard does not
    /// compress.
    Zstd(i32),
}

impl Buffer {
    /// Creates a ring buffer of this size in KiB, which overwrites the oldest data.
    pub fn ring(size_kb: u32) -> Self {
        Self::new(size_kb, buffer_config::FillPolicy::RING_BUFFER)
    }

    /// Creates a buffer of this size in KiB, which discards new data when it is full.
    pub fn discard(size_kb: u32) -> Self {
        Self::new(size_kb, buffer_config::FillPolicy::DISCARD)
    }

    fn new(size_kb: u32, policy: buffer_config::FillPolicy) -> Self {
        Self(BufferConfig {
            size_kb: Some(size_kb),
            fill_policy: Some(policy),
            ..Default::default()
        })
    }

    /// Sets the name, by which data sources can refer to the buffer.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.0.name = Some(name.into());
        self
    }

    /// Makes clones of the session take the contents instead of copying them.
    #[must_use]
    pub fn transfer_on_clone(mut self) -> Self {
        self.0.transfer_on_clone = Some(true);
        self
    }

    /// Clears the buffer before the flush that precedes a clone of the session.
    #[must_use]
    pub fn clear_before_clone(mut self) -> Self {
        self.0.clear_before_clone = Some(true);
        self
    }
}

impl RecordingConfig {
    /// Creates a config that records nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes an encoded `TraceConfig`.
    ///
    /// # Errors
    ///
    /// [`SessionError::BadConfig`] if the bytes are not a `TraceConfig`.
    pub fn decode(encoded: &[u8]) -> Result<Self, SessionError> {
        match TraceConfig::decode_from_slice(encoded) {
            Ok(message) => Ok(message.into()),
            Err(_) => Err(SessionError::BadConfig),
        }
    }

    /// Returns the message for the service.
    pub fn message(&self) -> &TraceConfig {
        &self.message
    }

    /// Returns the message for the service, for fields that have no method here.
    pub fn message_mut(&mut self) -> &mut TraceConfig {
        &mut self.message
    }

    /// Adds a buffer. Buffers are numbered from 0.
    #[must_use]
    pub fn buffer(mut self, buffer: Buffer) -> Self {
        self.message.buffers.push(buffer.0);
        self
    }

    /// Records the track events of every process, into the first buffer.
    #[must_use]
    pub fn track_events(self, events: TrackEvents) -> Self {
        self.data_source(DataSourceConfig {
            track_event_config: Some(events.encode()),
            ..named("track_event")
        })
    }

    /// Records a data source, into the first buffer.
    #[must_use]
    pub fn data_source_named(self, name: &str) -> Self {
        self.data_source(named(name))
    }

    /// Records a data source. The message specifies its buffer and its options.
    #[must_use]
    pub fn data_source(mut self, config: DataSourceConfig) -> Self {
        self.message.data_sources.push(DataSource {
            config: config.into(),
            ..Default::default()
        });
        self
    }

    /// Restricts the data source added last to the producers with these names.
    #[must_use]
    pub fn only_from(mut self, producers: &[&str]) -> Self {
        if let Some(source) = self.message.data_sources.last_mut() {
            let names = producers.iter().map(|name| (*name).into());
            source.producer_name_filter.extend(names);
        }
        self
    }

    /// Sets the duration of the recording. Like all times here, it is rounded down to milliseconds.
    #[must_use]
    pub fn duration(mut self, duration: Duration) -> Self {
        self.message.duration_ms = Some(milliseconds(duration));
        self
    }

    /// Makes the service write the trace into `file`, every `period`. Such a trace cannot be read.
    #[must_use]
    pub fn write_into(mut self, file: File, period: Duration) -> Self {
        self.file = Some(file);
        self.message.write_into_file = Some(true);
        self.message.file_write_period_ms = Some(milliseconds(period));
        self
    }

    /// Ends the recording when the file reaches this size in bytes.
    #[must_use]
    pub fn max_file_size(mut self, bytes: u64) -> Self {
        self.message.max_file_size_bytes = Some(bytes);
        self
    }

    /// Sets the period at which producers are flushed.
    #[must_use]
    pub fn flush_every(mut self, period: Duration) -> Self {
        self.message.flush_period_ms = Some(milliseconds(period));
        self
    }

    /// Sets the period at which producers repeat the incremental state that later events refer to.
    /// A ring buffer can be read only from such a repetition on, so the period should be a fraction
    /// of the time that the buffer covers.
    #[must_use]
    pub fn clear_incremental_state_every(mut self, period: Duration) -> Self {
        self.message.incremental_state_config = IncrementalStateConfig {
            clear_period_ms: Some(milliseconds(period)),
            ..Default::default()
        }
        .into();
        self
    }

    /// Sets the unique name by which the session can be [cloned](super::Session::clone_named).
    #[must_use]
    pub fn unique_name(mut self, name: &str) -> Self {
        self.message.unique_session_name = Some(name.into());
        self
    }

    /// Compresses the trace. Of several compressions, the service chooses the one it prefers.
    #[must_use]
    pub fn compress(mut self, compression: Compression) -> Self {
        let mut config: CompressionConfig = self.message.compression.take().unwrap_or_default();
        match compression {
            Compression::Deflate => {
                config.deflate = compression_config::Deflate::default().into();
            }
            Compression::Zstd(level) => {
                config.zstd = compression_config::Zstd {
                    level: (level != 0).then_some(level),
                    ..Default::default()
                }
                .into();
            }
        }
        self.message.compression = config.into();
        self
    }

    /// Sets the effect of triggers, and the time limit for the first one: without a trigger, the
    /// recording ends after `timeout`, which must be less than a week.
    #[must_use]
    pub fn trigger_mode(mut self, mode: TriggerMode, timeout: Duration) -> Self {
        use trigger_config::TriggerMode as Wire;
        let mut config: TriggerConfig = self.message.trigger_config.take().unwrap_or_default();
        config.trigger_mode = Some(match mode {
            TriggerMode::Start => Wire::START_TRACING,
            TriggerMode::Stop => Wire::STOP_TRACING,
            TriggerMode::Clone => Wire::CLONE_SNAPSHOT,
        });
        config.trigger_timeout_ms = Some(milliseconds(timeout));
        self.message.trigger_config = config.into();
        self
    }

    /// Adds a trigger, and the delay of its effect. See [`trigger_mode`](Self::trigger_mode).
    #[must_use]
    pub fn trigger(mut self, name: &str, delay: Duration) -> Self {
        let mut config: TriggerConfig = self.message.trigger_config.take().unwrap_or_default();
        config.triggers.push(trigger_config::Trigger {
            name: Some(name.into()),
            stop_delay_ms: Some(milliseconds(delay)),
            ..Default::default()
        });
        self.message.trigger_config = config.into();
        self
    }

    /// Makes the service create the session on set-up, so that the [start](super::Session::start)
    /// is faster.
    #[must_use]
    pub fn deferred_start(mut self) -> Self {
        self.message.deferred_start = Some(true);
        self
    }

    /// Returns the completed message and the output file.
    pub(super) fn into_parts(self) -> (TraceConfig, Option<File>) {
        let Self {
            mut message,
            file,
            is_whole,
        } = self;
        if message.buffers.is_empty() && !is_whole {
            message.buffers.push(Buffer::ring(DEFAULT_BUFFER_KB).0);
        }
        (message, file)
    }
}

impl From<TraceConfig> for RecordingConfig {
    fn from(message: TraceConfig) -> Self {
        Self {
            message,
            file: None,
            is_whole: true,
        }
    }
}

fn named(name: &str) -> DataSourceConfig {
    DataSourceConfig {
        name: Some(name.into()),
        ..Default::default()
    }
}

fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

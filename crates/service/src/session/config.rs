//! Settings of a config with their defaults, as several parts of a session need them.

use ferretto_proto::TraceConfig;
use ferretto_proto::trace_config::BufferConfig;
use ferretto_proto::trace_config::trigger_config::TriggerMode;

use crate::limits::{
    DEFAULT_FLUSH_TIMEOUT_MS, DEFAULT_STOP_TIMEOUT_MS, DEFAULT_WRITE_PERIOD_MS, FIRST_WAIT_MS,
    MIN_WRITE_PERIOD_MS,
};

pub(super) fn name(config: &TraceConfig) -> &[u8] {
    config.unique_session_name.as_deref().unwrap_or_default()
}

/// Returns the mode of triggers; `None` if the config gives none.
pub(crate) fn trigger_mode(config: &TraceConfig) -> Option<TriggerMode> {
    let triggers = &*config.trigger_config;
    if triggers.use_clone_snapshot_if_available.unwrap_or(false) {
        return Some(TriggerMode::CLONE_SNAPSHOT);
    }
    triggers
        .trigger_mode
        .filter(|mode| *mode != TriggerMode::UNSPECIFIED)
}

/// Returns the period of file writes: the config's, within the allowed range.
pub(super) fn write_period_ms(config: &TraceConfig) -> u64 {
    match config.file_write_period_ms.unwrap_or(0) {
        0 => DEFAULT_WRITE_PERIOD_MS,
        ms => u64::from(ms).max(MIN_WRITE_PERIOD_MS),
    }
}

pub(super) fn flush_timeout_ms(config: &TraceConfig) -> u64 {
    match config.flush_timeout_ms.unwrap_or(0) {
        0 => DEFAULT_FLUSH_TIMEOUT_MS,
        ms => ms.into(),
    }
}

/// Returns the time to wait for a producer that has not proved that it confirms: the timeout of
/// the config, or a short time without one.
pub(super) fn first_wait_ms(configured: Option<u32>, timeout_ms: u64) -> u64 {
    match configured.unwrap_or(0) {
        0 => FIRST_WAIT_MS.min(timeout_ms),
        _ => timeout_ms,
    }
}

pub(super) fn stop_timeout_ms(config: &TraceConfig) -> u32 {
    match config.data_source_stop_timeout_ms.unwrap_or(0) {
        0 => DEFAULT_STOP_TIMEOUT_MS,
        ms => ms,
    }
}

pub(super) fn snapshots_clocks(config: &TraceConfig) -> bool {
    let builtin = &config.builtin_data_sources;
    !builtin.disable_clock_snapshotting.unwrap_or(false)
}

/// Buffers that are flushed and copied together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BufferGroup {
    /// Buffers that move into a clone.
    Transferred,
    Copied,
}

impl BufferGroup {
    pub(super) const ALL: &[Self] = &[Self::Transferred, Self::Copied];

    /// Returns true if the group contains buffers with this config.
    pub(super) fn has(self, config: &BufferConfig) -> bool {
        config.transfer_on_clone.unwrap_or(false) == (self == Self::Transferred)
    }
}

//! One data source of one producer in a session.

use std::sync::Arc;

use ferretto_proto::observable_events::DataSourceInstanceState;
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor};

use crate::clocks::NS_PER_MS;
use crate::consumer::InstanceChange;
use crate::ids::InstanceKey;
use crate::limits::START_WAIT_MS;

/// The state of a data source instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InstanceState {
    Configured,
    /// Starting; the producer promised to confirm.
    Starting,
    Started,
    /// Stopping; the producer promised to confirm.
    Stopping,
    Stopped,
}

/// A data source of one producer in one session. It keeps the descriptor of its setup.
#[derive(Debug)]
pub(super) struct Instance {
    producer_name: Arc<[u8]>,
    state: InstanceState,
    /// The config that was sent to the producer.
    config: Arc<DataSourceConfig>,
    notifies_start: bool,
    notifies_stop: bool,
    clears_state: bool,
    no_flush: bool,
    /// The `CLOCK_BOOTTIME` of the start command.
    started: u64,
}

impl Instance {
    pub(super) fn new(
        producer_name: &Arc<[u8]>,
        config: Arc<DataSourceConfig>,
        descriptor: &DataSourceDescriptor,
    ) -> Self {
        Self {
            producer_name: Arc::clone(producer_name),
            state: InstanceState::Configured,
            config,
            notifies_start: descriptor.will_notify_on_start.unwrap_or(false),
            notifies_stop: descriptor.will_notify_on_stop.unwrap_or(false),
            clears_state: descriptor.handles_incremental_state_clear.unwrap_or(false),
            no_flush: descriptor.no_flush.unwrap_or(false),
            started: 0,
        }
    }

    pub(super) fn name(&self) -> &[u8] {
        self.config.name.as_deref().unwrap_or_default()
    }

    pub(super) fn producer_name(&self) -> &Arc<[u8]> {
        &self.producer_name
    }

    /// Returns the names of producer and data source.
    pub(super) fn names(&self) -> (&[u8], &[u8]) {
        (&self.producer_name, self.name())
    }

    pub(super) fn config(&self) -> &DataSourceConfig {
        &self.config
    }

    pub(super) fn state(&self) -> InstanceState {
        self.state
    }

    pub(super) fn set_state(&mut self, state: InstanceState) {
        self.state = state;
    }

    pub(super) fn clears_state(&self) -> bool {
        self.clears_state
    }

    pub(super) fn no_flush(&self) -> bool {
        self.no_flush
    }

    /// Notes the time of the start command.
    pub(super) fn note_start(&mut self, boottime: u64) {
        self.started = boottime;
    }

    /// Returns true if the start should have been confirmed by now.
    pub(super) fn is_late_to_start(&self, boottime: u64) -> bool {
        let passed = boottime.saturating_sub(self.started);
        self.state == InstanceState::Starting && passed >= START_WAIT_MS * NS_PER_MS
    }

    /// Returns the state after the start command.
    pub(super) fn state_on_start(&self) -> InstanceState {
        if self.notifies_start {
            InstanceState::Starting
        } else {
            InstanceState::Started
        }
    }

    /// Returns the state after the stop command. With `immediate`, no confirmation is awaited.
    pub(super) fn state_on_stop(&self, immediate: bool) -> InstanceState {
        if immediate || !self.notifies_stop {
            InstanceState::Stopped
        } else {
            InstanceState::Stopping
        }
    }

    /// Returns the state for observers; `None` if they do not see it.
    pub(super) fn observed(&self, key: InstanceKey) -> Option<InstanceChange> {
        let state = match self.state {
            InstanceState::Configured | InstanceState::Stopped => {
                DataSourceInstanceState::DATA_SOURCE_INSTANCE_STATE_STOPPED
            }
            InstanceState::Started => DataSourceInstanceState::DATA_SOURCE_INSTANCE_STATE_STARTED,
            InstanceState::Starting | InstanceState::Stopping => return None,
        };
        Some(InstanceChange {
            key,
            producer_name: Arc::clone(&self.producer_name),
            config: Arc::clone(&self.config),
            state,
        })
    }
}

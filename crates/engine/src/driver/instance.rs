//! One instance, as the background thread knows it.

use std::sync::Arc;

use ferretto_client::{InstanceId, TraceWriter};
use ferretto_proto::DataSourceConfig;
use ferretto_proto::fields::trace_packet;

use super::guarded;
use crate::completion::Completion;
use crate::queue::Done;
use crate::source::Kind;
use crate::writer_source::WriterSource;

/// A reason of TracePacket's: something is missing, because its writer gave it up.
const ABANDONED: u64 = 1 | 128;

/// Says in the recording of a writer that something may be missing: the program has gone on before
/// it could begin.
pub(super) fn report_late(mut writer: TraceWriter) {
    let mut packet = writer.new_packet();
    packet.varint(trace_packet::PREVIOUS_PACKET_DROPPED, ABANDONED);
}

/// The stage of an instance's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Prepared,
    Started,
    /// It was told to stop, and may be busy with that.
    Stopping,
}

/// One instance.
#[derive(Debug)]
pub(super) struct Instance {
    /// Tells it from all others.
    pub(super) key: u64,
    pub(super) kind: &'static Kind,
    pub(super) place: usize,
    pub(super) link: usize,
    /// The connection of the link that it belongs to.
    pub(super) connection: u64,
    /// The service's number; none while it is startup tracing that no service has asked for.
    pub(super) id: Option<InstanceId>,
    pub(super) config: Arc<DataSourceConfig>,
    pub(super) writers: WriterSource,
    /// If it began as startup tracing.
    pub(super) reservation: Option<u16>,
    pub(super) stage: Stage,
}

impl Instance {
    pub(super) fn is_of(&self, link: usize, connection: u64) -> bool {
        self.link == link && self.connection == connection
    }

    pub(super) fn start(&mut self) {
        if self.stage == Stage::Prepared {
            self.stage = Stage::Started;
            guarded(|| self.kind.source().start(self.place));
        }
    }

    /// Asks it to stop. Does nothing the second time.
    pub(super) fn stop(&mut self) {
        if self.stage != Stage::Stopping {
            self.stage = Stage::Stopping;
            let completion = Completion::new(Done::Stopped(self.key));
            guarded(|| self.kind.source().stop(self.place, completion));
        }
    }

    /// Returns true if the service is to be told when it has stopped.
    pub(super) fn notifies_on_stop(&self) -> bool {
        self.kind.descriptor().will_notify_on_stop != Some(false)
    }
}

//! One instance, as seen by the background thread.

use std::sync::Arc;

use ferretto_client::{InstanceId, TraceWriter};
use ferretto_proto::DataSourceConfig;
use ferretto_proto::fields::trace_packet;

use super::guarded;
use crate::completion::Completion;
use crate::queue::Done;
use crate::source::Kind;
use crate::writer_source::WriterSource;

/// A reason of TracePacket: data is missing, because its writer abandoned it.
const ABANDONED: u64 = 1 | 128;

/// Reports in the recording of a writer that data may be missing, since the program continued
/// before the recording could start.
pub(super) fn report_late(mut writer: TraceWriter) {
    let mut packet = writer.new_packet();
    packet.varint(trace_packet::PREVIOUS_PACKET_DROPPED, ABANDONED);
}

/// The stage of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Prepared,
    Started,
    /// Told to stop, and possibly still stopping.
    Stopping,
}

/// One instance.
#[derive(Debug)]
pub(super) struct Instance {
    /// The key that identifies the instance.
    pub(super) key: u64,
    pub(super) kind: &'static Kind,
    pub(super) slot: usize,
    pub(super) link: usize,
    /// The number of its connection on the link.
    pub(super) connection: u64,
    /// The service's id; `None` for startup tracing that no service has adopted.
    pub(super) id: Option<InstanceId>,
    pub(super) config: Arc<DataSourceConfig>,
    pub(super) writers: WriterSource,
    /// The reservation, if it started as startup tracing.
    pub(super) reservation: Option<u16>,
    /// Set if it continues an instance of the parent process.
    pub(super) is_continued: bool,
    pub(super) stage: Stage,
}

impl Instance {
    pub(super) fn is_of(&self, link: usize, connection: u64) -> bool {
        self.link == link && self.connection == connection
    }

    /// Returns true if it records for a service that has not requested it yet.
    pub(super) fn is_adoptable(&self) -> bool {
        self.id.is_none() && self.stage == Stage::Started
    }

    pub(super) fn start(&mut self) {
        if self.stage == Stage::Prepared {
            self.stage = Stage::Started;
            guarded(|| self.kind.source().start(self.slot));
        }
    }

    /// Stops the instance. Does nothing the second time.
    pub(super) fn stop(&mut self) {
        if self.stage != Stage::Stopping {
            self.stage = Stage::Stopping;
            let completion = Completion::new(Done::Stopped(self.key));
            guarded(|| self.kind.source().stop(self.slot, completion));
        }
    }

    /// Returns true if the service has to be notified of the stop.
    pub(super) fn notifies_on_stop(&self) -> bool {
        self.kind.descriptor().will_notify_on_stop != Some(false)
    }
}

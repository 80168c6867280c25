//! An EnableTracing that the driver has to prepare something for.

use ferretto_ipc::PassedFd;
use ferretto_proto::TraceConfig;

use crate::command::FilePlace;
use crate::event::FileId;
use crate::priority::Priority;

/// An EnableTracing, interrupted until the driver has done its part.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) request_id: Option<u64>,
    pub(crate) config: TraceConfig,
    /// The priority that the session will want the service to run at.
    pub(crate) priority: Option<Priority>,
    pub(crate) waits_for: WaitsFor,
}

/// The driver's part in an EnableTracing.
#[derive(Debug)]
pub(crate) enum WaitsFor {
    /// Giving the service the priority; then it goes on with this destination.
    Priority(Destination),
    /// Creating the output file.
    File(FileId),
}

/// The place a trace goes to, besides being read back.
#[derive(Debug)]
pub(crate) enum Destination {
    Memory,
    Descriptor(PassedFd),
    Path(FilePlace),
}

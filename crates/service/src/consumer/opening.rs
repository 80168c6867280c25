//! An EnableTracing request that waits for the driver.

use ferretto_ipc::PassedFd;
use ferretto_proto::TraceConfig;

use crate::command::OutputPath;
use crate::event::FileId;
use crate::priority::Priority;

/// An EnableTracing request, suspended until the driver has done its part.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) request_id: Option<u64>,
    pub(crate) config: TraceConfig,
    /// The priority that the session requests for the service.
    pub(crate) priority: Option<Priority>,
    pub(crate) waits_for: WaitsFor,
}

/// The driver's part in an EnableTracing request.
#[derive(Debug)]
pub(crate) enum WaitsFor {
    /// Give the service the priority; the request then continues with this destination.
    Priority(Destination),
    /// Create the output file.
    File(FileId),
}

/// The destination of a trace, besides reads by the consumer.
#[derive(Debug)]
pub(crate) enum Destination {
    Memory,
    Descriptor(PassedFd),
    Path(OutputPath),
}

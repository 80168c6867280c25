//! `ConsumerPort`: the interface to configure, control and read tracing sessions.

define_port! {
    "ConsumerPort" {
        /// Creates a session; answered when it ends. May carry the descriptor
        /// of the trace file.
        EnableTracing(EnableTracingRequest) -> EnableTracingResponse;
        /// Ends the session.
        DisableTracing(DisableTracingRequest) -> DisableTracingResponse;
        /// Reads the trace.
        ReadBuffers(ReadBuffersRequest) -> ReadBuffersResponse as stream;
        /// Destroys the session.
        FreeBuffers(FreeBuffersRequest) -> FreeBuffersResponse;
        /// Flushes producers.
        Flush(FlushRequest) -> FlushResponse;
        /// Starts a session whose start was deferred.
        StartTracing(StartTracingRequest) -> StartTracingResponse;
        /// Adds producers to a running session.
        ChangeTraceConfig(ChangeTraceConfigRequest) -> ChangeTraceConfigResponse;
        /// Leaves the session running without this consumer.
        Detach(DetachRequest) -> DetachResponse;
        /// Attaches to a detached session.
        Attach(AttachRequest) -> AttachResponse;
        /// Returns counters of the session.
        GetTraceStats(GetTraceStatsRequest) -> GetTraceStatsResponse;
        /// Subscribes to events of the session.
        ObserveEvents(ObserveEventsRequest) -> ObserveEventsResponse as stream;
        /// Returns the producers, data sources and sessions.
        QueryServiceState(QueryServiceStateRequest) -> QueryServiceStateResponse as stream;
        /// Returns the capabilities of the service.
        QueryCapabilities(QueryCapabilitiesRequest) -> QueryCapabilitiesResponse;
        /// Obsolete; kept for its id.
        SaveTraceForBugreport(SaveTraceForBugreportRequest) -> SaveTraceForBugreportResponse;
        /// Makes a readable copy of another session. May carry the descriptor
        /// of an output file.
        CloneSession(CloneSessionRequest) -> CloneSessionResponse;
    }
}

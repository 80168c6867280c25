//! `ProducerPort`: the interface of processes that record data.

define_port! {
    "ProducerPort" {
        /// Says who the producer is; must come first. May carry the
        /// descriptor of a shared memory buffer.
        InitializeConnection(InitializeConnectionRequest) -> InitializeConnectionResponse;
        /// Offers a data source.
        RegisterDataSource(RegisterDataSourceRequest) -> RegisterDataSourceResponse;
        /// Withdraws a data source by name.
        UnregisterDataSource(UnregisterDataSourceRequest) -> UnregisterDataSourceResponse;
        /// Announces complete chunks, patches and flush acknowledgements.
        CommitData(CommitDataRequest) -> CommitDataResponse;
        /// Opens the stream of commands to the producer. A reply may carry the
        /// descriptor of a shared memory buffer.
        GetAsyncCommand(GetAsyncCommandRequest) -> GetAsyncCommandResponse as stream;
        /// Ties a writer to a buffer.
        RegisterTraceWriter(RegisterTraceWriterRequest) -> RegisterTraceWriterResponse;
        /// Unties a writer.
        UnregisterTraceWriter(UnregisterTraceWriterRequest) -> UnregisterTraceWriterResponse;
        /// Acknowledges the start of a data source instance.
        NotifyDataSourceStarted(NotifyDataSourceStartedRequest) -> NotifyDataSourceStartedResponse;
        /// Acknowledges the stop of a data source instance.
        NotifyDataSourceStopped(NotifyDataSourceStoppedRequest) -> NotifyDataSourceStoppedResponse;
        /// Fires triggers by name.
        ActivateTriggers(ActivateTriggersRequest) -> ActivateTriggersResponse;
        /// Answered after everything sent before took effect.
        Sync(SyncRequest) -> SyncResponse;
        /// Replaces a data source's descriptor.
        UpdateDataSource(UpdateDataSourceRequest) -> UpdateDataSourceResponse;
    }
}

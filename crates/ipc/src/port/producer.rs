//! `ProducerPort`: the interface of processes that record data.

define_port! {
    "ProducerPort" {
        /// Identifies the producer; must come first. May carry the descriptor of a shared memory
        /// buffer.
        InitializeConnection(InitializeConnectionRequest) -> InitializeConnectionResponse;
        /// Registers a data source.
        RegisterDataSource(RegisterDataSourceRequest) -> RegisterDataSourceResponse;
        /// Unregisters a data source by name.
        UnregisterDataSource(UnregisterDataSourceRequest) -> UnregisterDataSourceResponse;
        /// Announces complete chunks, patches and flush acknowledgements.
        CommitData(CommitDataRequest) -> CommitDataResponse;
        /// Opens the stream of commands to the producer. A reply may carry the
        /// descriptor of a shared memory buffer.
        GetAsyncCommand(GetAsyncCommandRequest) -> GetAsyncCommandResponse as stream;
        /// Assigns a writer to a buffer.
        RegisterTraceWriter(RegisterTraceWriterRequest) -> RegisterTraceWriterResponse;
        /// Removes a writer.
        UnregisterTraceWriter(UnregisterTraceWriterRequest) -> UnregisterTraceWriterResponse;
        /// Acknowledges the start of a data source instance.
        NotifyDataSourceStarted(NotifyDataSourceStartedRequest) -> NotifyDataSourceStartedResponse;
        /// Acknowledges the stop of a data source instance.
        NotifyDataSourceStopped(NotifyDataSourceStoppedRequest) -> NotifyDataSourceStoppedResponse;
        /// Activates triggers by name.
        ActivateTriggers(ActivateTriggersRequest) -> ActivateTriggersResponse;
        /// Replies after all earlier requests took effect.
        Sync(SyncRequest) -> SyncResponse;
        /// Replaces a data source's descriptor.
        UpdateDataSource(UpdateDataSourceRequest) -> UpdateDataSourceResponse;
    }
}

//! The numbers of fields and values of the protocol's messages, which are not in the schema.

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $type:ty { $($constant:ident = $number:literal,)* })*) => {
        $($(#[$doc])* pub(super) mod $name {
            $(pub(in crate::rpc) const $constant: $type = $number;)*
        })*
    };
}

numbers! {
    /// `TraceProcessorRpcStream`.
    stream: u32 { MESSAGE = 1, }

    /// `TraceProcessorRpc`: a request or a reply.
    message: u32 {
        SEQUENCE = 1, REQUEST = 2, RESPONSE = 3, INVALID_REQUEST = 4, FATAL_ERROR = 5,
    }

    /// `TraceProcessorMethod`: the kind of a request.
    method: u64 {
        APPEND_TRACE_DATA = 1, FINALIZE_TRACE_DATA = 2, QUERY_STREAMING = 3, COMPUTE_METRIC = 5,
        GET_METRIC_DESCRIPTORS = 6, RESTORE_INITIAL_TABLES = 7, ENABLE_METATRACE = 8,
        DISABLE_AND_READ_METATRACE = 9, GET_STATUS = 10, RESET = 11, REGISTER_SQL_PACKAGE = 13,
        SUMMARIZE_TRACE = 15, CREATE_SUMMARIZER = 16, UPDATE_SUMMARIZER = 17, QUERY_SUMMARIZER = 18,
        DESTROY_SUMMARIZER = 19, STATEMENT = 20, EXPORT = 21,
    }

    /// The fields of `TraceProcessorRpc` with the arguments of requests.
    arguments: u32 {
        APPEND_TRACE_DATA = 101, QUERY = 103, COMPUTE_METRIC = 105, REGISTER_SQL_PACKAGE = 108,
        SUMMARIZE_TRACE = 110, CREATE_SUMMARIZER = 111, UPDATE_SUMMARIZER = 112,
        QUERY_SUMMARIZER = 113, DESTROY_SUMMARIZER = 114, STATEMENT = 115, EXPORT = 116,
    }

    /// The fields of `TraceProcessorRpc` with results.
    result: u32 {
        APPEND_TRACE_DATA = 201, QUERY = 203, COMPUTE_METRIC = 205, METRIC_DESCRIPTORS = 206,
        METATRACE = 209, STATUS = 210, REGISTER_SQL_PACKAGE = 211, FINALIZE_TRACE_DATA = 212,
        SUMMARIZE_TRACE = 214, CREATE_SUMMARIZER = 215, UPDATE_SUMMARIZER = 216,
        QUERY_SUMMARIZER = 217, DESTROY_SUMMARIZER = 218, STATEMENT = 219, EXPORT = 220,
    }

    /// `AppendTraceDataResult`.
    append_trace_data_result: u32 { ERROR = 2, }

    /// `FinalizeDataResult`.
    finalize_data_result: u32 { ERROR = 1, }

    /// `ComputeMetricResult`.
    compute_metric_result: u32 { ERROR = 2, }

    /// `DisableAndReadMetatraceResult`.
    metatrace_result: u32 { METATRACE = 1, ERROR = 2, }

    /// `StatusResult`.
    status_result: u32 {
        LOADED_TRACE_NAME = 1, HUMAN_READABLE_VERSION = 2, API_VERSION = 3, VERSION_CODE = 4,
    }

    /// `QueryArgs`.
    query_arguments: u32 { SQL = 1, }

    /// `StatementArgs`.
    statement_arguments: u32 { SQL = 1, OFFSET = 2, }

    /// `StatementResult`: a part of the result of one statement of a text.
    statement_result: u32 { QUERY_RESULT = 1, NEXT_OFFSET = 2, IS_STATEMENT = 3, }

    /// `ExportArgs`.
    export_arguments: u32 { FORMAT = 1, }

    /// `ExportArgs.Format`.
    export_format: u64 { PERFETTO = 1, ARROW_TAR = 2, SQLITE = 3, }

    /// `ExportResult`: a part of an exported file.
    export_result: u32 { DATA = 1, ERROR = 2, HAS_MORE = 3, }

    /// `QueryResult`: the rows of a query.
    query_result: u32 {
        COLUMN_NAMES = 1, ERROR = 2, BATCH = 3, STATEMENT_COUNT = 4,
        STATEMENT_WITH_OUTPUT_COUNT = 5, LAST_STATEMENT_SQL = 6, ELAPSED_TIME_MS = 7,
    }

    /// `CellsBatch`: the cells of some rows, by type.
    cells_batch: u32 {
        CELLS = 1, VARINT_CELLS = 2, FLOAT64_CELLS = 3, BLOB_CELLS = 4, STRING_CELLS = 5,
        IS_LAST_BATCH = 6,
    }

    /// `CellType`: the type of a cell.
    cell_type: u64 { NULL = 1, VARINT = 2, FLOAT64 = 3, STRING = 4, BLOB = 5, }

    /// `RegisterSqlPackageArgs`: the modules of a package.
    register_sql_package: u32 { MODULES = 2, ALLOW_OVERRIDE = 3, }

    /// `RegisterSqlPackageArgs.Module`.
    sql_module: u32 { NAME = 1, SQL = 2, }

    /// `RegisterSqlPackageResult`.
    register_sql_package_result: u32 { ERROR = 1, }

    /// `TraceSummaryArgs`.
    summary_arguments: u32 {
        PROTO_SPECS = 1, TEXTPROTO_SPECS = 2, COMPUTATION = 3, OUTPUT_FORMAT = 4,
    }

    /// `TraceSummaryArgs.ComputationSpec`.
    computation: u32 { METRIC_IDS = 1, METADATA_QUERY_ID = 2, RUN_ALL_METRICS = 3, }

    /// `TraceSummaryArgs.Format`.
    summary_format: u64 { BINARY = 0, TEXT = 1, }

    /// `TraceSummaryResult`.
    summary_result: u32 { BINARY = 1, TEXT = 2, ERROR = 3, }

    /// The arguments of all requests about one summarizer.
    summarizer_arguments: u32 { ID = 1, SPEC_OR_QUERY = 2, }

    /// `CreateSummarizerResult`.
    create_summarizer_result: u32 { ID = 1, ERROR = 2, }

    /// `UpdateSummarizerSpecResult`.
    update_summarizer_result: u32 { QUERIES = 1, ERROR = 2, }

    /// `UpdateSummarizerSpecResult.SyncInfo`: the state of a query.
    query_state: u32 { QUERY_ID = 1, WAS_UPDATED = 3, WAS_DROPPED = 4, }

    /// `QuerySummarizerResult`.
    query_summarizer_result: u32 {
        EXISTS = 1, TABLE_NAME = 2, ROW_COUNT = 3, COLUMNS = 4, DURATION_MS = 5, ERROR = 6,
        SQL = 7, TEXTPROTO = 8, STANDALONE_SQL = 9,
    }

    /// `DestroySummarizerResult`.
    destroy_summarizer_result: u32 { ERROR = 1, }
}

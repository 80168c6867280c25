//! The help of the program under upstream's name.

/// The names of upstream's commands. They win over files of the same name.
pub(super) const COMMANDS: &[&str] = &[
    "query",
    "interactive",
    "server",
    "export",
    "summarize",
    "metrics",
    "convert",
    "util",
    "bundle",
];

pub(super) const HELP: &str = "\
Query a trace with SQL, with the flags and commands of upstream's program of this name

Usage: trace_processor_shell [OPTIONS] [TRACE]
       trace_processor_shell COMMAND [OPTIONS] [ARGUMENTS]

Commands:
  query TRACE [SQL]                  Run SQL: an argument, from -f FILE, or standard input
  interactive TRACE                  Start a shell
  server http [TRACE]                Serve queries over HTTP: --port, --ip-address,
                                     --additional-cors-origins
  server stdio [TRACE]               Serve queries on standard input and output
  server unix --name NAME TRACE      Serve queries on a Unix socket: --path, --daemonize,
                                     --idle-timeout
  server kill NAME                   End the server of a Unix socket
  export sqlite|arrow_tar -o FILE TRACE
                                     Write all tables
  summarize TRACE [SPEC...]          Print the summary of the trace: --metrics-v2,
                                     --metadata-query, --format, --post-query
  convert systrace|ctrace|firefox|speedscope TRACE [FILE]
                                     Write the trace in another format

Options:
  -v, --version                      Print the versions of the program and of its protocol
  -q, --query-file FILE              Run the SQL of a file; '-' for standard input
  -Q, --query-string SQL             Run this SQL
  -i, --interactive                  Start a shell after the queries
  -D, --httpd                        Serve queries over HTTP
      --stdiod                       Serve queries on standard input and output
      --http-port PORT               The port to listen on [default: 9001]
      --http-ip-address ADDRESS      The address to listen on [default: localhost]
      --http-additional-cors-origins ORIGINS
                                     Further web origins that may send queries, with commas
      --remote NAME                  Query the server of this name or socket instead of a trace
  -e, --export FILE                  Write all tables and views as a database of SQLite
  -p, --perf-file FILE               Write the durations of import and queries, in nanoseconds
      --summary                      Print the summary of the trace
      --summary-spec FILE            The definitions of the summary; may be repeated
      --summary-metrics-v2 IDS       The metrics of the summary, with commas, or 'all'
      --summary-metadata-query ID    The query for the metadata of the summary
      --summary-format FORMAT        text or binary [default: text]
      --structured-query-spec FILE   Definitions of structured queries; may be repeated
      --structured-query-id ID       Print the rows of this structured query
      --full-sort                    Sort all events of the trace together
      --no-ftrace-raw                Leave 'ftrace_event' empty
      --crop-track-events            Leave out track events before the range of interest
      --analyze-trace-proto-content  Fill 'experimental_proto_content' with the sizes of fields
      --add-sql-package DIR          Add the modules of a folder, DIR or DIR@NAME
      --override-sql-package DIR     Add them instead of existing ones with the same names
      --override-stdlib DIR          Do this for each folder below DIR
  -h, --help                         Print help

--extra-checks, --register-files-dir, --dev, --dev-flag and --wide have no effect. Metrics of
version 1, --metatrace, --allow-sql-file-access and the commands 'metrics', 'util' and 'bundle' are
refused.";

//! Helpers of the tests: sessions, and traces in text format.

use std::process::{Command, Output, Stdio};

use ferretto_fleet::engine::{Engine, Options, STACK};
use ferretto_fleet::error::SqlError;
use ferretto_fleet::output::{Format, write};
use ferretto_fleet::trace::LoadedTrace;

/// The path of the program.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_ferretto-fleet");

/// Returns the program as a command without input.
pub fn query() -> Command {
    let mut command = Command::new(PROGRAM);
    command.stdin(Stdio::null());
    command
}

/// Returns the rows of a CSV result, sorted as texts.
pub fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
    lines.sort();
    lines
}

/// A session and its threads.
pub struct Session {
    pub engine: Engine,
    runtime: tokio::runtime::Runtime,
}

impl Session {
    /// Returns a session without a trace.
    pub fn new() -> Self {
        Self::with(
            Engine::new(
                &Options {
                    threads: 2,
                    ..Options::default()
                },
                None,
            )
            .expect("engine"),
        )
    }

    pub fn with(engine: Engine) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_stack_size(STACK)
            .enable_all()
            .build()
            .expect("runtime");
        Self { engine, runtime }
    }

    /// Runs SQL and returns all results as CSV.
    pub fn csv(&mut self, sql: &str) -> Result<String, SqlError> {
        let engine = &mut self.engine;
        self.runtime.block_on(async {
            let mut out = Vec::new();
            let mut first = true;
            for statement in Engine::statements(sql)? {
                if let Some(rows) = engine.run(statement).await? {
                    if !first {
                        out.push(b'\n');
                    }
                    first = false;
                    write(rows, Format::Csv, None, &mut out).await?;
                }
            }
            Ok(String::from_utf8(out).expect("UTF-8"))
        })
    }

    /// Runs SQL and returns the rows of its results without headers.
    pub fn rows(&mut self, sql: &str) -> Vec<String> {
        let csv = self
            .csv(sql)
            .unwrap_or_else(|e| panic!("{sql}: {}", e.render(sql)));
        csv.lines().skip(1).map(str::to_owned).collect()
    }

    /// Returns the value of an expression.
    pub fn value(&mut self, expression: &str) -> String {
        self.rows(&format!("SELECT {expression}")).concat()
    }

    /// Returns the error of a query that fails.
    pub fn error(&mut self, sql: &str) -> String {
        match self.csv(sql) {
            Ok(rows) => panic!("{sql} did not fail but gave {rows}"),
            Err(error) => error.render(sql),
        }
    }
}

/// Two threads, nested slices, a flow, arguments and a counter.
pub const TRACE: &str = r#"
packet { trusted_packet_sequence_id: 1 timestamp: 1
  track_descriptor { uuid: 1 process { pid: 10 process_name: "program" } } }
packet { trusted_packet_sequence_id: 1 timestamp: 1
  track_descriptor { uuid: 2 parent_uuid: 1 thread { pid: 10 tid: 11 thread_name: "worker" } } }
packet { trusted_packet_sequence_id: 1 timestamp: 1
  track_descriptor { uuid: 3 parent_uuid: 1 thread { pid: 10 tid: 12 thread_name: "other" } } }
packet { trusted_packet_sequence_id: 1 timestamp: 1
  track_descriptor { uuid: 4 name: "depth" counter { unit: UNIT_COUNT } } }
packet { trusted_packet_sequence_id: 1 timestamp: 1000
  track_event { track_uuid: 2 type: TYPE_SLICE_BEGIN name: "outer" categories: "a"
    debug_annotations { name: "flag" bool_value: true }
    debug_annotations { name: "number" int_value: 7 }
    debug_annotations { name: "big" uint_value: 18446744073709551615 }
    debug_annotations { name: "place" pointer_value: 255 }
    debug_annotations { name: "text" string_value: "hello" } } }
packet { trusted_packet_sequence_id: 1 timestamp: 1010
  track_event { track_uuid: 2 type: TYPE_SLICE_BEGIN name: "inner" flow_ids: 5 } }
packet { trusted_packet_sequence_id: 1 timestamp: 1020
  track_event { track_uuid: 2 type: TYPE_SLICE_BEGIN name: "innermost" } }
packet { trusted_packet_sequence_id: 1 timestamp: 1030
  track_event { track_uuid: 2 type: TYPE_SLICE_END } }
packet { trusted_packet_sequence_id: 1 timestamp: 1050
  track_event { track_uuid: 2 type: TYPE_SLICE_END } }
packet { trusted_packet_sequence_id: 1 timestamp: 1100
  track_event { track_uuid: 2 type: TYPE_SLICE_END } }
packet { trusted_packet_sequence_id: 1 timestamp: 1200
  track_event { track_uuid: 4 type: TYPE_COUNTER counter_value: 3 } }
packet { trusted_packet_sequence_id: 1 timestamp: 1250
  track_event { track_uuid: 4 type: TYPE_COUNTER counter_value: 5 } }
packet { trusted_packet_sequence_id: 1 timestamp: 1300
  track_event { track_uuid: 3 type: TYPE_SLICE_BEGIN name: "later" flow_ids: 5 } }
packet { trusted_packet_sequence_id: 1 timestamp: 1330
  track_event { track_uuid: 3 type: TYPE_SLICE_END } }
"#;

/// Encodes a trace in text format.
pub fn encode(text: &str) -> Vec<u8> {
    use ferretto_text::config::{Unknown, read_message};
    let read = read_message(
        "perfetto.protos.Trace",
        "trace",
        text.as_bytes(),
        Unknown::Refuse,
    );
    match read.expect("the schema has traces") {
        Ok(parsed) => parsed.bytes,
        Err(error) => panic!("{error:?}"),
    }
}

/// Returns a session over a trace in text format.
pub fn over(text: &str) -> Session {
    let trace = LoadedTrace::read(&encode(text), &ferretto_tables::Options::default());
    let options = Options {
        threads: 2,
        ..Options::default()
    };
    Session::with(Engine::new(&options, Some(&trace.expect("a trace"))).expect("engine"))
}

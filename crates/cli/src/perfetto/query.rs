//! `perfetto --query` and `--query-raw`.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::Duration;

use anstyle::AnsiColor;
use anyhow::{Context, Result};
use ferretto_client::{Address, Consumer};
use ferretto_proto::tracing_service_state::{DataSource, Producer, TracingSession};
use ferretto_proto::{
    FtraceDescriptor, Message, TracingServiceState, TrackEventDescriptor, decode_lazy,
};

use ferretto_text::terminal::shown_bytes;

/// The limit for the service's reply.
const LIMIT: Duration = Duration::from_secs(10);
/// The length of the last column without `--long`.
const MAX_DETAILS: usize = 40;

fn query(service: &Address) -> Result<TracingServiceState> {
    Consumer::connect(service, LIMIT)
        .and_then(|mut consumer| consumer.query_service_state(LIMIT))
        .context("Failed to query the service state")
}

/// Writes the encoded `TracingServiceState`.
pub(super) fn raw(service: &Address) -> Result<ExitCode> {
    let state = query(service)?;
    io::stdout().write_all(&state.encode_to_vec())?;
    io::stdout().flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the state as text.
pub(super) fn text(service: &Address, long: bool) -> Result<ExitCode> {
    let state = query(service)?;
    let mut out = BufWriter::new(anstream::AutoStream::auto(io::stdout().lock()));
    print(&mut out, &state, long)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut impl Write, state: &TracingServiceState, long: bool) -> io::Result<()> {
    let red = AnsiColor::Red.on_default();
    writeln!(
        out,
        "{red}Not meant for machine consumption. Use --query-raw for scripts.{red:#}\n"
    )?;
    writeln!(out, "Service: {}", shown(&state.tracing_service_version))?;
    writeln!(
        out,
        "Tracing sessions: {} (started: {})\n",
        state.num_sessions.unwrap_or(0),
        state.num_sessions_started.unwrap_or(0)
    )?;
    let machines = state
        .producers
        .iter()
        .any(|p| p.machine_id.unwrap_or(0) != 0);
    writeln!(out, "PRODUCER PROCESSES CONNECTED:\n")?;
    table(out, producers(state, machines))?;
    writeln!(out, "\nDATA SOURCES REGISTERED:\n")?;
    table(out, data_sources(state, machines, long))?;
    if state.supports_tracing_sessions.unwrap_or(false) {
        writeln!(out, "\nTRACING SESSIONS:\n")?;
        table(out, sessions(state))?;
        let listed = state.tracing_sessions.len() as i64;
        if i64::from(state.num_sessions.unwrap_or(0)) > listed {
            writeln!(out, "\nSessions of other users are shown to root only.")?;
        }
    }
    Ok(())
}

type Rows = Vec<Vec<String>>;

fn header(names: &[&str], machines: bool) -> Vec<String> {
    let names = names.iter().filter(|name| machines || **name != "MACHINE");
    names.map(|name| (*name).to_owned()).collect()
}

fn producers(state: &TracingServiceState, machines: bool) -> Rows {
    let mut rows = vec![header(
        &["ID", "PID", "UID", "FLAGS", "MACHINE", "NAME", "SDK"],
        machines,
    )];
    rows.extend(state.producers.iter().map(|producer| {
        let mut row = vec![
            number(producer.id),
            number(producer.pid),
            number(producer.uid),
            if producer.frozen.unwrap_or(false) {
                "F"
            } else {
                ""
            }
            .to_owned(),
        ];
        if machines {
            row.push(machine(producer));
        }
        row.extend([shown(&producer.name), shown(&producer.sdk_version)]);
        row
    }));
    rows
}

fn data_sources(state: &TracingServiceState, machines: bool, long: bool) -> Rows {
    let mut rows = vec![header(
        &["NAME", "PRODUCER", "MACHINE", "DETAILS"],
        machines,
    )];
    rows.extend(state.data_sources.iter().map(|source| {
        let id = source.producer_id.unwrap_or(0);
        let producer = state
            .producers
            .iter()
            .find(|producer| producer.id == Some(id));
        let name = producer
            .map(|producer| shown(&producer.name))
            .unwrap_or_default();
        let mut row = vec![shown(&source.ds_descriptor.name), format!("{name} ({id})")];
        if machines {
            row.push(producer.map(machine).unwrap_or_default());
        }
        row.push(details(source, long));
        row
    }));
    rows
}

/// Returns the categories of a data source.
fn details(source: &DataSource, long: bool) -> String {
    let descriptor = &source.ds_descriptor;
    // A malformed descriptor has no categories to show.
    let events: TrackEventDescriptor =
        decode_lazy(&descriptor.track_event_descriptor).unwrap_or_default();
    let kernel: FtraceDescriptor = decode_lazy(&descriptor.ftrace_descriptor).unwrap_or_default();
    let events = events
        .available_categories
        .iter()
        .map(|category| &category.name);
    let kernel = kernel
        .atrace_categories
        .iter()
        .map(|category| &category.name);
    let names: Vec<String> = events.chain(kernel).map(shown).collect();
    let mut text = names.join(",");
    if !long && text.chars().count() > MAX_DETAILS {
        text = text.chars().take(MAX_DETAILS).collect();
        text.push_str("... (use --long to expand)");
    }
    text
}

fn sessions(state: &TracingServiceState) -> Rows {
    let names = [
        "ID",
        "UID",
        "STATE",
        "BUF (#) KB",
        "DUR (s)",
        "#DS",
        "STARTED",
        "NAME",
    ];
    let mut rows = vec![header(&names, true)];
    rows.extend(state.tracing_sessions.iter().map(session));
    rows
}

fn session(session: &TracingSession) -> Vec<String> {
    let kilobytes: u64 = session.buffer_size_kb.iter().map(|kb| u64::from(*kb)).sum();
    let seconds = session
        .start_realtime_ns
        .unwrap_or(0)
        .div_euclid(1_000_000_000);
    let of_day = seconds.rem_euclid(86_400);
    vec![
        session.id.unwrap_or(0).to_string(),
        number(session.consumer_uid),
        shown(&session.state),
        format!("({}) {kilobytes}", session.buffer_size_kb.len()),
        (session.duration_ms.unwrap_or(0) / 1000).to_string(),
        session.num_data_sources.unwrap_or(0).to_string(),
        format!(
            "{:02}:{:02}:{:02}",
            of_day / 3600,
            of_day / 60 % 60,
            of_day % 60
        ),
        shown(&session.unique_session_name),
    ]
}

fn machine(producer: &Producer) -> String {
    match producer.machine_id.unwrap_or(0) {
        0 => "(host)".to_owned(),
        id => match shown(&producer.machine_name) {
            name if name.is_empty() => format!("{id:#x}"),
            name => name,
        },
    }
}

fn number(value: Option<i32>) -> String {
    value.unwrap_or(0).to_string()
}

/// Returns text without control characters.
fn shown(bytes: &Option<Vec<u8>>) -> String {
    shown_bytes(bytes.as_deref().unwrap_or_default())
}

fn table(out: &mut impl Write, rows: Rows) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

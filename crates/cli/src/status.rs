//! `ferretto status`: shows the machines, producers and recordings of a tracing service.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use ferretto_client::{Address, Consumer};
use ferretto_ipc::port::state::{self, BufferUse, MachineState};
use ferretto_proto::TracingServiceState;
use ferretto_proto::tracing_service_state::Producer;
use ferretto_text::amount::{counted, human_bytes, human_time};
use ferretto_text::terminal::shown_bytes;

use crate::json;

/// The timeout of the service's reply.
const LIMIT: Duration = Duration::from_secs(10);
/// The period of `--watch`.
const INTERVAL: Duration = Duration::from_secs(1);
/// The largest number of a producer's data sources to list.
const TOP_SOURCES: usize = 6;
/// The escape sequence that clears the screen.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Show the clients and recordings of the tracing service
///
/// Shows its machines with the offsets of their clocks and the error bounds, their producers with
/// data sources, and the recordings with the use and losses of their buffers. Upstream's service
/// does not report clocks and buffers.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferretto status
  ferretto status --watch
  PERFETTO_CONSUMER_SOCK_NAME=@traced ferretto status --json")]
pub(crate) struct StatusArgs {
    /// Repeat every second until interrupted
    #[arg(long)]
    watch: bool,
    /// Print one JSON object per line, for programs
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &StatusArgs) -> Result<()> {
    let service = ferretto_ipc::names::consumer_address().context("PERFETTO_CONSUMER_SOCK_NAME")?;
    let mut consumer = connect(&service)?;
    let is_terminal = io::stdout().is_terminal();
    let mut is_first = true;
    loop {
        let state = consumer.query_service_state(LIMIT);
        let state = state.with_context(|| {
            if is_first {
                "the service does not report its state".to_owned()
            } else {
                format!("the service at {service} is gone")
            }
        })?;
        let text = if args.json {
            json(&View::new(&state))
        } else {
            text(&View::new(&state))
        };
        let mut out = io::stdout().lock();
        let before = match (args.watch && !args.json, is_terminal) {
            (true, true) => CLEAR,
            (true, false) if !is_first => "\n",
            _ => "",
        };
        is_first = false;
        out.write_all(before.as_bytes())
            .and_then(|()| out.write_all(text.as_bytes()))
            .and_then(|()| out.flush())
            .context("cannot write the status")?;
        if !args.watch {
            return Ok(());
        }
        drop(out);
        std::thread::sleep(INTERVAL);
    }
}

fn connect(service: &Address) -> Result<Consumer> {
    Consumer::connect(service, LIMIT)
        .with_context(|| format!("there is no tracing service at {service}"))
}

/// The state, in the order of display.
struct View<'a> {
    state: &'a TracingServiceState,
    machines: Vec<Machine<'a>>,
}

struct Machine<'a> {
    /// The id of the machine; 0 is the service's.
    id: u32,
    name: String,
    clock: Option<MachineState>,
    producers: Vec<&'a Producer>,
}

impl<'a> View<'a> {
    fn new(state: &'a TracingServiceState) -> Self {
        let mut machines = BTreeMap::new();
        let new = |id, name| Machine {
            id,
            name,
            clock: None,
            producers: Vec::new(),
        };
        machines.insert(0, new(0, "host".to_owned()));
        for clock in state::machines(state) {
            let machine = machines
                .entry(clock.id)
                .or_insert_with(|| new(clock.id, String::new()));
            machine.clock = Some(clock);
        }
        for producer in &state.producers {
            let id = producer.machine_id.unwrap_or(0);
            let machine = machines.entry(id).or_insert_with(|| new(id, String::new()));
            if machine.name.is_empty() {
                machine.name = shown(&producer.machine_name);
            }
            machine.producers.push(producer);
        }
        let machines = machines.into_values().collect();
        Self { state, machines }
    }

    fn sources(&self, producer: &Producer) -> Vec<String> {
        let sources = self.state.data_sources.iter();
        let own = sources.filter(|source| source.producer_id == producer.id);
        own.map(|source| shown(&source.ds_descriptor.name))
            .collect()
    }
}

impl Machine<'_> {
    /// Returns the transport of its producers.
    fn transport(&self) -> &'static str {
        if self.id == 0 { "socket" } else { "network" }
    }

    fn shown_name(&self) -> String {
        match self.name.as_str() {
            "" => format!("{:#x}", self.id),
            name => name.to_owned(),
        }
    }
}

fn text(view: &View<'_>) -> String {
    let version = shown(&view.state.tracing_service_version);
    let mut text = format!("service {version}\n");
    for machine in &view.machines {
        let name = machine.shown_name();
        text += &format!("\nmachine {name}, by {}", machine.transport());
        if let Some(clock) = machine.clock {
            let side = if clock.offset < 0 { "behind" } else { "ahead" };
            let offset = human_time(clock.offset.unsigned_abs());
            let error = human_time(clock.error);
            text += &format!(", clock {offset} {side}, known to {error}");
        } else if machine.id != 0 {
            text += ", clock not synchronized";
        }
        text.push('\n');
        if machine.producers.is_empty() {
            text += "  no producers\n";
        }
        for producer in &machine.producers {
            let mut sources = view.sources(producer);
            let more = sources.len().saturating_sub(TOP_SOURCES);
            sources.truncate(TOP_SOURCES);
            let mut sources = sources.join(", ");
            if more > 0 {
                sources += &format!(" and {more} more");
            }
            let pid = producer.pid.unwrap_or(0);
            let name = shown(&producer.name);
            text += &format!("  {name} (process {pid}): {sources}\n");
        }
    }
    if view.state.tracing_sessions.is_empty() {
        text += "\nno recordings\n";
    }
    for session in &view.state.tracing_sessions {
        let id = session.id.unwrap_or(0);
        text += &format!("\nrecording {id}, {}", shown(&session.state).to_lowercase());
        let name = shown(&session.unique_session_name);
        if !name.is_empty() {
            text += &format!(", {name}");
        }
        let sources = session.num_data_sources.unwrap_or(0);
        let user = session.consumer_uid.unwrap_or(0);
        text += &format!(", of user {user}, {sources} data sources\n");
        let known = state::buffers(session);
        if known.is_empty() {
            for kilobytes in &session.buffer_size_kb {
                text += &format!("  buffer of {}\n", human_bytes(u64::from(*kilobytes) << 10));
            }
        }
        for buffer in known {
            text += &format!("  {}\n", buffer_text(&buffer));
        }
    }
    text
}

fn buffer_text(buffer: &BufferUse) -> String {
    let percent = buffer.used * 100 / buffer.size.max(1);
    let size = human_bytes(buffer.size);
    let mut text = format!("buffer of {size}, {percent} % used");
    if buffer.overwritten > 0 {
        text += &format!(", {} overwritten", human_bytes(buffer.overwritten));
    }
    if buffer.discarded > 0 {
        text += &format!(", {} discarded", counted(buffer.discarded, "chunk"));
    }
    text
}

fn json(view: &View<'_>) -> String {
    json::answer(|all| {
        all.add("service", shown(&view.state.tracing_service_version));
        all.objects("machines", &view.machines, |members, machine| {
            members.add("id", machine.id);
            members.add("name", &machine.name);
            members.add("transport", machine.transport());
            members.add("clock_offset_ns", machine.clock.map(|clock| clock.offset));
            members.add("clock_error_ns", machine.clock.map(|clock| clock.error));
            members.objects("producers", &machine.producers, |members, producer| {
                members.add("id", producer.id);
                members.add("name", shown(&producer.name));
                members.add("pid", producer.pid);
                members.add("uid", producer.uid);
                members.add("version", shown(&producer.sdk_version));
                let sources = view.sources(producer);
                let sources = sources.iter();
                members
                    .name("sources")
                    .list(sources, |json, source| json.string(source));
            });
        });
        let sessions = &view.state.tracing_sessions;
        all.objects("recordings", sessions, |members, session| {
            members.add("id", session.id);
            members.add("state", shown(&session.state));
            members.add("name", shown(&session.unique_session_name));
            members.add("uid", session.consumer_uid);
            members.add("sources", session.num_data_sources);
            let duration = session.duration_ms.map(|ms| u64::from(ms) * 1_000_000);
            members.add("duration_ns", duration);
            members.objects("buffers", state::buffers(session), |members, buffer| {
                members.add("size_bytes", buffer.size);
                members.add("used_bytes", buffer.used);
                members.add("overwritten_bytes", buffer.overwritten);
                members.add("chunks_discarded", buffer.discarded);
            });
        });
    })
}

/// Escapes text that could control the terminal.
fn shown(bytes: &Option<Vec<u8>>) -> String {
    shown_bytes(bytes.as_deref().unwrap_or_default())
}

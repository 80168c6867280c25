//! The state outside a session that the session may read or change.

use ferretto_ipc::port::consumer::Reply;
use ferretto_proto::get_async_command_response::Cmd;

use crate::clocks::Clocks;
use crate::command::{Command, Commands};
use crate::consumers::Consumers;
use crate::event::ClientId;
use crate::ids::{BufferId, Ids, ProducerId, SessionId};
use crate::options::ServiceOptions;
use crate::pool::BufferPool;
use crate::producers::Producers;
use crate::registry::Registry;
use crate::relay::Relays;
use crate::rng::Rng;
use crate::scrapes::{Purpose, Scrapes};
use crate::timers::{TimeBase, Timer, TimerKey, Timers};

/// The surroundings of sessions: time, ids, clients, buffers and the queue of commands. Each part
/// owns its state.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) options: ServiceOptions,
    /// The time of the event being handled.
    pub(crate) now: Clocks,
    pub(crate) rng: Rng,
    pub(crate) ids: Ids,
    pub(crate) commands: Commands,
    pub(crate) timers: Timers<(SessionId, Timer)>,
    pub(crate) producers: Producers,
    pub(crate) registry: Registry,
    pub(crate) consumers: Consumers,
    pub(crate) relays: Relays,
    pub(crate) buffers: BufferPool,
    pub(crate) scrapes: Scrapes,
    /// The number of sessions that are not freed.
    pub(crate) live_sessions: u32,
}

impl Context {
    pub(crate) fn new(options: ServiceOptions) -> Self {
        Self {
            now: Clocks::default(),
            rng: Rng::new(options.seed),
            ids: Ids::default(),
            commands: Commands::default(),
            timers: Timers::new(),
            producers: Producers::new(&options),
            registry: Registry::new(options.quotas.clone()),
            consumers: Consumers::default(),
            relays: Relays::default(),
            buffers: BufferPool::default(),
            scrapes: Scrapes::new(options.scraping_piece),
            live_sessions: 0,
            options,
        }
    }

    pub(crate) fn set_timer(
        &mut self,
        session: SessionId,
        base: TimeBase,
        delay_ms: u64,
        timer: Timer,
    ) -> TimerKey {
        self.timers.set(&self.now, base, delay_ms, (session, timer))
    }

    /// Sends the last reply to a consumer's request; `None` rejects it.
    pub(crate) fn reply(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        reply: Option<Reply>,
    ) {
        self.consumers
            .reply(&mut self.commands, client, request_id, reply);
    }

    /// Replies to EnableTracing that the session has ended, or never started.
    pub(crate) fn reply_session_ended(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        error: Option<String>,
    ) {
        self.consumers
            .reply_session_ended(&mut self.commands, client, request_id, error);
    }

    /// Sends a command to a producer as soon as it can receive it.
    pub(crate) fn command_producer(&mut self, id: ProducerId, command: impl Into<Cmd>) {
        self.producers.command(&mut self.commands, id, command);
    }

    /// Scrapes the chunks of producers for these buffers. Returns true if that is done, and false
    /// if the rest is done in later events.
    pub(crate) fn scrape(&mut self, purpose: Purpose, buffers: Vec<BufferId>) -> bool {
        let (producers, pool) = (&mut self.producers, &mut self.buffers);
        self.scrapes.begin(producers, pool, purpose, buffers)
    }

    /// Reports the packets that the machines of buffers failed to apply.
    pub(crate) fn report_vm_aborts(&mut self) {
        for abort in self.buffers.take_vm_aborts() {
            let source = String::from_utf8_lossy(&abort.source).into_owned();
            let times = match abort.count {
                1 => String::new(),
                count => format!(", for the {count}th time"),
            };
            self.commands.push(Command::Report {
                problem: format!(
                    "the ProtoVM of data source {source:?} gave up a packet{times}: {}",
                    abort.reason
                ),
            });
        }
    }

    pub(crate) fn deliver_observed(&mut self) {
        self.consumers.deliver_observed(&mut self.commands);
    }
}

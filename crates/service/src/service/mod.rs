//! The interface of the state machine: events in, commands out, time. It routes events to the
//! clients and sessions that they concern.

mod admit;
mod boost;
mod cloning;
mod consumers;
mod enable;
mod inventory;
mod output_path;
mod producers;
mod state_query;
mod trigger_history;

use crate::clocks::Clocks;
use crate::command::Command;
use crate::context::Context;
use crate::event::{Event, FileId};
use crate::ids::SessionId;
use crate::options::ServiceOptions;
use crate::scrapes::Purpose;
use crate::session::Session;
use crate::sessions::Sessions;
use admit::Cooldowns;
use boost::PriorityBoost;
use trigger_history::TriggerHistory;

pub use inventory::Inventory;

/// The tracing service.
#[derive(Debug)]
pub struct Service {
    /// The state outside the sessions.
    cx: Context,
    sessions: Sessions,
    boost: PriorityBoost,
    cooldowns: Cooldowns,
    trigger_history: TriggerHistory,
}

impl Service {
    /// Creates a service without clients.
    pub fn new(options: ServiceOptions) -> Self {
        Self {
            cx: Context::new(options),
            sessions: Sessions::default(),
            boost: PriorityBoost::default(),
            cooldowns: Cooldowns::default(),
            trigger_history: TriggerHistory::default(),
        }
    }

    /// Handles one event. The resulting commands are then in [`Self::poll_command`].
    ///
    /// No event makes it panic. Events that make no sense (of an unknown client, or an answer to no
    /// command) are ignored.
    pub fn handle(&mut self, now: &Clocks, event: Event) {
        self.cx.now = *now;
        self.cx.scrapes.begin_event();
        match event {
            Event::ProducerConnected { client, peer } => self.cx.producers.connect(client, peer),
            Event::ConsumerConnected { client, peer } => self.cx.consumers.connect(client, peer),
            Event::TurnedAway { connections } => self.turned_away(connections),
            Event::ProducerRequest {
                client,
                request_id,
                request,
                fd,
            } => self.producer_request(client, request_id, request, fd),
            Event::ConsumerRequest {
                client,
                request_id,
                request,
                fd,
            } => self.consumer_request(client, (request_id, request, fd)),
            Event::RelayRequest {
                client,
                request_id,
                request,
            } => self.relay_request(client, request_id, request),
            Event::CutOff { client } => self.producer_cut_off(client),
            Event::Disconnected { client } => {
                let cx = &mut self.cx;
                let is_recording = self.sessions.iter().next().is_some();
                cx.relays.disconnect(client, &cx.now, is_recording);
                self.producer_disconnected(client);
                self.consumer_disconnected(client);
            }
            Event::SharedMemoryReady { client, region } => {
                self.memory_answered(client, Some(region));
            }
            Event::SharedMemoryFailed { client } => self.memory_answered(client, None),
            Event::PrioritySet { client } => self.priority_answered(client, Ok(())),
            Event::PriorityRefused { client, error } => {
                self.priority_answered(client, Err(error));
            }
            Event::ConsumerDrained { client } => self.consumer_drained(client),
            Event::FileOpened { file } => self.file_opened(file, Ok(())),
            Event::FileWritten { file, bytes: _ } => self.file_written(file),
            Event::FileFailed { file, error } => self.file_failed(file, error),
        }
        self.cx.report_vm_aborts();
        self.cx.deliver_observed();
    }

    /// Returns the next command for the driver, in order; `None` if there is none.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.cx.commands.pop()
    }

    /// Returns the time of the next call of [`Self::handle_timeout`] as a `CLOCK_BOOTTIME` reading
    /// in nanoseconds; `None` if there is no deadline.
    ///
    /// Some deadlines are on a clock that stops during suspend: call this again after one.
    pub fn poll_timeout(&self) -> Option<u64> {
        if self.has_work() {
            return Some(self.cx.now.boottime);
        }
        self.cx.timers.next_boottime(&self.cx.now)
    }

    /// Returns true if [`Self::handle_timeout`] has something to do whatever the time.
    pub fn has_work(&self) -> bool {
        self.cx.scrapes.len() > 0
    }

    /// Handles due timers, or does a piece of the work that was too much for one event. Does
    /// nothing if there is neither.
    pub fn handle_timeout(&mut self, now: &Clocks) {
        self.cx.now = *now;
        self.cx.scrapes.begin_event();
        if self.cx.scrapes.is_next(self.cx.timers.is_due(now)) {
            self.continue_scraping();
        } else {
            self.handle_timers();
            self.cx.scrapes.wait();
        }
        self.cx.report_vm_aborts();
        self.cx.deliver_observed();
    }

    fn continue_scraping(&mut self) {
        let cx = &mut self.cx;
        let done = cx.scrapes.do_piece(&mut cx.producers, &mut cx.buffers);
        match done {
            Some(Purpose::Session(id)) => {
                self.act(id, Session::scraped);
            }
            Some(Purpose::Departure(id)) => cx.producers.remove(&mut cx.buffers, id),
            None => {}
        }
    }

    fn handle_timers(&mut self) {
        let now = self.cx.now;
        while let Some((id, timer)) = self.cx.timers.pop_due(&now) {
            self.act(id, |session, cx| session.timer_due(cx, timer));
        }
    }

    /// Returns the user id of the consumer whose session writes this file; `None` if there is no
    /// such session.
    pub fn user_of_file(&self, file: FileId) -> Option<u32> {
        Some(self.sessions.of_file(file)?.uid())
    }

    /// Returns the user id of the client that causes the work of
    /// [`handle_timeout`](Self::handle_timeout) at this time: the producer whose packets are
    /// copied, or the consumer whose session has the next deadline; `None` if there is no work.
    pub fn user_of_timeout(&self, now: &Clocks) -> Option<u32> {
        if self.cx.scrapes.is_next(self.cx.timers.is_due(now)) {
            let producer = self.cx.scrapes.next_producer()?;
            return Some(self.cx.producers.get(producer)?.peer().uid);
        }
        let (id, _) = self.cx.timers.next(now)?;
        Some(self.sessions.get(*id)?.uid())
    }

    /// Runs a method of an existing session, and handles the effects on others.
    fn act<R>(
        &mut self,
        id: SessionId,
        verb: impl FnOnce(&mut Session, &mut Context) -> R,
    ) -> Option<R> {
        let session = self.sessions.existing(id)?;
        let result = verb(session, &mut self.cx);
        self.follow_up(id);
        Some(result)
    }

    /// Runs a method of each current session, as [`Self::act`] does.
    fn each_acts(&mut self, mut verb: impl FnMut(&mut Session, &mut Context)) {
        for id in self.sessions.ids() {
            // A session may be removed because of another's action.
            if let Some(session) = self.sessions.if_there(id) {
                verb(session, &mut self.cx);
                self.follow_up(id);
            }
        }
    }

    /// Handles a session's effects on others: transitions that they record, clones, its end.
    fn follow_up(&mut self, id: SessionId) {
        let Some(session) = self.sessions.existing(id) else {
            return;
        };
        if !session.needs_follow_up() {
            return;
        }
        let is_over = session.is_over();
        let clones = session.take_finished_clones();
        self.sessions.announce_transitions(id);
        for clone in clones {
            let id = clone.id();
            self.sessions.insert(clone);
            self.sessions.announce_transitions(id);
        }
        if is_over {
            self.erase(id);
        }
        debug_assert_eq!(
            self.sessions.live().count(),
            self.cx.live_sessions as usize,
            "sessions that were not freed"
        );
    }

    fn erase(&mut self, id: SessionId) {
        self.cx.timers.cancel_if(|(session, _)| *session == id);
        self.cx.scrapes.cancel(id);
        if let Some(session) = self.sessions.remove(id) {
            for buffer in session.buffers() {
                self.cx.buffers.remove(*buffer);
            }
        }
        if self.sessions.iter().next().is_none() {
            self.cx.relays.forget_departed();
        }
        self.update_priority();
    }

    /// Lowers the priority once no session requests it any more.
    fn update_priority(&mut self) {
        if self.boost.is_raised() {
            let wanted = self.sessions.priority();
            let wanted = wanted.max(self.cx.consumers.priority_of_openings());
            self.boost.lower_to(&mut self.cx.commands, wanted);
        }
    }

    /// Continues after the driver has written to a file. The answer may come after the file was
    /// closed.
    fn file_written(&mut self, file: FileId) {
        if let Some(id) = self.sessions.of_file(file).map(Session::id) {
            self.act(id, Session::file_written);
        }
    }

    fn file_failed(&mut self, file: FileId, error: String) {
        match self.sessions.of_file(file).map(Session::id) {
            Some(id) => {
                self.act(id, |session, cx| session.file_failed(cx, &error));
            }
            None => self.file_opened(file, Err(error)),
        }
    }
}

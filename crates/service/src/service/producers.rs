//! Handles events of producers and relays.

use std::sync::Arc;

use ferretto_ipc::PassedFd;
use ferretto_ipc::port::commit::Commit;
use ferretto_ipc::port::producer::{Reply, Request};
use ferretto_ipc::port::relay;
use ferretto_proto::{CommitDataRequest, DataSourceDescriptor, RegisterDataSourceResponse};
use ferretto_shm::Region;

use super::Service;
use super::trigger_history::hash;
use crate::clocks::Clocks;
use crate::event::ClientId;
use crate::ids::ProducerId;
use crate::producer::Producer;
use crate::producers::MemoryAnswer;
use crate::registry::Ignored;
use crate::scrapes::Purpose;

impl Service {
    pub(super) fn producer_request(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        request: Request,
        fd: Option<PassedFd>,
    ) {
        let cx = &mut self.cx;
        let producers = &mut cx.producers;
        let client_now = (client, cx.now.boottime);
        let admitted = producers.admit(&mut cx.commands, client_now, request_id, request, fd);
        if let Some((id, request)) = admitted {
            self.initialised_request(id, client, request_id, request);
        }
    }

    /// Handles a request of an initialised producer. As in upstream, most replies are a success
    /// even if the request was ignored.
    fn initialised_request(
        &mut self,
        id: ProducerId,
        client: ClientId,
        request_id: Option<u64>,
        request: Request,
    ) {
        let cx = &mut self.cx;
        let reply = match request {
            Request::InitializeConnection(_) => None,
            Request::GetAsyncCommand(_) => {
                let producers = &mut cx.producers;
                return producers.open_command_stream(&mut cx.commands, id, request_id);
            }
            Request::RegisterDataSource(request) => {
                let descriptor = request.data_source_descriptor.into_option();
                let error = match self.register_data_source(id, descriptor.unwrap_or_default()) {
                    Err(Ignored::Refused(refused)) => Some(refused.to_string().into_bytes()),
                    _ => None,
                };
                Some(Reply::RegisterDataSource(RegisterDataSourceResponse {
                    error,
                    ..Default::default()
                }))
            }
            Request::UpdateDataSource(request) => {
                let descriptor = request.data_source_descriptor.into_option();
                let updated = cx.registry.update(id, descriptor.unwrap_or_default());
                // The reply has no field for an error.
                let refused = matches!(updated, Err(Ignored::Refused(_)));
                (!refused).then(|| Reply::UpdateDataSource(Default::default()))
            }
            Request::UnregisterDataSource(request) => {
                self.unregister_data_source(id, &request.data_source_name.unwrap_or_default());
                Some(Reply::UnregisterDataSource(Default::default()))
            }
            Request::RegisterTraceWriter(request) => {
                cx.producers.register_writer(&mut cx.buffers, id, &request);
                Some(Reply::RegisterTraceWriter(Default::default()))
            }
            Request::UnregisterTraceWriter(request) => {
                let writer = request.trace_writer_id.unwrap_or(0);
                cx.producers.unregister_writer(&mut cx.buffers, id, writer);
                Some(Reply::UnregisterTraceWriter(Default::default()))
            }
            Request::CommitData(request) => {
                let accepted = self.commit(id, &request);
                accepted.then(|| Reply::CommitData(Default::default()))
            }
            Request::NotifyDataSourceStarted(request) => {
                let key = (id, request.data_source_id.unwrap_or(0));
                if let Some(session) = self.sessions.of_instance(key) {
                    self.act(session, |session, cx| session.start_acked(cx, key));
                }
                Some(Reply::NotifyDataSourceStarted(Default::default()))
            }
            Request::NotifyDataSourceStopped(request) => {
                let key = (id, request.data_source_id.unwrap_or(0));
                if let Some(session) = self.sessions.of_instance(key) {
                    self.act(session, |session, cx| session.stop_acked(cx, key));
                }
                Some(Reply::NotifyDataSourceStopped(Default::default()))
            }
            Request::ActivateTriggers(request) => {
                let all = self.activate_triggers(id, &request.trigger_names);
                all.then(|| Reply::ActivateTriggers(Default::default()))
            }
            Request::Sync(_) => Some(Reply::Sync(Default::default())),
        };
        let commands = &mut self.cx.commands;
        commands.reply_to_producer(client, request_id, reply);
    }

    pub(super) fn memory_answered(&mut self, client: ClientId, region: Option<Arc<Region>>) {
        let cx = &mut self.cx;
        let producers = &mut cx.producers;
        match producers.memory_answered(&mut cx.commands, (client, cx.now.boottime), region) {
            None => {}
            Some(MemoryAnswer::Resume(deferred)) => {
                for (request_id, request) in deferred {
                    self.producer_request(client, request_id, request, None);
                }
            }
            Some(MemoryAnswer::NoMemory(id)) => {
                for session in self.sessions.iter_mut() {
                    session.note_cut_off(id);
                }
                self.each_acts(|session, cx| session.remove_producer(cx, id));
                self.cx.producers.forget_memory(id);
            }
        }
    }

    /// Notes in all sessions that a producer may lose packets with its connection.
    pub(super) fn producer_cut_off(&mut self, client: ClientId) {
        let producers = &self.cx.producers;
        if producers.peer_of(client).is_none() {
            return;
        }
        let id = producers.id_of(client);
        // A producer that has registered nothing yet may belong to any session.
        match id.filter(|id| self.cx.registry.has_offers_of(*id)) {
            Some(id) => {
                for session in self.sessions.iter_mut() {
                    session.note_cut_off(id);
                }
            }
            None => self.turned_away(1),
        }
    }

    /// Notes in all recording sessions that programs could not connect.
    pub(super) fn turned_away(&mut self, connections: u64) {
        for session in self.sessions.iter_mut() {
            session.note_turned_away(connections);
        }
    }

    /// Removes a producer whose connection has ended. Its committed chunks stay, and its
    /// uncommitted chunks are scraped if its sessions allow it.
    pub(super) fn producer_disconnected(&mut self, client: ClientId) {
        let cx = &mut self.cx;
        let Some(id) = cx.producers.disconnect(client) else {
            return;
        };
        let buffers = cx.producers.get(id).map(Producer::buffers);
        let is_scraped = cx.scrape(Purpose::Departure(id), buffers.unwrap_or_default());
        cx.registry.remove_producer(id);
        for session in self.sessions.iter_mut() {
            session.note_gone(id);
        }
        self.each_acts(|session, cx| session.remove_producer(cx, id));
        // Otherwise it is removed at the end of scraping. A session that waits for its packets
        // scrapes it, too.
        if is_scraped {
            self.cx.producers.remove(&mut self.cx.buffers, id);
        }
        self.each_acts(|session, cx| session.forget_in_flushes(cx, id));
    }

    pub(super) fn relay_request(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        request: relay::Request,
    ) {
        let cx = &mut self.cx;
        // A client without a connection event is not a relay.
        let Some(peer) = cx.producers.peer_of(client) else {
            return;
        };
        let (relays, commands) = (&mut cx.relays, &mut cx.commands);
        relays.request(
            commands,
            &cx.now,
            (client, peer.machine_id),
            request_id,
            request,
        );
    }

    /// Registers a data source. Running sessions that ask for it set it up at once.
    fn register_data_source(
        &mut self,
        id: ProducerId,
        descriptor: DataSourceDescriptor,
    ) -> Result<(), Ignored> {
        let producer = self.cx.producers.get(id).ok_or(Ignored::Unknown)?;
        let registry = &mut self.cx.registry;
        registry.register(id, producer.user(), descriptor.clone())?;
        self.each_acts(|session, cx| session.offer(cx, id, &descriptor));
        Ok(())
    }

    /// Unregisters a data source. Its instances stop and are removed.
    fn unregister_data_source(&mut self, id: ProducerId, name: &[u8]) {
        self.each_acts(|session, cx| session.withdraw(cx, id, name));
        self.cx.registry.unregister(id, name);
    }

    /// Carries out a commit at once, instead of as an event. Does nothing and returns false if the
    /// producer has no shared memory or is not initialised: pass the request to
    /// [`handle`](Self::handle) then. The clocks are read if the commit ends a flush.
    pub fn commit_at_once(
        &mut self,
        now: impl FnOnce() -> Clocks,
        client: ClientId,
        request_id: Option<u64>,
        commit: &Commit,
    ) -> bool {
        let cx = &mut self.cx;
        let Some(id) = cx.producers.commit_shared(&mut cx.buffers, client, commit) else {
            return false;
        };
        if let Some(flush @ 1..) = commit.flush_request_id {
            cx.now = now();
            self.each_acts(|session, cx| session.flush_acked(cx, id, flush));
        }
        let cx = &mut self.cx;
        if request_id.is_some() {
            let reply = Reply::CommitData(Default::default());
            cx.commands
                .reply_to_producer(client, request_id, Some(reply));
        }
        cx.report_vm_aborts();
        cx.deliver_observed();
        true
    }

    /// Moves and patches chunks, then handles a confirmed flush. Does nothing and returns false if
    /// the producer has no memory to commit from.
    fn commit(&mut self, id: ProducerId, request: &CommitDataRequest) -> bool {
        let cx = &mut self.cx;
        let accepted = cx.producers.commit(&mut cx.buffers, id, request);
        if let Some(flush @ 1..) = request.flush_request_id.filter(|_| accepted) {
            self.each_acts(|session, cx| session.flush_acked(cx, id, flush));
        }
        accepted
    }

    /// Activates triggers by name. Names that no session has are ignored. Returns false if the
    /// producer's user has exceeded its quota; the remaining names are ignored then.
    fn activate_triggers(&mut self, id: ProducerId, names: &[Vec<u8>]) -> bool {
        let Some(user) = self.cx.producers.get(id).map(|producer| producer.user()) else {
            return false;
        };
        let now = self.cx.now.boottime;
        for name in names {
            let key = hash(name);
            let count = self.trigger_history.count(now, key);
            let limit = self.cx.options.quotas.triggers_per_user;
            if self.trigger_history.count_of(user) >= limit {
                return false;
            }
            let mut heeded = false;
            self.each_acts(|session, cx| {
                if let Some(trigger) = session.heed_trigger(cx, id, name, count) {
                    heeded = true;
                    session.trigger_hit(cx, trigger);
                }
            });
            if heeded {
                self.trigger_history.add(now, key, user);
            }
        }
        true
    }
}

//! All producers, by their ids.

mod connection;

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use ferretto_ipc::port::commit::Commit;
use ferretto_proto::get_async_command_response::Cmd;
use ferretto_proto::{CommitDataRequest, GetAsyncCommandResponse, RegisterTraceWriterRequest};
use ferretto_shm::Scrape;

use crate::command::Commands;
use crate::event::{ClientId, Peer};
use crate::ids::{BufferId, ProducerId, WriterId};
use crate::limits::{MAX_PRODUCERS, MAX_SUSPECTS, SUSPECT_NS};
use crate::options::ServiceOptions;
use crate::pool::BufferPool;
use crate::producer::{Acks, Awaited, Discarded, Holdings, Patience, Producer, Scratch, smb_size};
use crate::quota::{Quotas, User};
use connection::Connection;

pub(crate) use connection::MemoryAnswer;

/// The producers, and connections without a producer yet.
#[derive(Debug)]
pub(crate) struct Producers {
    connections: BTreeMap<ClientId, Connection>,
    table: BTreeMap<ProducerId, Producer>,
    /// The last assigned id.
    last: ProducerId,
    quotas: Quotas,
    scrape_by_default: bool,
    /// The user id of the service.
    uid: u32,
    /// The process whose producers confirm.
    trusted_pid: Option<i32>,
    /// If set, only producers of the service's own user may connect and record.
    lockdown: bool,
    discarded: Discarded,
    /// The users whose producers missed confirmations, with the `CLOCK_BOOTTIME` of the last miss.
    suspects: BTreeMap<User, u64>,
    /// Memory that chunks are copied into before they are parsed.
    scratch: Scratch,
}

impl Producers {
    pub(crate) fn new(options: &ServiceOptions) -> Self {
        Self {
            connections: BTreeMap::new(),
            table: BTreeMap::new(),
            last: 0,
            quotas: options.quotas.clone(),
            scrape_by_default: options.scrape_by_default,
            uid: options.uid,
            trusted_pid: options.trusted_pid,
            lockdown: false,
            discarded: Discarded::default(),
            suspects: BTreeMap::new(),
            scratch: Scratch::default(),
        }
    }

    /// Returns the producer of a connection or of an instance, which must exist.
    fn existing(&mut self, id: ProducerId) -> Option<&mut Producer> {
        existing(&mut self.table, id)
    }

    /// Returns a producer, unless it is gone.
    pub(crate) fn get(&self, id: ProducerId) -> Option<&Producer> {
        self.table.get(&id)
    }

    /// Returns the producers after this id, or all, by id.
    pub(crate) fn after(
        &self,
        last: Option<ProducerId>,
    ) -> impl Iterator<Item = (ProducerId, &Producer)> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.range((from, Bound::Unbounded))
    }

    fn range(
        &self,
        range: impl RangeBounds<ProducerId>,
    ) -> impl Iterator<Item = (ProducerId, &Producer)> {
        self.table
            .range(range)
            .map(|(id, producer)| (*id, producer))
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the last id that was assigned.
    pub(crate) fn last_id(&self) -> ProducerId {
        self.last
    }

    pub(crate) fn discarded(&self) -> Discarded {
        self.discarded
    }

    pub(crate) fn holdings(&self) -> Holdings {
        let mut all = Holdings {
            connections: self.connections.len(),
            ..Holdings::default()
        };
        for producer in self.table.values() {
            producer.add_to(&mut all);
        }
        all
    }

    /// Returns the size of the largest shared memory of a producer.
    pub(crate) fn largest_memory(&self) -> u64 {
        let sizes = self.table.values().map(Producer::memory_size);
        sizes.max().unwrap_or(0)
    }

    pub(crate) fn set_lockdown(&mut self, lockdown: bool) {
        self.lockdown = lockdown;
    }

    /// Returns true if producers of this user may record now.
    pub(crate) fn may_record(&self, uid: u32) -> bool {
        !self.lockdown || uid == self.uid
    }

    /// Returns the next free id after the last one; never 0.
    fn new_id(&mut self) -> Option<ProducerId> {
        if self.table.len() >= MAX_PRODUCERS {
            return None;
        }
        loop {
            self.last = self.last.wrapping_add(1);
            let id = self.last;
            if id != 0 && !self.table.contains_key(&id) {
                return Some(id);
            }
        }
    }

    /// Returns true if producers of this user may have this much more shared memory.
    fn may_share(&self, user: User, size: u64) -> bool {
        let of_user = self.table.values().filter(|p| p.user() == user);
        let shared: u64 = of_user.map(Producer::memory_size).sum();
        shared + size <= self.quotas.shared_memory_per_user
    }

    /// Makes sure that the producer has memory to write to before the next command reaches it.
    /// `config_kb` is the size and page size that the session requests.
    pub(crate) fn provide_memory(
        &mut self,
        commands: &mut Commands,
        id: ProducerId,
        config_kb: (u32, u32),
    ) {
        let Some(size) = self.existing(id).and_then(|p| p.memory_wanted(config_kb)) else {
            return;
        };
        let may_have = |p: &Producer| p.is_emulated() || self.may_share(p.user(), size.size);
        let fits = self.get(id).is_some_and(may_have);
        let size = if fits { size } else { smb_size::DEFAULT };
        if let Some(producer) = self.existing(id) {
            producer.request_memory(commands, size);
        }
    }

    /// Sends a command to the producer as soon as it can receive it.
    pub(crate) fn command(
        &mut self,
        commands: &mut Commands,
        id: ProducerId,
        command: impl Into<Cmd>,
    ) {
        let message = GetAsyncCommandResponse {
            cmd: Some(command.into()),
            ..Default::default()
        };
        if let Some(producer) = existing(&mut self.table, id) {
            producer.send(commands, &self.quotas, message);
        }
    }

    /// Sends commands in reply to this GetAsyncCommand from now on; an earlier one ends.
    pub(crate) fn open_command_stream(
        &mut self,
        commands: &mut Commands,
        id: ProducerId,
        request_id: Option<u64>,
    ) {
        // A request without a reply opens no stream.
        let (Some(request_id), Some(producer)) = (request_id, self.existing(id)) else {
            return;
        };
        producer.open_stream(commands, request_id);
    }

    /// Allows the producer to write into this buffer.
    pub(crate) fn allow(&mut self, id: ProducerId, buffer: BufferId) {
        if let Some(producer) = self.existing(id) {
            producer.allow(buffer);
        }
    }

    /// Stops all producers from writing into these buffers.
    pub(crate) fn forbid(&mut self, buffers: &[BufferId]) {
        for producer in self.table.values_mut() {
            producer.forbid(buffers);
        }
    }

    pub(crate) fn register_writer(
        &mut self,
        buffers: &mut BufferPool,
        id: ProducerId,
        request: &RegisterTraceWriterRequest,
    ) {
        // Upstream takes the low 16 bits of each number, so that 0x10001 means 1. As in chunks,
        // such numbers are invalid here.
        let writer = WriterId::try_from(request.trace_writer_id.unwrap_or(0));
        let target = BufferId::try_from(request.target_buffer.unwrap_or(0));
        if let (Ok(writer), Ok(target), Some(producer)) = (writer, target, self.existing(id)) {
            producer.register_writer(buffers, writer, target);
        }
    }

    pub(crate) fn unregister_writer(
        &mut self,
        buffers: &mut BufferPool,
        id: ProducerId,
        writer: u32,
    ) {
        if let (Ok(writer), Some(producer)) = (WriterId::try_from(writer), self.existing(id)) {
            producer.unregister_writer(buffers, writer);
        }
    }

    /// Moves and patches the chunks of a connection's producer. Returns the producer; does nothing
    /// and returns `None` if it is not initialised or has no shared memory.
    pub(crate) fn commit_shared(
        &mut self,
        buffers: &mut BufferPool,
        client: ClientId,
        commit: &Commit,
    ) -> Option<ProducerId> {
        let id = self.initialised(client)?;
        let (scratch, discarded) = (&mut self.scratch, &mut self.discarded);
        let producer = self.table.get_mut(&id)?;
        let done = producer.commit_shared(buffers, commit, scratch, discarded);
        done.then_some(id)
    }

    /// Moves and patches chunks. Does nothing and returns false if the producer has no memory to
    /// commit from.
    pub(crate) fn commit(
        &mut self,
        buffers: &mut BufferPool,
        id: ProducerId,
        request: &CommitDataRequest,
    ) -> bool {
        existing(&mut self.table, id).is_some_and(|producer| {
            producer.commit(buffers, request, &mut self.scratch, &mut self.discarded)
        })
    }

    /// Returns the time for which to wait for a confirmation of a producer.
    pub(crate) fn patience(&self, id: ProducerId, awaited: Awaited) -> Patience {
        let producer = self.get(id);
        producer.map_or(Patience::None, |producer| producer.patience(awaited))
    }

    /// Returns a producer's record of confirmations, unless the producer is gone.
    pub(crate) fn acks(&mut self, id: ProducerId) -> Option<&mut Acks> {
        self.table.get_mut(&id).map(Producer::acks)
    }

    /// Notes that a producer missed a confirmation.
    pub(crate) fn miss_ack(&mut self, id: ProducerId, boottime: u64) {
        let Some(producer) = self.table.get_mut(&id) else {
            return;
        };
        producer.acks().miss();
        self.suspects.insert(producer.user(), boottime);
        if self.suspects.len() > MAX_SUSPECTS {
            let oldest = self.suspects.iter().min_by_key(|(_, at)| **at);
            if let Some(oldest) = oldest.map(|(user, _)| *user) {
                self.suspects.remove(&oldest);
            }
        }
    }

    /// Returns the record of confirmations of a new producer.
    fn new_acks(&self, peer: &Peer, boottime: u64) -> Acks {
        let is_trusted = peer.machine_id == 0 && peer.pid.is_some() && peer.pid == self.trusted_pid;
        if is_trusted {
            return Acks::trusted();
        }
        let missed = self.suspects.get(&User::of(peer));
        Acks::new(missed.is_some_and(|at| boottime.saturating_sub(*at) < SUSPECT_NS))
    }

    /// Returns the producers that may have chunks to scrape for these buffers.
    pub(crate) fn to_scrape(&self, wanted: &[BufferId]) -> Vec<ProducerId> {
        let all = self.table.iter();
        let chosen = all.filter(|(_, producer)| producer.is_scraped_for(wanted));
        chosen.map(|(id, _)| *id).collect()
    }

    /// Continues a walk over the memory of a producer. Returns true at its end, or if the producer
    /// is gone.
    pub(crate) fn scrape(
        &mut self,
        pool: &mut BufferPool,
        id: ProducerId,
        wanted: &[BufferId],
        walk: &mut Scrape,
        budget: &mut u64,
    ) -> bool {
        let producer = self.table.get_mut(&id);
        producer.is_none_or(|producer| producer.scrape(pool, wanted, walk, budget))
    }

    /// Removes a producer whose connection has ended. Its committed chunks stay.
    pub(crate) fn remove(&mut self, buffers: &mut BufferPool, id: ProducerId) {
        let Some(producer) = self.table.remove(&id) else {
            return;
        };
        producer.leave(buffers);
    }
}

fn existing(table: &mut BTreeMap<ProducerId, Producer>, id: ProducerId) -> Option<&mut Producer> {
    let producer = table.get_mut(&id);
    debug_assert!(producer.is_some(), "there is no producer {id}");
    producer
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "there is no producer 7")]
    fn a_missing_producer_that_must_exist_panics() {
        let mut producers = Producers::new(&ServiceOptions::default());
        assert!(producers.get(7).is_none());
        producers.allow(7, 1);
    }
}

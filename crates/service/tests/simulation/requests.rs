//! Checks that every request is answered exactly once.

use std::collections::{BTreeMap, BTreeSet};

use ferretto_service::ClientId;

/// The kind of a request, which determines its answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One reply.
    Once,
    /// Several replies, the last of which is marked.
    Several,
    Read,
    /// A reply when the session ends.
    Enable,
    /// The same, but the session was detached meanwhile.
    Detached,
    /// Attaches to the session with this key.
    Attach(u8),
    Detach(u8),
    Clone,
    /// Any number of replies, and a final one if another request replaces it.
    Watch,
}

#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub client: ClientId,
    pub kind: Kind,
}

#[derive(Debug, Default)]
pub struct Requests {
    open: BTreeMap<u64, Asked>,
    closed: BTreeSet<u64>,
}

impl Requests {
    pub fn ask(&mut self, id: u64, client: ClientId, kind: Kind) {
        self.open.insert(id, Asked { client, kind });
    }

    /// Notes a reply, and returns its request.
    pub fn answer(&mut self, id: u64, client: ClientId, has_more: bool) -> Asked {
        assert!(!self.closed.contains(&id), "request {id} is answered again");
        let asked = *self.open.get(&id).expect("a reply to a request");
        assert_eq!(asked.client, client, "request {id} is answered to another");
        let several = matches!(asked.kind, Kind::Several | Kind::Read | Kind::Watch);
        assert!(
            several || !has_more,
            "request {id} has only one answer: {asked:?}"
        );
        if !has_more {
            self.close(id);
        }
        asked
    }

    /// Notes a reply to a producer, some of whose requests are made by the world itself.
    pub fn answer_producer(&mut self, id: u64, client: ClientId) {
        assert!(!self.closed.contains(&id), "request {id} is answered again");
        if let Some(asked) = self.open.get(&id) {
            assert_eq!(asked.client, client, "request {id} is answered to another");
        }
        self.close(id);
    }

    fn close(&mut self, id: u64) {
        self.open.remove(&id);
        self.closed.insert(id);
    }

    /// Notes that the client is gone, so that its requests stay open.
    pub fn forget_client(&mut self, client: ClientId) {
        self.open.retain(|_, asked| asked.client != client);
    }

    /// Notes that the session was detached: its end is reported on this request only if the client
    /// attaches again.
    pub fn detach(&mut self, client: ClientId) {
        let mut open = self.open.values_mut();
        let ends = open.find(|asked| asked.client == client && asked.kind == Kind::Enable);
        if let Some(asked) = ends {
            asked.kind = Kind::Detached;
        }
    }

    pub fn is_open(&self, client: ClientId, wanted: impl Fn(Kind) -> bool) -> bool {
        let mut open = self.open.values();
        open.any(|asked| asked.client == client && wanted(asked.kind))
    }

    /// Fails if a request is open that has to be answered.
    pub fn check(&self, may_stay: &[Kind]) {
        let stuck = self.open.iter().find(|(_, a)| !may_stay.contains(&a.kind));
        assert!(stuck.is_none(), "a request was never answered: {stuck:?}");
    }
}

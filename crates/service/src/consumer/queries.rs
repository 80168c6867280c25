//! QueryServiceState requests of one consumer, and the progress of their answers.

use std::collections::VecDeque;

use crate::ids::{ProducerId, SessionId};
use crate::limits::MAX_STATE_QUERIES;
use crate::registry::OfferPosition;

/// The requests of one consumer, answered one after the other.
#[derive(Debug, Default)]
pub(super) struct StateQueries(VecDeque<StateQuery>);

/// A request for the service's state, with the progress of its answer.
#[derive(Debug)]
pub(crate) struct StateQuery {
    pub(crate) request_id: u64,
    pub(crate) sessions_only: bool,
    pub(crate) next: StateSection,
}

/// The section of the state with which the next reply continues: after the named element, if there
/// is one.
#[derive(Debug)]
pub(crate) enum StateSection {
    Summary,
    Producers(Option<ProducerId>),
    Sessions(Option<SessionId>),
    DataSources(Option<OfferPosition>),
}

impl StateQueries {
    /// Adds a request. Returns false if there are too many.
    pub(super) fn push(&mut self, request_id: u64, sessions_only: bool) -> bool {
        let fits = self.0.len() < MAX_STATE_QUERIES;
        if fits {
            self.0.push_back(StateQuery {
                request_id,
                sessions_only,
                next: StateSection::Summary,
            });
        }
        fits
    }

    pub(super) fn take(&mut self) -> Option<StateQuery> {
        self.0.pop_front()
    }

    /// Puts back a request that is not completely answered.
    pub(super) fn put_back(&mut self, query: StateQuery) {
        self.0.push_front(query);
    }
}

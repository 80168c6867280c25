//! The link to a service, across reconnections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ferretto_client::{Producer, ProducerHandle};

use super::flushes::Flushes;
use crate::backend::BackendKind;

/// The largest number of triggers that wait for a connection.
const MAX_TRIGGERS: usize = 1024;

/// The link to a service, and its state.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) backend: BackendKind,
    pub(super) producer: Producer,
    pub(super) handle: ProducerHandle,
    /// The number of connections so far, which identifies the current one.
    pub(super) connection: u64,
    is_connected: bool,
    /// The last number [asked](Self::ask_round_trip) for and answered, plus one; 0 if it was
    /// [taken](Self::take_round_trip).
    answered: Arc<AtomicU64>,
    flushes: Flushes,
    triggers: Vec<(String, Instant)>,
    /// The number of the next reservation.
    next_reservation: u16,
}

impl Link {
    pub(super) fn new(backend: BackendKind, producer: Producer) -> Self {
        Self {
            backend,
            handle: producer.handle(),
            producer,
            connection: 0,
            is_connected: false,
            answered: Arc::default(),
            flushes: Flushes::default(),
            triggers: Vec::new(),
            next_reservation: 1,
        }
    }

    /// Handles a new connection on which data sources have been registered. `number` is the last
    /// one to be answered.
    pub(super) fn connected(&mut self, number: u64) {
        self.is_connected = true;
        self.ask_round_trip(number);
        let now = Instant::now();
        let triggers = std::mem::take(&mut self.triggers);
        let names: Vec<&str> = triggers
            .iter()
            .filter(|(_, deadline)| *deadline > now)
            .map(|(name, _)| name.as_str())
            .collect();
        if !names.is_empty() {
            self.handle.activate_triggers(&names);
        }
    }

    pub(super) fn disconnected(&mut self) {
        self.is_connected = false;
        self.answered = Arc::default();
        // Flushes that are completed later belong to no connection.
        self.connection += 1;
        self.flushes = Flushes::default();
        self.next_reservation = 1;
    }

    /// Asks the service, if it is connected, to answer when it has processed everything sent
    /// before.
    pub(super) fn ask_round_trip(&mut self, number: u64) {
        if self.is_connected {
            let answered = Arc::clone(&self.answered);
            self.handle.sync(move || {
                answered.fetch_max(number + 1, Ordering::Release);
            });
        }
    }

    /// Takes the number that the service has answered since the last call. Everything that it sent
    /// before was received.
    pub(super) fn take_round_trip(&mut self) -> Option<u64> {
        self.answered.swap(0, Ordering::Acquire).checked_sub(1)
    }

    pub(super) fn begin_flush(&mut self, request: u64, parts: usize) {
        self.flushes.begin(request, parts);
        self.acknowledge();
    }

    pub(super) fn flush_part_done(&mut self, connection: u64, request: u64) {
        if connection == self.connection {
            self.flushes.part_done(request);
            self.acknowledge();
        }
    }

    fn acknowledge(&mut self) {
        if let Some(request) = self.flushes.take_finished() {
            self.handle.flush_done(request);
        }
    }

    /// Activates triggers, or keeps them until there is a connection.
    pub(super) fn trigger(&mut self, names: &[String], deadline: Instant) {
        if self.is_connected {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            self.handle.activate_triggers(&names);
            return;
        }
        for name in names {
            let is_full = self.triggers.len() >= MAX_TRIGGERS;
            match self.triggers.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = deadline.max(*known),
                None if is_full => {}
                None => self.triggers.push((name.clone(), deadline)),
            }
        }
    }

    /// Returns the number of a new reservation for an expected recording.
    pub(super) fn reserve(&mut self) -> Option<u16> {
        let reservation = self.next_reservation;
        self.next_reservation = reservation.checked_add(1)?;
        Some(reservation)
    }
}

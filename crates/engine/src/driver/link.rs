//! One connection to a service, over all the times it is lost and made again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ferretto_client::{Producer, ProducerHandle};

use super::flushes::Flushes;
use crate::backend::BackendKind;

/// Most triggers that wait for a connection.
const MAX_TRIGGERS: usize = 1024;

/// One connection, and what belongs to it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) backend: BackendKind,
    pub(super) producer: Producer,
    pub(super) handle: ProducerHandle,
    /// Which connection this is, counted.
    pub(super) connection: u64,
    is_connected: bool,
    /// What was [asked](Self::settle) and answered last, plus one; 0 if that has been [taken](Self::take_settled).
    settled: Arc<AtomicU64>,
    flushes: Flushes,
    triggers: Vec<(String, Instant)>,
    /// The number of the next recording that is expected.
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
            settled: Arc::default(),
            flushes: Flushes::default(),
            triggers: Vec::new(),
            next_reservation: 1,
        }
    }

    /// There is a connection; data sources have been registered. `number` is the last that was to be settled.
    pub(super) fn connected(&mut self, number: u64) {
        self.is_connected = true;
        self.settle(number);
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
        self.settled = Arc::default();
        // What is completed late belongs to no connection.
        self.connection += 1;
        self.flushes = Flushes::default();
        self.next_reservation = 1;
    }

    /// Asks the service to answer when it has processed everything sent before, if it is there.
    pub(super) fn settle(&mut self, number: u64) {
        if self.is_connected {
            let settled = Arc::clone(&self.settled);
            self.handle.sync(move || {
                settled.fetch_max(number + 1, Ordering::Release);
            });
        }
    }

    /// What the service has answered since this was called last. What it sent before that answer has been received.
    pub(super) fn take_settled(&mut self) -> Option<u64> {
        self.settled.swap(0, Ordering::Acquire).checked_sub(1)
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

    /// Fires triggers now, or keeps them until there is a connection.
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

    /// A number for a recording that is expected.
    pub(super) fn reserve(&mut self) -> Option<u16> {
        let reservation = self.next_reservation;
        self.next_reservation = reservation.checked_add(1)?;
        Some(reservation)
    }
}

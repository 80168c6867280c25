//! Visitors of fields, for arguments, counters, flows and messages.

use std::error::Error;
use std::fmt::{self, Write};

use ferretto::track_event::{Annotation, Arguments, CounterValue};
use ferretto::{Argument, CounterTrack, Flow};
use tracing_core::field::{Field, Visit};

use crate::names::{self, Special};

/// Adds fields to an event as arguments.
pub(crate) struct Attach<'a, 'e>(pub(crate) &'a mut Arguments<'e>);

impl Attach<'_, '_> {
    fn attach(&mut self, field: &Field, is_number: bool, write: impl FnOnce(&mut Annotation<'_>)) {
        let is_argument = match names::special(field.name()) {
            Special::None => !field.name().starts_with("log."),
            Special::Message => false,
            Special::Counter(_) | Special::Flow(..) => !is_number,
        };
        if is_argument {
            self.0.argument_with(field.name(), write);
        }
    }
}

impl Visit for Attach<'_, '_> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.attach(field, true, |annotation| annotation.int(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.attach(field, true, |annotation| annotation.uint(value));
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.attach(field, true, |annotation| value.write(annotation));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.attach(field, true, |annotation| value.write(annotation));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.attach(field, true, |annotation| annotation.double(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.attach(field, false, |annotation| annotation.bool(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.attach(field, false, |annotation| annotation.text(value));
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.attach(field, false, |annotation| annotation.bytes(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.attach(field, false, |annotation| value.write(annotation));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.attach(field, false, |annotation| annotation.debug(value));
    }
}

/// Finds counters and flows.
pub(crate) struct Specials<C> {
    /// Called with each counter.
    pub(crate) counter: C,
    /// The flows; true for those that end.
    pub(crate) flows: Vec<(Flow, bool)>,
}

impl<C: FnMut(CounterTrack<'static>, CounterValue)> Specials<C> {
    fn integer(&mut self, field: &Field, value: i64) {
        match names::special(field.name()) {
            Special::Counter(track) => (self.counter)(track, CounterValue::Integer(value)),
            Special::Flow(scope, ends) => {
                self.flows.push((names::flow_of(scope, value as u64), ends));
            }
            _ => {}
        }
    }
}

impl<C: FnMut(CounterTrack<'static>, CounterValue)> Visit for Specials<C> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.integer(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.integer(field, value as i64);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        if let Special::Counter(track) = names::special(field.name()) {
            (self.counter)(track, CounterValue::Double(value));
        }
    }

    fn record_debug(&mut self, _field: &Field, _value: &dyn fmt::Debug) {}
}

/// Finds the message of an event.
pub(crate) struct Message<'a>(pub(crate) &'a mut String);

impl Visit for Message<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.0.push_str(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // If an implementation fails, its output before the error is kept.
            let _ = write!(self.0, "{value:?}");
        }
    }
}

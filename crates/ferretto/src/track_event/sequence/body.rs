//! The fields of an event.

use ferretto_engine::{EventBuffer, EventEncoder};
use ferretto_proto::fields::{log_message, track_event};

use super::{MAX_COUNTERS, Sequence, When};
use crate::track_event::category::Category;
use crate::track_event::event::{Categories, CounterValue, Event, EventTrack, Kind};
use crate::track_event::fast;
use crate::track_event::field::{Correlation, Field, LogBody, LogMessage};
use crate::track_event::location::Frame;
use crate::track_event::name::Name;
use crate::track_event::value::{Annotation, Argument, Arguments};

/// The replacement for names that a config hides.
const HIDDEN: &str = "FILTERED";

impl Sequence {
    #[inline]
    pub(super) fn write_body(
        &mut self,
        buffer: &mut EventBuffer,
        when: When,
        event: &Event<'_>,
        track: Option<u64>,
    ) {
        self.write_beginning(buffer, when, event, track.is_none());
        if let Some(uuid) = track {
            EventEncoder::new(buffer).varint(track_event::TRACK_UUID, uuid);
        }
        if let Some(value) = event.value {
            self.write_value(buffer, event, value, track);
        }
        for field in event.fields {
            match *field {
                Field::Argument(name, value) => {
                    if !self.filter.hide_arguments {
                        self.write_argument(buffer, name, value);
                    }
                }
                Field::Arguments(add) => {
                    if !self.filter.hide_arguments {
                        add(&mut Arguments::new(buffer, &mut self.interner));
                    }
                }
                Field::Flow(flow) => EventEncoder::new(buffer)
                    .fixed64(track_event::FLOW_IDS, flow.number(self.identity.process)),
                Field::TerminatingFlow(flow) => EventEncoder::new(buffer).fixed64(
                    track_event::TERMINATING_FLOW_IDS,
                    flow.number(self.identity.process),
                ),
                Field::Track(_) | Field::Time(_) => {}
                _ => self.write_rare(buffer, field),
            }
        }
    }

    /// Writes the type, categories and name.
    #[inline]
    fn write_beginning(
        &mut self,
        buffer: &mut EventBuffer,
        when: When,
        event: &Event<'_>,
        is_on_thread: bool,
    ) {
        if self.thread_time.is_none() {
            match (event.categories, event.name) {
                (Categories::Static(category), Some(Name::Static(name))) => {
                    return self.write_header(buffer, event.kind, category, name);
                }
                (Categories::None, None) => {
                    return fast::put_varint::<{ track_event::TYPE }>(buffer, event.kind as u64);
                }
                _ => {}
            }
        }
        self.write_unusual_beginning(buffer, when, event, is_on_thread);
    }

    #[inline]
    fn write_header(
        &mut self,
        buffer: &mut EventBuffer,
        kind: Kind,
        category: &'static Category,
        name: &'static str,
    ) {
        if !self.accelerator.write_header(buffer, kind, category, name) {
            self.write_new_header(buffer, kind, category, name);
        }
    }

    #[cold]
    fn write_new_header(
        &mut self,
        buffer: &mut EventBuffer,
        kind: Kind,
        category: &'static Category,
        name: &'static str,
    ) {
        let start = buffer.written().len();
        EventEncoder::new(buffer).varint(track_event::TYPE, kind as u64);
        self.write_categories(buffer, category);
        let iid = self.interner.name(name);
        EventEncoder::new(buffer).varint(track_event::NAME_IID, iid);
        let encoded = &buffer.written()[start..];
        self.accelerator.remember(kind, category, name, encoded);
    }

    fn write_categories(&mut self, buffer: &mut EventBuffer, category: &'static Category) {
        if category.is_group() {
            for name in category.members() {
                self.write_category(buffer, name);
            }
        } else {
            self.write_category(buffer, category.name());
        }
    }

    #[inline]
    fn write_category(&mut self, buffer: &mut EventBuffer, name: &'static str) {
        let iid = self.interner.category(name);
        EventEncoder::new(buffer).varint(track_event::CATEGORY_IIDS, iid);
    }

    #[cold]
    fn write_unusual_beginning(
        &mut self,
        buffer: &mut EventBuffer,
        when: When,
        event: &Event<'_>,
        is_on_thread: bool,
    ) {
        EventEncoder::new(buffer).varint(track_event::TYPE, event.kind as u64);
        if is_on_thread && let Some(thread_time) = &mut self.thread_time {
            let units = thread_time.take(when.now, self.state.clocks().unit());
            EventEncoder::new(buffer).int(track_event::EXTRA_COUNTER_VALUES, units);
        }
        if let Categories::Static(category) = event.categories {
            self.write_categories(buffer, category);
        }
        match event.name {
            Some(Name::Static(name)) => {
                let number = self.interner.name(name);
                EventEncoder::new(buffer).varint(track_event::NAME_IID, number);
            }
            Some(Name::Dynamic(name)) => {
                let is_hidden = self.filter.hide_dynamic_names;
                let name = if is_hidden { HIDDEN } else { name };
                EventEncoder::new(buffer).string(track_event::NAME, name);
            }
            None => {}
        }
        if let Categories::Dynamic(names) = event.categories
            && !matches!(event.kind, Kind::End | Kind::Counter)
        {
            for name in names.split(',') {
                EventEncoder::new(buffer).string(track_event::CATEGORIES, name);
            }
        }
    }

    #[inline]
    fn write_argument(
        &mut self,
        buffer: &mut EventBuffer,
        name: &'static str,
        value: &dyn Argument,
    ) {
        Arguments::new(buffer, &mut self.interner).argument(name, value);
    }

    /// Writes a counter's value, or its difference from the last value.
    fn write_value(
        &mut self,
        buffer: &mut EventBuffer,
        event: &Event<'_>,
        mut value: CounterValue,
        track: Option<u64>,
    ) {
        if let (EventTrack::Counter(counter), Some(uuid)) = (event.track, track)
            && counter.is_incremental
        {
            value = self.difference(uuid, value);
        }
        let mut out = EventEncoder::new(buffer);
        match value {
            CounterValue::Integer(value) => out.int(track_event::COUNTER_VALUE, value),
            CounterValue::Double(value) => out.double(track_event::DOUBLE_COUNTER_VALUE, value),
        }
    }

    /// Returns the difference between a counter's value and the last value that readers know.
    fn difference(&mut self, uuid: u64, value: CounterValue) -> CounterValue {
        if self.counters.len() >= MAX_COUNTERS && !self.counters.contains_key(&uuid) {
            // The next event restarts the sequence, so that sums stay correct.
            self.state.clear();
        }
        let last = self.counters.get(&uuid).copied();
        let (difference, sum) = match (value, last) {
            (CounterValue::Integer(value), Some(CounterValue::Integer(last))) => (
                CounterValue::Integer(value.wrapping_sub(last)),
                CounterValue::Integer(value),
            ),
            (CounterValue::Double(value), Some(CounterValue::Double(last))) => {
                // The sum that readers compute. Rounding can make it differ from the value.
                let difference = value - last;
                let sum = CounterValue::Double(last + difference);
                (CounterValue::Double(difference), sum)
            }
            _ => (value, value),
        };
        self.counters.insert(uuid, sum);
        difference
    }

    #[cold]
    fn write_rare(&mut self, buffer: &mut EventBuffer, field: &Field<'_>) {
        let mut out = EventEncoder::new(buffer);
        match *field {
            Field::DynamicArgument(name, value) => {
                if !self.filter.hide_arguments {
                    self.write_dynamic_argument(buffer, name, value);
                }
            }
            Field::Correlation(Correlation::Number(id)) => {
                out.varint(track_event::CORRELATION_ID, id);
            }
            Field::Correlation(Correlation::Static(text)) => {
                let number = self.interner.correlation(text);
                out.varint(track_event::CORRELATION_ID_STR_IID, number);
            }
            Field::Correlation(Correlation::Dynamic(text)) => {
                out.string(track_event::CORRELATION_ID_STR, text);
            }
            Field::Callstack(frames) => write_callstack(&mut out, frames),
            Field::InternedCallstack(frames) => {
                let number = self.interner.callstack(frames);
                out.varint(track_event::CALLSTACK_IID, number);
            }
            Field::CallstackWeight(weight) => out.double(track_event::CALLSTACK_WEIGHT, weight),
            Field::Log(message) => self.write_log(buffer, message),
            Field::Location(location) => {
                let number = self.interner.location(location);
                out.varint(track_event::SOURCE_LOCATION_IID, number);
            }
            Field::Extension(write) => write(&mut out),
            Field::Raw(fields) => out.raw(fields),
            Field::Argument(..)
            | Field::Arguments(_)
            | Field::Flow(_)
            | Field::TerminatingFlow(_)
            | Field::Track(_)
            | Field::Time(_) => {}
        }
    }

    fn write_dynamic_argument(
        &mut self,
        buffer: &mut EventBuffer,
        name: &str,
        value: &dyn Argument,
    ) {
        use ferretto_proto::fields::debug_annotation;

        let mut event = EventEncoder::new(buffer);
        let annotation = event.begin_nested(track_event::DEBUG_ANNOTATIONS);
        event.string(debug_annotation::NAME, name);
        value.write(&mut Annotation::new(&mut event, &mut self.interner));
        event.end_nested(annotation);
    }

    fn write_log(&mut self, buffer: &mut EventBuffer, message: LogMessage<'_>) {
        let location = message
            .location
            .map(|location| self.interner.location(location));
        let body = match message.body {
            LogBody::Static(text) => self.interner.log_body(text),
            LogBody::Dynamic(text) => self.interner.new_log_body(text),
        };
        EventEncoder::new(buffer).nested(track_event::LOG_MESSAGE, |log| {
            if let Some(location) = location {
                log.varint(log_message::SOURCE_LOCATION_IID, location);
            }
            log.varint(log_message::BODY_IID, body);
            log.varint(log_message::PRIO, message.priority as u64);
        });
    }
}

fn write_callstack(out: &mut EventEncoder<'_>, frames: &[Frame<'_>]) {
    use track_event::inline_callstack::{FRAMES, frame};

    out.nested(track_event::CALLSTACK, |callstack| {
        for frame in frames {
            callstack.nested(FRAMES, |out| {
                out.string(frame::FUNCTION_NAME, frame.function);
                if !frame.file.is_empty() {
                    out.string(frame::SOURCE_FILE, frame.file);
                }
                if frame.line != 0 {
                    out.varint(frame::LINE_NUMBER, frame.line.into());
                }
            });
        }
    });
}

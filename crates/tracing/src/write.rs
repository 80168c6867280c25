//! Writing of slices and instants.

use ferretto::track_event::{
    Arguments, Field, Kind, Listeners, LogMessage, Name, SourceLocation, emit,
};
use ferretto::{Category, Flow, Track};
use tracing_core::Event;

use crate::callsites::Callsite;
use crate::spans::{FEW, NUMBER_LENGTH, Shared, Stored, Value};
use crate::visit::Attach;

/// A placeholder for a field.
const NOTHING: (&str, Value<'_>) = ("", Value::Text(&[]));

/// A slice of a span.
pub(crate) struct Slice<'a> {
    callsite: &'static Callsite,
    track: Option<&'a Track<'a>>,
}

impl<'a> Slice<'a> {
    /// Creates a slice on the track of the thread.
    pub(crate) fn on_thread(callsite: &'static Callsite) -> Self {
        Self {
            callsite,
            track: None,
        }
    }

    /// Creates a slice on its own track.
    pub(crate) fn on_track(callsite: &'static Callsite, track: &'a Track<'a>) -> Self {
        Self {
            callsite,
            track: Some(track),
        }
    }

    /// Writes the begin event.
    pub(crate) fn begin(&self, listeners: Listeners, stored: &mut Stored) {
        let (category, name) = (self.callsite.category, self.callsite.metadata.name());
        let more = More {
            flows: std::mem::take(&mut stored.flows),
            own: stored.own_flow,
            location: self.callsite.location,
        };
        self.write(stored, 0, &more, |fields| {
            listeners.begin_with(category, name, fields);
        });
    }

    /// Writes the end event, with the values after the first `from` bytes.
    pub(crate) fn end(&self, stored: &mut Stored, from: usize) {
        let more = More {
            flows: std::mem::take(&mut stored.flows),
            ..More::default()
        };
        self.write(stored, from, &more, |fields| {
            emit(self.callsite.category, Kind::End, None, fields);
        });
    }

    /// Calls `emit` with the stored values and the other parts.
    fn write(&self, stored: &Stored, from: usize, more: &More, emit: impl FnOnce(&[Field<'_>])) {
        let metadata = self.callsite.metadata;
        let is_plain = more.is_empty() && self.track.is_none();
        let mut few = [NOTHING; FEW];
        if is_plain && let Some(count) = stored.few(metadata, from, &mut few) {
            return emit(&arguments(&few)[..count]);
        }
        let write = |arguments: &mut Arguments<'_>| stored.write(metadata, from, arguments);
        let arguments = Field::Arguments(&write);
        if is_plain {
            return emit(&[arguments]);
        }
        let mut fields = vec![arguments];
        fields.extend(self.track.map(Field::Track));
        fields.extend(more.location.map(Field::Location));
        fields.extend(more.own.map(Field::Flow));
        fields.extend(more.flows.iter().map(flow));
        emit(&fields)
    }
}

/// The parts of a slice other than values.
#[derive(Default)]
struct More {
    flows: Vec<(Flow, bool)>,
    own: Option<Flow>,
    location: Option<&'static SourceLocation>,
}

impl More {
    fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.own.is_none() && self.location.is_none()
    }
}

#[inline]
fn arguments<'a>(values: &'a [(&'static str, Value<'_>); FEW]) -> [Field<'a>; FEW] {
    let fields = values.each_ref();
    fields.map(|(name, value)| Field::Argument(name, value))
}

/// Writes the begin event of a slice on the thread's track that only has numbers. Returns the
/// number of bytes that these take among the values of a span, or 0 if they were moved.
#[inline]
pub(crate) fn begin_with(
    listeners: Listeners,
    callsite: &'static Callsite,
    numbers: &Shared,
) -> usize {
    let Some((index, tag, bits)) = numbers.single() else {
        return begin_with_some(listeners, callsite, numbers);
    };
    let value = Value::Number(tag, bits);
    let field = Field::Argument(callsite.field(index), &value);
    listeners.begin_with(callsite.category, callsite.metadata.name(), &[field]);
    NUMBER_LENGTH
}

#[inline(never)]
fn begin_with_some(listeners: Listeners, callsite: &'static Callsite, numbers: &Shared) -> usize {
    let mut values = [NOTHING; FEW];
    let mut count = 0;
    for (value, (index, tag, bits)) in values.iter_mut().zip(numbers.iter()) {
        *value = (callsite.field(index), Value::Number(tag, bits));
        count += 1;
    }
    if count > 0 {
        let fields = &arguments(&values)[..count];
        listeners.begin_with(callsite.category, callsite.metadata.name(), fields);
    }
    count * NUMBER_LENGTH
}

fn flow<'a>(&(flow, ends): &(Flow, bool)) -> Field<'a> {
    if ends {
        Field::TerminatingFlow(flow)
    } else {
        Field::Flow(flow)
    }
}

/// An event.
pub(crate) struct Instant<'a> {
    pub(crate) callsite: &'a Callsite,
    pub(crate) category: &'static Category,
    pub(crate) text: &'a str,
    pub(crate) flows: &'a [(Flow, bool)],
    pub(crate) track: Option<Track<'a>>,
    pub(crate) is_log: bool,
}

impl Instant<'_> {
    pub(crate) fn write(&self, event: &Event<'_>) {
        let write = |arguments: &mut Arguments<'_>| event.record(&mut Attach(arguments));
        let name = match self.text {
            "" => Name::Static(event.metadata().name()),
            text => Name::Dynamic(text),
        };
        let level = Field::Argument("level", &self.callsite.level);
        let is_usual = self.flows.is_empty() && self.track.is_none() && !self.is_log;
        if is_usual && self.callsite.location.is_none() {
            let fields = [level, Field::Arguments(&write)];
            let fields = if self.callsite.has_plain {
                &fields[..]
            } else {
                &fields[..1]
            };
            return emit(self.category, Kind::Instant, Some(name), fields);
        }
        let mut fields = vec![level, Field::Arguments(&write)];
        fields.extend(self.track.as_ref().map(Field::Track));
        fields.extend(self.callsite.location.map(Field::Location));
        fields.extend(self.flows.iter().map(flow));
        if self.is_log {
            let message = LogMessage::new(self.callsite.priority, self.text);
            fields.push(Field::Log(match self.callsite.location {
                Some(location) => message.at(location),
                None => message,
            }));
        }
        emit(self.category, Kind::Instant, Some(name), &fields);
    }
}

//! Slices and instants, written.

use ferretto::track_event::{Arguments, Field, Kind, LogMessage, Name, emit};
use ferretto::{Category, Flow, Track};
use tracing_core::Event;

use crate::sites::Site;
use crate::stored::{Stored, Value};
use crate::visit::Attach;

/// So many values are handed over one by one, which is quickest for numbers.
const FEW: usize = 4;

/// A slice of a span.
pub(crate) struct Slice<'a> {
    site: &'static Site,
    track: Option<&'a Track<'a>>,
}

impl<'a> Slice<'a> {
    /// On the track of the thread.
    pub(crate) fn on_thread(site: &'static Site) -> Self {
        Self { site, track: None }
    }

    /// On a track of its own.
    pub(crate) fn on_track(site: &'static Site, track: &'a Track<'a>) -> Self {
        Self {
            site,
            track: Some(track),
        }
    }

    /// Writes the beginning; returns how much of the values it has.
    pub(crate) fn begin(&self, stored: &mut Stored) -> usize {
        let flows = std::mem::take(&mut stored.flows);
        self.write(Kind::Begin, stored, 0, &flows, stored.own_flow);
        stored.len()
    }

    /// Writes the beginning of one that has no values.
    pub(crate) fn begin_without(&self) -> usize {
        self.begin(&mut Stored::default())
    }

    /// Writes the end, with the values behind the first `from` bytes.
    pub(crate) fn end(&self, stored: &mut Stored, from: usize) {
        let flows = std::mem::take(&mut stored.flows);
        self.write(Kind::End, stored, from, &flows, None);
    }

    fn write(
        &self,
        kind: Kind,
        stored: &Stored,
        from: usize,
        flows: &[(Flow, bool)],
        own: Option<Flow>,
    ) {
        let metadata = self.site.metadata;
        let is_plain = flows.is_empty() && own.is_none() && self.track.is_none();
        let location = self.site.location.filter(|_| kind == Kind::Begin);
        let name = (kind == Kind::Begin).then(|| Name::Static(metadata.name()));
        let mut few = [("", Value::Bool(false)); FEW];
        if is_plain
            && location.is_none()
            && let Some(count) = stored.few(metadata, from, &mut few)
        {
            let fields = few
                .each_ref()
                .map(|(name, value)| Field::Argument(name, value));
            return emit(self.site.category, kind, name, &fields[..count]);
        }
        let write = |arguments: &mut Arguments<'_>| stored.write(metadata, from, arguments);
        let arguments = Field::Arguments(&write);
        if is_plain && location.is_none() {
            return emit(self.site.category, kind, name, &[arguments]);
        }
        let mut fields = vec![arguments];
        fields.extend(self.track.map(Field::Track));
        fields.extend(location.map(Field::Location));
        fields.extend(own.map(Field::Flow));
        fields.extend(flows.iter().map(flow));
        emit(self.site.category, kind, name, &fields);
    }
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
    pub(crate) site: &'a Site,
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
        let level = Field::Argument("level", &self.site.level);
        let is_usual = self.flows.is_empty() && self.track.is_none() && !self.is_log;
        if is_usual && self.site.location.is_none() {
            let fields = [level, Field::Arguments(&write)];
            let fields = if self.site.has_plain {
                &fields[..]
            } else {
                &fields[..1]
            };
            return emit(self.category, Kind::Instant, Some(name), fields);
        }
        let mut fields = vec![level, Field::Arguments(&write)];
        fields.extend(self.track.as_ref().map(Field::Track));
        fields.extend(self.site.location.map(Field::Location));
        fields.extend(self.flows.iter().map(flow));
        if self.is_log {
            let message = LogMessage::new(self.site.priority, self.text);
            fields.push(Field::Log(match self.site.location {
                Some(location) => message.at(location),
                None => message,
            }));
        }
        emit(self.category, Kind::Instant, Some(name), &fields);
    }
}

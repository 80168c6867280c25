//! Events with their own descriptors, which the schema does not contain.

use ferretto_format::ProbeEvent;
use ferretto_proto::fields::{
    descriptor_proto as descriptor, field_descriptor_proto as described,
    ftrace_event_bundle::generic_event_descriptor as field, generic_ftrace_event as legacy,
};
use ferretto_text::schema::Kind;
use ferretto_wire::{Field, Fields, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::args::arg;
use super::functions;
use super::{Context, Head};
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, EventKind, TrackSpec};

/// The first number of events with their own descriptors.
const FIRST: u32 = 65536;
/// The maximum number of such events.
const MAX_EVENTS: usize = 1 << 14;
/// The maximum number of fields of an event.
const MAX_FIELDS: u32 = 32;

/// The described events, by number.
#[derive(Debug, Default)]
pub(super) struct Generic {
    events: FxHashMap<u32, Described>,
    /// The functions whose returns are recorded, with the group of the events.
    returns: FxHashSet<(StringId, StringId)>,
}

#[derive(Debug)]
struct Described {
    name: StringId,
    /// The fields by number.
    fields: Vec<Option<(StringId, Kind)>>,
    template: Option<Template>,
    /// The function of an event of a probe.
    probe: Option<Probe>,
}

/// The call of a function, or the return from it.
#[derive(Debug, Clone, Copy)]
struct Probe {
    group: StringId,
    function: StringId,
    is_return: bool,
}

/// The fields of an event that is a slice or a counter, identified by their names.
#[derive(Debug, Clone, Copy)]
struct Template {
    what: What,
    track_name: Option<u32>,
    scope: Scope,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Slice { phase: u32, name: u32 },
    Counter { value: u32 },
}

/// The object that has the track, and the field with its id.
#[derive(Debug, Clone, Copy)]
enum Scope {
    Thread,
    Process(u32),
    Cpu(u32),
    Custom(u32),
}

impl Scope {
    fn type_of(self, kind: EventKind) -> &'static str {
        match (self, kind) {
            (Self::Thread, EventKind::Counter) => "kernel_trackevent_thread_counter",
            (Self::Thread, _) => "kernel_trackevent_thread_slice",
            (Self::Process(_), EventKind::Counter) => "kernel_trackevent_process_counter",
            (Self::Process(_), _) => "kernel_trackevent_process_slice",
            (Self::Cpu(_), EventKind::Counter) => "kernel_trackevent_cpu_counter",
            (Self::Cpu(_), _) => "kernel_trackevent_cpu_slice",
            (Self::Custom(_), EventKind::Counter) => "kernel_trackevent_custom_counter",
            (Self::Custom(_), _) => "kernel_trackevent_custom_slice",
        }
    }
}

impl Generic {
    /// Returns true if events with this number have their own descriptors.
    pub(super) fn is_generic(number: u32) -> bool {
        number >= FIRST
    }

    /// Reads a `GenericEventDescriptor`.
    pub(super) fn describe(&mut self, cx: &mut Context, bytes: &[u8]) {
        let head = Message::<4>::read(bytes);
        let number = head.u32(field::FIELD_ID);
        if self.events.contains_key(&number) || self.events.len() >= MAX_EVENTS {
            return;
        }
        let group = cx.store.strings.intern_bytes(head.bytes(field::GROUP_NAME));
        match Described::read(cx, group, head.bytes(field::EVENT_DESCRIPTOR)) {
            Some(described) => {
                if let Some(probe) = described.probe.filter(|probe| probe.is_return) {
                    self.returns.insert((probe.group, probe.function));
                }
                self.events.insert(number, described);
            }
            None => error(cx, Stat::ftrace_generic_descriptor_errors),
        }
    }

    /// Collects the fields of an event, and returns its name; `None` if it has no descriptor.
    pub(super) fn args(
        &self,
        cx: &mut Context,
        number: u32,
        body: &[u8],
        args: &mut ArgSet,
    ) -> Option<StringId> {
        let Some(event) = self.events.get(&number) else {
            error(cx, Stat::ftrace_generic_descriptor_errors);
            return None;
        };
        for Field { number, value } in Fields::new(body).map_while(Result::ok) {
            match event.fields.get(number as usize) {
                Some(Some((name, kind))) => {
                    if let Some(value) = arg(&mut cx.store, *kind, value) {
                        args.add(*name, *name, value);
                    }
                }
                _ => error(cx, Stat::ftrace_generic_descriptor_errors),
            }
        }
        Some(event.name)
    }

    /// Collects the fields of an event of an older recording, and returns its name.
    pub(super) fn legacy(
        &self,
        cx: &mut Context,
        body: &[u8],
        args: &mut ArgSet,
    ) -> Option<StringId> {
        use legacy::field;
        let mut name = StringId::EMPTY;
        for part in Fields::new(body).map_while(Result::ok) {
            match (part.number, part.value) {
                (legacy::EVENT_NAME, Value::Bytes(text)) => {
                    name = cx.store.strings.intern_bytes(text);
                }
                (legacy::FIELD, Value::Bytes(bytes)) => {
                    let part = Message::<6>::read(bytes);
                    let key = cx.store.strings.intern_bytes(part.bytes(field::NAME));
                    let numbers = [field::INT_VALUE, field::UINT_VALUE];
                    let number = numbers.into_iter().find(|number| part.has(*number));
                    let value = match number {
                        Some(number) => ArgValue::Int(part.int(number)),
                        None if part.has(field::STR_VALUE) => {
                            let text = part.bytes(field::STR_VALUE);
                            ArgValue::Text(cx.store.strings.intern_bytes(text))
                        }
                        None => continue,
                    };
                    args.add(key, key, value);
                }
                _ => {}
            }
        }
        Some(name)
    }

    /// Parses an event that is a slice or a counter by the names of its fields, or the call or the
    /// return of a function.
    pub(super) fn track_event(&self, cx: &mut Context, head: &Head<'_>, number: u32, body: &[u8]) {
        let event = self.events.get(&number);
        if let Some(probe) = event.and_then(|event| event.probe) {
            // The end of a call without a probe of its return is unknown.
            let has_return = self.returns.contains(&(probe.group, probe.function));
            if probe.is_return {
                functions::returned(cx, head, probe.function);
            } else if has_return {
                functions::called(cx, head, probe.function);
            }
            return;
        }
        let Some((event, template)) = event.and_then(|event| Some((event, event.template?))) else {
            return;
        };
        if template.apply(cx, head, event.name, body).is_none() {
            error(cx, Stat::kernel_trackevent_format_error);
        }
    }
}

fn error(cx: &mut Context, stat: Stat) {
    cx.store.stats.add(stat, 1);
}

impl Described {
    fn read(cx: &mut Context, group: StringId, bytes: &[u8]) -> Option<Self> {
        let (mut name, mut fields) = (StringId::EMPTY, Vec::new());
        for part in Fields::new(bytes).map_while(Result::ok) {
            match (part.number, part.value) {
                (descriptor::NAME, Value::Bytes(text)) => {
                    name = cx.store.strings.intern_bytes(text);
                }
                (descriptor::FIELD, Value::Bytes(bytes)) => {
                    let part = Message::<11>::read(bytes);
                    let number = part.u32(described::NUMBER);
                    let kind = Kind::scalar(part.uint(described::TYPE))?;
                    if number >= MAX_FIELDS {
                        return None;
                    }
                    let index = number as usize;
                    if fields.len() <= index {
                        fields.resize(index + 1, None);
                    }
                    let name = part.bytes(described::NAME);
                    fields[index] = Some((cx.store.strings.intern_bytes(name), kind));
                }
                _ => {}
            }
        }
        let template = Template::find(cx, &fields);
        let probe = ProbeEvent::read(bytes).map(|probe| Probe {
            group,
            function: cx.store.strings.intern(&probe.function),
            is_return: probe.is_return,
        });
        Some(Self {
            probe,
            name,
            fields,
            template,
        })
    }
}

impl Template {
    fn find(cx: &Context, fields: &[Option<(StringId, Kind)>]) -> Option<Self> {
        let (mut phase, mut name, mut value, mut track_name) = (None, None, None, None);
        let mut scope = Scope::Thread;
        for (number, field) in (0_u32..).zip(fields) {
            let Some((key, kind)) = field else { continue };
            let is_number = matches!(
                kind,
                Kind::Int64 | Kind::Uint64 | Kind::Int32 | Kind::Uint32
            );
            match (cx.store.strings.text(*key), is_number) {
                ("track_event_type", true) => phase = Some(number),
                ("slice_name", false) => name = Some(number),
                ("track_name", false) => track_name = Some(number),
                ("counter_value", true) => value = Some(number),
                ("scope_tgid", true) => scope = Scope::Process(number),
                ("scope_cpu", true) => scope = Scope::Cpu(number),
                (key, true) if key.starts_with("scope_") => scope = Scope::Custom(number),
                _ => {}
            }
        }
        let what = match (phase, name, value) {
            (Some(phase), Some(name), _) => What::Slice { phase, name },
            (_, _, Some(value)) => What::Counter { value },
            _ => return None,
        };
        Some(Self {
            what,
            track_name,
            scope,
        })
    }

    /// Adds a slice or a value; `None` if a field is missing.
    fn apply(self, cx: &mut Context, head: &Head<'_>, event: StringId, body: &[u8]) -> Option<()> {
        let fields = Message::<{ MAX_FIELDS as usize }>::read(body);
        let number = |field| fields.has(field).then(|| fields.int(field));
        let text = |cx: &mut Context, field| {
            let text = fields.has(field).then(|| fields.bytes(field))?;
            Some(cx.store.strings.intern_bytes(text))
        };
        let name = match self.track_name {
            Some(field) => text(cx, field)?,
            None => event,
        };
        let first = match self.scope {
            Scope::Thread => Dimension::Utid(cx.processes.thread(&mut cx.store, head.tid)),
            Scope::Process(field) => {
                let pid = number(field)?;
                Dimension::Upid(cx.processes.process(&mut cx.store, pid))
            }
            Scope::Cpu(field) => Dimension::Cpu(number(field)? as u32),
            Scope::Custom(field) => Dimension::Int("scope", number(field)?),
        };
        let dimensions = [
            first,
            Dimension::Text("tracepoint", event),
            Dimension::Text("name", name),
        ];
        let kind = match self.what {
            What::Slice { .. } => EventKind::Slice,
            What::Counter { .. } => EventKind::Counter,
        };
        let spec = TrackSpec {
            kind,
            ..TrackSpec::slices(self.scope.type_of(kind), &dimensions).named(name)
        };
        let mut args = ArgSet::default();
        match self.what {
            What::Counter { value } => {
                let value = number(value)? as f64;
                let track = cx.tracks.intern(&mut cx.store, spec);
                cx.counters
                    .add(&mut cx.store, head.ts, track, value, &mut args);
            }
            What::Slice { phase, name } => {
                let (phase, name) = (number(phase)?, text(cx, name)?);
                let track = cx.tracks.intern(&mut cx.store, spec);
                let start = SliceStart {
                    ts: head.ts,
                    track,
                    category: StringId::NULL,
                    name,
                };
                let slices = &mut cx.slices;
                match phase as u8 {
                    b'B' => slices.begin(&mut cx.store, start, &mut args),
                    b'I' => slices.complete(&mut cx.store, start, 0, &mut args),
                    b'E' => {
                        let any = (StringId::NULL, StringId::NULL);
                        slices.end(&mut cx.store, head.ts, track, any, &mut args)
                    }
                    _ => return None,
                };
            }
        }
        Some(())
    }
}

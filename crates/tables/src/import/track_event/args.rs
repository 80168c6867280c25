//! Arguments of track events.

use ferretto_format::track_event::{
    Annotation as Encoded, AnnotationValue, NestedValue, Scalar, Text, TrackEvent,
};
use ferretto_proto::fields::{
    interned_data, log_message, source_location, task_execution, track_event as field,
};
use ferretto_wire::Fields;
use rustc_hash::FxHashMap;

use super::super::context::{Context, EventState};
use super::super::profiles::{Profiles, inline_callstack};
use super::super::reflect::{Keys, Reflection};
use super::resolved::Annotation;
use crate::schema::{ArgValue, LogsRow};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;

/// The first number of extensions of `TrackEvent`.
const FIRST_EXTENSION: u32 = 1000;
/// The maximum depth of nested values.
const MAX_DEPTH: usize = 64;
/// Reads arguments of track events.
#[derive(Debug, Default)]
pub(super) struct ArgsReader {
    keys: Keys,
    /// The keys of annotations by name.
    debug_keys: FxHashMap<StringId, StringId>,
    /// The first names of events with an id, by owner and id.
    first_names: FxHashMap<(Option<u32>, i64), StringId>,
    reflection: Reflection,
    inline_mapping: Option<u32>,
}

/// The context of the arguments of an event.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) ts: i64,
    pub(super) utid: Option<u32>,
    pub(super) upid: Option<u32>,
    pub(super) source_id: Option<i64>,
    pub(super) passthrough: Option<u32>,
    /// The annotations of the event, if they were decoded ahead.
    pub(super) annotations: Option<&'a [Annotation]>,
    /// The size of the encoded event in bytes.
    pub(super) size: usize,
}

/// The error of an argument that is dropped.
#[derive(Debug)]
struct Fault;

impl ArgsReader {
    /// Reads an `ExtensionDescriptor`.
    pub(super) fn extension(&mut self, bytes: &[u8]) {
        self.reflection.extension(bytes);
    }

    /// Returns the first name of events with this id.
    pub(super) fn first_name(&mut self, owner: Option<u32>, id: i64, name: StringId) -> StringId {
        *self.first_names.entry((owner, id)).or_insert(name)
    }

    /// Collects the arguments of an event, and returns its callstack.
    pub(super) fn read(
        &mut self,
        cx: &mut Context,
        event: &TrackEvent<'_>,
        state: EventState<'_>,
        around: &Surroundings<'_>,
        stacks: &mut Profiles,
        args: &mut ArgSet,
    ) -> Option<u32> {
        self.keys.start(around.size);
        let mut callsite = None;
        let wants_args = cx.store.wants_all_args();
        let mut has_reflected = false;
        if event.has_other_fields || event.has_callstack {
            for part in event.fields() {
                let bytes = part.as_bytes().unwrap_or_default();
                let number = part.as_u64().unwrap_or(0);
                let result = match part.number {
                    field::SOURCE_LOCATION_IID => location(cx, state, number, &LOCATION_KEYS, args),
                    field::TASK_EXECUTION => {
                        let iid = Fields::find(task_execution::POSTED_FROM_IID, bytes)
                            .and_then(|iid| iid.as_u64());
                        location(cx, state, iid.unwrap_or(0), &TASK_KEYS, args)
                    }
                    field::LOG_MESSAGE => log_line(cx, state, bytes, around, args),
                    field::CHROME_HISTOGRAM_SAMPLE => histogram(cx, state, bytes, args),
                    field::CORRELATION_ID => {
                        let text = format!("tp:#{number}");
                        args.text(&mut cx.store, "correlation_id", &text);
                        Ok(())
                    }
                    field::CORRELATION_ID_STR => {
                        let text = ArgValue::Text(cx.store.strings.intern_bytes(bytes));
                        args.put(&mut cx.store, "correlation_id", text);
                        Ok(())
                    }
                    field::CORRELATION_ID_STR_IID => {
                        let table = interned_data::CORRELATION_ID_STR;
                        if let Some(text) = state.text(table, number) {
                            args.put(&mut cx.store, "correlation_id", ArgValue::Text(text));
                        }
                        Ok(())
                    }
                    field::CALLSTACK => {
                        callsite = self.inline_callstack(cx, bytes).or(callsite);
                        Ok(())
                    }
                    field::CALLSTACK_IID => {
                        callsite = stacks.callstack(cx, state, around.upid, number);
                        if callsite.is_some() {
                            Ok(())
                        } else {
                            Err(Fault)
                        }
                    }
                    field::SOURCE_LOCATION
                    | field::CC_SCHEDULER_STATE
                    | field::CHROME_USER_EVENT
                    | field::CHROME_KEYED_SERVICE
                    | field::CHROME_LEGACY_IPC
                    | field::CHROME_LATENCY_INFO
                    | field::CHROME_FRAME_REPORTER
                    | field::CHROME_APPLICATION_STATE_INFO
                    | field::CHROME_RENDERER_SCHEDULER_STATE
                    | field::CHROME_WINDOW_HANDLE_EVENT_INFO
                    | field::CHROME_CONTENT_SETTINGS_EVENT_INFO
                    | field::CHROME_ACTIVE_PROCESSES
                    | field::CHROME_MESSAGE_PUMP
                    | field::CHROME_MOJO_EVENT_INFO
                    | FIRST_EXTENSION.. => {
                        has_reflected = true;
                        Ok(())
                    }
                    _ => Ok(()),
                };
                has_reflected |= part.number == field::CHROME_HISTOGRAM_SAMPLE;
                if result.is_err() {
                    cx.store.stats.add(Stat::track_event_parser_errors, 1);
                }
            }
        }
        if let Some(id) = around.source_id {
            args.int(&mut cx.store, "legacy_trace_source_id", id);
        }
        if has_reflected && wants_args {
            let unknown = self
                .reflection
                .track_event(cx, event.bytes, &mut self.keys, args);
            if unknown > 0 {
                cx.store.stats.add(Stat::unknown_extension_fields, unknown);
            }
            cx.translations.add_names(&mut cx.store, args);
        }
        if let (Some(annotations), true) = (around.annotations, wants_args) {
            for (name, value) in annotations {
                let key = self.debug_key(cx, *name);
                args.add(key, key, *value);
            }
        } else if event.has_annotations && wants_args {
            for bytes in event.annotations() {
                if self.annotation(cx, state, bytes, args).is_err() {
                    cx.store.stats.add(Stat::track_event_parser_errors, 1);
                }
            }
        }
        if let Some(utid) = around.passthrough {
            let strings = &mut cx.store.strings;
            let key = strings.intern("legacy_event.passthrough_utid");
            if args.get(key).is_none() {
                args.add(key, key, ArgValue::Uint(utid.into()));
            }
        }
        callsite
    }

    /// Returns the key of an annotation with this name.
    #[inline]
    fn debug_key(&mut self, cx: &mut Context, name: StringId) -> StringId {
        let strings = &mut cx.store.strings;
        *self.debug_keys.entry(name).or_insert_with(|| {
            let text = format!("debug.{}", clean(strings.text(name)));
            strings.intern(&text)
        })
    }

    /// Reads a `DebugAnnotation` of an event.
    fn annotation(
        &mut self,
        cx: &mut Context,
        state: EventState<'_>,
        bytes: &[u8],
        args: &mut ArgSet,
    ) -> Result<(), Fault> {
        let annotation = Encoded::read(bytes);
        let name = name(cx, state, annotation.name)?;
        if let AnnotationValue::Scalar(value) = annotation.value {
            let value = scalar(cx, state, value)?;
            let key = self.debug_key(cx, name);
            args.add(key, key, value);
            return Ok(());
        }
        self.keys.clear();
        self.keys.push("debug");
        let text = clean(cx.store.strings.text(name));
        self.keys.push(&text);
        self.value(cx, state, annotation.value, 0, args).map(|_| ())
    }

    /// Reads the value of an annotation under the current keys. Returns true if it has values.
    fn value(
        &mut self,
        cx: &mut Context,
        state: EventState<'_>,
        value: AnnotationValue<'_>,
        depth: usize,
        args: &mut ArgSet,
    ) -> Result<bool, Fault> {
        if depth > MAX_DEPTH {
            return Err(Fault);
        }
        let mut has_any = false;
        match value {
            AnnotationValue::None => {}
            AnnotationValue::Dict(entries) => {
                for bytes in entries {
                    let child = Encoded::read(bytes);
                    let name = name(cx, state, child.name)?;
                    let text = clean(cx.store.strings.text(name));
                    let mark = self.keys.push(&text);
                    let result = self.value(cx, state, child.value, depth + 1, args);
                    self.keys.pop(mark);
                    has_any |= result?;
                }
            }
            AnnotationValue::Array(elements) => {
                let array = self.keys.id(&mut cx.store).ok_or(Fault)?;
                let mut index = args.array_length(array);
                for bytes in elements {
                    let child = Encoded::read(bytes);
                    let mark = self.keys.push_index(index);
                    let result = self.value(cx, state, child.value, depth + 1, args);
                    self.keys.pop(mark);
                    if result? {
                        index += 1;
                        args.lengthen_array(array);
                        has_any = true;
                    }
                }
            }
            AnnotationValue::Scalar(value) => {
                let value = scalar(cx, state, value)?;
                self.keys.add(&mut cx.store, value, args);
                has_any = true;
            }
            AnnotationValue::Json(json) => {
                has_any = self.keys.add_json(&mut cx.store, json, args);
            }
            AnnotationValue::Message(type_name, bytes) => {
                let table = interned_data::DEBUG_ANNOTATION_VALUE_TYPE_NAMES;
                let type_name = resolve(cx, state, table, type_name.ok_or(Fault)?)?;
                let type_name = cx.store.strings.text(type_name).to_owned();
                let keys = &mut self.keys;
                if !self.reflection.message(cx, &type_name, bytes, keys, args) {
                    return Err(Fault);
                }
                has_any = true;
            }
            AnnotationValue::Nested(nested) => {
                has_any = self.nested_value(cx, nested, depth, args);
            }
        }
        Ok(has_any)
    }

    /// Reads a `NestedValue` of old traces.
    fn nested_value(
        &mut self,
        cx: &mut Context,
        bytes: &[u8],
        depth: usize,
        args: &mut ArgSet,
    ) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        let mut has_any = false;
        match NestedValue::read(bytes) {
            NestedValue::None => {}
            NestedValue::Dict(keys, values) => {
                for (key, value) in keys.into_iter().zip(values) {
                    let key = clean(&String::from_utf8_lossy(key));
                    let mark = self.keys.push(&key);
                    has_any |= self.nested_value(cx, value, depth + 1, args);
                    self.keys.pop(mark);
                }
            }
            NestedValue::Array(elements) => {
                let Some(array) = self.keys.id(&mut cx.store) else {
                    return false;
                };
                for value in elements {
                    let mark = self.keys.push_index(args.array_length(array));
                    let is_there = self.nested_value(cx, value, depth + 1, args);
                    self.keys.pop(mark);
                    if is_there {
                        args.lengthen_array(array);
                        has_any = true;
                    }
                }
            }
            NestedValue::Scalar(value) => {
                if let Some(value) = literal(cx, value) {
                    self.keys.add(&mut cx.store, value, args);
                    has_any = true;
                }
            }
        }
        has_any
    }

    /// Reads an `InlineCallstack`, the outermost function first.
    fn inline_callstack(&mut self, cx: &mut Context, bytes: &[u8]) -> Option<u32> {
        inline_callstack(cx, "track_event_inline", &mut self.inline_mapping, bytes)
    }
}

/// Returns the name of an annotation.
fn name(
    cx: &mut Context,
    state: EventState<'_>,
    name: Option<Text<'_>>,
) -> Result<StringId, Fault> {
    let table = interned_data::DEBUG_ANNOTATION_NAMES;
    resolve(cx, state, table, name.ok_or(Fault)?)
}

/// Returns a text, which may be interned in a table.
fn resolve(
    cx: &mut Context,
    state: EventState<'_>,
    table: u32,
    text: Text<'_>,
) -> Result<StringId, Fault> {
    match text {
        Text::Literal(text) => Ok(cx.store.strings.intern_bytes(text)),
        Text::Interned(iid) => known(cx, state, table, iid),
    }
}

/// Returns a value without parts, whose text may be interned.
fn scalar(cx: &mut Context, state: EventState<'_>, value: Scalar<'_>) -> Result<ArgValue, Fault> {
    if let Scalar::Text(Text::Interned(iid)) = value {
        let table = interned_data::DEBUG_ANNOTATION_STRING_VALUES;
        return Ok(ArgValue::Text(known(cx, state, table, iid)?));
    }
    literal(cx, value).ok_or(Fault)
}

/// Returns a value without parts; `None` for an interned text.
fn literal(cx: &mut Context, value: Scalar<'_>) -> Option<ArgValue> {
    Some(match value {
        Scalar::Bool(value) => ArgValue::Bool(value),
        Scalar::Uint(value) => ArgValue::Uint(value),
        Scalar::Int(value) => ArgValue::Int(value),
        Scalar::Double(value) => ArgValue::Real(value),
        Scalar::Pointer(value) => ArgValue::Pointer(value),
        Scalar::Text(Text::Literal(text)) => ArgValue::Text(cx.store.strings.intern_bytes(text)),
        Scalar::Text(Text::Interned(_)) => return None,
    })
}

/// Returns an interned text. A missing one is counted.
fn known(cx: &mut Context, state: EventState<'_>, table: u32, iid: u64) -> Result<StringId, Fault> {
    state.text(table, iid).ok_or_else(|| {
        cx.store.stats.add(Stat::interned_data_tokenizer_errors, 1);
        Fault
    })
}

/// Returns a name without the separators of keys.
fn clean(name: &str) -> String {
    name.replace(['.', '[', ']'], "_")
}

/// Keys of file, function and line.
type LocationKeys = [&'static str; 3];

const LOCATION_KEYS: LocationKeys = [
    "source.file_name",
    "source.function_name",
    "source.line_number",
];
const TASK_KEYS: LocationKeys = [
    "task.posted_from.file_name",
    "task.posted_from.function_name",
    "task.posted_from.line_number",
];

/// Reads a `SourceLocation`: file, function, line.
fn read_location(cx: &mut Context, bytes: &[u8]) -> (StringId, StringId, u64) {
    use source_location as of;
    let (mut file, mut function, mut line) = (StringId::EMPTY, StringId::EMPTY, 0);
    for part in Fields::new(bytes).map_while(Result::ok) {
        let text = part.as_str_lossy().unwrap_or_default();
        match part.number {
            of::FILE_NAME => file = cx.store.strings.intern(&text.replace('\\', "/")),
            of::FUNCTION_NAME => function = cx.store.strings.intern(&text),
            of::LINE_NUMBER => line = part.as_u64().unwrap_or(0),
            _ => {}
        }
    }
    (file, function, line)
}

/// Adds an interned source location.
fn location(
    cx: &mut Context,
    state: EventState<'_>,
    iid: u64,
    keys: &LocationKeys,
    args: &mut ArgSet,
) -> Result<(), Fault> {
    let bytes = state.message(interned_data::SOURCE_LOCATIONS, iid);
    let (file, function, line) = read_location(cx, bytes.ok_or(Fault)?);
    args.put(&mut cx.store, keys[0], ArgValue::Text(file));
    args.put(&mut cx.store, keys[1], ArgValue::Text(function));
    args.put(&mut cx.store, keys[2], ArgValue::Uint(line));
    Ok(())
}

/// Reads the interned name of a histogram sample.
fn histogram(
    cx: &mut Context,
    state: EventState<'_>,
    bytes: &[u8],
    args: &mut ArgSet,
) -> Result<(), Fault> {
    const NAME: u32 = 2;
    const NAME_IID: u32 = 4;
    let Some(iid) = Fields::find(NAME_IID, bytes).and_then(|iid| iid.as_u64()) else {
        return Ok(());
    };
    if Fields::find(NAME, bytes).is_some() {
        return Err(Fault);
    }
    let name = state
        .text(interned_data::HISTOGRAM_NAMES, iid)
        .ok_or(Fault)?;
    let key = "chrome_histogram_sample.name";
    args.put(&mut cx.store, key, ArgValue::Text(name));
    Ok(())
}

/// Reads a `LogMessage`.
fn log_line(
    cx: &mut Context,
    state: EventState<'_>,
    bytes: &[u8],
    around: &Surroundings<'_>,
    args: &mut ArgSet,
) -> Result<(), Fault> {
    use log_message as of;
    let utid = around.utid.ok_or(Fault)?;
    let number = |number| Fields::find(number, bytes).and_then(|part| part.as_u64());
    let body = number(of::BODY_IID).unwrap_or(0);
    let body = state
        .text(interned_data::LOG_MESSAGE_BODY, body)
        .ok_or(Fault)?;
    args.put(
        &mut cx.store,
        "track_event.log_message.message",
        ArgValue::Text(body),
    );
    let mut tag = StringId::NULL;
    if let Some(iid) = number(of::SOURCE_LOCATION_IID) {
        let bytes = state.message(interned_data::SOURCE_LOCATIONS, iid);
        let (file, function, line) = read_location(cx, bytes.ok_or(Fault)?);
        let text = format!("{}:{line}", cx.store.strings.text(file));
        tag = cx.store.strings.intern(&text);
        let store = &mut cx.store;
        args.put(
            store,
            "track_event.log_message.file_name",
            ArgValue::Text(file),
        );
        let key = "track_event.log_message.function_name";
        args.put(store, key, ArgValue::Text(function));
        args.int(store, "track_event.log_message.line_number", line as i64);
    }
    // The default priority is info.
    let mut prio = 4;
    if let Some(value) = number(of::PRIO) {
        prio = if value <= 7 { value as u32 } else { 0 };
        args.int(&mut cx.store, "track_event.priority", prio.into());
    }
    let log_source = cx.store.strings.intern("android_logcat");
    cx.store.tables.logs.push(LogsRow {
        ts: around.ts,
        utid: Some(utid),
        prio,
        log_source,
        tag,
        msg: body,
        arg_set_id: None,
    });
    Ok(())
}

//! Converts messages to arguments, by their descriptors.

mod sizes;

use std::io::Read;

use ferretto_proto::fields::extension_descriptor;
use ferretto_wire::{Field, Fields, Value};
use rustc_hash::FxHashMap;

use super::context::Context;
use crate::schema::ArgValue;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::args::{ArgSet, key_budget};

/// The path to an argument, with and without array indexes.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    flat: String,
    full: String,
    /// The remaining bytes for paths of arguments.
    budget: usize,
}

/// The lengths of both paths at some point.
pub(crate) type Mark = (usize, usize);

impl Keys {
    /// Clears the path.
    pub(crate) fn clear(&mut self) {
        self.flat.clear();
        self.full.clear();
    }

    /// Sets the space for paths of an event of this size. Arguments without space for their paths
    /// are dropped.
    pub(crate) fn start(&mut self, bytes: usize) {
        self.budget = key_budget(bytes);
    }

    /// Takes space for the current path. Returns false if there is not enough.
    fn take_budget(&mut self) -> bool {
        let left = self.budget.checked_sub(self.full.len());
        self.budget = left.unwrap_or(0);
        left.is_some()
    }

    /// Enters a member. Returns the previous lengths.
    pub(crate) fn push(&mut self, name: &str) -> Mark {
        let mark = (self.flat.len(), self.full.len());
        if self.full.len() + name.len() > self.budget {
            self.budget = 0;
            return mark;
        }
        for path in [&mut self.flat, &mut self.full] {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(name);
        }
        mark
    }

    /// Enters an array element. Returns the previous lengths.
    pub(crate) fn push_index(&mut self, index: usize) -> Mark {
        use std::fmt::Write;
        let mark = (self.flat.len(), self.full.len());
        let _ = write!(self.full, "[{index}]");
        mark
    }

    /// Returns to previous lengths.
    pub(crate) fn pop(&mut self, (flat, full): Mark) {
        self.flat.truncate(flat);
        self.full.truncate(full);
    }

    /// Returns the id of the current path; `None` if there is no space for it.
    pub(crate) fn id(&mut self, store: &mut Store) -> Option<StringId> {
        self.take_budget().then(|| store.strings.intern(&self.full))
    }

    /// Adds an argument with this path, if there is space for it.
    pub(crate) fn add(&mut self, store: &mut Store, value: ArgValue, args: &mut ArgSet) {
        if !self.take_budget() {
            return;
        }
        let full = store.strings.intern(&self.full);
        let flat = if self.flat.len() == self.full.len() {
            full
        } else {
            store.strings.intern(&self.flat)
        };
        args.add(flat, full, value);
    }

    /// Adds the values of a JSON text below this path. Returns false if it is invalid or has no
    /// values.
    pub(crate) fn add_json(&mut self, store: &mut Store, json: &[u8], args: &mut ArgSet) -> bool {
        match serde_json::from_slice(json) {
            Ok(value) => self.add_value(store, &value, args),
            Err(_) => false,
        }
    }

    /// Adds a JSON value below this path. Returns false if it has no values.
    pub(crate) fn add_value(
        &mut self,
        store: &mut Store,
        value: &serde_json::Value,
        args: &mut ArgSet,
    ) -> bool {
        use serde_json::Value;
        let value = match value {
            Value::Null => return false,
            Value::Bool(value) => ArgValue::Bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(value), _, _) => ArgValue::Int(value),
                (_, Some(value), _) => ArgValue::Uint(value),
                (_, _, Some(value)) => ArgValue::Real(value),
                _ => return false,
            },
            Value::String(text) => ArgValue::Text(store.strings.intern(text)),
            Value::Array(elements) => {
                let Some(array) = self.id(store) else {
                    return false;
                };
                // An event that extends another one continues its arrays.
                let mut has_any = false;
                for element in elements {
                    let mark = self.push_index(args.array_length(array));
                    let is_there = self.add_value(store, element, args);
                    self.pop(mark);
                    if is_there {
                        args.lengthen_array(array);
                        has_any = true;
                    }
                }
                return has_any;
            }
            Value::Object(members) => {
                let mut has_any = false;
                for (name, member) in members {
                    let mark = self.push(name);
                    has_any |= self.add_value(store, member, args);
                    self.pop(mark);
                }
                return has_any;
            }
        };
        self.add(store, value, args);
        true
    }
}

/// The maximum depth of nested messages.
const MAX_DEPTH: usize = 64;
/// The fields of `TrackEvent` that become arguments.
const TRACK_EVENT_FIELDS: [u32; 17] = [
    24, 25, 26, 27, 28, 29, 32, 33, 34, 35, 38, 39, 40, 41, 43, 49, 50,
];
/// The first extension of `TrackEvent`.
const EXTENSIONS: u32 = 1000;

/// Reads messages by descriptors of the schema and of the trace.
#[derive(Debug, Default)]
pub(crate) struct Reflection {
    pool: Pool,
    has_schema: bool,
    has_extensions: bool,
}

impl Reflection {
    /// Reads an `ExtensionDescriptor`.
    pub(crate) fn extension(&mut self, bytes: &[u8]) {
        /// The maximum uncompressed size of a descriptor set.
        const MAX_BYTES: u64 = 16 << 20;
        self.load_schema();
        for field in Fields::new(bytes).map_while(Result::ok) {
            let bytes = field.as_bytes().unwrap_or_default();
            match field.number {
                extension_descriptor::EXTENSION_SET => self.pool.add_files(bytes),
                extension_descriptor::EXTENSION_SET_GZIP => {
                    let mut unpacked = Vec::new();
                    let reader = ferretto_trace::Unpacking::new(bytes, Default::default());
                    if reader.take(MAX_BYTES).read_to_end(&mut unpacked).is_ok() {
                        self.pool.add_files(&unpacked);
                    }
                }
                _ => {}
            }
        }
    }

    fn load_schema(&mut self) {
        if !std::mem::replace(&mut self.has_schema, true) {
            self.pool.add_files(ferretto_proto::DESCRIPTORS);
        }
    }

    /// Loads all descriptors. Those of the trace that came before apply instead of the program's.
    fn load(&mut self) {
        self.load_schema();
        if !std::mem::replace(&mut self.has_extensions, true) {
            self.pool.add_files(ferretto_proto::EXTENSION_DESCRIPTORS);
        }
    }

    /// Adds the message fields and extensions of a `TrackEvent`. Returns the number of fields
    /// without a descriptor.
    pub(crate) fn track_event(
        &mut self,
        cx: &mut Context,
        bytes: &[u8],
        keys: &mut Keys,
        args: &mut ArgSet,
    ) -> i64 {
        self.load();
        let Some(root) = self.pool.messages.get("perfetto.protos.TrackEvent") else {
            return 0;
        };
        keys.clear();
        let mut walk = Walk {
            pool: &self.pool,
            store: &mut cx.store,
            keys,
            args,
            unknown: 0,
        };
        let is_shown = |number| number >= EXTENSIONS || TRACK_EVENT_FIELDS.contains(&number);
        walk.message(root, bytes, 0, &is_shown);
        walk.unknown
    }

    /// Adds the fields of a message with this full name below the path. Returns false if it has no
    /// descriptor.
    pub(crate) fn message(
        &mut self,
        cx: &mut Context,
        type_name: &str,
        bytes: &[u8],
        keys: &mut Keys,
        args: &mut ArgSet,
    ) -> bool {
        self.shown_fields(cx, type_name, bytes, &|_| true, keys, args)
    }

    /// Adds some fields of a message with this full name below the path. Returns false if it has no
    /// descriptor.
    pub(crate) fn shown_fields(
        &mut self,
        cx: &mut Context,
        type_name: &str,
        bytes: &[u8],
        is_shown: &dyn Fn(u32) -> bool,
        keys: &mut Keys,
        args: &mut ArgSet,
    ) -> bool {
        self.load();
        let Some(root) = self.pool.messages.get(type_name.trim_start_matches('.')) else {
            return false;
        };
        let mut walk = Walk {
            pool: &self.pool,
            store: &mut cx.store,
            keys,
            args,
            unknown: 0,
        };
        walk.message(root, bytes, 0, is_shown);
        true
    }
}

/// Messages and enums by full name.
#[derive(Debug, Default)]
struct Pool {
    messages: FxHashMap<Box<str>, Message>,
    enums: FxHashMap<Box<str>, FxHashMap<i32, Box<str>>>,
    /// The size of all descriptors in bytes.
    bytes: usize,
}

/// The fields of a message by number.
type Message = FxHashMap<u32, FieldInfo>;

#[derive(Debug)]
struct FieldInfo {
    name: Box<str>,
    /// The number of the type in descriptors.
    kind: u64,
    type_name: Box<str>,
    is_repeated: bool,
}

/// The maximum size of the descriptors of all extensions in bytes.
const MAX_DESCRIPTORS: usize = 64 << 20;

/// Field numbers of descriptors.
mod descriptor {
    pub(super) const FILE: u32 = 1;
    pub(super) const FILE_PACKAGE: u32 = 2;
    pub(super) const FILE_MESSAGE: u32 = 4;
    pub(super) const FILE_ENUM: u32 = 5;
    pub(super) const FILE_EXTENSION: u32 = 7;
    pub(super) const NAME: u32 = 1;
    pub(super) const MESSAGE_FIELD: u32 = 2;
    pub(super) const MESSAGE_MESSAGE: u32 = 3;
    pub(super) const MESSAGE_ENUM: u32 = 4;
    pub(super) const MESSAGE_EXTENSION: u32 = 6;
    pub(super) const ENUM_VALUE: u32 = 2;
    pub(super) const FIELD_EXTENDEE: u32 = 2;
    pub(super) const FIELD_NUMBER: u32 = 3;
    pub(super) const FIELD_LABEL: u32 = 4;
    pub(super) const FIELD_TYPE: u32 = 5;
    pub(super) const FIELD_TYPE_NAME: u32 = 6;
}

fn fields(bytes: &[u8]) -> impl Iterator<Item = Field<'_>> {
    Fields::new(bytes).map_while(Result::ok)
}

fn text(bytes: &[u8], number: u32) -> String {
    let field = Fields::find(number, bytes);
    let text = field.and_then(|field| field.as_str_lossy().map(|text| text.into_owned()));
    text.unwrap_or_default()
}

fn join(scope: &str, name: &str) -> String {
    match scope {
        "" => name.to_owned(),
        scope => format!("{scope}.{name}"),
    }
}

impl Pool {
    /// Reads a `FileDescriptorSet`. Existing entries are kept.
    fn add_files(&mut self, set: &[u8]) {
        if self.bytes + set.len() > MAX_DESCRIPTORS {
            return;
        }
        self.bytes += set.len();
        for file in fields(set).filter(|field| field.number == descriptor::FILE) {
            let bytes = file.as_bytes().unwrap_or_default();
            let package = text(bytes, descriptor::FILE_PACKAGE);
            for part in fields(bytes) {
                let bytes = part.as_bytes().unwrap_or_default();
                match part.number {
                    descriptor::FILE_MESSAGE => self.add_message(&package, bytes, 0),
                    descriptor::FILE_ENUM => self.add_enum(&package, bytes),
                    descriptor::FILE_EXTENSION => self.add_extension(bytes),
                    _ => {}
                }
            }
        }
    }

    fn add_message(&mut self, scope: &str, bytes: &[u8], depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        let name = join(scope, &text(bytes, descriptor::NAME));
        let mut own = Message::default();
        for part in fields(bytes) {
            let bytes = part.as_bytes().unwrap_or_default();
            match part.number {
                descriptor::MESSAGE_FIELD => {
                    let (number, info) = FieldInfo::read(bytes);
                    own.insert(number, info);
                }
                descriptor::MESSAGE_MESSAGE => self.add_message(&name, bytes, depth + 1),
                descriptor::MESSAGE_ENUM => self.add_enum(&name, bytes),
                descriptor::MESSAGE_EXTENSION => self.add_extension(bytes),
                _ => {}
            }
        }
        let known = self.messages.entry(name.into()).or_default();
        for (number, info) in own {
            known.entry(number).or_insert(info);
        }
    }

    fn add_enum(&mut self, scope: &str, bytes: &[u8]) {
        let name = join(scope, &text(bytes, descriptor::NAME));
        let values = self.enums.entry(name.into()).or_default();
        for value in fields(bytes).filter(|part| part.number == descriptor::ENUM_VALUE) {
            let bytes = value.as_bytes().unwrap_or_default();
            let number = Fields::find(2, bytes).and_then(|number| number.as_i64());
            let name = text(bytes, descriptor::NAME);
            values
                .entry(number.unwrap_or(0) as i32)
                .or_insert(name.into());
        }
    }

    fn add_extension(&mut self, bytes: &[u8]) {
        let extendee = text(bytes, descriptor::FIELD_EXTENDEE);
        let (number, info) = FieldInfo::read(bytes);
        let message = self
            .messages
            .entry(extendee.trim_start_matches('.').into())
            .or_default();
        message.entry(number).or_insert(info);
    }
}

impl FieldInfo {
    fn read(bytes: &[u8]) -> (u32, Self) {
        let number = |number| {
            let value = Fields::find(number, bytes).and_then(|value| value.as_u64());
            value.unwrap_or(0)
        };
        let type_name = text(bytes, descriptor::FIELD_TYPE_NAME);
        let info = Self {
            name: text(bytes, descriptor::NAME).into(),
            kind: number(descriptor::FIELD_TYPE),
            type_name: type_name.trim_start_matches('.').into(),
            is_repeated: number(descriptor::FIELD_LABEL) == 3,
        };
        (number(descriptor::FIELD_NUMBER) as u32, info)
    }
}

/// Types of fields by their numbers in descriptors.
mod kind {
    pub(super) const DOUBLE: u64 = 1;
    pub(super) const FLOAT: u64 = 2;
    pub(super) const INT64: u64 = 3;
    pub(super) const UINT64: u64 = 4;
    pub(super) const INT32: u64 = 5;
    pub(super) const FIXED64: u64 = 6;
    pub(super) const FIXED32: u64 = 7;
    pub(super) const BOOL: u64 = 8;
    pub(super) const STRING: u64 = 9;
    pub(super) const MESSAGE: u64 = 11;
    pub(super) const BYTES: u64 = 12;
    pub(super) const UINT32: u64 = 13;
    pub(super) const ENUM: u64 = 14;
    pub(super) const SFIXED32: u64 = 15;
    pub(super) const SFIXED64: u64 = 16;
    pub(super) const SINT32: u64 = 17;
    pub(super) const SINT64: u64 = 18;
}

/// A traversal of a message.
struct Walk<'a> {
    pool: &'a Pool,
    store: &'a mut Store,
    keys: &'a mut Keys,
    args: &'a mut ArgSet,
    unknown: i64,
}

impl Walk<'_> {
    fn message(
        &mut self,
        message: &Message,
        bytes: &[u8],
        depth: usize,
        is_shown: &dyn Fn(u32) -> bool,
    ) {
        let mut counts: FxHashMap<u32, usize> = FxHashMap::default();
        let mut is_empty = true;
        for field in fields(bytes) {
            is_empty = false;
            let Some(info) = message.get(&field.number) else {
                self.unknown += 1;
                continue;
            };
            if !is_shown(field.number) {
                continue;
            }
            let mut count = || {
                let count = counts.entry(field.number).or_insert(0);
                *count += 1;
                *count - 1
            };
            let is_scalar = !matches!(info.kind, kind::MESSAGE | kind::STRING | kind::BYTES);
            match (field.value, info.is_repeated && is_scalar) {
                (Value::Bytes(packed), true) => {
                    for value in unpack(packed, info.kind) {
                        let index = count();
                        self.element(info, index, value, depth);
                    }
                }
                (value, _) if info.is_repeated => {
                    let index = count();
                    self.element(info, index, value, depth);
                }
                (value, _) => {
                    let mark = self.keys.push(&info.name);
                    self.value(info, value, depth);
                    self.keys.pop(mark);
                }
            }
        }
        if is_empty && depth > 0 {
            self.keys.add(self.store, ArgValue::Null, self.args);
        }
    }

    fn element(&mut self, info: &FieldInfo, index: usize, value: Value<'_>, depth: usize) {
        let mark = self.keys.push(&info.name);
        self.keys.push_index(index);
        self.value(info, value, depth);
        self.keys.pop(mark);
    }

    fn value(&mut self, info: &FieldInfo, value: Value<'_>, depth: usize) {
        let field = Field { number: 1, value };
        let number = field.as_u64().unwrap_or(0);
        let bytes = field.as_bytes().unwrap_or_default();
        let value = match info.kind {
            kind::MESSAGE => {
                if let Some(message) = self.pool.messages.get(&info.type_name)
                    && depth < MAX_DEPTH
                {
                    self.message(message, bytes, depth + 1, &|_| true);
                }
                return;
            }
            kind::DOUBLE | kind::FLOAT => ArgValue::Real(field.as_f64().unwrap_or(0.0)),
            kind::INT64 | kind::SFIXED64 => ArgValue::Int(number as i64),
            kind::INT32 | kind::SFIXED32 => ArgValue::Int(i64::from(number as i32)),
            kind::SINT32 | kind::SINT64 => ArgValue::Int(field.as_sint().unwrap_or(0)),
            kind::UINT64 | kind::FIXED64 => ArgValue::Uint(number),
            kind::UINT32 | kind::FIXED32 => ArgValue::Uint(u64::from(number as u32)),
            kind::BOOL => ArgValue::Bool(number != 0),
            kind::STRING => ArgValue::Text(self.store.strings.intern_bytes(bytes)),
            kind::BYTES => ArgValue::Text(self.store.strings.intern(&base64(bytes))),
            kind::ENUM => {
                let values = self.pool.enums.get(&info.type_name);
                let name = values.and_then(|values| values.get(&(number as i32)));
                match name {
                    Some(name) => ArgValue::Text(self.store.strings.intern(name)),
                    None => {
                        let text = (number as i32).to_string();
                        ArgValue::Text(self.store.strings.intern(&text))
                    }
                }
            }
            _ => return,
        };
        self.keys.add(self.store, value, self.args);
    }
}

/// Returns the elements of a packed field.
fn unpack(bytes: &[u8], of: u64) -> Vec<Value<'_>> {
    match of {
        kind::DOUBLE | kind::FIXED64 | kind::SFIXED64 => {
            let (words, _) = bytes.as_chunks();
            let word = |word: &[u8; 8]| Value::Fixed64(u64::from_le_bytes(*word));
            words.iter().map(word).collect()
        }
        kind::FLOAT | kind::FIXED32 | kind::SFIXED32 => {
            let (words, _) = bytes.as_chunks();
            let word = |word: &[u8; 4]| Value::Fixed32(u32::from_le_bytes(*word));
            words.iter().map(word).collect()
        }
        _ => {
            let field = Field {
                number: 1,
                value: Value::Bytes(bytes),
            };
            field.as_varints().map(Value::Varint).collect()
        }
    }
}

/// Encodes bytes as base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |index| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let letter = bits >> (18 - 6 * index) & 63;
            text.push(if index <= three.len() {
                char::from(LETTERS[letter as usize])
            } else {
                '='
            });
        }
    }
    text
}

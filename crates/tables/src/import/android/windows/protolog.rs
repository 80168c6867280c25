//! Logs of system services: `ProtoLogMessage`, whose texts are in a `ProtoLogViewerConfig`.

use std::fmt::Write;

use ferretto_proto::fields::android::{
    frameworks_native_interned_data as interned, proto_log_message as of,
    proto_log_viewer_config as config,
};
use ferretto_wire::Value;
use rustc_hash::FxHashMap;

use super::super::super::context::Context;
use super::WindowPacket;
use super::part::Part;
use crate::schema::{ProtologRow, TableId};
use crate::strings::StringId;

/// The maximum number of known messages and groups.
const MAX_KNOWN: usize = 1 << 18;
/// The maximum number of messages with the same id.
const MAX_SAME: usize = 16;
/// The maximum length of a text with its values.
const MAX_TEXT: usize = 1 << 16;

/// The texts of messages and the names of groups.
#[derive(Debug, Default)]
pub(super) struct Protolog {
    groups: FxHashMap<u32, String>,
    messages: FxHashMap<u64, Vec<Template>>,
    count: usize,
}

/// A text with specifiers, which values replace.
#[derive(Debug, PartialEq)]
struct Template {
    text: String,
    level: i32,
    group: u32,
    location: Option<String>,
}

/// The values of a message, by their types.
#[derive(Debug, Default)]
struct Values {
    integers: Vec<i64>,
    reals: Vec<f64>,
    booleans: Vec<bool>,
    texts: Vec<String>,
}

fn text(part: Part<'_>, number: u32) -> Option<String> {
    let bytes = part.bytes(number)?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

impl Protolog {
    /// Reads a `ProtoLogViewerConfig`.
    pub(super) fn configure(&mut self, part: Part<'_>) {
        use config::{group, message_data as data};
        for group in part.parts(config::GROUPS) {
            let id = group.uint(group::ID).unwrap_or(0);
            let tag = text(group, group::TAG).unwrap_or_default();
            if self.groups.len() < MAX_KNOWN {
                let known = self.groups.entry(id).or_insert_with(|| tag.clone());
                if *known != tag {
                    "COLLISION_GROUP".clone_into(known);
                }
            }
        }
        for message in part.parts(config::MESSAGES) {
            let template = Template {
                text: text(message, data::MESSAGE).unwrap_or_default(),
                level: message.int(data::LEVEL).unwrap_or(0),
                group: message.uint(data::GROUP_ID).unwrap_or(0),
                location: text(message, data::LOCATION),
            };
            if self.count >= MAX_KNOWN {
                return;
            }
            let id = message.long(data::MESSAGE_ID).unwrap_or(0) as u64;
            let same = self.messages.entry(id).or_default();
            if same.len() < MAX_SAME && !same.contains(&template) {
                same.push(template);
                self.count += 1;
            }
        }
    }

    /// Reads a `ProtoLogMessage`.
    pub(super) fn message(&mut self, cx: &mut Context, input: WindowPacket<'_>, part: Part<'_>) {
        if !cx.store.wants(TableId::protolog) {
            return;
        }
        let interned_text = |cx: &Context, table, iid| {
            let text = input.state.text(table, iid)?;
            cx.store.strings.get(text).map(str::to_owned)
        };
        let mut values = Values {
            booleans: part
                .integers(of::BOOLEAN_PARAMS)
                .map(|value| value != 0)
                .collect(),
            ..Values::default()
        };
        let integers = part.integers(of::SINT64_PARAMS);
        values
            .integers
            .extend(integers.map(ferretto_wire::zigzag_decode));
        for field in part.fields().filter(|f| f.number == of::DOUBLE_PARAMS) {
            match field.value {
                Value::Bytes(packed) => {
                    let (words, _) = packed.as_chunks();
                    let real = |word: &[u8; 8]| f64::from_le_bytes(*word);
                    values.reals.extend(words.iter().map(real));
                }
                _ => values.reals.extend(field.as_f64()),
            }
        }
        for iid in part.integers(of::STR_PARAM_IIDS) {
            let text = interned_text(cx, interned::PROTOLOG_STRING_ARGS, iid);
            values.texts.push(text.unwrap_or_else(|| "<ERROR>".into()));
        }
        let stacktrace = part
            .long(of::STACKTRACE_IID)
            .and_then(|iid| input.state.text(interned::PROTOLOG_STACKTRACE, iid as u64));
        let id = part.long(of::MESSAGE_ID).unwrap_or(0) as u64;
        let mut row = ProtologRow {
            ts: input.ts,
            level: StringId::NULL,
            tag: StringId::NULL,
            message: StringId::NULL,
            stacktrace: StringId::NULL,
            location: StringId::NULL,
        };
        if let Some(templates) = self.messages.get(&id) {
            let strings = &mut cx.store.strings;
            let fitting: Vec<&Template> = match &templates[..] {
                [only] => vec![only],
                several => several
                    .iter()
                    .filter(|template| values.fit(&template.text))
                    .collect(),
            };
            let level = match &fitting[..] {
                [template] => {
                    let group = self.groups.get(&template.group);
                    row.tag = strings.intern(group.map_or("UNKNOWN_GROUP", String::as_str));
                    row.message = strings.intern(&values.fill(&template.text));
                    let location = template.location.as_deref();
                    row.location = location.map_or(StringId::NULL, |text| strings.intern(text));
                    template.level
                }
                fitting => {
                    row.tag = strings.intern("COLLISION_GROUP");
                    row.message = strings.intern(&collision(id, &values, fitting));
                    4
                }
            };
            row.level = strings.intern(level_name(level));
            row.stacktrace = stacktrace.unwrap_or(StringId::NULL);
        }
        cx.store.tables.protolog.push(row);
    }
}

fn level_name(level: i32) -> &'static str {
    match level {
        1 => "DEBUG",
        2 => "VERBOSE",
        3 => "INFO",
        4 => "WARN",
        5 => "ERROR",
        6 => "WTF",
        _ => "UNKNOWN",
    }
}

/// Returns the text of a message whose id belongs to several texts.
fn collision(id: u64, values: &Values, fitting: &[&Template]) -> String {
    let texts: Vec<String> = fitting
        .iter()
        .map(|template| format!("'{}'", values.fill(&template.text)))
        .collect();
    let reason = if texts.is_empty() {
        "NO TYPE MATCH".to_owned()
    } else {
        format!("MULTIPLE TYPE MATCHES : {}", texts.join(",\n "))
    };
    format!("<PROTOLOG COLLISION (id=0x{id:x}) {reason}>")
}

/// Returns the letters after the percent signs of a text.
fn specifiers(text: &str) -> Vec<char> {
    let mut letters = Vec::new();
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        if letter == '%' {
            letters.extend(rest.next());
        }
    }
    letters
}

impl Values {
    /// Returns true if a text has a specifier for each value, and a value for each specifier.
    fn fit(&self, text: &str) -> bool {
        let specifiers = specifiers(text);
        let count = |of: &str| {
            specifiers
                .iter()
                .filter(|specifier| of.contains(**specifier))
                .count()
        };
        count("dox") == self.integers.len()
            && count("feg") == self.reals.len()
            && count("b") == self.booleans.len()
            && count("s") == self.texts.len()
    }

    /// Returns the text with the values instead of the specifiers.
    fn fill(&self, text: &str) -> String {
        const MISSING: &str = "[MISSING_PARAM]";
        let mut integers = self.integers.iter();
        let mut reals = self.reals.iter();
        let mut booleans = self.booleans.iter();
        let mut texts = self.texts.iter();
        let mut filled = String::with_capacity(text.len());
        let mut rest = text.chars();
        while let Some(letter) = rest.next() {
            let specifier = if letter == '%' { rest.next() } else { None };
            let value = match specifier {
                None => {
                    filled.push(letter);
                    continue;
                }
                Some('%') => Some("%".to_owned()),
                Some('d') => integers.next().map(i64::to_string),
                Some('o') => integers.next().map(|value| format!("{value:o}")),
                Some('x') => integers.next().map(|value| format!("{value:x}")),
                Some('f') => reals.next().map(|value| format!("{value:.6}")),
                Some('e') => reals.next().map(|value| scientific(*value, 6)),
                Some('g') => reals.next().map(|value| general(*value)),
                Some('b') => booleans.next().map(bool::to_string),
                Some('s') => texts.next().cloned(),
                Some(other) => Some(format!("%{other}")),
            };
            let _ = match value {
                Some(value) if filled.len() + value.len() <= MAX_TEXT => filled.write_str(&value),
                Some(_) => break,
                None => filled.write_str(MISSING),
            };
        }
        filled
    }
}

/// Returns a number as C's `%e` prints it.
fn scientific(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$e}");
    match text.split_once('e') {
        Some((number, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent),
            };
            format!("{number}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

/// Returns a number as C's `%g` prints it: with six digits, without zeros at the end.
fn general(value: f64) -> String {
    let short = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let exponential = format!("{value:.5e}");
    let exponent: i32 = exponential
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse().ok())
        .unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return short(&format!("{value:.*}", (5 - exponent) as usize));
    }
    let text = scientific(value, 5);
    let (number, exponent) = text.split_once('e').unwrap_or((&text, "+00"));
    format!("{}e{exponent}", short(number))
}

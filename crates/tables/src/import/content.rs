//! The sizes of the fields of all packets, by path.

use ferretto_proto::fields::{interned_data, trace_packet, track_event};
use ferretto_wire::Fields;
use rustc_hash::FxHashMap;

use super::context::{Context, EventState};
use super::reflect::Reflection;
use crate::schema::{ArgValue, ExperimentalProtoContentRow, ExperimentalProtoPathRow};
use crate::strings::StringId;
use crate::trackers::args::ArgSet;

/// The message of packets.
const PACKET: &str = "perfetto.protos.TracePacket";
/// The maximum number of paths.
const MAX_PATHS: usize = 1 << 20;

/// The description of packets that are counted together: names and values of arguments.
type About = Vec<(&'static str, StringId)>;

/// The number of fields and their size in bytes.
#[derive(Debug, Default)]
struct Count {
    bytes: u64,
    fields: u64,
}

/// Counts the fields of packets.
#[derive(Debug, Default)]
pub(super) struct ProtoContent {
    reflection: Reflection,
    /// The groups by their descriptions, and their paths, in the order of the file.
    groups: FxHashMap<About, usize>,
    order: Vec<About>,
    paths: FxHashMap<(usize, Box<[u32]>), usize>,
    counts: Vec<(usize, Box<[u32]>, Count)>,
}

impl ProtoContent {
    /// Counts the fields of a packet. `state` is that of its sequence; `None` if the packet is left
    /// out because the state was lost.
    pub(super) fn packet(&mut self, cx: &mut Context, bytes: &[u8], state: Option<EventState<'_>>) {
        let event = Fields::find(trace_packet::TRACK_EVENT, bytes);
        let about = match (state, event.and_then(|event| event.as_bytes())) {
            (None, _) => {
                let reason = cx.store.strings.intern("invalid_incremental_state");
                vec![("skipped_packet", reason)]
            }
            (Some(state), Some(event)) => vec![
                ("event.category", category(cx, event, state)),
                ("event.name", name(cx, event, state)),
            ],
            (Some(_), None) => Vec::new(),
        };
        let group = self.groups.get(&about).copied().unwrap_or_else(|| {
            self.order.push(about.clone());
            self.groups.insert(about, self.order.len() - 1);
            self.order.len() - 1
        });
        let Self {
            reflection,
            paths,
            counts,
            ..
        } = self;
        reflection.sizes(PACKET, bytes, &mut |path, size| {
            let key = (group, path.into());
            let index = match paths.get(&key) {
                Some(index) => *index,
                None if counts.len() >= MAX_PATHS => return,
                None => {
                    counts.push((group, path.into(), Count::default()));
                    paths.insert(key, counts.len() - 1);
                    counts.len() - 1
                }
            };
            let count = &mut counts[index].2;
            count.bytes += size as u64;
            count.fields += 1;
        });
    }

    /// Writes the tables.
    pub(super) fn finish(&mut self, cx: &mut Context) {
        let mut rows: FxHashMap<(usize, Box<[u32]>), u32> = FxHashMap::default();
        for (group, path, count) in std::mem::take(&mut self.counts) {
            let names = self.reflection.path_names(PACKET, &path);
            let mut text = String::new();
            let mut row = None;
            for (depth, names) in names.iter().enumerate() {
                let parts = [names.field.as_deref(), Some(&*names.kind)];
                for part in parts.into_iter().flatten().filter(|part| !part.is_empty()) {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text += part;
                }
                let key = (group, path[..depth].into());
                let parent_id = row;
                row = Some(match rows.get(&key) {
                    Some(row) => *row,
                    None => {
                        let mut args = ArgSet::default();
                        let about = self.order[group].iter().filter(|_| depth == 0);
                        for (key, value) in about {
                            args.put(&mut cx.store, key, ArgValue::Text(*value));
                        }
                        let arg_set_id = args.finish(&mut cx.store);
                        let strings = &mut cx.store.strings;
                        let field_name = names.field.as_deref();
                        let new = ExperimentalProtoPathRow {
                            parent_id,
                            field_type: strings.intern(&names.kind),
                            field_name: field_name
                                .map_or(StringId::NULL, |name| strings.intern(name)),
                            arg_set_id,
                        };
                        let row = cx.store.tables.experimental_proto_path.push(new);
                        rows.insert(key, row);
                        row
                    }
                });
            }
            let size = i64::try_from(count.bytes).unwrap_or(i64::MAX);
            let new = ExperimentalProtoContentRow {
                path: cx.store.strings.intern(&text),
                path_id: row.unwrap_or(0),
                total_size: size,
                size,
                count: i64::try_from(count.fields).unwrap_or(i64::MAX),
            };
            cx.store.tables.experimental_proto_content.push(new);
        }
    }
}

/// Returns the texts and interned texts in two fields of an event.
fn texts(
    cx: &mut Context,
    event: &[u8],
    state: EventState<'_>,
    (text, iid, table): (u32, u32, u32),
) -> Vec<StringId> {
    let mut all = Vec::new();
    for field in Fields::new(event).map_while(Result::ok) {
        if field.number == text {
            let bytes = field.as_bytes().unwrap_or_default();
            all.push(cx.store.strings.intern_bytes(bytes));
        } else if field.number == iid {
            all.extend(field.as_varints().filter_map(|iid| state.text(table, iid)));
        }
    }
    all
}

fn category(cx: &mut Context, event: &[u8], state: EventState<'_>) -> StringId {
    let fields = (
        track_event::CATEGORIES,
        track_event::CATEGORY_IIDS,
        interned_data::EVENT_CATEGORIES,
    );
    let all = texts(cx, event, state, fields);
    match all[..] {
        [] => StringId::NULL,
        [one] => one,
        _ => {
            let names: Vec<&str> = all.iter().map(|id| cx.store.strings.text(*id)).collect();
            let joined = names.join(",");
            cx.store.strings.intern(&joined)
        }
    }
}

fn name(cx: &mut Context, event: &[u8], state: EventState<'_>) -> StringId {
    let fields = (
        track_event::NAME,
        track_event::NAME_IID,
        interned_data::EVENT_NAMES,
    );
    let all = texts(cx, event, state, fields);
    all.last().copied().unwrap_or(StringId::NULL)
}

//! Heap graphs of Java: `HeapGraph` and `ArtProcessMetadata`.

mod dump;
mod fields;
mod metadata;
mod names;
mod reach;

use ferretto_proto::fields::obfuscated_class;
use ferretto_wire::Fields;
use rustc_hash::FxHashMap;

use self::dump::{Dump, Facts};
pub(super) use self::fields::HEAP_GRAPH;
use self::fields::heap_graph;
pub(super) use self::metadata::ProcessMetadata;
use self::names::TypeName;
use super::super::context::Context;
use super::deobfuscation::{Names, package_of};
use crate::schema::TableId;
use crate::stats::Stat;
use crate::store::Store;
use crate::strings::StringId;

/// The heap graphs of all sequences.
#[derive(Debug, Default)]
pub(super) struct HeapGraphs {
    /// The incomplete dumps by sequence.
    dumps: FxHashMap<u32, Dump>,
    facts: Facts,
}

impl HeapGraphs {
    /// Reads a `HeapGraph`.
    pub(super) fn parse(&mut self, cx: &mut Context, ts: i64, bytes: &[u8], sequence: u32) {
        let wanted = [
            TableId::heap_graph,
            TableId::heap_graph_class,
            TableId::heap_graph_object,
            TableId::heap_graph_object_data,
            TableId::heap_graph_reference,
            TableId::heap_graph_primitive,
        ];
        if !wanted.iter().any(|table| cx.store.wants(*table)) {
            return;
        }
        let find = |number| Fields::find(number, bytes).and_then(|field| field.as_u64());
        let pid = find(heap_graph::PID).unwrap_or(0) as u32;
        let upid = cx.processes.process(&mut cx.store, pid.into());
        let dumps = self.dumps.entry(sequence);
        let dump = dumps.or_insert_with(|| Dump::new(upid, ts));
        let is_other = !dump.is_of(upid, ts);
        if is_other {
            cx.store.stats.add(Stat::heap_graph_non_finalized_graph, 1);
        }
        dump.begin(cx, bytes);
        dump.read(cx, bytes, is_other, &mut self.facts);
        let is_continued = find(heap_graph::CONTINUED).is_some_and(|value| value != 0);
        if !is_continued && let Some(dump) = self.dumps.remove(&sequence) {
            dump.finish(cx, &mut self.facts);
        }
    }

    /// Completes the tables. Incomplete dumps are kept.
    pub(super) fn finish(&mut self, cx: &mut Context) {
        let mut dumps: Vec<_> = self.dumps.drain().collect();
        dumps.sort_by_key(|(sequence, _)| *sequence);
        if !dumps.is_empty() {
            cx.store.stats.add(Stat::heap_graph_non_finalized_graph, 1);
        }
        for (_, dump) in dumps {
            dump.finish(cx, &mut self.facts);
        }
        reach::mark(&mut cx.store, &self.facts);
        reach::add_native_sizes(&mut cx.store, &self.facts);
        reach::set_superclasses(&mut cx.store);
    }
}

/// Sets the names of classes and fields before obfuscation.
pub(super) fn deobfuscate(store: &mut Store, names: &Names<'_>) {
    let packages = names.packages();
    let mut classes: FxHashMap<(Option<StringId>, StringId), Vec<u32>> = FxHashMap::default();
    let table = &store.tables.heap_graph_class;
    let mut users: FxHashMap<u32, u32> = FxHashMap::default();
    let objects = &store.tables.heap_graph_object;
    for object in 0..objects.len() {
        users.insert(objects.type_id.get(object), objects.upid.get(object));
    }
    for row in 0..table.len() {
        let text = store.strings.text(table.name.get(row));
        let name = store.strings.find(TypeName::of(text).name);
        let location = store.strings.text(table.location.get(row));
        let package = package_of(location).map(str::to_owned);
        let package = package.map(|name| store.strings.intern(&name));
        let package = package.or_else(|| {
            let app = store.tables.process.android_appid.get(*users.get(&row)?)?;
            packages.get(&app.into()).copied()
        });
        if let Some(name) = name {
            classes.entry((package, name)).or_default().push(row);
        }
    }
    let mut fields: FxHashMap<StringId, Vec<u32>> = FxHashMap::default();
    let references = &store.tables.heap_graph_reference;
    for row in 0..references.len() {
        let name = references.field_name.get(row);
        if !name.is_null() {
            fields.entry(name).or_default().push(row);
        }
    }
    for class in names.classes() {
        // Classes without a package may be of any.
        let package = store.strings.find(class.package);
        let mut keys = vec![None];
        keys.extend(package.map(Some).filter(|_| !class.package.is_empty()));
        if let Some(name) = store.strings.find(&class.obfuscated) {
            let rows: Vec<u32> = keys
                .into_iter()
                .filter_map(|package| classes.get(&(package, name)))
                .flatten()
                .copied()
                .collect();
            for row in rows {
                let known = store.tables.heap_graph_class.name.get(row);
                let text = TypeName::of(store.strings.text(known)).with(&class.name);
                let text = store.strings.intern(&text);
                store
                    .tables
                    .heap_graph_class
                    .deobfuscated_name
                    .set(row, text);
            }
        }
        for member in class.members(obfuscated_class::OBFUSCATED_MEMBERS) {
            let Some(rows) = store
                .strings
                .find(&member.obfuscated)
                .and_then(|name| fields.get(&name))
            else {
                continue;
            };
            let name = store.strings.intern(&member.name);
            for row in rows {
                let column = &mut store.tables.heap_graph_reference.deobfuscated_field_name;
                column.set(*row, name);
            }
        }
    }
}

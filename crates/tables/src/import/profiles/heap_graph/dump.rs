//! Dumps of objects, which consist of several packets.

use std::collections::BTreeMap;

use ferretto_proto::fields::interned_string;
use ferretto_wire::{Field, Fields};
use rustc_hash::FxHashMap;

use super::super::super::context::Context;
use super::fields::{self, class, heap_graph, object, root};
use crate::schema::{
    HeapGraphClassRow, HeapGraphObjectDataRow, HeapGraphObjectRow, HeapGraphPrimitiveRow,
    HeapGraphReferenceRow, HeapGraphRow,
};
use crate::stats::Stat;
use crate::strings::StringId;

/// An object that is alive without references of others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Root {
    pub(super) object: u32,
    pub(super) kind: StringId,
}

/// The data about the objects of all dumps that tables do not have.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The roots, in the order of the file.
    pub(super) roots: Vec<Root>,
    /// The sizes of native memory that registries of allocations have.
    pub(super) registry_sizes: FxHashMap<u32, i64>,
}

/// An incomplete dump of a sequence.
#[derive(Debug)]
pub(super) struct Dump {
    upid: u32,
    ts: i64,
    heap_size: Option<i64>,
    last_index: Option<u64>,
    last_object: u64,
    last_heap_type: u64,
    /// The rows of objects and classes by their ids.
    objects: FxHashMap<u64, u32>,
    classes: FxHashMap<u64, u32>,
    types: BTreeMap<u64, Type>,
    field_names: FxHashMap<u64, FieldName>,
    locations: FxHashMap<u64, StringId>,
    /// The roots: ids of objects with the kind.
    roots: Vec<(u64, u64)>,
    /// The objects whose size is that of their class.
    unsized_objects: Vec<(u64, u32)>,
    /// The references whose fields are those of the class.
    unnamed: Vec<Unnamed>,
    /// The references whose fields are known by id.
    named: Vec<(u64, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct FieldName {
    name: StringId,
    type_name: StringId,
}

/// The references of an object of a class.
#[derive(Debug, Clone, Copy)]
struct Unnamed {
    type_id: u64,
    first: u32,
    count: u32,
}

#[derive(Debug, Default)]
struct Type {
    name: StringId,
    location: Option<u64>,
    object_size: u64,
    fields: Vec<u64>,
    superclass: u64,
    class_loader: u64,
    kind: &'static str,
}

fn number(field: u32, bytes: &[u8]) -> Option<u64> {
    Fields::find(field, bytes).and_then(|field| field.as_u64())
}

fn named(names: &[&'static str], number: u64) -> &'static str {
    let name = usize::try_from(number).ok().and_then(|at| names.get(at));
    name.copied().unwrap_or(names[0])
}

impl Dump {
    pub(super) fn new(upid: u32, ts: i64) -> Self {
        Self {
            upid,
            ts,
            heap_size: None,
            last_index: None,
            last_object: 0,
            last_heap_type: 0,
            objects: FxHashMap::default(),
            classes: FxHashMap::default(),
            types: BTreeMap::new(),
            field_names: FxHashMap::default(),
            locations: FxHashMap::default(),
            roots: Vec::new(),
            unsized_objects: Vec::new(),
            unnamed: Vec::new(),
            named: Vec::new(),
        }
    }

    /// Returns true if a packet of this process and time belongs to the dump.
    pub(super) fn is_of(&self, upid: u32, ts: i64) -> bool {
        (self.upid, self.ts) == (upid, ts)
    }

    /// Reads the fields of a packet that may follow those of another dump, too.
    pub(super) fn begin(&mut self, cx: &mut Context, bytes: &[u8]) {
        let index = number(heap_graph::INDEX, bytes).unwrap_or(0);
        let expected = self.last_index.map_or(0, |last| last.wrapping_add(1));
        if index != expected {
            let stat = Stat::heap_graph_missing_packet;
            cx.store.stats.add_indexed(stat, self.upid.into(), 1);
        }
        self.last_index = Some(index);
        if let Some(size) = number(heap_graph::HEAP_BYTES_ALLOCATED, bytes) {
            self.heap_size = Some(size as i64);
        }
    }

    /// Reads the objects, classes, names and roots of a packet. With `is_other`, they are of
    /// another process or time, so that only classes and names count.
    pub(super) fn read(
        &mut self,
        cx: &mut Context,
        bytes: &[u8],
        is_other: bool,
        facts: &mut Facts,
    ) {
        for field in Fields::new(bytes).map_while(Result::ok) {
            let message = field.as_bytes().unwrap_or_default();
            match field.number {
                heap_graph::OBJECTS if !is_other => self.object(cx, message, facts),
                heap_graph::ROOTS if !is_other => self.root(message),
                heap_graph::TYPES => self.class(cx, message),
                heap_graph::FIELD_NAMES => self.field_name(cx, message),
                heap_graph::LOCATION_NAMES => {
                    let (iid, text) = interned(message);
                    let text = cx.store.strings.intern_bytes(text);
                    self.locations.insert(iid, text);
                }
                _ => {}
            }
        }
    }

    /// Returns the row of an object. Adds objects that were not described yet.
    fn object_row(&mut self, cx: &mut Context, id: u64) -> u32 {
        let (upid, graph_sample_ts) = (self.upid, self.ts);
        *self.objects.entry(id).or_insert_with(|| {
            cx.store.tables.heap_graph_object.push(HeapGraphObjectRow {
                upid,
                graph_sample_ts,
                self_size: -1,
                native_size: 0,
                reference_set_id: None,
                reachable: false,
                heap_type: StringId::NULL,
                type_id: 0,
                root_type: StringId::NULL,
                root_distance: -1,
                object_data_id: None,
            })
        })
    }

    fn class_row(&mut self, cx: &mut Context, id: u64) -> u32 {
        *self.classes.entry(id).or_insert_with(|| {
            cx.store.tables.heap_graph_class.push(HeapGraphClassRow {
                name: StringId::NULL,
                deobfuscated_name: StringId::NULL,
                location: StringId::NULL,
                superclass_id: None,
                classloader_id: None,
                kind: StringId::NULL,
            })
        })
    }

    fn object(&mut self, cx: &mut Context, bytes: &[u8], facts: &mut Facts) {
        let (mut id, mut delta, mut type_id, mut size) = (0, 0, 0, 0);
        let (mut base, mut heap_type, mut registry_size) = (0, self.last_heap_type, None);
        let mut names: Vec<u64> = Vec::new();
        let (mut owned, mut internal): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut bitmap = [None; 4];
        for field in Fields::new(bytes).map_while(Result::ok) {
            let value = field.as_u64().unwrap_or(0);
            match field.number {
                object::ID => id = value,
                object::ID_DELTA => delta = value,
                object::TYPE_ID => type_id = value,
                object::SELF_SIZE => size = value,
                object::REFERENCE_BASE => base = value,
                object::HEAP_TYPE_DELTA => heap_type = value,
                object::REFERENCE_FIELD_ID => names.extend(field.as_varints()),
                object::REFERENCE_OBJECT_ID => owned.extend(field.as_varints()),
                object::RUNTIME_INTERNAL_OBJECT_ID => internal.extend(field.as_varints()),
                object::REGISTRY_SIZE => registry_size = Some(value as i64),
                object::BITMAP_ID => bitmap[0] = Some(value as i64),
                object::BITMAP_SOURCE_ID => bitmap[1] = Some(value as i64),
                object::BITMAP_WIDTH => bitmap[2] = Some(value as i64),
                object::BITMAP_HEIGHT => bitmap[3] = Some(value as i64),
                _ => {}
            }
        }
        if !names.is_empty() && names.len() != owned.len() {
            self.malformed(cx);
            return;
        }
        if delta != 0 {
            id = self.last_object.wrapping_add(delta);
        }
        (self.last_object, self.last_heap_type) = (id, heap_type);
        let row = self.object_row(cx, id);
        let class = self.class_row(cx, type_id);
        let heap_name = named(&fields::HEAP_TYPES, heap_type);
        let table = &mut cx.store.tables.heap_graph_object;
        table.self_size.set(row, size as i64);
        table.type_id.set(row, class);
        if heap_name != fields::HEAP_TYPES[0] {
            let heap_name = cx.store.strings.intern(heap_name);
            table.heap_type.set(row, heap_name);
        }
        if matches!(heap_name, "HEAP_TYPE_ZYGOTE" | "HEAP_TYPE_BOOT_IMAGE") {
            self.roots.push((id, fields::ROOT_VM_INTERNAL));
        }
        if size == 0 {
            self.unsized_objects.push((type_id, row));
        }
        if let Some(size) = registry_size {
            facts.registry_sizes.insert(row, size);
        }
        let first = cx.store.tables.heap_graph_reference.len();
        if !(owned.is_empty() && internal.is_empty()) {
            let sets = &mut cx.store.tables.heap_graph_object.reference_set_id;
            sets.set(row, Some(first));
        }
        for (at, id) in owned.iter().enumerate() {
            let owned = (*id != 0).then(|| self.object_row(cx, id.wrapping_add(base)));
            let reference = push_reference(cx, first, row, owned, StringId::NULL);
            if let Some(name) = names.get(at) {
                self.named.push((*name, reference));
            }
        }
        if names.is_empty() && !owned.is_empty() {
            self.unnamed.push(Unnamed {
                type_id,
                first,
                count: owned.len() as u32,
            });
        }
        if !internal.is_empty() {
            let name = cx.store.strings.intern("runtimeInternalObjects");
            for id in internal {
                let owned = self.object_row(cx, id);
                push_reference(cx, first, row, Some(owned), name);
            }
        }
        if bitmap.iter().any(Option::is_some) {
            let data = push_bitmap(cx, bitmap);
            let table = &mut cx.store.tables.heap_graph_object;
            table.object_data_id.set(row, Some(data));
        }
    }

    fn root(&mut self, bytes: &[u8]) {
        let kind = number(root::ROOT_TYPE, bytes).unwrap_or(0);
        let all = Fields::new(bytes).map_while(Result::ok);
        let ids = all.filter(|field| field.number == root::OBJECT_IDS);
        let ids = ids.flat_map(|field: Field<'_>| field.as_varints());
        self.roots.extend(ids.map(|id| (id, kind)));
    }

    fn class(&mut self, cx: &mut Context, bytes: &[u8]) {
        let mut id = 0;
        let mut of = Type {
            kind: fields::CLASS_KINDS[0],
            ..Type::default()
        };
        for field in Fields::new(bytes).map_while(Result::ok) {
            let value = field.as_u64().unwrap_or(0);
            match field.number {
                class::ID => id = value,
                class::LOCATION_ID => of.location = Some(value),
                class::CLASS_NAME => {
                    let name = field.as_bytes().unwrap_or_default();
                    of.name = cx.store.strings.intern_bytes(name);
                }
                class::OBJECT_SIZE => of.object_size = value,
                class::SUPERCLASS_ID => of.superclass = value,
                class::REFERENCE_FIELD_ID => of.fields.extend(field.as_varints()),
                class::KIND => of.kind = named(&fields::CLASS_KINDS, value),
                class::CLASSLOADER_ID => of.class_loader = value,
                _ => {}
            }
        }
        self.types.insert(id, of);
    }

    /// Reads the name of a field. The type may stand before it.
    fn field_name(&mut self, cx: &mut Context, bytes: &[u8]) {
        let (iid, text) = interned(bytes);
        let space = text.iter().position(|byte| *byte == b' ');
        let (type_name, name) = match space {
            Some(space) => (Some(&text[..space]), &text[space + 1..]),
            None => (None, text),
        };
        let strings = &mut cx.store.strings;
        let of = FieldName {
            name: strings.intern_bytes(name),
            type_name: type_name.map_or(StringId::NULL, |name| strings.intern_bytes(name)),
        };
        self.field_names.insert(iid, of);
    }

    fn malformed(&self, cx: &mut Context) {
        let stat = Stat::heap_graph_malformed_packet;
        cx.store.stats.add_indexed(stat, self.upid.into(), 1);
    }

    /// Completes the rows of the dump.
    pub(super) fn finish(mut self, cx: &mut Context, facts: &mut Facts) {
        self.name_references(cx);
        self.describe_classes(cx);
        for (type_id, row) in &self.unsized_objects {
            if let Some(of) = self.types.get(type_id) {
                let sizes = &mut cx.store.tables.heap_graph_object.self_size;
                sizes.set(*row, of.object_size as i64);
            }
        }
        let is_known = |type_id: &u64| self.types.contains_key(type_id);
        let sized = self.unsized_objects.iter().all(|(id, _)| is_known(id));
        if !sized || !self.unnamed.iter().all(|of| is_known(&of.type_id)) {
            self.malformed(cx);
        }
        // Objects that the collector never frees come last, as roots of the lowest rank do.
        let internal = |(_, kind): &(u64, u64)| *kind == fields::ROOT_VM_INTERNAL;
        self.roots.sort_by_key(internal);
        for (id, kind) in &self.roots {
            if let Some(row) = self.objects.get(id) {
                let kind = cx.store.strings.intern(named(&fields::ROOT_TYPES, *kind));
                facts.roots.push(Root { object: *row, kind });
            }
        }
        let graphs = &mut cx.store.tables.heap_graph;
        let is_same =
            |row: &u32| (graphs.upid.get(*row), graphs.ts.get(*row)) == (self.upid, self.ts);
        match (0..graphs.len()).rev().take(MAX_SEARCHED).find(is_same) {
            Some(row) if self.heap_size.is_some() => graphs.heap_size.set(row, self.heap_size),
            Some(_) => {}
            None => {
                graphs.push(HeapGraphRow {
                    ts: self.ts,
                    upid: self.upid,
                    dump_reason: StringId::NULL,
                    heap_size: self.heap_size,
                });
            }
        }
    }

    /// Sets the names of fields. Fields of an object are those of its class, and then those of
    /// the superclasses.
    fn name_references(&self, cx: &mut Context) {
        let table = &mut cx.store.tables.heap_graph_reference;
        let (mut missing, mut set) = (0, |row, of: FieldName| {
            table.field_name.set(row, of.name);
            table.field_type_name.set(row, of.type_name);
        });
        for (name, row) in &self.named {
            if let Some(of) = self.field_names.get(name) {
                set(*row, *of);
            }
        }
        for references in &self.unnamed {
            let Some(mut of) = self.types.get(&references.type_id) else {
                continue;
            };
            if fields::KINDS_WITHOUT_FIELDS.contains(&of.kind) {
                continue;
            }
            let mut ids = of.fields.iter();
            // The superclasses of hostile classes may form a circle.
            let mut levels = self.types.len();
            'references: for row in references.first..references.first + references.count {
                let id = loop {
                    if let Some(id) = ids.next() {
                        break id;
                    }
                    let next = self.types.get(&of.superclass);
                    let Some(next) = next.filter(|_| of.superclass != 0 && levels > 0) else {
                        missing += 1;
                        break 'references;
                    };
                    levels -= 1;
                    of = next;
                    ids = of.fields.iter();
                };
                match self.field_names.get(id) {
                    Some(name) => set(row, *name),
                    None => missing += 1,
                }
            }
        }
        if missing > 0 {
            let stat = Stat::heap_graph_malformed_packet;
            cx.store.stats.add_indexed(stat, self.upid.into(), missing);
        }
    }

    fn describe_classes(&mut self, cx: &mut Context) {
        for (id, of) in std::mem::take(&mut self.types) {
            let row = self.class_row(cx, id);
            let loader = (of.class_loader != 0).then(|| self.object_row(cx, of.class_loader));
            let location = of.location.map(|iid| self.locations.get(&iid).copied());
            if location == Some(None) {
                let stat = Stat::heap_graph_invalid_string_id;
                cx.store.stats.add_indexed(stat, self.upid.into(), 1);
            }
            let kind = cx.store.strings.intern(of.kind);
            let table = &mut cx.store.tables.heap_graph_class;
            table.name.set(row, of.name);
            table.classloader_id.set(row, loader);
            table.kind.set(row, kind);
            if let Some(location) = location.flatten() {
                table.location.set(row, location);
            }
            self.types.insert(id, of);
        }
    }
}

/// The maximum number of graphs that are searched for one of the same time.
const MAX_SEARCHED: usize = 1 << 10;

/// Returns the iid and the text of an `InternedString`.
fn interned(bytes: &[u8]) -> (u64, &[u8]) {
    let text = Fields::find(interned_string::STR, bytes).and_then(|text| text.as_bytes());
    let iid = number(interned_string::IID, bytes).unwrap_or(0);
    (iid, text.unwrap_or_default())
}

fn push_reference(
    cx: &mut Context,
    reference_set_id: u32,
    owner_id: u32,
    owned_id: Option<u32>,
    field_name: StringId,
) -> u32 {
    let table = &mut cx.store.tables.heap_graph_reference;
    table.push(HeapGraphReferenceRow {
        reference_set_id,
        owner_id,
        owned_id,
        field_name,
        field_type_name: StringId::NULL,
        deobfuscated_field_name: StringId::NULL,
    })
}

/// Adds the id, the id of the source, the width and the height of a bitmap.
fn push_bitmap(cx: &mut Context, values: [Option<i64>; 4]) -> u32 {
    const FIELDS: [(&str, &str); 4] = [
        ("android.graphics.Bitmap.mId", "long"),
        ("android.graphics.Bitmap.mSourceId", "long"),
        ("android.graphics.Bitmap.mWidth", "int"),
        ("android.graphics.Bitmap.mHeight", "int"),
    ];
    let field_set_id = cx.store.tables.heap_graph_primitive.len();
    for ((name, type_name), value) in FIELDS.iter().zip(values) {
        let Some(value) = value else {
            continue;
        };
        let is_long = *type_name == "long";
        let row = HeapGraphPrimitiveRow {
            field_set_id,
            field_name: cx.store.strings.intern(name),
            field_type: cx.store.strings.intern(type_name),
            bool_value: None,
            byte_value: None,
            char_value: None,
            short_value: None,
            int_value: Some(value).filter(|_| !is_long),
            long_value: Some(value).filter(|_| is_long),
            float_value: None,
            double_value: None,
        };
        cx.store.tables.heap_graph_primitive.push(row);
    }
    let table = &mut cx.store.tables.heap_graph_object_data;
    table.push(HeapGraphObjectDataRow {
        field_set_id: Some(field_set_id),
        value_string: StringId::NULL,
        array_element_type: StringId::NULL,
        array_element_count: None,
        array_data_id: None,
        array_data_hash: None,
    })
}

//! The columns of objects that follow from their references.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::dump::{Facts, Root};
use super::fields::WEAK_KINDS;
use super::names::TypeName;
use crate::store::Store;
use crate::strings::StringId;

/// Returns the rows of the references of an object.
fn references(store: &Store, object: u32) -> impl Iterator<Item = u32> + '_ {
    let set = store.tables.heap_graph_object.reference_set_id.get(object);
    let table = &store.tables.heap_graph_reference;
    // The rows of a set are consecutive, and its id is the first one.
    let rows = set.into_iter().flat_map(move |set| set..table.len());
    rows.take_while(move |row| Some(table.reference_set_id.get(*row)) == set)
}

/// Returns the object to which a field of an object refers.
fn referent(store: &Store, object: u32, field: Option<StringId>) -> Option<u32> {
    let table = &store.tables.heap_graph_reference;
    let mut rows = references(store, object);
    let row = rows.find(|row| Some(table.field_name.get(*row)) == field)?;
    table.owned_id.get(row)
}

/// Marks roots, and the objects that can be reached from them, with their distances.
pub(super) fn mark(store: &mut Store, facts: &Facts) {
    // If an object is a root in several ways, the first of these counts.
    const RANKS: [&str; 3] = ["ROOT_STICKY_CLASS", "ROOT_JNI_GLOBAL", "ROOT_JNI_LOCAL"];
    let ranks = RANKS.map(|name| store.strings.find(name));
    let rank = |kind| {
        let rank = ranks.iter().position(|name| *name == Some(kind));
        rank.unwrap_or(RANKS.len())
    };
    let mut queue = VecDeque::new();
    for Root { object, kind } in &facts.roots {
        let table = &mut store.tables.heap_graph_object;
        let known = table.root_type.get(*object);
        if known.is_null() || rank(*kind) < rank(known) {
            table.root_type.set(*object, *kind);
        }
        if known.is_null() {
            table.reachable.set(*object, true);
            table.root_distance.set(*object, 0);
            queue.push_back(*object);
        }
    }
    let weak = WEAK_KINDS.map(|name| store.strings.find(name));
    let weak_field = store.strings.find("java.lang.ref.Reference.referent");
    let mut owned = Vec::new();
    while let Some(object) = queue.pop_front() {
        let objects = &store.tables.heap_graph_object;
        let distance = objects.root_distance.get(object);
        let classes = &store.tables.heap_graph_class;
        let kind = classes.row(objects.type_id.get(object)).map(|row| row.kind);
        let is_weak = kind.is_some_and(|kind| weak.contains(&Some(kind)));
        let table = &store.tables.heap_graph_reference;
        let strong = references(store, object)
            .filter(|row| !(is_weak && Some(table.field_name.get(*row)) == weak_field));
        owned.extend(strong.filter_map(|row| table.owned_id.get(row)));
        let objects = &mut store.tables.heap_graph_object;
        for object in owned.drain(..) {
            if !objects.reachable.get(object) {
                objects.reachable.set(object, true);
                let next = distance.saturating_add(1);
                objects.root_distance.set(object, next);
                queue.push_back(object);
            }
        }
    }
}

/// Adds the sizes of registered native allocations to the objects that own them: a cleaner refers
/// to the object, and by way of its thunk to the registry.
pub(super) fn add_native_sizes(store: &mut Store, facts: &Facts) {
    let find = |name| store.strings.find(name);
    let Some(cleaner) = find("sun.misc.Cleaner") else {
        return;
    };
    let owner_field = find("java.lang.ref.Reference.referent");
    let thunk_field = find("sun.misc.Cleaner.thunk");
    let next_field = find("sun.misc.Cleaner.next");
    let registry_field = find("libcore.util.NativeAllocationRegistry$CleanerThunk.this$0");
    let classes = &store.tables.heap_graph_class;
    let is_cleaner = |class: u32| class < classes.len() && classes.name.get(class) == cleaner;
    let objects = &store.tables.heap_graph_object;
    let cleaners = (0..objects.len()).filter(|row| is_cleaner(objects.type_id.get(*row)));
    let sizes: Vec<(u32, i64)> = cleaners
        .filter_map(|object| {
            let owner = referent(store, object, owner_field)?;
            let thunk = referent(store, object, thunk_field)?;
            // A cleaner that was run refers to itself.
            let is_done = referent(store, object, next_field) == Some(object);
            let registry = referent(store, thunk, registry_field).filter(|_| !is_done)?;
            let size = facts.registry_sizes.get(&registry)?;
            // The lowest bit is the kind of allocation.
            Some((owner, size & !1))
        })
        .collect();
    let column = &mut store.tables.heap_graph_object.native_size;
    for (owner, size) in sizes {
        let sum = column.get(owner).saturating_add(size);
        column.set(owner, sum);
    }
}

/// Sets the superclasses: the objects that represent classes refer to those of their superclasses.
pub(super) fn set_superclasses(store: &mut Store) {
    let Some(field) = store.strings.find("java.lang.Class.superClass") else {
        return;
    };
    let classes = &store.tables.heap_graph_class;
    let objects = &store.tables.heap_graph_object;
    let class_of = |object: u32| {
        let class = classes.row(objects.type_id.get(object))?;
        let name = TypeName::of(store.strings.get(class.name)?);
        Some((name, class.location))
    };
    // Names of classes with their locations, and the same of their superclasses.
    let mut above: FxHashMap<(&str, StringId), (&str, StringId)> = FxHashMap::default();
    for object in 0..objects.len() {
        let Some((name, location)) = class_of(object) else {
            continue;
        };
        if !name.is_static_class || name.arrays > 0 {
            continue;
        }
        let superclass = referent(store, object, Some(field)).and_then(class_of);
        if let Some((of, at)) = superclass {
            above.insert((name.name, location), (of.name, at));
        }
    }
    let named = |row: u32| {
        let name = store.strings.get(classes.name.get(row))?;
        Some((name, classes.location.get(row)))
    };
    let rows: FxHashMap<_, u32> = (0..classes.len())
        .filter_map(|row| Some((named(row)?, row)))
        .collect();
    let found: Vec<(u32, u32)> = (0..classes.len())
        .filter_map(|row| {
            let superclass = above.get(&named(row)?)?;
            Some((row, *rows.get(superclass)?))
        })
        .collect();
    let column = &mut store.tables.heap_graph_class.superclass_id;
    for (row, superclass) in found {
        column.set(row, Some(superclass));
    }
}

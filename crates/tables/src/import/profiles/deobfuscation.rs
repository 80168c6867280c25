//! Names before obfuscation: `DeobfuscationMapping`.

use std::collections::BTreeSet;

use ferretto_proto::fields::{deobfuscation_mapping, obfuscated_class, obfuscated_member};
use ferretto_wire::Fields;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::schema::StackProfileSymbolRow;
use crate::store::Store;
use crate::strings::StringId;

/// All mappings of a trace.
#[derive(Debug)]
pub(super) struct Names<'a> {
    mappings: &'a [Box<[u8]>],
    packages: FxHashMap<i64, StringId>,
}

/// A class with its names.
#[derive(Debug)]
pub(super) struct Class<'a> {
    pub(super) package: &'a str,
    pub(super) obfuscated: String,
    pub(super) name: String,
    bytes: &'a [u8],
}

/// A member of a class, with both names qualified.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) obfuscated: String,
    pub(super) name: String,
    bytes: &'a [u8],
}

fn text(number: u32, bytes: &[u8]) -> String {
    let text = Fields::find(number, bytes).and_then(|field| field.as_str_lossy());
    text.map(|text| text.into_owned()).unwrap_or_default()
}

fn messages(number: u32, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let fields = Fields::new(bytes).map_while(Result::ok);
    let fields = fields.filter(move |field| field.number == number);
    fields.filter_map(|field| field.as_bytes())
}

impl<'a> Class<'a> {
    /// Returns its methods or its other members.
    pub(super) fn members(&self, number: u32) -> impl Iterator<Item = Member<'a>> + '_ {
        messages(number, self.bytes).map(|bytes| {
            let name = text(obfuscated_member::DEOBFUSCATED_NAME, bytes);
            let obfuscated = text(obfuscated_member::OBFUSCATED_NAME, bytes);
            Member {
                obfuscated: format!("{}.{obfuscated}", self.obfuscated),
                // Methods that were moved here name their class.
                name: if name.contains('.') {
                    name
                } else {
                    format!("{}.{name}", self.name)
                },
                bytes,
            }
        })
    }
}

impl<'a> Names<'a> {
    pub(super) fn new(store: &Store, mappings: &'a [Box<[u8]>]) -> Self {
        let table = &store.tables.package_list;
        let mut packages = FxHashMap::default();
        for row in 0..table.len() {
            let name = table.package_name.get(row);
            packages.entry(table.uid.get(row)).or_insert(name);
        }
        Self { mappings, packages }
    }

    /// Returns the packages by user.
    pub(super) fn packages(&self) -> &FxHashMap<i64, StringId> {
        &self.packages
    }

    /// Returns all classes of all mappings.
    pub(super) fn classes(&self) -> impl Iterator<Item = Class<'a>> {
        self.mappings.iter().flat_map(|mapping| {
            let package = Fields::find(deobfuscation_mapping::PACKAGE_NAME, mapping);
            let package = package
                .and_then(|field| field.as_bytes())
                .unwrap_or_default();
            let package = std::str::from_utf8(package).unwrap_or_default();
            let classes = messages(deobfuscation_mapping::OBFUSCATED_CLASSES, mapping);
            classes.map(move |bytes| Class {
                package,
                obfuscated: text(obfuscated_class::OBFUSCATED_NAME, bytes),
                name: text(obfuscated_class::DEOBFUSCATED_NAME, bytes),
                bytes,
            })
        })
    }
}

/// Returns the package to which a file belongs.
pub(super) fn package_of(path: &str) -> Option<&str> {
    const PATHS: [(&str, &str); 8] = [
        (
            "/system_ext/priv-app/SystemUIGoogle/SystemUIGoogle.apk",
            "com.android.systemui",
        ),
        (
            "/product/priv-app/Phonesky/Phonesky.apk",
            "com.android.vending",
        ),
        ("/product/app/Maps/Maps.apk", "com.google.android.apps.maps"),
        (
            "/system_ext/priv-app/NexusLauncherRelease/NexusLauncherRelease.apk",
            "com.google.android.apps.nexuslauncher",
        ),
        (
            "/product/app/Photos/Photos.apk",
            "com.google.android.apps.photos",
        ),
        (
            "/product/priv-app/WellbeingPrebuilt/WellbeingPrebuilt.apk",
            "com.google.android.apps.wellbeing",
        ),
        (
            "/product/app/PrebuiltGmail/PrebuiltGmail.apk",
            "com.google.android.gm",
        ),
        (
            "/product/priv-app/Velvet/Velvet.apk",
            "com.google.android.googlequicksearchbox",
        ),
    ];
    const PARTS: [(&str, &str); 6] = [
        ("DevicePersonalizationPrebuilt", "com.google.android.as"),
        ("MatchMaker", "com.google.android.as"),
        (
            "DeviceIntelligenceNetworkPrebuilt",
            "com.google.android.as.oss",
        ),
        (
            "SettingsIntelligenceGooglePrebuilt",
            "com.google.android.settings.intelligence",
        ),
        ("PrebuiltGmsCore", "com.google.android.gms"),
        ("com.google.android.gms", "com.google.android.gms"),
    ];
    if let Some((_, package)) = PATHS.iter().find(|(start, _)| path.starts_with(start)) {
        return Some(package);
    }
    if let Some((_, package)) = PARTS.iter().find(|(part, _)| path.contains(part)) {
        return Some(package);
    }
    // Installed packages: `/data/app/[~~TEXT/]PACKAGE-TEXT/base.apk`.
    let rest = path.strip_prefix("/data/app/")?;
    let rest = match rest.strip_prefix('~') {
        Some(rest) => rest.split_once('/')?.1,
        None => rest,
    };
    let (folder, _) = rest.split_once('/')?;
    folder.split_once('-').map(|(package, _)| package)
}

/// A name of a method before obfuscation, and the lines that it covers.
#[derive(Debug)]
struct Method {
    name: StringId,
    first_line: Option<u32>,
    last_line: Option<u32>,
    source_line: Option<u32>,
}

impl Method {
    fn has(&self, line: u32) -> bool {
        self.first_line.is_none_or(|first| first <= line)
            && self.last_line.is_none_or(|last| line <= last)
    }
}

/// Sets the names of frames before obfuscation.
pub(super) fn deobfuscate_frames(store: &mut Store, names: &Names<'_>) {
    let frames = frames_by_name(store, names);
    if frames.is_empty() {
        return;
    }
    let memfd = store.strings.find(MEMFD);
    // The methods with the same obfuscated name, by package.
    let mut order: Vec<(StringId, StringId)> = Vec::new();
    let mut methods: FxHashMap<(StringId, StringId), Vec<Method>> = FxHashMap::default();
    for class in names.classes() {
        if class.package.is_empty() {
            continue;
        }
        for member in class.members(obfuscated_class::OBFUSCATED_METHODS) {
            let number = |number| {
                let field = Fields::find(number, member.bytes);
                field.and_then(|field| field.as_u32())
            };
            let package = store.strings.intern(class.package);
            let key = (package, store.strings.intern(&member.obfuscated));
            let list = methods.entry(key).or_insert_with(|| {
                order.push(key);
                Vec::new()
            });
            list.push(Method {
                name: store.strings.intern(&member.name),
                first_line: number(obfuscated_member::OBFUSCATED_LINE_START),
                last_line: number(obfuscated_member::OBFUSCATED_LINE_END),
                source_line: number(obfuscated_member::SOURCE_LINE_START),
            });
        }
    }
    for key in order {
        let (package, name) = key;
        let packages = [Some(package), memfd].into_iter().flatten();
        let rows = packages.filter_map(|package| frames.get(&(package, name)));
        for row in rows.flatten() {
            name_frame(store, *row, &methods[&key]);
        }
    }
}

/// Names a frame by the methods with its obfuscated name.
fn name_frame(store: &mut Store, frame: u32, methods: &[Method]) {
    let symbols = &store.tables.stack_profile_symbol;
    let set = store.tables.stack_profile_frame.symbol_set_id.get(frame);
    let line = set.and_then(|set| {
        let mut rows =
            (set..symbols.len()).take_while(|row| symbols.symbol_set_id.get(*row) == set);
        rows.find_map(|row| symbols.line_number.get(row))
    });
    let inlined: Vec<&Method> = match line {
        Some(line) => methods.iter().filter(|method| method.has(line)).collect(),
        None => Vec::new(),
    };
    let name = if let Some(outermost) = inlined.last() {
        let symbol_set_id = symbols.len();
        for (at, method) in inlined.iter().enumerate() {
            let row = StackProfileSymbolRow {
                symbol_set_id,
                name: method.name,
                source_file: StringId::NULL,
                line_number: method.source_line,
                inlined: Some(at + 1 < inlined.len()),
            };
            store.tables.stack_profile_symbol.push(row);
        }
        let sets = &mut store.tables.stack_profile_frame.symbol_set_id;
        sets.set(frame, Some(symbol_set_id));
        outermost.name
    } else {
        // Without a line, the method is one of these.
        let texts = methods.iter().map(|method| store.strings.text(method.name));
        let texts: BTreeSet<&str> = texts.collect();
        let text = texts.into_iter().collect::<Vec<_>>().join(" | ");
        store.strings.intern(&text)
    };
    let column = &mut store.tables.stack_profile_frame.deobfuscated_name;
    column.set(frame, name);
}

/// The package of code in memory without a file.
const MEMFD: &str = "memfd";

/// Returns the frames of Java by package and name.
fn frames_by_name(
    store: &mut Store,
    names: &Names<'_>,
) -> FxHashMap<(StringId, StringId), Vec<u32>> {
    let mut known: FxHashMap<(StringId, StringId), Vec<u32>> = FxHashMap::default();
    let mut without_package = FxHashSet::default();
    let memfd = store.strings.intern(MEMFD);
    for row in 0..store.tables.stack_profile_frame.len() {
        let frames = &store.tables.stack_profile_frame;
        let name = frames.name.get(row);
        if !store.strings.text(name).contains('.') {
            continue;
        }
        let mapping = frames.mapping.get(row);
        let path = store.tables.stack_profile_mapping.row(mapping);
        let path = path
            .map(|row| store.strings.text(row.name))
            .unwrap_or_default();
        let is_memory = path.starts_with("/memfd:");
        let package = package_of(path).map(str::to_owned);
        let package = package.map(|name| store.strings.intern(&name));
        match package.or(Some(memfd).filter(|_| is_memory)) {
            Some(package) => known.entry((package, name)).or_default().push(row),
            None => {
                without_package.insert(row);
            }
        }
    }
    if !without_package.is_empty() {
        guess_packages(store, names, &mut known, without_package);
    }
    known
}

/// Adds the frames without a package: theirs is that of the first process which had them in a
/// callstack.
fn guess_packages(
    store: &mut Store,
    names: &Names<'_>,
    known: &mut FxHashMap<(StringId, StringId), Vec<u32>>,
    mut without_package: FxHashSet<u32>,
) {
    store.store_callsites();
    let tables = &store.tables;
    let mut seen = FxHashSet::default();
    let mut add = |upid: u32, callsite: u32| {
        let row = tables.process.row(upid);
        let app = row.and_then(|row| row.android_appid).map(i64::from);
        let Some(package) = app.and_then(|app| names.packages.get(&app)) else {
            return;
        };
        let mut at = Some(callsite);
        while let Some(row) = at.filter(|row| seen.insert(*row)) {
            let Some(callsite) = tables.stack_profile_callsite.row(row) else {
                return;
            };
            if without_package.remove(&callsite.frame_id) {
                let name = tables.stack_profile_frame.name.get(callsite.frame_id);
                let frames = known.entry((*package, name)).or_default();
                frames.push(callsite.frame_id);
            }
            at = callsite.parent_id;
        }
    };
    let allocations = &tables.heap_profile_allocation;
    for row in 0..allocations.len() {
        add(allocations.upid.get(row), allocations.callsite_id.get(row));
    }
    let samples = &tables.profiler_sample;
    for row in 0..samples.len() {
        let context = samples.task_context_id.get(row);
        let context = context.and_then(|id| tables.profiler_task_context.row(id));
        let callsite = samples.callsite_id.get(row);
        if let (Some(upid), Some(callsite)) = (context.and_then(|row| row.upid), callsite) {
            add(upid, callsite);
        }
    }
    let threads = &tables.heap_graph_thread_callsite;
    for row in 0..threads.len() {
        let upid = tables.heap_graph.upid.get(threads.heap_graph_id.get(row));
        if let Some(callsite) = threads.callsite_id.get(row) {
            add(upid, callsite);
        }
    }
}

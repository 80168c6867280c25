//! The parts of the schema that get Rust types, in layers behind Cargo features.
//!
//! The embedded descriptors know the whole schema, but Rust types are made only for messages that
//! the programs here read: a field whose type has none is an unknown field to Rust, and unknown
//! fields are kept byte for byte. That keeps the crate quick to compile.

use std::collections::BTreeSet;

use protox::prost_reflect::prost_types::field_descriptor_proto::Type;
use protox::prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto,
};

/// When the types of a .proto file are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    /// Always: sockets, configuration and the packets the service writes.
    Core,
    /// With the feature `sources`: configs and descriptors of single data sources. The service
    /// passes it on unread.
    Sources,
    /// With the feature `trace`: `TracePacket` and its parts.
    Trace,
    /// Never, but fields of these types are there as bytes: the program that runs them decodes
    /// them, and the service passes them on unchanged. Their field numbers are always there.
    Encoded,
    /// Never: in the descriptors only.
    DescriptorsOnly,
}

/// Folders and files, the most specific first.
const LAYERS: &[(&str, Layer)] = &[
    ("perfetto/ipc/", Layer::Core),
    ("perfetto/common/android_", Layer::DescriptorsOnly),
    ("perfetto/common/descriptor.proto", Layer::DescriptorsOnly),
    ("perfetto/common/gpu_", Layer::DescriptorsOnly),
    ("perfetto/common/ftrace_descriptor.proto", Layer::Sources),
    ("perfetto/common/perf_events.proto", Layer::Sources),
    ("perfetto/common/sys_stats_counters.proto", Layer::Sources),
    ("perfetto/common/", Layer::Core),
    ("perfetto/config/android/", Layer::DescriptorsOnly),
    ("perfetto/config/chrome/", Layer::DescriptorsOnly),
    ("perfetto/config/etw/", Layer::DescriptorsOnly),
    ("perfetto/config/ftrace/", Layer::Sources),
    ("perfetto/config/gpu/", Layer::DescriptorsOnly),
    ("perfetto/config/inode_file/", Layer::Sources),
    ("perfetto/config/linux/", Layer::Sources),
    ("perfetto/config/power/", Layer::DescriptorsOnly),
    ("perfetto/config/process_stats/", Layer::Sources),
    ("perfetto/config/profiling/", Layer::Sources),
    ("perfetto/config/qnx/", Layer::DescriptorsOnly),
    ("perfetto/config/statsd/", Layer::DescriptorsOnly),
    ("perfetto/config/sys_stats/", Layer::Sources),
    ("perfetto/config/", Layer::Core),
    ("perfetto/protovm/", Layer::Encoded),
    ("perfetto/trace/clock_snapshot.proto", Layer::Core),
    ("perfetto/trace/remote_clock_sync.proto", Layer::Core),
    ("perfetto/trace/trace_uuid.proto", Layer::Core),
    ("perfetto/trace/trigger.proto", Layer::Core),
    (
        "perfetto/trace/perfetto/perfetto_metatrace.proto",
        Layer::Trace,
    ),
    ("perfetto/trace/perfetto/", Layer::Core),
    ("perfetto/trace/android/", Layer::DescriptorsOnly),
    ("perfetto/trace/chrome/", Layer::DescriptorsOnly),
    ("perfetto/trace/etw/", Layer::DescriptorsOnly),
    ("perfetto/trace/generic_kernel/", Layer::DescriptorsOnly),
    ("perfetto/trace/gpu/", Layer::DescriptorsOnly),
    ("perfetto/trace/power/", Layer::DescriptorsOnly),
    (
        "perfetto/trace/profiling/art_process_metadata.proto",
        Layer::DescriptorsOnly,
    ),
    (
        "perfetto/trace/profiling/deobfuscation.proto",
        Layer::DescriptorsOnly,
    ),
    ("perfetto/trace/statsd/", Layer::DescriptorsOnly),
    ("perfetto/trace/translation/", Layer::DescriptorsOnly),
    ("perfetto/trace/memory_graph.proto", Layer::DescriptorsOnly),
    (
        "perfetto/trace/system_info/gpu_info.proto",
        Layer::DescriptorsOnly,
    ),
    ("perfetto/trace/track_event/chrome_", Layer::DescriptorsOnly),
    ("perfetto/trace/ftrace/cpuhp.proto", Layer::Trace),
    ("perfetto/trace/ftrace/ftrace", Layer::Trace),
    ("perfetto/trace/ftrace/generic.proto", Layer::Trace),
    ("perfetto/trace/ftrace/irq.proto", Layer::Trace),
    ("perfetto/trace/ftrace/oom.proto", Layer::Trace),
    ("perfetto/trace/ftrace/power.proto", Layer::Trace),
    ("perfetto/trace/ftrace/raw_syscalls.proto", Layer::Trace),
    ("perfetto/trace/ftrace/sched.proto", Layer::Trace),
    ("perfetto/trace/ftrace/signal.proto", Layer::Trace),
    ("perfetto/trace/ftrace/task.proto", Layer::Trace),
    ("perfetto/trace/ftrace/", Layer::DescriptorsOnly),
    ("perfetto/trace/", Layer::Trace),
    (super::EXTENSIONS, Layer::DescriptorsOnly),
];

impl Layer {
    /// Tells whether types of this layer may hold those of the other.
    fn sees(self, other: Self) -> bool {
        match self {
            Self::Core => other == Self::Core,
            Self::Sources => matches!(other, Self::Core | Self::Sources),
            Self::Trace => !matches!(other, Self::DescriptorsOnly | Self::Encoded),
            Self::DescriptorsOnly | Self::Encoded => false,
        }
    }

    /// The Cargo feature with its types.
    pub(super) fn feature(self) -> Option<&'static str> {
        match self {
            Self::Core | Self::Encoded => None,
            Self::Sources => Some("sources"),
            Self::Trace => Some("trace"),
            Self::DescriptorsOnly => Some("descriptors"),
        }
    }
}

pub(super) fn layer(path: &str) -> Layer {
    let found = LAYERS.iter().find(|(prefix, _)| path.starts_with(prefix));
    found.map_or(Layer::DescriptorsOnly, |(_, layer)| *layer)
}

/// The schema without the files, and without the fields of their types, that
/// get no Rust types.
pub(super) fn rust_view(files: &[FileDescriptorProto]) -> Vec<FileDescriptorProto> {
    let mut types: Vec<(Layer, BTreeSet<String>)> = Vec::new();
    for file in files {
        let package = format!(".{}", file.package());
        let mut found = BTreeSet::new();
        for message in &file.message_type {
            collect(message, &package, &mut found);
        }
        for e in &file.enum_type {
            found.insert(format!("{package}.{}", e.name()));
        }
        types.push((layer(file.name()), found));
    }
    let seen_by = |layer: Layer| -> BTreeSet<&str> {
        let seen = types.iter().filter(|(other, _)| layer.sees(*other));
        seen.flat_map(|(_, found)| found.iter().map(String::as_str))
            .collect()
    };
    let all = seen_by(Layer::Trace);
    let encoded: BTreeSet<&str> = types
        .iter()
        .filter(|(layer, _)| *layer == Layer::Encoded)
        .flat_map(|(_, found)| found.iter().map(String::as_str))
        .collect();
    let mut view = Vec::new();
    for file in files {
        let layer = layer(file.name());
        if matches!(layer, Layer::DescriptorsOnly | Layer::Encoded) {
            continue;
        }
        let known = seen_by(layer);
        let mut file = file.clone();
        for message in &mut file.message_type {
            reduce(message, &|field| match field.type_name.as_deref() {
                None => Fate::Typed,
                Some(name) if encoded.contains(name) => Fate::Encoded,
                // Fields that stay encoded need no type here, only one to decode them with.
                Some(name) if is_lazy(field) && all.contains(name) => Fate::Encoded,
                Some(name) if !is_lazy(field) && known.contains(name) => Fate::Typed,
                Some(_) => Fate::Unknown,
            });
        }
        view.push(file);
    }
    view
}

fn collect(message: &DescriptorProto, scope: &str, into: &mut BTreeSet<String>) {
    let name = format!("{scope}.{}", message.name());
    for nested in &message.nested_type {
        collect(nested, &name, into);
    }
    for e in &message.enum_type {
        into.insert(format!("{name}.{}", e.name()));
    }
    into.insert(name);
}

/// The treatment of a field.
#[derive(PartialEq, Eq)]
enum Fate {
    Typed,
    /// The bytes of its message: the service passes them on and must not change one, as producers
    /// compare the encoded configs they get with those they have.
    Encoded,
    /// Left out, and so an unknown field.
    Unknown,
}

fn reduce(message: &mut DescriptorProto, fate: &dyn Fn(&FieldDescriptorProto) -> Fate) {
    message.field.retain_mut(|field| {
        let fate = fate(field);
        if fate == Fate::Encoded {
            field.set_type(Type::Bytes);
            field.type_name = None;
            field.options = None;
        }
        fate != Fate::Unknown
    });
    for nested in &mut message.nested_type {
        reduce(nested, fate);
    }
    drop_empty_oneofs(message);
}

fn is_lazy(field: &FieldDescriptorProto) -> bool {
    field.options.as_ref().is_some_and(|options| options.lazy())
}

/// A oneof of which nothing is left would have no variants.
fn drop_empty_oneofs(message: &mut DescriptorProto) {
    let used: BTreeSet<i32> = message.field.iter().filter_map(|f| f.oneof_index).collect();
    let old = std::mem::take(&mut message.oneof_decl);
    let mut renumbered = vec![None; old.len()];
    for (index, decl) in old.into_iter().enumerate() {
        if used.contains(&(index as i32)) {
            renumbered[index] = Some(message.oneof_decl.len() as i32);
            message.oneof_decl.push(decl);
        }
    }
    for field in &mut message.field {
        field.oneof_index = field
            .oneof_index
            .and_then(|i| renumbered.get(i as usize).copied().flatten());
    }
}

//! The message types, in two layers behind one Cargo feature.
//!
//! The embedded descriptors know the whole schema, but Rust types are made
//! only for what the programs here look into: a field whose type has none is
//! an unknown field to Rust, and unknown fields are kept byte for byte. That
//! keeps the crate quick to compile.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::Result;
use buffa_codegen::generated::descriptor::field_descriptor_proto::Type;
use buffa_codegen::generated::descriptor::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto,
};
use buffa_codegen::{CodeGenConfig, GeneratedFileKind};

use super::Output;

/// When the types of a .proto file are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    /// Always: sockets, configuration and the packets the service writes.
    Core,
    /// With the feature `trace`: `TracePacket` and what it holds.
    Trace,
    /// Never: in the descriptors only.
    DescriptorsOnly,
}

/// Folders and files, the most specific first.
const LAYERS: &[(&str, Layer)] = &[
    ("perfetto/ipc/", Layer::Core),
    ("perfetto/common/android_", Layer::DescriptorsOnly),
    ("perfetto/common/descriptor.proto", Layer::DescriptorsOnly),
    ("perfetto/common/gpu_", Layer::DescriptorsOnly),
    ("perfetto/common/", Layer::Core),
    ("perfetto/config/android/", Layer::DescriptorsOnly),
    ("perfetto/config/chrome/", Layer::DescriptorsOnly),
    ("perfetto/config/etw/", Layer::DescriptorsOnly),
    ("perfetto/config/gpu/", Layer::DescriptorsOnly),
    ("perfetto/config/power/", Layer::DescriptorsOnly),
    ("perfetto/config/qnx/", Layer::DescriptorsOnly),
    ("perfetto/config/statsd/", Layer::DescriptorsOnly),
    ("perfetto/config/", Layer::Core),
    ("perfetto/protovm/", Layer::DescriptorsOnly),
    ("perfetto/trace/clock_snapshot.proto", Layer::Core),
    ("perfetto/trace/remote_clock_sync.proto", Layer::Core),
    ("perfetto/trace/trace_uuid.proto", Layer::Core),
    ("perfetto/trace/trigger.proto", Layer::Core),
    (
        "perfetto/trace/perfetto/perfetto_metatrace.proto",
        Layer::DescriptorsOnly,
    ),
    ("perfetto/trace/perfetto/", Layer::Core),
    (
        "perfetto/trace/extension_descriptor.proto",
        Layer::DescriptorsOnly,
    ),
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
];

fn layer(path: &str) -> Layer {
    let found = LAYERS.iter().find(|(prefix, _)| path.starts_with(prefix));
    found.map_or(Layer::DescriptorsOnly, |(_, layer)| *layer)
}

/// Adds the message files and the `mod.rs` that joins them.
pub(crate) fn generate(files: &[FileDescriptorProto], output: &mut Output) -> Result<()> {
    let files = rust_view(files);
    let mut config = CodeGenConfig::default();
    config.generate_views = false;
    config.preserve_unknown_fields = true;
    config.strict_utf8_mapping = true;
    config.emit_register_fn = false;
    config.generate_with_setters = false;
    config.idiomatic_enum_aliases = false;
    let names: Vec<String> = files.iter().filter_map(|f| f.name.clone()).collect();
    let (generated, warnings) = buffa_codegen::generate_with_diagnostics(&files, &names, &config)?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    let mut owned = String::new();
    let mut oneofs = String::new();
    for file in generated {
        let into = match file.kind {
            GeneratedFileKind::Owned => &mut owned,
            GeneratedFileKind::Oneof => &mut oneofs,
            _ => continue,
        };
        let source = names.iter().find(|name| belongs(&file.name, name));
        if source.is_some_and(|name| layer(name) == Layer::Trace) {
            into.push_str("#[cfg(feature = \"trace\")]\n");
        }
        let _ = writeln!(into, "include!(\"{}\");", file.name);
        output.insert(file.name, file.content.into_bytes());
    }
    let module = format!(
        "// @generated by `cargo xtask codegen`. DO NOT EDIT.\n\n{owned}\n\
         #[doc(hidden)]\npub mod __buffa {{\nuse super::*;\npub mod oneof {{\nuse super::*;\n{oneofs}}}\n}}\n"
    );
    output.insert("messages.rs".into(), module.into_bytes());
    Ok(())
}

/// Whether the generated file was made from this .proto file.
fn belongs(generated: &str, proto: &str) -> bool {
    let stem = proto.trim_end_matches(".proto").replace('/', ".");
    generated
        .strip_prefix(&stem)
        .is_some_and(|rest| rest == ".rs" || rest == ".__oneof.rs")
}

/// The schema without the files, and without the fields of their types, that
/// get no Rust types.
fn rust_view(files: &[FileDescriptorProto]) -> Vec<FileDescriptorProto> {
    let mut types = BTreeSet::new();
    let mut core_types = BTreeSet::new();
    for file in files {
        let package = format!(".{}", file.package.as_deref().unwrap_or_default());
        let mut found = BTreeSet::new();
        for message in &file.message_type {
            collect(message, &package, &mut found);
        }
        for e in &file.enum_type {
            found.insert(format!(
                "{package}.{}",
                e.name.as_deref().unwrap_or_default()
            ));
        }
        match layer(file.name.as_deref().unwrap_or_default()) {
            Layer::Core => core_types.extend(found),
            Layer::Trace => types.extend(found),
            Layer::DescriptorsOnly => {}
        }
    }
    types.extend(core_types.iter().cloned());
    let mut view = Vec::new();
    for file in files {
        let name = file.name.as_deref().unwrap_or_default();
        let known = match layer(name) {
            Layer::Core => &core_types,
            Layer::Trace => &types,
            Layer::DescriptorsOnly => continue,
        };
        let mut file = file.clone();
        file.dependency
            .retain(|path| layer(path) != Layer::DescriptorsOnly);
        file.public_dependency.clear();
        file.service.clear();
        let source = &mut file.source_code_info;
        // Comments are found by index path, so they must not outlive fields
        // that are taken out; comments on messages are not affected.
        if let Some(info) = source.as_option_mut() {
            info.location
                .retain(|l| l.path.iter().step_by(2).all(|kind| matches!(kind, 3 | 4)));
        }
        for message in &mut file.message_type {
            reduce(message, known);
        }
        view.push(file);
    }
    view
}

fn collect(message: &DescriptorProto, scope: &str, into: &mut BTreeSet<String>) {
    let name = format!("{scope}.{}", message.name.as_deref().unwrap_or_default());
    for nested in &message.nested_type {
        collect(nested, &name, into);
    }
    for e in &message.enum_type {
        into.insert(format!("{name}.{}", e.name.as_deref().unwrap_or_default()));
    }
    into.insert(name);
}

fn reduce(message: &mut DescriptorProto, known: &BTreeSet<String>) {
    message
        .field
        .retain(|f| f.type_name.as_ref().is_none_or(|name| known.contains(name)));
    message.field.iter_mut().for_each(leave_encoded);
    for nested in &mut message.nested_type {
        reduce(nested, known);
    }
    drop_empty_oneofs(message);
}

/// A message field that the schema calls lazy becomes the bytes of its message.
///
/// The service passes them on and must not change a byte: producers compare
/// the encoded configs they get with those they have.
fn leave_encoded(field: &mut FieldDescriptorProto) {
    if field.options.as_option().and_then(|options| options.lazy) == Some(true) {
        field.r#type = Some(Type::TYPE_BYTES);
        field.type_name = None;
        field.options = Default::default();
    }
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

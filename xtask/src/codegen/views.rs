//! Borrowed views of the messages that readers of traces use: structures with the fields of one
//! message, read in one pass without allocation.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use protox::prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use protox::prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
};

use super::code::{Code, line};
use super::names::{identifier, snake_case};

/// The messages with a view, and those of their fields that readers use; all if the list is empty.
const MESSAGES: &[(&str, &[&str])] = &[
    (
        "FtraceEventBundle",
        &[
            "cpu",
            "event",
            "lost_events",
            "compact_sched",
            "ftrace_clock",
            "ftrace_timestamp",
            "boot_timestamp",
            "error",
            "last_read_event_timestamp",
            "previous_bundle_end_timestamp",
            "generic_event_descriptors",
        ],
    ),
    ("FtraceEventBundle.CompactSched", &[]),
    ("FtraceEventBundle.GenericEventDescriptor", &[]),
    (
        "FtraceStats",
        &[
            "phase",
            "cpu_stats",
            "unknown_ftrace_events",
            "failed_ftrace_events",
            "preserve_ftrace_buffer",
            "cpu_buffer_size_pages",
        ],
    ),
    (
        "FtraceCpuStats",
        &[
            "cpu",
            "overrun",
            "commit_overrun",
            "dropped_events",
            "now_ts",
        ],
    ),
    ("SchedSwitchFtraceEvent", &[]),
    ("TaskNewtaskFtraceEvent", &[]),
    ("TaskRenameFtraceEvent", &[]),
    (
        "TraceStats",
        &[
            "buffer_stats",
            "chunks_discarded",
            "patches_discarded",
            "invalid_packets",
            "filter_stats",
            "flushes_failed",
            "final_flush_outcome",
            "writer_stats",
        ],
    ),
    ("TraceStats.BufferStats", &[]),
    ("TraceStats.FilterStats", &["errors"]),
    ("TraceStats.WriterStats", &["sequence_id", "buffer"]),
    (
        "TraceConfig",
        &[
            "buffers",
            "data_sources",
            "write_into_file",
            "file_write_period_ms",
            "max_file_size_bytes",
            "flush_timeout_ms",
            "unique_session_name",
            "trace_attributes",
        ],
    ),
    ("TraceConfig.BufferConfig", &[]),
    ("TraceConfig.DataSource", &["config"]),
    ("DataSourceConfig", &["ftrace_config", "perf_event_config"]),
    ("FtraceConfig", &["drain_period_ms"]),
    (
        "PerfEventConfig",
        &[
            "ring_buffer_pages",
            "remote_descriptor_timeout_ms",
            "max_enqueued_footprint_kb",
            "max_daemon_memory_kb",
        ],
    ),
    ("ProcessTree", &["processes", "threads"]),
    ("ProcessTree.Process", &[]),
    ("ProcessTree.Thread", &[]),
    ("ProcessDescriptor", &["pid", "cmdline", "process_name"]),
    ("ThreadDescriptor", &["pid", "tid", "thread_name"]),
    ("CounterDescriptor", &[]),
    (
        "TrackDescriptor",
        &[
            "uuid",
            "parent_uuid",
            "name",
            "static_name",
            "process",
            "thread",
            "counter",
        ],
    ),
    ("TrackEvent.LegacyEvent", &[]),
    ("DebugAnnotation", &[]),
    ("DebugAnnotation.NestedValue", &[]),
    ("TrackEventDefaults", &[]),
    ("ClockSnapshot", &[]),
    ("ClockSnapshot.Clock", &[]),
    ("SysStats.CpuTimes", &[]),
    ("Mapping", &[]),
    ("Frame", &[]),
    ("Callstack", &[]),
    (
        "PerfSample",
        &[
            "cpu",
            "pid",
            "tid",
            "cpu_mode",
            "timebase_count",
            "follower_counts",
            "callstack_iid",
            "unwind_error",
            "kernel_records_lost",
            "sample_skipped_reason",
            "producer_event",
        ],
    ),
    ("PerfSample.ProducerEvent", &["source_stop_reason"]),
    (
        "PerfSampleDefaults",
        &[
            "timebase",
            "followers",
            "process_shard_count",
            "chosen_process_shard",
        ],
    ),
    (
        "PerfEvents.Timebase",
        &[
            "frequency",
            "period",
            "poll_period_ms",
            "counter",
            "tracepoint",
            "raw_event",
            "modifiers",
            "name",
        ],
    ),
    ("PerfEvents.Tracepoint", &["name"]),
    (
        "PerfEvents.RawEvent",
        &["type", "config", "config1", "config2"],
    ),
    ("FollowerEvent", &[]),
    ("StackSample", &[]),
    ("StackSample.TaskContext", &[]),
    ("StackSample.AsyncContextDescriptor", &[]),
    ("StackSample.ExecutionContext", &[]),
    ("StackSample.CounterDescriptor", &[]),
    ("StackSampleDefaults", &[]),
    ("InlineCallstack", &[]),
    ("InlineCallstack.Frame", &[]),
];

/// Enumerations of messages without a view.
const ENUMS: &[&str] = &[
    "TrackEvent.Type",
    "PerfEvents.Counter",
    "PerfEvents.EventModifier",
];

/// The package of the schema, as it begins the names of types.
const PACKAGE: &str = ".perfetto.protos.";

/// A message or enumeration of the schema that is nested in messages, by its full name.
#[derive(Default)]
struct Types<'a> {
    messages: BTreeMap<String, &'a DescriptorProto>,
    enums: BTreeMap<String, &'a EnumDescriptorProto>,
}

/// A module with the types that are nested in a message.
#[derive(Default)]
struct Module<'a> {
    views: Vec<(&'a DescriptorProto, Vec<&'a FieldDescriptorProto>)>,
    enums: Vec<&'a EnumDescriptorProto>,
    modules: BTreeMap<String, Self>,
}

/// Returns the source of the module of views.
pub(super) fn module(files: &[FileDescriptorProto]) -> Result<String> {
    let mut types = Types::default();
    for file in files {
        if file.package() == "perfetto.protos" {
            types.add("", &file.message_type, &file.enum_type);
        }
    }
    let mut root = Module::default();
    let mut enums: BTreeSet<&str> = ENUMS.iter().copied().collect();
    for (name, wanted) in MESSAGES {
        let message = types.messages.get(*name);
        let message = *message.with_context(|| format!("no message {name} for a view"))?;
        let is_wanted = |field: &&FieldDescriptorProto| {
            wanted.is_empty() || wanted.iter().any(|name| *name == field.name())
        };
        let fields: Vec<_> = message.field.iter().filter(is_wanted).collect();
        for known in *wanted {
            let mut fields = fields.iter();
            let has_field = fields.any(|field| field.name() == *known);
            ensure!(has_field, "no field {known} in {name} for a view");
        }
        let of_enums = fields.iter().filter(|field| field.r#type() == Type::Enum);
        enums.extend(of_enums.filter_map(|field| field.type_name().strip_prefix(PACKAGE)));
        root.within(name).views.push((message, fields));
    }
    for name in enums {
        let found = types.enums.get(name);
        let found = *found.with_context(|| format!("no enumeration {name} for a view"))?;
        root.within(name).enums.push(found);
    }
    let mut code = Code {
        text: String::from("// @generated by `cargo xtask codegen`. DO NOT EDIT.\n\n"),
        depth: 0,
        comments: BTreeMap::new(),
    };
    code.line("use crate::view::{self, Repeated};");
    root.write(&mut code)?;
    Ok(code.text)
}

impl<'a> Types<'a> {
    fn add(
        &mut self,
        parent: &str,
        messages: &'a [DescriptorProto],
        enums: &'a [EnumDescriptorProto],
    ) {
        for message in messages {
            let name = format!("{parent}{}", message.name());
            self.add(
                &format!("{name}."),
                &message.nested_type,
                &message.enum_type,
            );
            self.messages.insert(name, message);
        }
        for e in enums {
            self.enums.insert(format!("{parent}{}", e.name()), e);
        }
    }
}

impl Module<'_> {
    /// Returns the module of a type with a full name.
    fn within(&mut self, name: &str) -> &mut Self {
        match name.split_once('.') {
            Some((parent, rest)) => {
                let module = self.modules.entry(snake_case(parent)).or_default();
                module.within(rest)
            }
            None => self,
        }
    }

    fn write(&self, code: &mut Code) -> Result<()> {
        for (message, fields) in &self.views {
            write_view(code, message.name(), fields)?;
        }
        for e in &self.enums {
            write_enum(code, e);
        }
        for (name, module) in &self.modules {
            code.line("");
            line!(
                code,
                "/// Views of the messages in `{name}`, and values of its enumerations."
            );
            code.block(&format!("pub mod {}", identifier(name)), |code| {
                code.line("use crate::view::{self, Repeated};");
                module.write(code)
            })?;
        }
        Ok(())
    }
}

fn write_view(code: &mut Code, name: &str, fields: &[&FieldDescriptorProto]) -> Result<()> {
    code.line("");
    line!(code, "/// The fields of a `{name}`.");
    code.line("#[derive(Clone, Copy, Debug, Default)]");
    code.block(&format!("pub struct {name}View<'a>"), |code| {
        for field in fields {
            let (element, _) = element(field)?;
            let of_field = match field.label() {
                Label::Repeated => format!("Repeated<'a, {element}>"),
                _ => format!("Option<{element}>"),
            };
            line!(code, "pub {}: {of_field},", identifier(field.name()));
        }
        let borrows = |field: &&FieldDescriptorProto| {
            field.label() == Label::Repeated || element(field).is_ok_and(|(of, _)| of.contains('&'))
        };
        if !fields.iter().any(borrows) {
            code.line("bytes: std::marker::PhantomData<&'a [u8]>,");
        }
        anyhow::Ok(())
    })?;
    code.block(&format!("impl<'a> {name}View<'a>"), |code| {
        code.line("/// Reads the fields up to the first malformed one.");
        code.line("#[inline]");
        code.line("pub fn read(bytes: &'a [u8]) -> Self { Self::read_prefix(bytes).0 }");
        code.line("");
        code.line(
            "/// Reads the fields up to the first malformed one. Returns true if there is none.",
        );
        code.line("#[inline]");
        let head = "pub fn read_prefix(bytes: &'a [u8]) -> (Self, bool)";
        code.block(head, |code| {
            code.line("let mut it = Self::default();");
            code.block(
                "let is_whole = view::walk(bytes, |field, at| match field.number",
                |code| {
                    for field in fields {
                        let name = identifier(field.name());
                        let number = field.number();
                        if field.label() == Label::Repeated {
                            line!(code, "{number} => it.{name}.add(bytes, at, {number}),");
                        } else {
                            let (_, read) = element(field)?;
                            line!(
                                code,
                                "{number} => it.{name} = view::{read}(&field).or(it.{name}),"
                            );
                        }
                    }
                    code.line("_ => {}");
                    anyhow::Ok(())
                },
            )?;
            code.text.truncate(code.text.trim_end().len());
            code.text.push_str(");\n");
            code.line("(it, is_whole)");
            anyhow::Ok(())
        })
    })
}

/// Returns the Rust type of an element of a field, and the function that reads it.
fn element(field: &FieldDescriptorProto) -> Result<(&'static str, &'static str)> {
    let is_fixed = matches!(
        field.r#type(),
        Type::Double
            | Type::Float
            | Type::Fixed64
            | Type::Sfixed64
            | Type::Fixed32
            | Type::Sfixed32
    );
    let is_list = field.label() == Label::Repeated;
    ensure!(
        !is_list || !is_fixed,
        "no view of the list {}",
        field.name()
    );
    Ok(match field.r#type() {
        Type::Double | Type::Float => ("f64", "float"),
        Type::Int64 | Type::Sfixed64 => ("i64", "int64"),
        Type::Uint64 | Type::Fixed64 => ("u64", "uint64"),
        Type::Int32 | Type::Sfixed32 | Type::Enum => ("i32", "int32"),
        Type::Uint32 | Type::Fixed32 => ("u32", "uint32"),
        Type::Bool => ("bool", "boolean"),
        Type::String | Type::Bytes | Type::Message => ("&'a [u8]", "bytes"),
        other @ (Type::Sint32 | Type::Sint64 | Type::Group) => {
            anyhow::bail!("no view of {} of type {other:?}", field.name())
        }
    })
}

fn write_enum(code: &mut Code, e: &EnumDescriptorProto) {
    code.line("");
    line!(code, "/// The values of `{}`.", e.name());
    code.block(
        &format!("pub mod {}", identifier(&snake_case(e.name()))),
        |code| {
            for value in &e.value {
                let name = value.name().to_ascii_uppercase();
                line!(code, "pub const {name}: i32 = {};", value.number());
            }
        },
    );
}

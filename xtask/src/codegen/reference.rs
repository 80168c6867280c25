//! `docs/config.md`: the fields of configs, out of the schema and the comments in it.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, bail};
use protox::prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use protox::prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
};

/// The sections: heading, message, and a sentence on it.
const SECTIONS: &[(&str, &str, &str)] = &[
    (
        "A recording",
        "TraceConfig",
        "The settings of a recording as a whole.",
    ),
    (
        "A data source",
        "DataSourceConfig",
        "`config` of `data_sources`. Of the configs inside, a data source reads its own; those that are not \
         listed here belong to data sources that others bring, and are handed on as they are.",
    ),
    (
        "linux.ftrace",
        "FtraceConfig",
        "Events of the kernel; `ftrace_config`.",
    ),
    (
        "linux.process_stats",
        "ProcessStatsConfig",
        "Processes and threads, and their memory; `process_stats_config`.",
    ),
    (
        "linux.sys_stats",
        "SysStatsConfig",
        "Counters of the system; `sys_stats_config`.",
    ),
    (
        "linux.perf",
        "PerfEventConfig",
        "Callstacks and counters of the processor; `perf_event_config`. `linux.off_cpu` has the same fields.",
    ),
    (
        "Events of linux.perf",
        "PerfEvents",
        "The event that triggers samples.",
    ),
    (
        "Other events of linux.perf",
        "FollowerEvent",
        "An event that is counted with each sample.",
    ),
    (
        "android.heapprofd",
        "HeapprofdConfig",
        "Allocations of programs; `heapprofd_config`.",
    ),
    (
        "linux.inode_file_map",
        "InodeFileConfig",
        "Names of files; `inode_file_config`.",
    ),
    (
        "linux.systemd_journald",
        "SystemdJournaldConfig",
        "Lines of the journal; `journald_config`.",
    ),
    (
        "linux.system_info",
        "SystemInfoConfig",
        "The machine; `system_info_config`.",
    ),
    (
        "track_event",
        "TrackEventConfig",
        "Events of programs; `track_event_config`.",
    ),
    (
        "Priorities",
        "PriorityBoostConfig",
        "`priority_boost` of a recording or a data source.",
    ),
];

const HEAD: &str = "\
# Fields of a config

All fields that the service, its data sources and the library read. Without a default in the table, a number is 0, a text is empty and a
switch is off. \"Refused\" in a field of a recording means that the service refuses the whole config, with a message that names the field; a
data source that refuses a field of its config is not started, and `ferretto record` reports it. [Recording](recording.md) has examples.
`cargo xtask codegen` writes this page from the schema in `proto/`, and CI checks it.
";

/// Enumerations with more values are not listed.
const MAX_VALUES: usize = 12;

/// Comments and messages by their names.
struct Schema<'a> {
    messages: BTreeMap<&'a str, (&'a FileDescriptorProto, &'a DescriptorProto, Vec<i32>)>,
    comments: BTreeMap<(&'a str, Vec<i32>), String>,
    enums: BTreeMap<String, &'a EnumDescriptorProto>,
}

/// Returns the page.
pub(super) fn page(files: &[FileDescriptorProto]) -> Result<String> {
    let schema = Schema::new(files);
    let mut page = HEAD.to_owned();
    for (heading, name, about) in SECTIONS {
        writeln!(page, "\n## {heading}\n\n{about}")?;
        let (file, message, path) = schema
            .messages
            .get(name)
            .with_context(|| format!("the schema has no {name}"))?;
        schema.message(&mut page, file.name(), name, message, path)?;
    }
    Ok(page)
}

impl<'a> Schema<'a> {
    fn new(files: &'a [FileDescriptorProto]) -> Self {
        let mut schema = Self {
            messages: BTreeMap::new(),
            comments: BTreeMap::new(),
            enums: BTreeMap::new(),
        };
        for file in files {
            for location in file.source_code_info.iter().flat_map(|info| &info.location) {
                if let Some(text) = &location.leading_comments {
                    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                    let key = (file.name(), location.path.clone());
                    schema.comments.insert(key, text);
                }
            }
            let package = format!(".{}", file.package());
            for one in &file.enum_type {
                schema
                    .enums
                    .insert(format!("{package}.{}", one.name()), one);
            }
            for (index, message) in file.message_type.iter().enumerate() {
                let path = vec![4, index as i32];
                schema
                    .messages
                    .insert(message.name(), (file, message, path));
                schema.add_enums(&format!("{package}.{}", message.name()), message);
            }
        }
        schema
    }

    fn add_enums(&mut self, name: &str, message: &'a DescriptorProto) {
        for one in &message.enum_type {
            self.enums.insert(format!("{name}.{}", one.name()), one);
        }
        for nested in &message.nested_type {
            self.add_enums(&format!("{name}.{}", nested.name()), nested);
        }
    }

    /// Writes the table of a message, and those of what is nested in it.
    fn message(
        &self,
        page: &mut String,
        file: &str,
        name: &str,
        message: &DescriptorProto,
        path: &[i32],
    ) -> Result<()> {
        let mut rows = Vec::new();
        for (index, field) in message.field.iter().enumerate() {
            let mut location = path.to_vec();
            location.extend([2, index as i32]);
            match self.comments.get(&(file, location)) {
                Some(comment) => rows.push(self.row(field, comment)),
                // Those of others.
                None if field.type_name().ends_with("Config") && name == "DataSourceConfig" => {
                    let own = field.type_name().rsplit('.').next().unwrap_or_default();
                    let section = SECTIONS.iter().find(|(_, message, _)| *message == own);
                    if let Some((heading, ..)) = section {
                        rows.push(
                            self.row(field, &format!("See [{heading}](#{}).", anchor(heading))),
                        );
                    }
                }
                None if name == "DataSourceConfig" => {}
                None => bail!(
                    "{name}.{} has no comment in {file}, which is its meaning",
                    field.name()
                ),
            }
        }
        if !rows.is_empty() {
            writeln!(
                page,
                "\n| field | type | default | meaning |\n|---|---|---|---|"
            )?;
            rows.iter().for_each(|row| page.push_str(row));
        }
        for (index, nested) in message.nested_type.iter().enumerate() {
            let mut location = path.to_vec();
            location.extend([3, index as i32]);
            if nested.field.is_empty() && nested.nested_type.is_empty() {
                continue;
            }
            let name = format!("{name}.{}", nested.name());
            writeln!(page, "\n### {name}")?;
            if let Some(about) = self.comments.get(&(file, location.clone())) {
                writeln!(page, "\n{about}")?;
            }
            self.message(page, file, &name, nested, &location)?;
        }
        Ok(())
    }

    fn row(&self, field: &FieldDescriptorProto, comment: &str) -> String {
        let (mut meaning, mut default) = (Vec::new(), String::new());
        for sentence in sentences(comment) {
            match sentence.strip_prefix("Default ") {
                Some(value) => default = value.trim_end_matches('.').to_owned(),
                None => meaning.push(sentence),
            }
        }
        let mut meaning = meaning.join(" ");
        let values = self.enums.get(field.type_name());
        if let Some(values) = values.filter(|values| values.value.len() <= MAX_VALUES) {
            let all = values.value.iter();
            let all = all.filter(|value| value.number() != 0);
            let all: Vec<String> = all.map(|value| format!("`{}`", value.name())).collect();
            let _ = write!(meaning, " {}.", all.join(", "));
        }
        let many = match field.label() {
            Label::Repeated => ", any number",
            _ => "",
        };
        format!(
            "| `{}` | {}{many} | {default} | {} |\n",
            field.name(),
            kind(field),
            meaning.trim().replace('|', "\\|").replace('*', "\\*")
        )
    }
}

/// Divides a text into its sentences.
fn sentences(text: &str) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match sentences.last_mut() {
            Some(sentence) if !sentence.ends_with('.') => {
                sentence.push(' ');
                sentence.push_str(word);
            }
            _ => sentences.push(word.to_owned()),
        }
    }
    sentences
}

/// Returns the type of a field as people write it.
fn kind(field: &FieldDescriptorProto) -> String {
    let name = field.type_name().rsplit('.').next().unwrap_or_default();
    match field.r#type() {
        Type::Bool => "switch".to_owned(),
        Type::String => "text".to_owned(),
        Type::Bytes => "bytes".to_owned(),
        Type::Double | Type::Float => "number with a fraction".to_owned(),
        Type::Enum | Type::Message | Type::Group => format!("`{name}`"),
        _ => "number".to_owned(),
    }
}

/// Returns the name by which a heading is linked to.
fn anchor(heading: &str) -> String {
    let letters = heading.to_lowercase().replace(' ', "-");
    letters
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_'))
        .collect()
}

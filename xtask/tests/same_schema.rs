//! Compares our schema with the one published as `perfetto_protos` on crates.io.
//!
//! That package is listed as a dependency, so Cargo has its source. It holds the
//! .proto files its Rust code is made from; those are compiled here, which takes
//! seconds instead of the minutes its Rust code would.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use protox::prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorProto,
};

/// Fields that upstream itself changed since that package was made: widened,
/// or, in kernel events nobody had recorded yet, renumbered.
const CHANGED_UPSTREAM: &[&str] = &[
    ".perfetto.protos.ChromeProcessDescriptor.process_type",
    ".perfetto.protos.ChromeThreadDescriptor.thread_type",
    ".perfetto.protos.DpuDsiRxFtraceEvent.rx_buf",
    ".perfetto.protos.DpuDsiTxFtraceEvent.tx_buf",
    ".perfetto.protos.DsiRxFtraceEvent.rx_buf",
    ".perfetto.protos.DsiTxFtraceEvent.tx_buf",
    ".perfetto.protos.I2cReplyFtraceEvent.buf",
    ".perfetto.protos.I2cWriteFtraceEvent.buf",
    ".perfetto.protos.ThreadDescriptor.tid",
    ".perfetto.protos.TracePacket.previous_packet_dropped",
    ".perfetto.protos.WorkqueueQueueWorkFtraceEvent.cpu",
    ".perfetto.protos.WorkqueueQueueWorkFtraceEvent.req_cpu",
    ".perfetto.protos.WorkqueueQueueWorkFtraceEvent.workqueue",
];

/// A field or enum value of the ABI.
#[derive(Debug, PartialEq)]
struct Entry {
    number: i32,
    /// Label, type and, of messages and enums, the type's name.
    what: String,
}

#[derive(Default)]
struct Schema {
    /// The entries by message and field name, or by enum and value name.
    entries: BTreeMap<(String, String), Entry>,
    /// The names by number.
    by_number: BTreeMap<(String, i32), String>,
}

impl Schema {
    fn of(files: &[FileDescriptorProto]) -> Self {
        let mut schema = Self::default();
        for file in files {
            let scope = format!(".{}", file.package());
            file.message_type
                .iter()
                .for_each(|m| schema.add_message(&scope, m));
            file.enum_type
                .iter()
                .for_each(|e| schema.add_enum(&scope, e));
        }
        schema
    }

    fn add_message(&mut self, scope: &str, message: &DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        for field in &message.field {
            let type_name = field.type_name();
            let packed = field.options.as_ref().is_some_and(|o| o.packed());
            let what = format!(
                "{:?} {:?} {type_name} {packed}",
                field.label(),
                field.r#type()
            );
            let entry = Entry {
                number: field.number(),
                what,
            };
            self.add(&name, field.name(), entry);
        }
        message
            .nested_type
            .iter()
            .for_each(|m| self.add_message(&name, m));
        message
            .enum_type
            .iter()
            .for_each(|e| self.add_enum(&name, e));
    }

    fn add_enum(&mut self, scope: &str, descriptor: &EnumDescriptorProto) {
        let name = format!("{scope}.{}", descriptor.name());
        for value in &descriptor.value {
            let entry = Entry {
                number: value.number(),
                what: "value".into(),
            };
            self.add(&name, value.name(), entry);
        }
    }

    fn add(&mut self, parent: &str, name: &str, entry: Entry) {
        self.by_number
            .entry((parent.into(), entry.number))
            .or_insert_with(|| name.into());
        self.entries.insert((parent.into(), name.into()), entry);
    }
}

/// Returns the folder into which Cargo unpacked the published package.
fn published_package() -> Result<PathBuf> {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("running cargo metadata")?;
    let text = String::from_utf8(out.stdout)?;
    let end = text
        .match_indices("\"manifest_path\":\"")
        .map(|(at, key)| &text[at + key.len()..])
        .filter_map(|rest| rest.split('"').next())
        .find(|path| path.contains("/perfetto_protos-"))
        .context("perfetto_protos is not among the dependencies")?;
    Ok(Path::new(end)
        .parent()
        .context("a manifest has a folder")?
        .to_owned())
}

fn compile(include: &Path, roots: &[&str]) -> Result<Vec<FileDescriptorProto>> {
    let mut compiler = protox::Compiler::new([include])?;
    compiler.include_imports(true);
    for root in roots {
        compiler.open_file(root)?;
    }
    Ok(compiler.file_descriptor_set().file)
}

#[test]
fn every_field_matches_the_published_schema() -> Result<()> {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
    const ROOTS: &[&str] = &[
        "perfetto/ipc/consumer_port.proto",
        "perfetto/ipc/producer_port.proto",
        "perfetto/ipc/relay_port.proto",
        "perfetto/ipc/wire_protocol.proto",
        "perfetto/trace/trace.proto",
    ];
    let ours = Schema::of(&compile(&proto, ROOTS)?);
    let theirs_roots: Vec<String> = ROOTS.iter().map(|r| format!("protos/{r}")).collect();
    let theirs_roots: Vec<&str> = theirs_roots.iter().map(String::as_str).collect();
    let theirs = Schema::of(&compile(&published_package()?, &theirs_roots)?);

    let mut same = 0;
    let mut newer = Vec::new();
    let mut renamed = Vec::new();
    let mut changed = Vec::new();
    let mut wrong = Vec::new();
    for (key, entry) in &ours.entries {
        match theirs.entries.get(key) {
            Some(published) if published == entry => same += 1,
            Some(published) => {
                let name = format!("{}.{}", key.0, key.1);
                if CHANGED_UPSTREAM.contains(&name.as_str()) {
                    changed.push(name);
                } else {
                    wrong.push(format!("{name}: {entry:?}, published {published:?}"));
                }
            }
            None => match theirs.by_number.get(&(key.0.clone(), entry.number)) {
                Some(name) => {
                    renamed.push(format!("{}.{} is {name} there", key.0, key.1));
                }
                None => newer.push(format!("{}.{} = {}", key.0, key.1, entry.number)),
            },
        }
    }
    println!("{same} fields and enum values are the published ones");
    println!(
        "{} are newer than the published package:\n  {}",
        newer.len(),
        newer.join("\n  ")
    );
    println!(
        "{} were renamed since:\n  {}",
        renamed.len(),
        renamed.join("\n  ")
    );
    assert!(
        wrong.is_empty(),
        "differ from the published package:\n  {}",
        wrong.join("\n  ")
    );
    assert_eq!(changed, CHANGED_UPSTREAM, "outdated list of known changes");
    assert!(same > 5000, "the published package was hardly compared");
    Ok(())
}

//! Manifests: files in archives that assign the other members to machines and relate their clocks.

use ferretto_format::clock;
use serde_json::{Map, Value};

use crate::import::{Context, Importer, choose_trace_clock};
use crate::trackers::clock::{ClockId, Reading, TRACE_FILE, add_snapshot};
use crate::trackers::metadata::{Fact, FactScope};

/// The members of an archive, as a manifest describes them.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    /// The clock of all times in the tables.
    pub(crate) trace_time: Option<TraceTime>,
    pub(crate) files: Vec<Entry>,
    pub(crate) attributes: Vec<(String, Attribute)>,
}

/// The clock of all times in the tables.
#[derive(Debug)]
pub(crate) struct TraceTime {
    pub(crate) clock: u32,
    /// The machine of the clock.
    pub(crate) of: MachineOfFile,
}

/// A file, and one of its machines.
#[derive(Debug, Default)]
pub(crate) struct MachineOfFile {
    pub(crate) file: Option<String>,
    pub(crate) machine: Option<String>,
}

/// An attribute of the trace.
#[derive(Debug)]
pub(crate) enum Attribute {
    Int(i64),
    Text(String),
}

/// A file in the archive.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: String,
    /// The name of the machine, if the file has only one.
    pub(crate) machine: Option<String>,
    /// The names of machines by their ids in the file.
    pub(crate) machines: Vec<(u32, String)>,
    pub(crate) clocks: Option<Clocks>,
}

/// The relation between a clock of a file and one of another file.
#[derive(Debug)]
pub(crate) struct Clocks {
    /// The machine of the clock, in this file.
    pub(crate) machine: Option<String>,
    /// The id of the clock; `None` for the clock of the file.
    pub(crate) clock: Option<u32>,
    /// The machine of the other clock.
    pub(crate) sync_to: MachineOfFile,
    /// The id of the other clock; `None` for the clock of the other file.
    pub(crate) other: Option<u32>,
    /// The offset by which the other clock is ahead, in nanoseconds.
    pub(crate) offset_ns: i64,
}

type Object = Map<String, Value>;

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Errors
    ///
    /// Fails if it breaks a rule.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let root: Value = serde_json::from_slice(bytes)
            .map_err(|error| format!("perfetto_manifest: not valid JSON: {error}"))?;
        let Some(Value::Object(meta)) = root.get("perfetto_manifest") else {
            return Err(rule(
                "expected a JSON object with a top-level perfetto_manifest key",
            ));
        };
        match meta.get("version") {
            None => return Err(rule("missing required field: version")),
            Some(version) => match version.as_i64() {
                None => return Err(rule("version must be an integer")),
                Some(1) => {}
                Some(version) => {
                    return Err(rule(&format!(
                        "unsupported version: {version}. Only version 1 is supported; set \
                         \"version\": 1."
                    )));
                }
            },
        }
        let mut manifest = Self::default();
        if let Some(time) = meta.get("trace_time") {
            manifest.trace_time = Some(trace_time(time)?);
        }
        match meta.get("files") {
            None => {}
            Some(Value::Array(files)) => {
                let files: Result<_, _> = files.iter().map(Entry::parse).collect();
                manifest.files = files?;
            }
            Some(_) => return Err(rule("files must be an array")),
        }
        if let Some(attributes) = meta.get("attributes") {
            manifest.attributes = attributes_of(attributes)?;
        }
        Ok(manifest)
    }

    /// Adds the declared machines, and relates the clocks.
    ///
    /// # Errors
    ///
    /// Fails if the manifest refers to undeclared machines or to missing files.
    pub(crate) fn apply(&self, importer: &mut Importer) -> Result<(), String> {
        for (key, value) in &self.attributes {
            let context = &mut importer.context;
            let fact = match value {
                Attribute::Int(value) => Fact::Int(*value),
                Attribute::Text(text) => Fact::Text(context.store.strings.intern(text)),
            };
            let name = format!("manifest_attribute.{key}");
            let scope = FactScope::Global;
            context.metadata.set(&mut context.store, &name, fact, scope);
        }
        for entry in &self.files {
            let names = entry.machines.iter().map(|(_, name)| name);
            for name in entry.machine.iter().chain(names) {
                importer.machine_row(Some(name));
            }
        }
        if let Some(time) = &self.trace_time {
            let machine = self.machine_of(&time.of, "trace_time: ")?;
            let is_named = time.of.file.is_some() || time.of.machine.is_some();
            let machine = if is_named {
                importer.machine_row(machine)
            } else {
                0
            };
            choose_trace_clock(
                &mut importer.context,
                ClockId::of_machine(machine, time.clock),
            );
        }
        for entry in &self.files {
            if let Some(clocks) = &entry.clocks {
                self.relate(importer, entry, clocks)?;
            }
        }
        Ok(())
    }

    fn relate(
        &self,
        importer: &mut Importer,
        entry: &Entry,
        clocks: &Clocks,
    ) -> Result<(), String> {
        let here = entry.clock_machine(clocks)?;
        let there = self.machine_of(&clocks.sync_to, "clocks: sync_to.")?;
        let here = importer.machine_row(here);
        let there = importer.machine_row(there);
        let other = clocks.sync_to.file.as_deref().unwrap_or_default();
        let source = clock_of(importer, here, clocks.clock, &entry.path)?;
        let target = clock_of(importer, there, clocks.other, other)?;
        let offset = clocks.offset_ns;
        let readings = [
            Reading::new(source, offset.min(0).saturating_neg()),
            Reading::new(target, offset.max(0)),
        ];
        let Context { clocks, store, .. } = &mut importer.context;
        add_snapshot(clocks, store, &readings);
        Ok(())
    }

    /// Returns the entry of the file with this path.
    pub(crate) fn entry(&self, path: &str) -> Option<&Entry> {
        self.files.iter().find(|entry| entry.path == path)
    }

    /// Returns the name of the machine of a file; `None` for the machine without a name.
    ///
    /// # Errors
    ///
    /// Fails if the machine is ambiguous. `key` is the prefix of the keys in the manifest.
    pub(crate) fn machine_of(
        &self,
        of_file: &MachineOfFile,
        key: &str,
    ) -> Result<Option<&str>, String> {
        let MachineOfFile { file, machine } = of_file;
        let Some(file) = file else {
            return match machine {
                None => Ok(None),
                Some(machine) => Err(rule(&format!(
                    "{key}machine '{machine}' needs {key}file too: a machine name alone is \
                     ambiguous because embedded machine ids are scoped to their trace."
                ))),
            };
        };
        let Some(entry) = self.entry(file) else {
            return Err(rule(&format!(
                "{key}file names unknown file '{file}'. It must match the `path` of an entry in \
                 the `files` array."
            )));
        };
        entry.machine(machine.as_deref()).map_err(|is_known| {
            rule(&match (is_known, machine) {
                (false, Some(machine)) => {
                    format!("{key}machine '{machine}' is not a machine declared by file '{file}'.")
                }
                _ => format!(
                    "{key}file '{file}' is a multi-machine trace; also name the machine with \
                     {key}machine."
                ),
            })
        })
    }
}

impl Entry {
    fn parse(file: &Value) -> Result<Self, String> {
        let path = file.get("path").and_then(Value::as_str);
        let (Some(file), Some(path)) = (file.as_object(), path) else {
            return Err(rule("files entries must be objects with a string path"));
        };
        if file.contains_key("__exported_table_schema") {
            return Err(rule(&format!(
                "'{path}' is an exported table, which is not supported"
            )));
        }
        let mut entry = Self {
            path: path.to_owned(),
            machine: None,
            machines: Vec::new(),
            clocks: None,
        };
        match file.get("clocks") {
            None => {}
            Some(Value::Object(clocks)) => entry.clocks = Some(Clocks::parse(clocks)?),
            Some(_) => return Err(rule("clocks must be an object")),
        }
        if file.contains_key("machine") && file.contains_key("machines") {
            return Err(rule(
                "machine and machines are mutually exclusive. Use `machine` for a single-machine \
                 file, or `machines` to remap a multi-machine proto's embedded ids; not both.",
            ));
        }
        if let Some(machine) = file.get("machine") {
            let Some(name) = machine.get("name").and_then(Value::as_str) else {
                return Err(rule(
                    "machine must be an object with a string name, e.g. \"machine\": {\"name\": \
                     \"phone\"}.",
                ));
            };
            if name.is_empty() {
                return Err(rule("machine: name must be non-empty"));
            }
            entry.machine = Some(name.to_owned());
        }
        match file.get("machines") {
            None => {}
            Some(Value::Array(machines)) => {
                let machines: Result<_, _> = machines.iter().map(numbered).collect();
                entry.machines = machines?;
            }
            Some(_) => return Err(rule("machines must be an array")),
        }
        Ok(entry)
    }

    /// Returns the name of the machine of data without a machine id.
    pub(crate) fn base_machine(&self) -> Option<&str> {
        let first = self.machines.iter().find(|(id, _)| *id == 0);
        let first = first.map(|(_, name)| name.as_str());
        first.or(self.machine.as_deref())
    }

    /// Returns the name of one of the machines, or of the only one.
    ///
    /// # Errors
    ///
    /// Fails if there are several, or none of this name. The error is true if the name is declared.
    fn machine(&self, name: Option<&str>) -> Result<Option<&str>, bool> {
        let Some(name) = name else {
            return if self.machines.is_empty() {
                Ok(self.machine.as_deref())
            } else {
                Err(true)
            };
        };
        let mut all = self
            .machines
            .iter()
            .map(|(_, name)| name)
            .chain(&self.machine);
        match all.find(|known| *known == name) {
            Some(known) => Ok(Some(known)),
            None => Err(false),
        }
    }

    /// Returns the name of the machine of the clock that is related to another one.
    ///
    /// # Errors
    ///
    /// Fails if the machine is ambiguous.
    pub(crate) fn clock_machine(&self, clocks: &Clocks) -> Result<Option<&str>, String> {
        let path = &self.path;
        self.machine(clocks.machine.as_deref()).map_err(|is_known| {
            rule(&match (is_known, &clocks.machine) {
                (false, Some(machine)) => format!(
                    "clocks: machine '{machine}' is not a machine declared by file '{path}'."
                ),
                _ => format!(
                    "clocks: file '{path}' is a multi-machine trace; name which machine the clock \
                     is on with clocks: machine."
                ),
            })
        })
    }
}

/// Returns the clock of a machine with this id, or the clock of a file.
fn clock_of(
    importer: &Importer,
    machine: u32,
    clock: Option<u32>,
    path: &str,
) -> Result<ClockId, String> {
    if let Some(id) = clock {
        return Ok(ClockId::of_machine(machine, id));
    }
    let store = &importer.context.store;
    let table = &store.tables.trace_file;
    let name = store.strings.find(path);
    let row = name.and_then(|name| (0..table.len()).find(|row| table.name.get(*row) == name));
    match row {
        Some(file) => Ok(ClockId {
            file,
            ..ClockId::of_machine(machine, TRACE_FILE)
        }),
        None => Err(rule(&format!(
            "clocks: could not resolve file '{path}'. It must match the `path` of an entry in the \
             `files` array."
        ))),
    }
}

impl Clocks {
    fn parse(clocks: &Object) -> Result<Self, String> {
        let machine = text(clocks, "machine", "clocks: machine")?;
        let clock = clocks.get("clock").map(clock_number).transpose()?;
        let sync_to = match clocks.get("sync_to") {
            Some(Value::Object(sync_to)) => sync_to,
            Some(_) => return Err(rule("clocks: sync_to must be an object")),
            None => {
                return Err(rule(
                    "clocks: a sync_to block is required. Manual clock handling relates this file \
                     to a clock in another trace, e.g. \"sync_to\": {\"file\": \"other.pb\"}.",
                ));
            }
        };
        let Some(file) = sync_to.get("file").and_then(Value::as_str) else {
            return Err(rule(
                "clocks: sync_to.file is required and must be a string",
            ));
        };
        let offset_ns = match clocks.get("offset_ns") {
            None => 0,
            Some(offset) => match offset.as_i64() {
                None => return Err(rule("clocks: offset_ns must be an integer")),
                Some(i64::MIN) => return Err(rule("clocks: offset_ns is out of range")),
                Some(offset) => offset,
            },
        };
        Ok(Self {
            machine,
            clock,
            sync_to: MachineOfFile {
                file: Some(file.to_owned()),
                machine: text(sync_to, "machine", "clocks: sync_to.machine")?,
            },
            other: sync_to.get("clock").map(clock_number).transpose()?,
            offset_ns,
        })
    }
}

fn rule(text: &str) -> String {
    format!("perfetto_manifest: {text}")
}

fn trace_time(time: &Value) -> Result<TraceTime, String> {
    let Some(time) = time.as_object() else {
        return Err(rule("trace_time must be an object"));
    };
    let Some(clock) = time.get("clock") else {
        return Err(rule("trace_time needs a clock"));
    };
    Ok(TraceTime {
        clock: clock_number(clock)?,
        of: MachineOfFile {
            file: text(time, "file", "trace_time: file")?,
            machine: text(time, "machine", "trace_time: machine")?,
        },
    })
}

fn text(object: &Object, key: &str, label: &str) -> Result<Option<String>, String> {
    match object.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(rule(&format!("{label} must be a string"))),
    }
}

fn clock_number(value: &Value) -> Result<u32, String> {
    let Some(name) = value.as_str() else {
        return Err(rule("clock name must be a string"));
    };
    Ok(match name {
        "REALTIME" => clock::REALTIME,
        "REALTIME_COARSE" => clock::REALTIME_COARSE,
        "MONOTONIC" => clock::MONOTONIC,
        "MONOTONIC_COARSE" => clock::MONOTONIC_COARSE,
        "MONOTONIC_RAW" => clock::MONOTONIC_RAW,
        "BOOTTIME" => clock::BOOTTIME,
        name => {
            return Err(rule(&format!(
                "unknown clock name: {name}. Use one of REALTIME, REALTIME_COARSE, MONOTONIC, \
                 MONOTONIC_COARSE, MONOTONIC_RAW, BOOTTIME."
            )));
        }
    })
}

fn numbered(machine: &Value) -> Result<(u32, String), String> {
    let id = machine.get("id").filter(|id| id.is_number());
    let name = machine.get("name").and_then(Value::as_str);
    let (Some(id), Some(name)) = (id, name) else {
        return Err(rule(
            "machines entries need an integer id and a string name, e.g. \"machines\": [{\"id\": \
             0, \"name\": \"phone\"}].",
        ));
    };
    let Some(id) = id.as_u64().and_then(|id| u32::try_from(id).ok()) else {
        return Err(rule("machines: id must be in [0, 4294967295]"));
    };
    if name.is_empty() {
        Err(rule("machines: name must be non-empty"))
    } else {
        Ok((id, name.to_owned()))
    }
}

fn attributes_of(attributes: &Value) -> Result<Vec<(String, Attribute)>, String> {
    let Some(attributes) = attributes.as_object() else {
        return Err(rule(
            "attributes must be an object of string or integer values, e.g. \"attributes\": \
             {\"benchmark\": \"startup\"}.",
        ));
    };
    let each = attributes.iter().map(|(key, value)| {
        if key.is_empty() {
            return Err(rule("attributes: keys must be non-empty"));
        }
        let value = match (value.as_str(), value.as_i64()) {
            (Some(text), _) => Attribute::Text(text.to_owned()),
            (None, Some(number)) => Attribute::Int(number),
            (None, None) => {
                return Err(rule(&format!(
                    "attributes: '{key}' must be a string or an integer"
                )));
            }
        };
        Ok((key.clone(), value))
    });
    each.collect()
}

//! The setup of a recording: the machine, the command and the config.

use ferretto_tables::{StringId, Trace};

use crate::context::{Context, common_name};

/// The maximum length of a value that is kept.
const MAX_VALUE: usize = 64 << 10;

/// Returns facts about a recording, by name.
pub(crate) fn read(context: &Context<'_>) -> Vec<(String, String)> {
    let trace = context.trace;
    let mut facts = Vec::new();
    machine(trace, &mut facts);
    if let Some(command) = context.command {
        let process = trace.tables().thread.upid().get(command);
        let line = process.map(|process| trace.tables().process.cmdline().get(process));
        let line = line.unwrap_or(StringId::NULL);
        // That of the recorder, if the event of the program's start is missing.
        if !trace.strings().text(line).contains("launch-command") {
            add(trace, "command", line, &mut facts);
        }
    }
    let metadata = &trace.tables().metadata;
    for row in 0..metadata.len() {
        let name = trace.strings().text(metadata.name().get(row));
        let fact = match name {
            "trace_attribute.ferretto.cpu.governor" => "frequency policy",
            "trace_config_pbtxt" => "config",
            _ => continue,
        };
        add(trace, fact, metadata.str_value().get(row), &mut facts);
    }
    // Names and selections of a config may contain numbers of processes.
    for (name, text) in &mut facts {
        if name == "config" {
            let lines = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("instance_name:"));
            *text = common_name(&lines.collect::<Vec<_>>().join("\n"));
        }
    }
    facts
}

fn machine(trace: &Trace, facts: &mut Vec<(String, String)>) {
    let tables = trace.tables();
    if tables.machine.is_empty() {
        return;
    }
    let machine = &tables.machine;
    add(trace, "system", machine.sysname().get(0), facts);
    add(trace, "kernel", machine.release().get(0), facts);
    add(trace, "architecture", machine.arch().get(0), facts);
    if let Some(cpus) = machine.num_cpus().get(0) {
        facts.push(("CPUs".to_owned(), cpus.to_string()));
    }
    if let Some(bytes) = machine.system_ram_bytes().get(0) {
        facts.push(("memory".to_owned(), format!("{} MiB", bytes >> 20)));
    }
    let highest = (0..tables.cpu_freq.len()).map(|row| tables.cpu_freq.freq().get(row));
    if let Some(khz) = highest.max() {
        facts.push((
            "highest frequency".to_owned(),
            format!("{} MHz", khz / 1000),
        ));
    }
    let processors = (0..tables.cpu.len()).map(|row| tables.cpu.processor().get(row));
    let mut processors: Vec<&str> = processors.map(|name| trace.strings().text(name)).collect();
    processors.retain(|name| !name.is_empty());
    processors.dedup();
    if !processors.is_empty() {
        facts.push(("processor".to_owned(), processors.join(", ")));
    }
}

fn add(trace: &Trace, name: &str, value: StringId, facts: &mut Vec<(String, String)>) {
    if let Some(text) = trace.strings().get(value).filter(|text| !text.is_empty()) {
        let text = &text[..text.floor_char_boundary(MAX_VALUE)];
        facts.push((name.to_owned(), text.to_owned()));
    }
}

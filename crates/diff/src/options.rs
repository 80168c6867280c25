//! The options of a recording's config, one line each.

use std::collections::BTreeSet;

/// A message of a config while its lines are read.
#[derive(Default)]
struct Block {
    name: String,
    /// The fields so far, with the names of the messages inside this one.
    fields: Vec<String>,
}

/// Returns each option of a config in the text format of protobuf, such as `buffers.size_kb: 10`
/// or, of a data source, `linux.ftrace ftrace_config.buffer_size_kb: 5`. A data source has a line
/// of its own, too. Attributes of the trace are none.
pub(crate) fn of(config: &str) -> BTreeSet<String> {
    let mut open = vec![Block::default()];
    for line in config.lines().map(str::trim) {
        if let Some(name) = line.strip_suffix('{') {
            let name = name.trim_end().trim_end_matches(':').to_owned();
            open.push(Block {
                name,
                ..Block::default()
            });
        } else if line == "}" {
            if open.len() > 1 {
                close(&mut open);
            }
        } else if !line.is_empty()
            && let Some(block) = open.last_mut()
        {
            block.fields.push(line.to_owned());
        }
    }
    while open.len() > 1 {
        close(&mut open);
    }
    let config = open.pop().unwrap_or_default();
    config.fields.into_iter().collect()
}

/// Moves the fields of the innermost block into the one around it.
fn close(open: &mut Vec<Block>) {
    let Some(block) = open.pop() else { return };
    let Some(outer) = open.last_mut() else { return };
    if block.name == "trace_attributes" {
        return;
    }
    if block.name == "data_sources" {
        outer.fields.extend(source(&block.fields));
        return;
    }
    let fields = block.fields.into_iter();
    outer
        .fields
        .extend(fields.map(|field| format!("{}.{field}", block.name)));
}

/// Returns the options of a data source, which begin with its name.
fn source(fields: &[String]) -> Vec<String> {
    let fields = fields.iter();
    let fields = fields.map(|field| field.strip_prefix("config.").unwrap_or(field));
    let (names, options): (Vec<&str>, Vec<&str>) =
        fields.partition(|field| field.starts_with("name: "));
    let name = names.first().and_then(|field| field.strip_prefix("name: "));
    let name = name.map_or("unnamed", |name| name.trim_matches('"'));
    let options = options.iter().map(|option| format!("{name} {option}"));
    options.chain([name.to_owned()]).collect()
}

/// Returns the name of the data source of an option, and none of a data source's own line or of
/// other options.
fn source_of(option: &str) -> Option<&str> {
    let (source, option) = option.split_once(' ')?;
    (!source.ends_with(':') && option.contains(": ")).then_some(source)
}

/// Returns the options that are in all of the configs and in none of the others, separated by
/// commas. All of a data source that no other config has is its name.
pub(crate) fn without(configs: &BTreeSet<String>, others: &BTreeSet<String>) -> String {
    let mut configs = configs.iter().map(|config| of(config));
    let mut of_all = configs.next().unwrap_or_default();
    for config in configs {
        of_all.retain(|option| config.contains(option));
    }
    for other in others.iter().map(|config| of(config)) {
        of_all.retain(|option| !other.contains(option));
    }
    let is_shown = |option: &&String| source_of(option).is_none_or(|name| !of_all.contains(name));
    let shown: Vec<&str> = of_all.iter().filter(is_shown).map(String::as_str).collect();
    shown.join(", ")
}

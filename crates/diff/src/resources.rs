//! The resources that a recorded command used, as the kernel counted them.

use crate::context::Context;
use crate::feature::{Feature, Kind, PAGE_FAULTS};
use crate::values::Values;

/// The start of the names of the facts in the table `metadata`.
const PREFIX: &str = "trace_attribute.ferretto.command.";

/// The facts that are compared, with the kind and name of their feature.
const COMPARED: &[(&str, Kind, &str)] = &[
    ("minor_faults", Kind::Faults, PAGE_FAULTS),
    (
        "major_faults",
        Kind::Faults,
        "page faults that waited for a disk",
    ),
    ("disk_bytes_read", Kind::Traffic, "bytes read from disks"),
    (
        "disk_bytes_written",
        Kind::Traffic,
        "bytes written to disks",
    ),
    ("bytes_read", Kind::Traffic, "bytes read by calls"),
    ("bytes_written", Kind::Traffic, "bytes written by calls"),
    // The limit below which the most memory was, if that is not known.
    ("peak_memory_below", Kind::Peak, "most memory"),
    ("peak_memory", Kind::Peak, "most memory"),
];

/// Reads the resources.
pub(crate) fn read(context: &Context<'_>, values: &mut Values) {
    let Some(command) = context.command else {
        return;
    };
    let process = context.process_of(command);
    let (metadata, strings) = (&context.trace.tables().metadata, context.trace.strings());
    for row in 0..metadata.len() {
        let name = strings.text(metadata.name().get(row));
        let (Some(name), Some(value)) = (name.strip_prefix(PREFIX), metadata.int_value().get(row))
        else {
            continue;
        };
        if let Some((_, kind, words)) = COMPARED.iter().find(|(known, ..)| *known == name) {
            let feature = Feature::of_process(*kind, &process).name(words);
            values.set(feature, value.max(0) as f64, 0.0);
        }
    }
}

//! Ids of tracepoints (`Documentation/trace/events.rst`).

use std::fs;
use std::path::Path;

use super::Kernel;

/// Splits `group/name` or `group:name`: at the first slash, otherwise at the first colon.
pub(super) fn split(name: &str) -> Option<(&str, &str)> {
    let (group, name) = name.split_once('/').or_else(|| name.split_once(':'))?;
    let plain =
        |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['/', '\0']);
    (plain(group) && plain(name)).then_some((group, name))
}

/// Returns the kernel's id of a tracepoint, or the reason why it has none, as a clause.
pub(super) fn id(kernel: &Kernel, group: &str, name: &str) -> Result<u32, String> {
    let mut reason = "tracefs is not mounted".to_owned();
    for root in &kernel.tracefs {
        match id_in(root, group, name) {
            Ok(id) => return Ok(id),
            // A usable mount decides.
            Err(Failure::Event(why)) => return Err(why),
            Err(Failure::Mount(Some(why))) => reason = why,
            Err(Failure::Mount(None)) => {}
        }
    }
    Err(reason)
}

enum Failure {
    /// The mount cannot be used; the reason is `None` if it does not exist.
    Mount(Option<String>),
    /// The mount is usable but does not have the event.
    Event(String),
}

fn id_in(root: &Path, group: &str, name: &str) -> Result<u32, Failure> {
    let events = root.join("events");
    if let Err(error) = fs::metadata(&events) {
        let there = error.kind() != std::io::ErrorKind::NotFound;
        return Err(Failure::Mount(
            there.then(|| format!("{}: {error}", events.display())),
        ));
    }
    let path = events.join(group).join(name).join("id");
    let text = fs::read_to_string(&path)
        .map_err(|error| Failure::Event(format!("{}: {error}", path.display())))?;
    let id = text.strip_suffix('\n').unwrap_or(&text).parse::<u32>();
    match id {
        Ok(id) if id != 0 => Ok(id),
        _ => Err(Failure::Event(format!(
            "{} holds no number",
            path.display()
        ))),
    }
}

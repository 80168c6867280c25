//! Numbers of tracepoints (`Documentation/trace/events.rst`).

use std::fs;
use std::path::Path;

use super::Kernel;

/// Group and name out of `group/name` or `group:name`: split at the first slash, else at the first
/// colon.
pub(super) fn split(name: &str) -> Option<(&str, &str)> {
    let (group, name) = name.split_once('/').or_else(|| name.split_once(':'))?;
    let plain =
        |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['/', '\0']);
    (plain(group) && plain(name)).then_some((group, name))
}

/// The kernel's number of a tracepoint; or why there is none, as half a sentence.
pub(super) fn id(kernel: &Kernel, group: &str, name: &str) -> Result<u32, String> {
    let mut reason = "tracefs is not mounted".to_owned();
    for root in &kernel.tracefs {
        match id_in(root, group, name) {
            Ok(id) => return Ok(id),
            // A mount that can be used settles it.
            Err(Failure::Event(why)) => return Err(why),
            Err(Failure::Mount(Some(why))) => reason = why,
            Err(Failure::Mount(None)) => {}
        }
    }
    Err(reason)
}

enum Failure {
    /// This mount cannot be used; why, unless it is simply not there.
    Mount(Option<String>),
    /// It can, but does not have the event.
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

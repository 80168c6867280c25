//! Suggestions for misspelt names.

use std::collections::{HashSet, VecDeque};

use crate::schema::{EnumType, Kind, MessageId, Schema};

/// Returns the suggestion for a name that is not a field of `message`, such as `; did you mean
/// "duration_ms"?`, or an empty string.
pub(super) fn field(
    schema: &Schema<'_>,
    root: MessageId,
    message: MessageId,
    name: &str,
) -> String {
    let here = schema
        .message(message)
        .fields()
        .iter()
        .map(|field| field.name);
    let near = nearest(name, here);
    if let Some((near, distance)) = near
        && distance <= 2
    {
        return format!("; did you mean {near:?}?");
    }
    if let Some(path) = path_to(schema, message, name) {
        return format!("; there is one in {path}");
    }
    if message != root
        && let Some(path) = path_to(schema, root, name)
    {
        return if path.is_empty() {
            format!(
                "; there is one in {}, outside of this",
                schema.message(root).name
            )
        } else {
            format!("; there is one in {path}")
        };
    }
    near.map(|(near, _)| format!("; did you mean {near:?}?"))
        .unwrap_or_default()
}

/// Returns the suggestion for a name that is not a value of an enum.
pub(super) fn value(enumeration: &EnumType<'_>, name: &str) -> String {
    if let Some((near, _)) = nearest(name, enumeration.values.iter().map(|(name, _)| *name)) {
        return format!("; did you mean {near}?");
    }
    let few: Vec<&str> = enumeration
        .values
        .iter()
        .map(|(name, _)| *name)
        .take(13)
        .collect();
    match few.len() {
        0 | 13 => String::new(),
        _ => format!("; it is one of {}", few.join(", ")),
    }
}

/// Returns the most similar name, if any is similar enough, and the number of different letters.
fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<(&'a str, usize)> {
    let name = name.to_ascii_lowercase();
    // Comparing takes the product of the lengths; no real name is this long.
    if name.len() > 100 {
        return None;
    }
    let distance = |candidate: &str| {
        let candidate = candidate.to_ascii_lowercase();
        let distance = strsim::damerau_levenshtein(&name, &candidate);
        let is_part =
            name.len() >= 4 && (candidate.starts_with(&name) || candidate.ends_with(&name));
        let similar = distance <= (name.len() / 3).max(1);
        (similar || is_part).then_some(distance)
    };
    candidates
        .filter_map(|c| distance(c).map(|d| (c, d)))
        .min_by_key(|(_, d)| *d)
}

/// Returns the fields that lead from `from` to the nearest message with a field of this name,
/// joined by points; empty if `from` has it.
fn path_to(schema: &Schema<'_>, from: MessageId, name: &str) -> Option<String> {
    let mut seen = HashSet::from([from]);
    let mut queue = VecDeque::from([(from, String::new())]);
    while let Some((id, path)) = queue.pop_front() {
        let message = schema.message(id);
        if message.field_named(name).is_some() {
            return Some(path);
        }
        for field in message.fields() {
            if let Kind::Message(next) = field.kind
                && seen.insert(next)
            {
                let dot = if path.is_empty() { "" } else { "." };
                queue.push_back((next, format!("{path}{dot}{}", field.name)));
            }
        }
    }
    None
}

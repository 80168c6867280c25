//! Lists of items from the answers of commands.

use serde_json::{Map, Value, json};

/// Returns the members of an object without some of them.
pub(super) fn without(value: &Value, names: &[&str]) -> Value {
    let mut members = value.as_object().cloned().unwrap_or_default();
    members.retain(|name, _| !names.contains(&name.as_str()));
    Value::Object(members)
}

/// Returns the items of a list, each with the section that it belongs to.
pub(super) fn section<'a>(name: &'a str, list: &'a Value) -> impl Iterator<Item = Value> + 'a {
    list.as_array().into_iter().flatten().map(move |item| {
        let mut members = Map::new();
        members.insert("section".to_owned(), name.into());
        match item {
            Value::Object(item) => members.extend(item.clone()),
            other => {
                members.insert("text".to_owned(), other.clone());
            }
        }
        Value::Object(members)
    })
}

/// Returns the first items of each section, and then the others: a page shows something of all.
pub(super) fn mixed(sections: Vec<Vec<Value>>, first: usize) -> Vec<Value> {
    let mut items = Vec::new();
    let mut rest = Vec::new();
    for mut section in sections {
        let others = section.split_off(first.min(section.len()));
        items.append(&mut section);
        rest.extend(others);
    }
    items.extend(rest);
    items
}

/// Appends the causes of a time, each with its level and its share of the time.
pub(super) fn causes(items: &mut Vec<Value>, of: &Value, total: i64, level: u32) {
    for cause in of["causes"].as_array().into_iter().flatten() {
        let dur = cause["dur_ns"].as_i64().unwrap_or(0);
        let mut item = without(cause, &["causes"]);
        item["section"] = "cause".into();
        item["level"] = level.into();
        if total > 0 {
            let share = dur as f64 / total as f64;
            item["share"] = json!((share * 1000.0).round() / 1000.0);
        }
        for name in ["thread", "waker", "behind"] {
            if item.get(name).is_some_and(Value::is_object) {
                item[name] = thread(&item[name]);
            }
        }
        let functions = item["functions"].as_array_mut();
        match functions {
            Some(functions) if !functions.is_empty() => functions.truncate(3),
            _ => item = without(&item, &["functions"]),
        }
        items.push(item);
        causes(items, cause, total, level + 1);
    }
}

/// Returns a thread without what another member of it tells.
pub(super) fn thread(thread: &Value) -> Value {
    without(thread, &["utid"])
}

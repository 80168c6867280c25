//! Checks of a tool's arguments.

use serde_json::{Map, Value, json};

use crate::answer::{DEFAULT_BYTES, MAX_BYTES, MIN_BYTES};
use crate::toolbox::Tool;

/// The page of an answer that a caller asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page {
    /// The index of its first item.
    pub(crate) from: usize,
    /// Its largest size in bytes.
    pub(crate) max: usize,
}

/// Returns the JSON Schema of a tool's arguments, with those of pages.
pub(crate) fn schema(tool: &Tool) -> Value {
    let mut properties = tool.properties.clone();
    properties["max_bytes"] = json!({
        "type": "integer", "minimum": MIN_BYTES, "maximum": MAX_BYTES, "default": DEFAULT_BYTES,
        "description": "The largest size of the answer.",
    });
    properties["cursor"] = json!({
        "type": "string",
        "description": "next_cursor of the answer before, for its further items.",
    });
    json!({
        "type": "object",
        "properties": properties,
        "required": tool.required,
        "additionalProperties": false,
    })
}

/// Checks the names and types of arguments, and takes those of pages out of them.
///
/// # Errors
///
/// Fails with a sentence that names the argument.
pub(crate) fn check(tool: &Tool, arguments: &mut Map<String, Value>) -> Result<Page, String> {
    let schema = schema(tool);
    for (name, value) in arguments.iter() {
        let Some(property) = schema["properties"].get(name) else {
            let known = schema["properties"].as_object().into_iter().flatten();
            let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
            return Err(format!(
                "{} has no argument {name}; it has {}",
                tool.name,
                known.join(", ")
            ));
        };
        let expected = property["type"].as_str().unwrap_or("string");
        if !has_type(value, expected) {
            return Err(format!(
                "the argument {name} must be of the type {expected}"
            ));
        }
        let choices = property["enum"].as_array();
        if choices.is_some_and(|choices| !choices.contains(value)) {
            return Err(format!(
                "the argument {name} must be one of {}",
                property["enum"]
            ));
        }
        let least = property["minimum"].as_f64().unwrap_or(f64::NEG_INFINITY);
        let most = property["maximum"].as_f64().unwrap_or(f64::INFINITY);
        if value
            .as_f64()
            .is_some_and(|value| value < least || value > most)
        {
            return Err(format!(
                "the argument {name} must be from {least} to {most}"
            ));
        }
    }
    let missing = tool
        .required
        .iter()
        .find(|name| !arguments.contains_key(**name));
    if let Some(missing) = missing {
        return Err(format!("{} needs the argument {missing}", tool.name));
    }
    let from = match arguments.remove("cursor") {
        None => 0,
        Some(cursor) => {
            let number = cursor.as_str().and_then(|text| text.parse().ok());
            number.ok_or("the cursor is not one of an answer")?
        }
    };
    let max = arguments
        .remove("max_bytes")
        .and_then(|bytes| bytes.as_u64());
    let max = max.and_then(|bytes| usize::try_from(bytes).ok());
    Ok(Page {
        from,
        max: max.unwrap_or(DEFAULT_BYTES),
    })
}

fn has_type(value: &Value, expected: &str) -> bool {
    match expected {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value
            .as_array()
            .is_some_and(|items| items.iter().all(Value::is_string)),
        _ => false,
    }
}

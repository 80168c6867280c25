//! `__intrinsic_arg_set_to_json(arg_set_id)`: a set of arguments as JSON.

use std::sync::Arc;

use datafusion::arrow::array::{Array, StringArray};
use datafusion::arrow::datatypes::DataType;
use ferretto_tables::Trace;
use ferretto_tables::schema::ArgValue;

use crate::functions::{ArrayFunction, integers};

/// A value, or values by key or index.
#[derive(Debug)]
enum Node {
    /// A value as JSON text.
    Leaf(String),
    /// Members in the order of insertion.
    Object(Vec<(String, Node)>),
    /// Items by index.
    Array(Vec<Node>),
}

/// A step of a path.
#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Member(&'a str),
    Item(usize),
}

/// The largest length of an array. Larger indexes become member names, so that gaps in arrays do
/// not fill the memory.
const MAX_ITEMS: usize = 1 << 16;

/// Splits `a.b[2].c` into its steps.
fn steps(key: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for part in key.split('.') {
        let (name, mut rest) = part.split_at(part.find('[').unwrap_or(part.len()));
        if !name.is_empty() {
            steps.push(Step::Member(name));
        }
        while let Some((index, after)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
            match index.parse() {
                Ok(index) if index < MAX_ITEMS => steps.push(Step::Item(index)),
                _ => steps.push(Step::Member(index)),
            }
            rest = after;
        }
    }
    steps
}

impl Node {
    fn put(&mut self, steps: &[Step<'_>], value: String) {
        let Some((first, rest)) = steps.split_first() else {
            *self = Node::Leaf(value);
            return;
        };
        let below = match first {
            Step::Member(name) => {
                if !matches!(self, Node::Object(_)) {
                    *self = Node::Object(Vec::new());
                }
                let Node::Object(members) = self else { return };
                let position = members.iter().position(|(key, _)| key == name);
                let position = position.unwrap_or_else(|| {
                    members.push(((*name).to_owned(), Node::Leaf("null".to_owned())));
                    members.len() - 1
                });
                &mut members[position].1
            }
            Step::Item(index) => {
                if !matches!(self, Node::Array(_)) {
                    *self = Node::Array(Vec::new());
                }
                let Node::Array(items) = self else { return };
                while items.len() <= *index {
                    items.push(Node::Leaf("null".to_owned()));
                }
                &mut items[*index]
            }
        };
        below.put(rest, value);
    }

    fn write(&self, out: &mut String) {
        match self {
            Node::Leaf(value) => out.push_str(value),
            Node::Object(members) => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    out.push_str(&text(key));
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
            Node::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
        }
    }
}

fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns a set of arguments as a JSON object.
fn object(trace: &Trace, set: u32) -> Option<String> {
    let mut root = Node::Object(Vec::new());
    let mut any = false;
    for arg in trace.tables().args.set(set) {
        any = true;
        let value = match arg.value {
            ArgValue::Null => "null".to_owned(),
            ArgValue::Int(v) => v.to_string(),
            ArgValue::Uint(v) => v.to_string(),
            ArgValue::Bool(v) => v.to_string(),
            ArgValue::Pointer(v) => text(&format!("{v:#x}")),
            ArgValue::Real(v) => serde_json::Value::from(v).to_string(),
            ArgValue::Text(id) => text(trace.strings().text(id)),
            ArgValue::Json(id) => trace.strings().text(id).to_owned(),
        };
        root.put(&steps(trace.strings().text(arg.key)), value);
    }
    let mut out = String::new();
    root.write(&mut out);
    any.then_some(out)
}

/// The name of the function.
pub(super) const NAME: &str = "__intrinsic_arg_set_to_json";

/// Returns `__intrinsic_arg_set_to_json(arg_set_id)`.
pub(super) fn function(trace: &Arc<Trace>) -> ArrayFunction {
    let trace = trace.clone();
    ArrayFunction::new(NAME, 1..=1, DataType::Utf8, move |args, rows| {
        let sets = integers(&args[0])?;
        let at = |row: usize| {
            let set = sets.is_valid(row).then(|| sets.value(row))?;
            object(&trace, u32::try_from(set).ok()?)
        };
        Ok(Arc::new((0..rows).map(at).collect::<StringArray>()))
    })
}

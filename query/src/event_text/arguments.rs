//! A set of arguments as JSON.

use ferretto_tables::Trace;
use ferretto_tables::schema::ArgValue;

use crate::output::json_text;

/// A value, or values by key or index.
#[derive(Debug)]
enum Node {
    /// A value as JSON text.
    Leaf(String),
    /// Members in the order of insertion.
    Object(Vec<(String, Self)>),
    /// Items by index.
    Array(Vec<Self>),
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
            *self = Self::Leaf(value);
            return;
        };
        let below = match first {
            Step::Member(name) => {
                if !matches!(self, Self::Object(_)) {
                    *self = Self::Object(Vec::new());
                }
                let Self::Object(members) = self else { return };
                let position = members.iter().position(|(key, _)| key == name);
                let position = position.unwrap_or_else(|| {
                    members.push(((*name).to_owned(), Self::Leaf("null".to_owned())));
                    members.len() - 1
                });
                &mut members[position].1
            }
            Step::Item(index) => {
                if !matches!(self, Self::Array(_)) {
                    *self = Self::Array(Vec::new());
                }
                let Self::Array(items) = self else { return };
                while items.len() <= *index {
                    items.push(Self::Leaf("null".to_owned()));
                }
                &mut items[*index]
            }
        };
        below.put(rest, value);
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Leaf(value) => out.push_str(value),
            Self::Object(members) => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    out.push_str(&json_text(key));
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
            Self::Array(items) => {
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

/// Returns a set of arguments as a JSON object; `None` if it is empty.
pub fn arguments_as_json(trace: &Trace, set: u32) -> Option<String> {
    let mut root = Node::Object(Vec::new());
    let mut any = false;
    for arg in trace.tables().args.set(set) {
        any = true;
        let value = match arg.value {
            ArgValue::Null => "null".to_owned(),
            ArgValue::Int(v) => v.to_string(),
            ArgValue::Uint(v) => v.to_string(),
            ArgValue::Bool(v) => v.to_string(),
            ArgValue::Pointer(v) => json_text(&format!("{v:#x}")),
            ArgValue::Real(v) if v.is_finite() => format!("{v:?}"),
            ArgValue::Real(_) => "null".to_owned(),
            ArgValue::Text(id) => json_text(trace.strings().text(id)),
            ArgValue::Json(id) => trace.strings().text(id).to_owned(),
        };
        root.put(&steps(trace.strings().text(arg.key)), value);
    }
    let mut out = String::new();
    root.write(&mut out);
    any.then_some(out)
}

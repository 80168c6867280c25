//! The sizes of the fields of messages.

use ferretto_wire::{Fields, Value, varint_length};

use super::{MAX_DEPTH, Message, Pool, Reflection, kind};

/// The number of fields without a descriptor in a path.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// The names of a field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FieldNames {
    /// The name with a hash sign; `None` for the message itself.
    pub(crate) field: Option<String>,
    /// The name of its type without the package.
    pub(crate) kind: String,
}

impl Reflection {
    /// Calls `each` with the paths and sizes of all fields of a message: the size of a message is
    /// that of the tags and lengths in it. A path is a list of field numbers.
    pub(crate) fn sizes(
        &mut self,
        type_name: &str,
        bytes: &[u8],
        each: &mut dyn FnMut(&[u32], usize),
    ) {
        self.load();
        if let Some(root) = self.pool.messages.get(type_name) {
            walk(&self.pool, root, bytes, &mut Vec::new(), each);
        }
    }

    /// Returns the names of the message and of each field of a path in it.
    pub(crate) fn path_names(&mut self, type_name: &str, path: &[u32]) -> Vec<FieldNames> {
        self.load();
        let mut message = self.pool.messages.get(type_name);
        let mut names = vec![FieldNames {
            field: None,
            kind: plain(type_name),
        }];
        for number in path {
            let info = message.and_then(|message| message.get(number));
            names.push(match info {
                Some(info) => FieldNames {
                    field: Some(format!("#{}", info.name)),
                    kind: match info.kind {
                        kind::MESSAGE => plain(&info.type_name),
                        kind => KINDS.get(kind as usize).copied().unwrap_or("").to_owned(),
                    },
                },
                None => FieldNames {
                    field: Some("#unknown".to_owned()),
                    kind: String::new(),
                },
            });
            message = info.and_then(|info| self.pool.messages.get(&info.type_name));
        }
        names
    }
}

/// The names of types by their numbers in descriptors.
const KINDS: [&str; 19] = [
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string",
    "group", "message", "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
];

fn plain(type_name: &str) -> String {
    let name = type_name.rsplit('.').next();
    name.unwrap_or_default().to_owned()
}

fn walk(
    pool: &Pool,
    message: &Message,
    bytes: &[u8],
    path: &mut Vec<u32>,
    each: &mut dyn FnMut(&[u32], usize),
) {
    let (mut own, mut unknown) = (bytes.len(), 0);
    for field in Fields::new(bytes).map_while(Result::ok) {
        let size = match field.value {
            Value::Varint(value) => varint_length(value),
            Value::Fixed64(_) => 8,
            Value::Fixed32(_) => 4,
            Value::Bytes(bytes) => bytes.len(),
        };
        own = own.saturating_sub(size);
        let Some(info) = message.get(&field.number) else {
            unknown += size;
            continue;
        };
        path.push(field.number);
        let inner = pool.messages.get(&info.type_name);
        match (field.value, inner) {
            (Value::Bytes(bytes), Some(inner))
                if info.kind == kind::MESSAGE && path.len() < MAX_DEPTH =>
            {
                walk(pool, inner, bytes, path, each);
            }
            _ => each(path, size),
        }
        path.pop();
    }
    if unknown > 0 {
        path.push(UNKNOWN);
        each(path, unknown);
        path.pop();
    }
    each(path, own);
}

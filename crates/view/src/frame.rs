//! Frames: tables in the encoding of the page.

use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};

/// The encoding of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// Integers of variable length.
    Varint,
    /// Differences of integers, of variable length.
    Delta,
}

/// The largest integer that all readers represent exactly.
const MAX_WHOLE: u64 = 1 << 53;

/// The encoded integers of a column.
#[derive(Debug)]
pub(crate) struct Coded {
    code: Code,
    bytes: Vec<u8>,
    length: usize,
    before: i64,
}

impl Coded {
    /// Returns a column without values.
    pub(crate) fn new(code: Code) -> Self {
        Self {
            code,
            bytes: Vec::new(),
            length: 0,
            before: 0,
        }
    }

    /// Adds a value.
    #[inline]
    pub(crate) fn push(&mut self, value: u64) {
        let value = value.min(MAX_WHOLE);
        let coded = match self.code {
            Code::Varint => value,
            Code::Delta => {
                let difference = value as i64 - self.before;
                self.before = value as i64;
                (difference << 1 ^ difference >> 63) as u64
            }
        };
        varint(&mut self.bytes, coded);
        self.length += 1;
    }

    /// Returns true if the column has no values.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns true if all values are 0.
    pub(crate) fn is_zero(&self) -> bool {
        self.bytes.iter().all(|byte| *byte == 0)
    }
}

/// A table under construction: a header in JSON, followed by columns.
///
/// The encoding is described in `PROTOCOL.md`.
#[derive(Debug)]
pub(crate) struct Frame {
    header: Map<String, Value>,
    columns: Map<String, Value>,
    data: Vec<u8>,
}

impl Frame {
    /// Returns a frame without columns.
    pub(crate) fn new(kind: &str) -> Self {
        let mut header = Map::new();
        header.insert("kind".to_owned(), kind.into());
        Self {
            header,
            columns: Map::new(),
            data: Vec::new(),
        }
    }

    /// Adds a field to the header.
    pub(crate) fn field(&mut self, name: &str, value: impl Into<Value>) {
        self.header.insert(name.to_owned(), value.into());
    }

    /// Adds the list of texts to which columns refer.
    pub(crate) fn texts(&mut self, texts: Texts<'_>) {
        self.field("strings", texts.list);
    }

    /// Adds a column of floating-point numbers.
    pub(crate) fn f64s(&mut self, name: &str, values: &[f64]) {
        self.begin(name, "f64", values.len());
        for value in values {
            self.data.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// Adds a column of numbers of 32 bits.
    pub(crate) fn u32s(&mut self, name: &str, values: &[u32]) {
        self.begin(name, "u32", values.len());
        for value in values {
            self.data.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// Adds a column of signed numbers of 32 bits.
    pub(crate) fn i32s(&mut self, name: &str, values: &[i32]) {
        self.begin(name, "i32", values.len());
        for value in values {
            self.data.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// Adds a column of numbers of 16 bits.
    pub(crate) fn u16s(&mut self, name: &str, values: &[u16]) {
        self.begin(name, "u16", values.len());
        for value in values {
            self.data.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// Adds a column of numbers of 8 bits.
    pub(crate) fn u8s(&mut self, name: &str, values: &[u8]) {
        self.begin(name, "u8", values.len());
        self.data.extend_from_slice(values);
    }

    /// Adds a column of integers, which the reader stores as `kind`.
    pub(crate) fn whole(
        &mut self,
        name: &str,
        kind: &str,
        code: Code,
        values: impl Iterator<Item = u64>,
    ) {
        let mut coded = Coded::new(code);
        values.for_each(|value| coded.push(value));
        self.coded(name, kind, &coded);
    }

    /// Adds a column of integers in the narrowest type that has space for all of them. It is larger
    /// than an encoded one of small numbers, but its readers decode nothing.
    pub(crate) fn narrow(&mut self, name: &str, values: impl Iterator<Item = u64> + Clone) {
        match values.clone().max().unwrap_or(0) {
            0..=0xff => {
                self.begin(name, "u8", values.clone().count());
                self.data.extend(values.map(|value| value as u8));
            }
            0x100..=0xffff => {
                self.begin(name, "u16", values.clone().count());
                let bytes = values.flat_map(|value| (value as u16).to_le_bytes());
                self.data.extend(bytes);
            }
            0x1_0000..=0xffff_ffff => {
                self.begin(name, "u32", values.clone().count());
                let bytes = values.flat_map(|value| (value as u32).to_le_bytes());
                self.data.extend(bytes);
            }
            _ => {
                self.begin(name, "f64", values.clone().count());
                let exact = values.map(|value| value.min(MAX_WHOLE) as f64);
                self.data.extend(exact.flat_map(f64::to_le_bytes));
            }
        }
    }

    /// Adds a column of encoded integers.
    pub(crate) fn coded(&mut self, name: &str, kind: &str, coded: &Coded) {
        self.begin(name, kind, coded.length);
        self.data.extend_from_slice(&coded.bytes);
        if let Some(Value::Object(column)) = self.columns.get_mut(name) {
            let code = match coded.code {
                Code::Varint => "varint",
                Code::Delta => "delta",
            };
            column.insert("code".to_owned(), code.into());
            column.insert("bytes".to_owned(), coded.bytes.len().into());
        }
    }

    fn begin(&mut self, name: &str, kind: &str, length: usize) {
        self.data.resize(self.data.len().next_multiple_of(8), 0);
        let column = json!({"type": kind, "offset": self.data.len(), "length": length});
        self.columns.insert(name.to_owned(), column);
    }

    /// Returns the bytes of the frame.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.header
            .insert("columns".to_owned(), Value::Object(self.columns));
        let mut header = Value::Object(self.header).to_string().into_bytes();
        header.resize((4 + header.len()).next_multiple_of(8) - 4, b' ');
        let mut bytes = Vec::with_capacity(4 + header.len() + self.data.len());
        bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
        bytes.append(&mut header);
        bytes.append(&mut self.data);
        bytes
    }
}

#[inline]
fn varint(data: &mut Vec<u8>, mut value: u64) {
    if value < 0x80 {
        return data.push(value as u8);
    }
    let mut bytes = [0; 10];
    let mut length = 0;
    while value >= 0x80 {
        bytes[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value as u8;
    data.extend_from_slice(&bytes[..=length]);
}

/// The distinct texts of a frame. The first is the empty text.
#[derive(Debug)]
pub(crate) struct Texts<'a> {
    list: Vec<Value>,
    numbers: FxHashMap<&'a str, u32>,
    by_id: FxHashMap<u32, u32>,
}

impl Default for Texts<'_> {
    fn default() -> Self {
        Self {
            list: vec!["".into()],
            numbers: FxHashMap::from_iter([("", 0)]),
            by_id: FxHashMap::default(),
        }
    }
}

impl<'a> Texts<'a> {
    /// Returns the number of a text.
    pub(crate) fn number(&mut self, text: &'a str) -> u32 {
        *self.numbers.entry(text).or_insert_with(|| {
            self.list.push(text.into());
            self.list.len() as u32 - 1
        })
    }

    /// Returns the number of a text of a string pool.
    pub(crate) fn of(
        &mut self,
        pool: &'a ferretto_tables::StringPool,
        id: ferretto_tables::StringId,
    ) -> u32 {
        if let Some(number) = self.by_id.get(&id.raw()) {
            return *number;
        }
        let number = self.number(pool.text(id));
        self.by_id.insert(id.raw(), number);
        number
    }

    /// Adds a generated text, and returns its number.
    pub(crate) fn add(&mut self, text: String) -> u32 {
        if let Some(number) = self.numbers.get(text.as_str()) {
            return *number;
        }
        self.list.push(text.into());
        self.list.len() as u32 - 1
    }
}

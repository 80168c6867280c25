//! Files of Arrow's IPC format.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use ferretto_tables::{ColumnKind, ColumnSpec, StringPool, Table, TableId, Trace, Value};

use super::flatbuffer::{Builder, Position, Slot};
use super::tar;

/// The version of the metadata: V5.
const VERSION: Slot = Slot::Short(4);
/// The largest number of rows of a batch.
const ROWS: usize = 1 << 16;
/// The size of texts in a column of a batch at which a batch ends.
const TEXT: usize = 1 << 28;
const MAGIC: &[u8; 6] = b"ARROW1";

/// Writes all tables as files of an archive.
pub(super) fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    for id in TableId::ALL {
        let name = id.spec().name;
        let Some(table) = trace.table(name) else {
            continue;
        };
        let mut file = tempfile::tempfile()?;
        write_table(table, trace.strings(), &file)?;
        let size = file.seek(SeekFrom::End(0))?;
        file.rewind()?;
        tar::entry(&format!("{name}.arrow"), size, &mut file, out)?;
    }
    tar::end(out)
}

/// The place of a batch in the file.
struct Block {
    offset: i64,
    metadata: i64,
    body: i64,
}

fn write_table(table: &dyn Table, strings: &StringPool, file: &File) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    let columns = table.spec().columns;
    out.write_all(MAGIC)?;
    out.write_all(&[0, 0])?;
    let mut offset = 8;
    offset += put(&mut out, &message(1, 0, |builder| schema(builder, columns)))?;
    let mut blocks = Vec::new();
    let mut start = 0;
    while start < table.rows() {
        let mut end = table.rows().min(start + ROWS);
        for (index, column) in columns.iter().enumerate() {
            if column.kind == ColumnKind::Text {
                end = end.min(text_end(table, index, start..end, strings));
            }
        }
        let batch = Batch::of(table, start..end, strings);
        let length = batch.body.len() as i64;
        let metadata = put(
            &mut out,
            &message(3, length, |builder| batch.header(builder)),
        )?;
        out.write_all(&batch.body)?;
        blocks.push(Block {
            offset,
            metadata,
            body: length,
        });
        offset += metadata + length;
        start = end;
    }
    out.write_all(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])?;
    let mut builder = Builder::default();
    let numbers: Vec<i64> = blocks
        .iter()
        .flat_map(|block| [block.offset, block.metadata, block.body])
        .collect();
    let batches = builder.structs(&numbers, 3);
    let dictionaries = builder.structs(&[], 3);
    let schema = schema(&mut builder, columns);
    let footer = builder.table(&[
        VERSION,
        Slot::Object(schema),
        Slot::Object(dictionaries),
        Slot::Object(batches),
    ]);
    let footer = builder.finish(footer);
    out.write_all(&footer)?;
    out.write_all(&(footer.len() as u32).to_le_bytes())?;
    out.write_all(MAGIC)?;
    out.flush()
}

/// Returns a message with a header of this kind.
fn message(kind: u8, body: i64, header: impl FnOnce(&mut Builder) -> Position) -> Vec<u8> {
    let mut builder = Builder::default();
    let header = header(&mut builder);
    let root = builder.table(&[
        VERSION,
        Slot::Byte(kind),
        Slot::Object(header),
        Slot::Long(body),
    ]);
    builder.finish(root)
}

/// Writes a message with its length, and returns the number of bytes.
fn put(out: &mut impl Write, message: &[u8]) -> io::Result<i64> {
    out.write_all(&[0xff; 4])?;
    out.write_all(&(message.len() as u32).to_le_bytes())?;
    out.write_all(message)?;
    Ok(8 + message.len() as i64)
}

/// Adds the schema of columns.
fn schema(builder: &mut Builder, columns: &[ColumnSpec]) -> Position {
    let fields: Vec<Position> = columns.iter().map(|it| field(builder, it)).collect();
    let fields = builder.objects(&fields);
    builder.table(&[Slot::Short(0), Slot::Object(fields)])
}

fn field(builder: &mut Builder, column: &ColumnSpec) -> Position {
    let integer = |bits, is_signed| [Slot::Int(bits), Slot::Bool(is_signed)];
    let (kind, parameters) = match column.kind {
        ColumnKind::Id | ColumnKind::U32 => (2, integer(32, false)),
        ColumnKind::I32 => (2, integer(32, true)),
        ColumnKind::I64 => (2, integer(64, true)),
        // Of double precision.
        ColumnKind::F64 => (3, [Slot::Short(2), Slot::Default]),
        ColumnKind::Text => (5, [Slot::Default; 2]),
        ColumnKind::Bool => (6, [Slot::Default; 2]),
    };
    let kind_table = builder.table(&parameters);
    let children = builder.objects(&[]);
    let name = builder.text(column.name);
    builder.table(&[
        Slot::Object(name),
        Slot::Bool(true),
        Slot::Byte(kind),
        Slot::Object(kind_table),
        Slot::Default,
        Slot::Object(children),
    ])
}

/// Returns the row at which the texts of a column are too large for one batch, at least one row
/// after the first.
fn text_end(
    table: &dyn Table,
    index: usize,
    rows: std::ops::Range<usize>,
    strings: &StringPool,
) -> usize {
    let mut size = 0;
    let Some(column) = table.column(index) else {
        return rows.end;
    };
    for row in rows.clone() {
        if let Value::Text(text) = column.get(row) {
            size += strings.text(text).len();
        }
        if size > TEXT {
            return row.max(rows.start + 1);
        }
    }
    rows.end
}

/// Rows of a table.
#[derive(Default)]
struct Batch {
    rows: usize,
    /// The number of rows and of NULLs of each column.
    nodes: Vec<i64>,
    /// The offset and size of each buffer.
    buffers: Vec<i64>,
    body: Vec<u8>,
}

impl Batch {
    fn of(table: &dyn Table, rows: std::ops::Range<usize>, strings: &StringPool) -> Self {
        let mut batch = Self {
            rows: rows.len(),
            ..Self::default()
        };
        for (index, spec) in table.spec().columns.iter().enumerate() {
            let column = table.column(index);
            let values = rows
                .clone()
                .map(|row| column.map_or(Value::Null, |it| it.get(row)));
            batch.column(spec.kind, values, strings);
        }
        batch
    }

    fn column(
        &mut self,
        kind: ColumnKind,
        values: impl Iterator<Item = Value>,
        strings: &StringPool,
    ) {
        let (mut valid, mut bits) = (Bits::default(), Bits::default());
        let (mut data, mut offsets) = (Vec::new(), vec![0; 4]);
        let mut nulls = 0;
        for value in values {
            valid.push(value != Value::Null);
            nulls += i64::from(value == Value::Null);
            let number = match value {
                Value::Int(number) => number,
                _ => 0,
            };
            match kind {
                ColumnKind::Bool => bits.push(number != 0),
                ColumnKind::Id | ColumnKind::U32 | ColumnKind::I32 => {
                    data.extend_from_slice(&(number as u32).to_le_bytes());
                }
                ColumnKind::I64 => data.extend_from_slice(&number.to_le_bytes()),
                ColumnKind::F64 => {
                    let number = match value {
                        Value::Real(number) => number,
                        _ => 0.0,
                    };
                    data.extend_from_slice(&number.to_le_bytes());
                }
                ColumnKind::Text => {
                    if let Value::Text(text) = value {
                        data.extend_from_slice(strings.text(text).as_bytes());
                    }
                    offsets.extend_from_slice(&(data.len() as u32).to_le_bytes());
                }
            }
        }
        self.nodes.extend([self.rows as i64, nulls]);
        self.buffer(if nulls > 0 { &valid.bytes } else { &[] });
        match kind {
            ColumnKind::Bool => self.buffer(&bits.bytes),
            ColumnKind::Text => {
                self.buffer(&offsets);
                self.buffer(&data);
            }
            _ => self.buffer(&data),
        }
    }

    fn buffer(&mut self, bytes: &[u8]) {
        let at = self.body.len() as i64;
        self.buffers.extend([at, bytes.len() as i64]);
        self.body.extend_from_slice(bytes);
        self.body.resize(self.body.len().next_multiple_of(8), 0);
    }

    /// Adds the description of the batch.
    fn header(&self, builder: &mut Builder) -> Position {
        let buffers = builder.structs(&self.buffers, 2);
        let nodes = builder.structs(&self.nodes, 2);
        builder.table(&[
            Slot::Long(self.rows as i64),
            Slot::Object(nodes),
            Slot::Object(buffers),
        ])
    }
}

/// Truth values, eight in a byte.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    length: usize,
}

impl Bits {
    fn push(&mut self, value: bool) {
        if self.length.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(value) << (self.length % 8);
        }
        self.length += 1;
    }
}

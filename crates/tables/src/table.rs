//! Tables: columns of equal length.

use std::fmt;

use crate::column::{ColumnKind, ColumnView};

/// The declaration of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The name.
    pub name: &'static str,
    /// The description, as lines of text.
    pub doc: &'static [&'static str],
    /// The kind of its values.
    pub kind: ColumnKind,
    /// Set if values may be NULL.
    pub is_nullable: bool,
    /// Set if values ascend.
    pub is_sorted: bool,
}

/// The declaration of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSpec {
    /// The name.
    pub name: &'static str,
    /// The description, as lines of text.
    pub doc: &'static [&'static str],
    /// The columns. The first one is always `id`, the index of the row.
    pub columns: &'static [ColumnSpec],
}

impl TableSpec {
    /// Returns the index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// The first column of every table.
pub(crate) const ID: ColumnSpec = ColumnSpec {
    name: "id",
    doc: &["The number of the row."],
    kind: ColumnKind::Id,
    is_nullable: false,
    is_sorted: true,
};

impl TableSpec {
    /// Returns the maximum memory of this many rows in bytes.
    pub(crate) fn memory_of(&self, rows: usize) -> usize {
        let bits = |column: &ColumnSpec| {
            let bytes = match column.kind {
                ColumnKind::Id => 0,
                ColumnKind::Bool => 1,
                ColumnKind::U32 | ColumnKind::I32 | ColumnKind::Text => 4,
                ColumnKind::I64 | ColumnKind::F64 => 8,
            };
            8 * bytes + usize::from(column.is_nullable)
        };
        let bits: usize = self.columns.iter().map(bits).sum();
        // The bitmap of each column consists of words.
        rows.saturating_mul(bits) / 8 + 8 * (self.columns.len() + 1)
    }
}

/// A table of any type.
pub trait Table: fmt::Debug {
    /// Returns its name and columns.
    fn spec(&self) -> &'static TableSpec;

    /// Returns the number of rows.
    fn rows(&self) -> usize;

    /// Returns a column by its index in [`TableSpec::columns`]; `None` if there is no such column.
    fn column(&self, index: usize) -> Option<ColumnView<'_>>;

    /// Returns the memory in bytes.
    fn memory(&self) -> usize;

    /// Returns the maximum memory in bytes, with all parts computed.
    fn max_memory(&self) -> usize {
        self.memory()
    }

    /// Returns a column by its name.
    fn column_by_name(&self, name: &str) -> Option<ColumnView<'_>> {
        self.column(self.spec().column(name)?)
    }
}

/// Declares a table: a struct for rows, one for the table, and its [`TableSpec`].
///
/// A column has a doc comment, a name and a type, and `[sorted]` if its values ascend. The types
/// are those of [`Cell`](crate::column::Cell), or `Option`s of them for columns with NULL. The
/// column `id` is added to each table.
macro_rules! table {
    (
        $(#[doc = $doc:literal])+
        $row:ident, $table:ident = $name:literal {
            $(
                $(#[doc = $column_doc:literal])+
                $column:ident $(as $sql:literal)?: $type:ty $([$sorted:ident])?,
            )+
        }
    ) => {
        #[doc = concat!("A row of the table `", $name, "`.")]
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct $row {
            $( $(#[doc = $column_doc])+ pub $column: $type, )+
        }

        $(#[doc = $doc])+
        #[derive(Debug, Default)]
        pub struct $table {
            $( pub(crate) $column: <$type as $crate::column::Slot>::Column, )+
            len: u32,
        }

        #[allow(dead_code)]
        impl $table {
            /// The name and columns of the table.
            pub const SPEC: $crate::table::TableSpec = $crate::table::TableSpec {
                name: $name,
                doc: &[$($doc),+],
                columns: &[
                    $crate::table::ID,
                    $( $crate::table::ColumnSpec {
                        name: $crate::table::column_name!($column $($sql)?),
                        doc: &[$($column_doc),+],
                        kind: <$type as $crate::column::Slot>::KIND,
                        is_nullable: <$type as $crate::column::Slot>::IS_NULLABLE,
                        is_sorted: $crate::table::is_sorted!($($sorted)?),
                    }, )+
                ],
            };

            /// Returns an empty table with columns that are packed while they are filled.
            pub(crate) fn packing() -> Self {
                use $crate::column::TableColumn;
                Self {
                    $( $column: TableColumn::packing(), )+
                    len: 0,
                }
            }

            /// Packs all columns. No more rows may follow.
            pub(crate) fn pack(&mut self) {
                use $crate::column::TableColumn;
                $( self.$column.pack(); )+
            }

            /// Appends a row, and returns its id.
            #[inline]
            pub(crate) fn push(&mut self, row: $row) -> u32 {
                use $crate::column::TableColumn;
                $( self.$column.push(row.$column); )+
                let id = self.len;
                self.len = self.len.saturating_add(1);
                id
            }

            /// Appends rows, which is faster than to append them one by one.
            ///
            /// This is no trait's function: those are compiled for every table.
            pub(crate) fn extend(&mut self, rows: &[$row]) {
                use $crate::column::TableColumn;
                $( self.$column.extend(rows.iter().map(|row| row.$column)); )+
                self.len = self.len.saturating_add(rows.len() as u32);
            }

            /// Returns the number of rows.
            #[inline]
            pub fn len(&self) -> u32 {
                self.len
            }

            /// Returns true if there are no rows.
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// Returns a row; `None` if there is no such row.
            pub fn row(&self, id: u32) -> Option<$row> {
                (id < self.len).then(|| $row {
                    $( $column: self.$column.get(id), )+
                })
            }

            $(
                $(#[doc = $column_doc])+
                #[inline]
                pub fn $column(&self) -> &<$type as $crate::column::Slot>::Column {
                    &self.$column
                }
            )+

            /// Frees unused capacity.
            pub(crate) fn shrink(&mut self) {
                use $crate::column::TableColumn;
                $( self.$column.shrink(); )+
            }
        }

        impl $crate::saved::Saved for $table {
            fn save(&self, writer: &mut $crate::saved::Writer<'_>) -> ::std::io::Result<()> {
                writer.number(self.len.into());
                $( self.$column.save(writer)?; )+
                Ok(())
            }

            fn load(reader: &mut $crate::saved::Reader) -> ::std::io::Result<Self> {
                let table = Self {
                    len: reader.small()?,
                    $( $column: $crate::saved::Saved::load(reader)?, )+
                };
                $( $crate::saved::check(table.$column.len() == table.len as usize)?; )+
                Ok(table)
            }
        }

        impl $crate::table::Table for $table {
            fn spec(&self) -> &'static $crate::table::TableSpec {
                const { &Self::SPEC }
            }

            fn rows(&self) -> usize {
                self.len as usize
            }

            fn column(&self, index: usize) -> Option<$crate::column::ColumnView<'_>> {
                use $crate::column::TableColumn;
                if index == 0 {
                    return Some($crate::column::ColumnView {
                        values: $crate::column::Values::Id(self.len as usize),
                        validity: None,
                    });
                }
                let mut at = 0;
                $(
                    at += 1;
                    if at == index {
                        return Some(self.$column.view());
                    }
                )+
                let _ = at;
                None
            }

            fn memory(&self) -> usize {
                use $crate::column::TableColumn;
                [$( self.$column.memory() ),+].iter().sum()
            }
        }
    };
}

macro_rules! is_sorted {
    () => {
        false
    };
    (sorted) => {
        true
    };
}

macro_rules! column_name {
    ($column:ident) => {
        stringify!($column)
    };
    ($column:ident $sql:literal) => {
        $sql
    };
}

pub(crate) use {column_name, is_sorted, table};

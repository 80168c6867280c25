//! The numbers of fields and values of the protocol's messages, which are not in the schema.

/// `QueryResult`: the rows of a query.
pub(super) mod query_result {
    pub(in crate::rpc) const COLUMN_NAMES: u32 = 1;
    pub(in crate::rpc) const ERROR: u32 = 2;
    pub(in crate::rpc) const BATCH: u32 = 3;
    pub(in crate::rpc) const STATEMENT_COUNT: u32 = 4;
    pub(in crate::rpc) const STATEMENT_WITH_OUTPUT_COUNT: u32 = 5;
    pub(in crate::rpc) const LAST_STATEMENT_SQL: u32 = 6;
    pub(in crate::rpc) const ELAPSED_TIME_MS: u32 = 7;
}

/// `CellsBatch`: the cells of some rows, by type.
pub(super) mod cells_batch {
    pub(in crate::rpc) const CELLS: u32 = 1;
    pub(in crate::rpc) const VARINT_CELLS: u32 = 2;
    pub(in crate::rpc) const FLOAT64_CELLS: u32 = 3;
    pub(in crate::rpc) const BLOB_CELLS: u32 = 4;
    pub(in crate::rpc) const STRING_CELLS: u32 = 5;
    pub(in crate::rpc) const IS_LAST_BATCH: u32 = 6;
}

/// `CellType`: the type of a cell.
pub(super) mod cell_type {
    pub(in crate::rpc) const NULL: u64 = 1;
    pub(in crate::rpc) const VARINT: u64 = 2;
    pub(in crate::rpc) const FLOAT64: u64 = 3;
    pub(in crate::rpc) const STRING: u64 = 4;
    pub(in crate::rpc) const BLOB: u64 = 5;
}

/// `RegisterSqlPackageArgs`: the modules of a package.
pub(super) mod register_sql_package {
    pub(in crate::rpc) const MODULES: u32 = 2;
    pub(in crate::rpc) const ALLOW_OVERRIDE: u32 = 3;
    pub(in crate::rpc) const MODULE_NAME: u32 = 1;
    pub(in crate::rpc) const MODULE_SQL: u32 = 2;
}

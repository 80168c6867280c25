//! The export of traces as partitioned Parquet files: `DIR/table=NAME/trace_id=ID/data.parquet`.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::catalog::TableProvider;
use datafusion::common::Column;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::metadata::{KeyValue, SortingColumn};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::physical_plan::execute_stream;
use ferretto_output::Folder;
use ferretto_tables::{TableId, TableSet};
use futures::StreamExt;
use futures::future::try_join_all;

use super::Fleet;
use super::bind::Unbound;
use super::exec::split;
use super::files::TraceFile;
use super::table::{PATH, TRACE_ID, TracesTable};
use crate::error::SqlError;
use crate::trace::LoadedTrace;

/// The number of rows of a row group. Readers skip whole groups by their first and last time.
const ROW_GROUP: usize = 128 * 1024;

/// The relations that are exported by default: those with recorded data. Views of them, such as
/// `thread_slice`, are left out, since readers can define them.
pub const RELATIONS: &[&str] = &[
    "args",
    "clock_snapshot",
    "counter",
    "cpu",
    "filedescriptor",
    "flow",
    "ftrace_event",
    "heap_profile_allocation",
    "logs",
    "machine",
    "metadata",
    "perf_sample",
    "process",
    "sched_slice",
    "slice",
    "spurious_sched_wakeup",
    "stack_profile_callsite",
    "stack_profile_frame",
    "stack_profile_mapping",
    "stack_profile_symbol",
    "stack_sample",
    "stats",
    "thread",
    "thread_state",
    "track",
];

/// Counts of an export.
#[derive(Debug, Default, Clone, Copy)]
pub struct Exported {
    /// The number of exported traces.
    pub traces: u64,
    /// The number of written files.
    pub files: u64,
    /// The number of rows of all tables.
    pub rows: u64,
}

/// A relation to export.
struct Relation {
    name: String,
    unbound: Unbound,
    /// The index of the column `ts`, by which rows are sorted.
    ts: Option<usize>,
}

async fn relation(fleet: &Fleet, name: &str) -> Result<Relation, SqlError> {
    let name = name.to_ascii_lowercase();
    let context = fleet.scope.context().await?;
    let own = context
        .table_provider(name.as_str())
        .await
        .map_err(|_| SqlError::new(format!("There is no table or view '{name}' to export.")))?;
    let table = TracesTable::named(fleet.scope.clone(), &name, &own.schema());
    let columns: Vec<String> = table
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    let columns: Vec<&String> = columns
        .iter()
        .filter(|c| *c != TRACE_ID && *c != PATH)
        .collect();
    let ts = columns.iter().position(|c| *c == "ts");
    let source = provider_as_source(Arc::new(table));
    let column = |name: &str| Expr::Column(Column::new(Some("__export"), name));
    let mut plan = LogicalPlanBuilder::scan("__export", source, None)?
        .project(columns.iter().map(|c| column(c)).collect::<Vec<_>>())?;
    if ts.is_some() {
        plan = plan.sort(vec![column("ts").sort(true, true)])?;
    }
    let unbound = Unbound::new(&fleet.scope, &plan.build()?).await?;
    Ok(Relation { name, unbound, ts })
}

/// Writes relations of all traces of a fleet below a new folder.
///
/// # Errors
///
/// Fails if a relation is unknown or a file cannot be written. The folder is removed then. Traces
/// that cannot be read are the importer's failures, and rows of the table `trace`.
pub async fn export(
    fleet: &Fleet,
    relations: &[String],
    target: &Path,
    threads: usize,
) -> Result<Exported, SqlError> {
    let mut known = Vec::new();
    for name in relations {
        known.push(relation(fleet, name).await?);
    }
    let draft = Folder::new(target).map_err(output_error)?;
    let parts = split(fleet.files().to_vec(), threads.max(1));
    let work = parts
        .into_iter()
        .map(|files| part(fleet, &known, &draft, files));
    let mut all = Exported::default();
    let mut rows: Vec<TraceRow> = Vec::new();
    for (exported, traces) in try_join_all(work).await? {
        all.traces += exported.traces;
        all.files += exported.files;
        all.rows += exported.rows;
        rows.extend(traces);
    }
    write_traces(fleet, &draft, rows)?;
    all.files += 1;
    let inputs = fleet.files().iter().map(|file| Path::new(&file.path));
    draft.finish(inputs).map_err(output_error)?;
    Ok(all)
}

/// The first and last time of an exported trace.
struct TraceRow {
    id: String,
    bounds: Option<(i64, i64)>,
}

async fn part(
    fleet: &Fleet,
    relations: &[Relation],
    folder: &Folder,
    files: Vec<TraceFile>,
) -> Result<(Exported, Vec<TraceRow>), SqlError> {
    let tables = relations
        .iter()
        .fold(TableSet::of(&[TableId::trace_bounds]), |all, r| {
            all.union(r.unbound.tables)
        });
    let mut exported = Exported::default();
    let mut traces = Vec::new();
    for file in files {
        let Some(held) = fleet.scope.importer.import(&file, tables).await else {
            continue;
        };
        for relation in relations {
            let rows = write_relation(fleet, relation, &held.trace, &file, folder).await?;
            exported.files += u64::from(rows > 0);
            exported.rows += rows;
        }
        let bounds = &held.trace.tables().tables().trace_bounds;
        let bounds =
            (!bounds.is_empty()).then(|| (bounds.start_ts().get(0), bounds.end_ts().get(0)));
        traces.push(TraceRow {
            id: file.id,
            bounds,
        });
        exported.traces += 1;
    }
    Ok((exported, traces))
}

fn properties(sorted: Option<usize>) -> Result<WriterProperties, SqlError> {
    let level = ZstdLevel::try_new(1).map_err(parquet_error)?;
    let sorted = sorted.map(|at| {
        vec![SortingColumn {
            column_idx: at as i32,
            descending: false,
            nulls_first: true,
        }]
    });
    Ok(WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_sorting_columns(sorted)
        .set_created_by(format!("ferretto-fleet {}", env!("CARGO_PKG_VERSION")))
        .build())
}

fn output_error(error: anyhow::Error) -> SqlError {
    SqlError::new(format!("{error:#}"))
}

fn parquet_error(error: impl std::fmt::Display) -> SqlError {
    SqlError::new(format!("cannot write Parquet: {error}"))
}

async fn write_relation(
    fleet: &Fleet,
    relation: &Relation,
    trace: &LoadedTrace,
    file: &TraceFile,
    folder: &Folder,
) -> Result<u64, SqlError> {
    let about = |e: SqlError| SqlError::new(format!("{}: {}: {e}", file.path, relation.name));
    let plan = relation.unbound.bind(trace, file, &fleet.scope)?;
    let state = relation.unbound.state();
    let plan = state
        .create_physical_plan(&plan)
        .await
        .map_err(|e| about(e.into()))?;
    let mut stream = execute_stream(plan, state.task_ctx())?;
    let mut writer: Option<ArrowWriter<File>> = None;
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|e| about(e.into()))?;
        if batch.num_rows() == 0 {
            continue;
        }
        rows += batch.num_rows() as u64;
        let writer = match &mut writer {
            Some(writer) => writer,
            // A table without rows has no file.
            None => {
                let name = format!("table={}/trace_id={}/data.parquet", relation.name, file.id);
                let made = folder.create(name).map_err(parquet_error)?;
                let properties = properties(relation.ts)?;
                let new = ArrowWriter::try_new(made, batch.schema(), Some(properties));
                writer.insert(new.map_err(parquet_error)?)
            }
        };
        writer.write(&batch).map_err(parquet_error)?;
    }
    if let Some(mut writer) = writer {
        writer.append_key_value_metadata(KeyValue::new(
            "ferretto.path".to_owned(),
            file.path.clone(),
        ));
        let made = writer.into_inner().map_err(parquet_error)?;
        made.sync_all().map_err(parquet_error)?;
    }
    Ok(rows)
}

/// Writes the table `trace` with a row for each file, also for unreadable ones.
fn write_traces(fleet: &Fleet, folder: &Folder, rows: Vec<TraceRow>) -> Result<(), SqlError> {
    let failures = fleet.scope.importer.failures();
    let files = fleet.files();
    let known: HashMap<String, _> = rows.into_iter().map(|r| (r.id, r.bounds)).collect();
    let failed: HashMap<&str, &str> = failures
        .iter()
        .map(|f| (f.path.as_str(), f.reason.as_str()))
        .collect();
    let bounds = |f: &TraceFile| known.get(&f.id).copied().flatten();
    let bounds: Vec<_> = files.iter().map(bounds).collect();
    let error = |f: &TraceFile| {
        failed
            .get(f.path.as_str())
            .map(|reason| (*reason).to_owned())
    };
    let texts = |values: Vec<Option<String>>| -> ArrayRef { Arc::new(StringArray::from(values)) };
    let integers = |values: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let batch = RecordBatch::try_from_iter_with_nullable([
        (
            "trace_id",
            texts(files.iter().map(|f| Some(f.id.clone())).collect()),
            false,
        ),
        (
            "path",
            texts(files.iter().map(|f| Some(f.path.clone())).collect()),
            false,
        ),
        (
            "size",
            integers(files.iter().map(|f| Some(f.size as i64)).collect()),
            false,
        ),
        (
            "start_ts",
            integers(bounds.iter().map(|b| b.map(|b| b.0)).collect()),
            true,
        ),
        (
            "end_ts",
            integers(bounds.iter().map(|b| b.map(|b| b.1)).collect()),
            true,
        ),
        ("error", texts(files.iter().map(error).collect()), true),
    ])
    .map_err(SqlError::arrow)?;
    let made = folder
        .create("table=trace/data.parquet")
        .map_err(parquet_error)?;
    let mut writer = ArrowWriter::try_new(made, batch.schema(), Some(properties(None)?))
        .map_err(parquet_error)?;
    writer.write(&batch).map_err(parquet_error)?;
    let made = writer.into_inner().map_err(parquet_error)?;
    made.sync_all().map_err(parquet_error)
}

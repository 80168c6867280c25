//! The physical operator. Its inputs are partitioned by keys and sorted, and swept group by group.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{SortOptions, concat_batches, interleave, take};
use datafusion::arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::common::{Result, exec_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, PhysicalExpr,
    PhysicalSortExpr, expressions::Column,
};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::sweep::{Interval, as_of, meet, meet_all, outer, with_gaps};
use crate::node::{operator, properties};

/// The kind of a span join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpanKind {
    /// The pieces that both sides cover.
    Inner,
    /// In addition, the pieces that only the left side covers.
    Left,
    /// In addition, the pieces that only one of the sides covers.
    Outer,
}

/// The kind of an operator. The columns of each input are its keys, `ts`, `dur` and the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// A span join of two inputs. A side without keys is joined with every group of the other.
    Span(SpanKind),
    /// The intersection of all inputs. Their column after `dur` is an id.
    Intersect,
    /// Each left row with the last right row that is not after it.
    AsOf,
    /// For each time at which an interval of the one input starts or ends, the intervals that are
    /// open or end there.
    Members,
}

/// An operator over intervals.
#[derive(Debug, Clone)]
pub(super) struct IntervalExec {
    work: Work,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    /// The number of keys of each input.
    keys: Vec<usize>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl IntervalExec {
    /// Returns an operator over inputs with the columns of [`Work`].
    pub(super) fn new(
        work: Work,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        keys: Vec<usize>,
        schema: SchemaRef,
    ) -> Self {
        let same = keys.iter().all(|k| *k == keys[0]) && keys[0] > 0;
        let partitions = if same {
            inputs
                .iter()
                .map(|i| i.output_partitioning().partition_count())
                .max()
                .unwrap_or(1)
        } else {
            1
        };
        let rows = EquivalenceProperties::new(schema.clone());
        Self {
            work,
            inputs,
            keys,
            schema,
            properties: properties(rows, partitions, EmissionType::Final),
        }
    }

    fn partitioned(&self) -> bool {
        self.keys.iter().all(|k| *k == self.keys[0]) && self.keys[0] > 0
    }

    fn columns(&self, input: usize, count: usize) -> Vec<Arc<dyn PhysicalExpr>> {
        let schema = self.inputs[input].schema();
        (0..count)
            .map(|i| Arc::new(Column::new(schema.field(i).name(), i)) as Arc<dyn PhysicalExpr>)
            .collect()
    }
}

impl DisplayAs for IntervalExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IntervalExec: {:?}, keys={:?}", self.work, self.keys)
    }
}

impl ExecutionPlan for IntervalExec {
    operator!("IntervalExec");

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        if self.partitioned() {
            InputDistributionRequirements::co_partitioned(
                (0..self.inputs.len())
                    .map(|i| Distribution::KeyPartitioned(self.columns(i, self.keys[i])))
                    .collect(),
            )
        } else {
            InputDistributionRequirements::new(vec![
                Distribution::SinglePartition;
                self.inputs.len()
            ])
        }
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let options = SortOptions {
            descending: false,
            nulls_first: true,
        };
        (0..self.inputs.len())
            .map(|input| {
                let columns = self.columns(input, self.keys[input] + 1);
                let terms = columns
                    .into_iter()
                    .map(|c| PhysicalSortExpr::new(c, options));
                LexOrdering::new(terms).map(OrderingRequirements::from)
            })
            .collect()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(
            self.work,
            children,
            self.keys.clone(),
            self.schema.clone(),
        )))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let streams = self
            .inputs
            .iter()
            .map(|input| input.execute(partition, context.clone()))
            .collect::<Result<Vec<_>>>()?;
        let reservation = MemoryConsumer::new("interval join").register(context.memory_pool());
        let (work, keys, schema) = (self.work, self.keys.clone(), self.schema.clone());
        let size = context.session_config().batch_size();
        let output = self.schema.clone();
        let result = async move {
            let mut inputs = Vec::new();
            for mut stream in streams {
                let schema = stream.schema();
                let mut batches = Vec::new();
                while let Some(batch) = stream.next().await {
                    let batch = batch?;
                    // Counted twice, since the batches are copied into one.
                    reservation.try_grow(2 * batch.get_array_memory_size())?;
                    batches.push(batch);
                }
                let batch = concat_batches(&schema, &batches)?;
                if u32::try_from(batch.num_rows()).is_err() {
                    return exec_err!("An interval join takes at most 2^32 rows of a group.");
                }
                inputs.push(batch);
            }
            // Pieces can be many more than rows, so they are counted before they are added.
            let mut pending = 0;
            let mut grow = |pieces: usize| {
                pending += pieces;
                if pending < PIECES {
                    return Ok(());
                }
                reservation.try_grow(std::mem::take(&mut pending) * PIECE)
            };
            let pieces = sweep(work, &inputs, &keys, &mut grow)?;
            let rows = pieces.at.len();
            let batches = (0..rows).step_by(size.max(1)).map(move |start| {
                let _reservation = &reservation;
                let end = (start + size).min(rows);
                build(work, &inputs, &keys, &pieces, start..end, &schema)
            });
            Ok(stream::iter(batches))
        };
        let stream = stream::once(result).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(output, stream)))
    }
}

/// The memory of a piece with its rows, and that of its copies while pieces are sorted.
const PIECE: usize = 160;
/// The number of pieces that are counted together.
const PIECES: usize = 4096;

/// Counts pieces, and fails if they would take too much memory.
type Grow<'a> = &'a mut dyn FnMut(usize) -> Result<()>;

/// Pieces with their rows of all inputs.
struct Pieces {
    at: Vec<Interval>,
    /// For each input, the row of each piece.
    rows: Vec<Vec<Option<u32>>>,
    /// For each piece, an input and a row with the keys of the piece.
    keys: Vec<(usize, usize)>,
}

/// A value of a key column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Integer(i64),
    Text(String),
}

/// A run of rows with the same keys.
struct Group {
    key: Vec<Option<Key>>,
    rows: std::ops::Range<usize>,
}

fn integers(batch: &RecordBatch, column: usize) -> &Int64Array {
    batch.column(column).as_primitive::<Int64Type>()
}

/// Returns the values of a key column.
fn keys_of(column: &ArrayRef) -> Vec<Option<Key>> {
    match column.as_string_opt::<i32>() {
        Some(texts) => texts
            .iter()
            .map(|text| text.map(|text| Key::Text(text.to_owned())))
            .collect(),
        None => column
            .as_primitive::<Int64Type>()
            .iter()
            .map(|value| value.map(Key::Integer))
            .collect(),
    }
}

fn groups(batch: &RecordBatch, keys: usize) -> Vec<Group> {
    let columns: Vec<Vec<Option<Key>>> = (0..keys).map(|i| keys_of(batch.column(i))).collect();
    let mut groups: Vec<Group> = Vec::new();
    for row in 0..batch.num_rows() {
        let same = |group: &&mut Group| {
            columns
                .iter()
                .zip(&group.key)
                .all(|(column, key)| column[row] == *key)
        };
        match groups.last_mut().filter(same) {
            Some(group) => group.rows.end = row + 1,
            None => groups.push(Group {
                key: columns.iter().map(|column| column[row].clone()).collect(),
                rows: row..row + 1,
            }),
        }
    }
    if keys == 0 && groups.is_empty() {
        groups.push(Group {
            key: Vec::new(),
            rows: 0..0,
        });
    }
    groups
}

fn intervals(batch: &RecordBatch, keys: usize, rows: &std::ops::Range<usize>) -> Vec<Interval> {
    let (ts, dur) = (integers(batch, keys), integers(batch, keys + 1));
    rows.clone()
        .map(|row| {
            Interval::new(
                ts.value(row),
                if dur.is_null(row) { 0 } else { dur.value(row) },
            )
        })
        .collect()
}

fn sweep(work: Work, inputs: &[RecordBatch], keys: &[usize], grow: Grow<'_>) -> Result<Pieces> {
    let mut out = Pieces {
        at: Vec::new(),
        rows: vec![Vec::new(); inputs.len()],
        keys: Vec::new(),
    };
    let grouped: Vec<Vec<Group>> = inputs
        .iter()
        .zip(keys)
        .map(|(batch, keys)| groups(batch, *keys))
        .collect();
    let most = *keys.iter().max().unwrap_or(&0);
    // The keys of all groups of inputs with keys, in order.
    let mut names: Vec<&Vec<Option<Key>>> = grouped
        .iter()
        .zip(keys)
        .filter(|(_, count)| **count == most)
        .flat_map(|(groups, _)| groups.iter().map(|g| &g.key))
        .collect();
    names.sort();
    names.dedup();
    let mut cursors = vec![0; inputs.len()];
    for name in names {
        let mut members = Vec::new();
        for (input, groups) in grouped.iter().enumerate() {
            // An input without keys is joined with every group.
            let range = if keys[input] < most {
                0..inputs[input].num_rows()
            } else {
                let cursor = &mut cursors[input];
                while *cursor < groups.len() && groups[*cursor].key < *name {
                    *cursor += 1;
                }
                match groups.get(*cursor) {
                    Some(group) if group.key == *name => group.rows.clone(),
                    _ => 0..0,
                }
            };
            members.push(range);
        }
        let keyed = (0..inputs.len()).find(|i| keys[*i] == most && !members[*i].is_empty());
        group(work, inputs, keys, &members, &mut out, grow)?;
        let origin = keyed.map_or((0, 0), |input| (input, members[input].start));
        out.keys.resize(out.at.len(), origin);
    }
    Ok(out)
}

fn group(
    work: Work,
    inputs: &[RecordBatch],
    keys: &[usize],
    members: &[std::ops::Range<usize>],
    out: &mut Pieces,
    grow: Grow<'_>,
) -> Result<()> {
    let row = |input: usize, index: usize| (members[input].start + index) as u32;
    match work {
        Work::Span(kind) => {
            let mut members = members.to_vec();
            if kind == SpanKind::Inner {
                narrow(inputs, keys, &mut members);
            }
            let row = |input: usize, index: usize| (members[input].start + index) as u32;
            let left = intervals(&inputs[0], keys[0], &members[0]);
            let right = intervals(&inputs[1], keys[1], &members[1]);
            let pieces = match kind {
                SpanKind::Inner => meet(&left, &right),
                SpanKind::Left => with_gaps(&left, &meet(&left, &right)),
                SpanKind::Outer => outer(&left, &right),
            };
            grow(pieces.len())?;
            for piece in pieces {
                out.at.push(piece.at);
                out.rows[0].push(piece.left.map(|i| row(0, i)));
                out.rows[1].push(piece.right.map(|i| row(1, i)));
            }
        }
        Work::Intersect => {
            let mut at = intervals(&inputs[0], keys[0], &members[0]);
            let mut rows: Vec<Vec<u32>> = vec![(0..at.len()).map(|i| row(0, i)).collect()];
            for input in 1..inputs.len() {
                let right = intervals(&inputs[input], keys[input], &members[input]);
                let pieces = meet_all(&at, &right, grow)?;
                let left = |p: &super::sweep::Piece| p.left.unwrap_or_default();
                for list in &mut rows {
                    *list = pieces.iter().map(|p| list[left(p)]).collect();
                }
                rows.push(
                    pieces
                        .iter()
                        .map(|p| row(input, p.right.unwrap_or_default()))
                        .collect(),
                );
                at = pieces.iter().map(|p| p.at).collect();
            }
            out.at.extend(at);
            for (all, list) in out.rows.iter_mut().zip(rows) {
                all.extend(list.into_iter().map(Some));
            }
        }
        Work::Members => {
            let all = intervals(&inputs[0], keys[0], &members[0]);
            let mut times: Vec<i64> = all.iter().flat_map(|i| [i.start, i.end]).collect();
            times.sort_unstable();
            times.dedup();
            let mut open: Vec<usize> = Vec::new();
            let mut next = 0;
            for (index, start) in times.iter().copied().enumerate() {
                let end = times.get(index + 1).copied().unwrap_or(start);
                while all.get(next).is_some_and(|i| i.start == start) {
                    open.push(next);
                    next += 1;
                }
                grow(open.len())?;
                for member in &open {
                    out.at.push(Interval { start, end });
                    out.rows[0].push(Some(row(0, *member)));
                }
                open.retain(|member| all[*member].end > start);
            }
        }
        Work::AsOf => {
            let times = |input: usize| -> Vec<i64> {
                let ts = integers(&inputs[input], keys[input]);
                members[input].clone().map(|i| ts.value(i)).collect()
            };
            let left = times(0);
            for (index, found) in as_of(&left, &times(1)).into_iter().enumerate() {
                out.at.push(Interval {
                    start: left[index],
                    end: left[index],
                });
                out.rows[0].push(Some(row(0, index)));
                out.rows[1].push(found.map(|i| row(1, i)));
            }
        }
    }
    Ok(())
}

/// Leaves out the rows before and after all of the other side, so that a side without keys is not
/// read from its start for each group.
fn narrow(inputs: &[RecordBatch], keys: &[usize], members: &mut [std::ops::Range<usize>]) {
    for side in 0..2 {
        let other = members[1 - side].clone();
        if other.is_empty() || members[side].len() <= other.len() {
            continue;
        }
        let other_ts = integers(&inputs[1 - side], keys[1 - side]);
        let last = intervals(
            &inputs[1 - side],
            keys[1 - side],
            &(other.end - 1..other.end),
        )[0];
        let first = other_ts.value(other.start);
        let ts = &integers(&inputs[side], keys[side]).values()[members[side].clone()];
        let start = ts.partition_point(|t| *t < first).saturating_sub(1);
        let end = ts.partition_point(|t| *t <= last.end);
        let base = members[side].start;
        members[side] = base + start..base + end.max(start);
    }
}

/// Builds the rows of a range of pieces.
fn build(
    work: Work,
    inputs: &[RecordBatch],
    keys: &[usize],
    pieces: &Pieces,
    range: std::ops::Range<usize>,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let at = &pieces.at[range.clone()];
    let rows: Vec<UInt32Array> = pieces
        .rows
        .iter()
        .map(|list| list[range.clone()].iter().copied().collect())
        .collect();
    let pick = |input: usize, column: usize| take(inputs[input].column(column), &rows[input], None);
    let ts: ArrayRef = Arc::new(Int64Array::from_iter_values(at.iter().map(|i| i.start)));
    let dur: ArrayRef = Arc::new(Int64Array::from_iter_values(
        at.iter().map(|i| i.end - i.start),
    ));
    let mut columns: Vec<ArrayRef> = Vec::new();
    let most = keys.iter().copied().max().unwrap_or(0);
    let key = |column: usize| -> Result<ArrayRef> {
        let keyed: Vec<usize> = (0..inputs.len()).filter(|i| keys[*i] == most).collect();
        let values: Vec<&dyn Array> = keyed
            .iter()
            .map(|input| inputs[*input].column(column).as_ref())
            .collect();
        let origins: Vec<(usize, usize)> = pieces.keys[range.clone()]
            .iter()
            .map(|(input, row)| (keyed.iter().position(|k| k == input).unwrap_or(0), *row))
            .collect();
        Ok(interleave(&values, &origins)?)
    };
    match work {
        Work::Span(_) => {
            columns.extend([ts.clone(), dur]);
            for column in 0..most {
                columns.push(key(column)?);
            }
            for (input, keys) in keys.iter().enumerate() {
                for column in keys + 2..inputs[input].num_columns() {
                    columns.push(pick(input, column)?);
                }
            }
        }
        Work::Intersect => {
            columns.extend([ts.clone(), dur]);
            for (input, keys) in keys.iter().enumerate() {
                columns.push(pick(input, keys + 2)?);
            }
            for column in 0..most {
                columns.push(key(column)?);
            }
        }
        Work::Members => {
            let member = pick(0, 2)?;
            let end = |(index, row): (usize, Option<u32>)| {
                let row = row.unwrap_or_default() as usize;
                let (ts, dur) = (integers(&inputs[0], 0), integers(&inputs[0], 1));
                let known = if dur.is_null(row) { 0 } else { dur.value(row) };
                i64::from(Interval::new(ts.value(row), known).end == at[index].start)
            };
            let ends = rows[0].iter().enumerate().map(end);
            let ends: ArrayRef = Arc::new(Int64Array::from_iter_values(ends));
            columns.extend([ts.clone(), dur, member, ends]);
        }
        Work::AsOf => {
            for (input, keys) in keys.iter().enumerate() {
                for column in keys + 2..inputs[input].num_columns() {
                    columns.push(pick(input, column)?);
                }
            }
        }
    }
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}

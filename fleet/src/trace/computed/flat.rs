//! `experimental_flat_slice(start, end)`: the innermost slices of each track over time.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{Result, ScalarValue};
use ferretto_tables::Trace;

use crate::computed::{TableFunction, integer};

/// The function `experimental_flat_slice`.
#[derive(Debug)]
pub(super) struct FlatSlice(pub(super) Arc<Trace>);

/// A part of a track's time, with its innermost slice.
struct Piece {
    start: i64,
    end: i64,
    track: u32,
    slice: Option<u32>,
}

impl FlatSlice {
    fn pieces(&self, from: i64, to: i64) -> Vec<Piece> {
        let slices = &self.0.tables().slice;
        let end_of = |id: u32| match slices.dur().get(id) {
            dur if dur < 0 => to,
            dur => slices.ts().get(id).saturating_add(dur),
        };
        let mut tracks: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for id in 0..slices.len() {
            if slices.ts().get(id) < to && end_of(id) > from {
                tracks
                    .entry(slices.track_id().get(id))
                    .or_default()
                    .push(id);
            }
        }
        let mut pieces: Vec<Piece> = Vec::new();
        for (track, ids) in tracks {
            let mut now = from;
            let mut open: Vec<u32> = Vec::new();
            let mut advance = |now: &mut i64, until: i64, slice: Option<u32>| {
                let until = until.min(to);
                if until > *now {
                    pieces.push(Piece {
                        start: *now,
                        end: until,
                        track,
                        slice,
                    });
                    *now = until;
                }
            };
            for id in ids {
                let start = slices.ts().get(id);
                while let Some(inner) = open.pop_if(|inner| end_of(*inner) <= start) {
                    advance(&mut now, end_of(inner), Some(inner));
                }
                advance(&mut now, start, open.last().copied());
                open.push(id);
            }
            while let Some(inner) = open.pop() {
                advance(&mut now, end_of(inner), Some(inner));
            }
            advance(&mut now, to, None);
        }
        pieces.sort_by_key(|piece| (piece.start, piece.track));
        pieces
    }
}

#[async_trait]
impl TableFunction for FlatSlice {
    fn name(&self) -> &'static str {
        "experimental_flat_slice"
    }

    fn arguments(&self) -> &'static [&'static str] {
        &["start_bound", "end_bound"]
    }

    fn schema(&self) -> SchemaRef {
        let field = |name, kind| Field::new(name, kind, true);
        Arc::new(Schema::new(vec![
            field("ts", DataType::Int64),
            field("dur", DataType::Int64),
            field("track_id", DataType::Int64),
            field("category", DataType::Utf8),
            field("name", DataType::Utf8),
            field("arg_set_id", DataType::Int64),
            field("source_id", DataType::Int64),
        ]))
    }

    async fn rows(&self, _: &dyn Session, arguments: &[ScalarValue]) -> Result<Vec<ArrayRef>> {
        let bound = |index: usize| integer(self.name(), self.arguments()[index], &arguments[index]);
        let pieces = match (bound(0)?, bound(1)?) {
            (Some(from), Some(to)) => self.pieces(from, to),
            _ => Vec::new(),
        };
        let slices = &self.0.tables().slice;
        let strings = self.0.strings();
        let source = || pieces.iter().map(|piece| piece.slice);
        let integers = |value: &dyn Fn(&Piece) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(pieces.iter().map(value)))
        };
        Ok(vec![
            integers(&|piece| piece.start),
            integers(&|piece| piece.end - piece.start),
            integers(&|piece| piece.track.into()),
            Arc::new(
                source()
                    .map(|id| id.and_then(|id| strings.get(slices.category().get(id))))
                    .collect::<StringArray>(),
            ),
            Arc::new(
                source()
                    .map(|id| id.and_then(|id| strings.get(slices.name().get(id))))
                    .collect::<StringArray>(),
            ),
            Arc::new(
                source()
                    .map(|id| id.and_then(|id| slices.arg_set_id().get(id)).map(i64::from))
                    .collect::<Int64Array>(),
            ),
            Arc::new(source().map(|id| id.map(i64::from)).collect::<Int64Array>()),
        ])
    }
}

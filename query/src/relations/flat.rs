//! `experimental_flat_slice(start, end)`: the innermost slices of each track over time.

use std::collections::BTreeMap;

use ferretto_tables::Trace;
use rusqlite::Result;
use rusqlite::types::Value;

use super::StoredRows;
use super::computed::{Computed, Kind};
use crate::limits::Limits;

/// The table.
pub(super) const TABLE: Computed = Computed {
    name: "experimental_flat_slice",
    arguments: &["start_bound", "end_bound"],
    columns: &[
        ("ts", Kind::Integers),
        ("dur", Kind::Integers),
        ("track_id", Kind::Integers),
        ("category", Kind::Texts),
        ("name", Kind::Texts),
        ("arg_set_id", Kind::Integers),
        ("source_id", Kind::Integers),
    ],
    compute: rows,
};

/// A part of a track's time, with its innermost slice.
struct Piece {
    start: i64,
    end: i64,
    track: u32,
    slice: Option<u32>,
}

/// Returns the parts of all tracks from one time to another.
fn pieces(trace: &Trace, from: i64, to: i64) -> Vec<Piece> {
    let slices = &trace.tables().slice;
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

fn rows(trace: &Trace, arguments: &[Value], limits: &Limits) -> Result<StoredRows> {
    let pieces = match arguments {
        [Value::Integer(from), Value::Integer(to)] => pieces(trace, *from, *to),
        _ => Vec::new(),
    };
    let slices = &trace.tables().slice;
    let text = |id| trace.strings().get(id).map(str::to_owned);
    let mut rows = StoredRows::new(TABLE.columns.len(), limits);
    for piece in pieces {
        let slice = piece.slice;
        rows.push(piece.start)?;
        rows.push(piece.end.saturating_sub(piece.start))?;
        rows.push(i64::from(piece.track))?;
        rows.push(slice.and_then(|id| text(slices.category().get(id))))?;
        rows.push(slice.and_then(|id| text(slices.name().get(id))))?;
        rows.push(
            slice
                .and_then(|id| slices.arg_set_id().get(id))
                .map(i64::from),
        )?;
        rows.push(slice.map(i64::from))?;
    }
    Ok(rows)
}

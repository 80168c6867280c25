//! Relations between rows as tables of two columns, computed for the origins that a query names.

use std::sync::Arc;

use ferretto_tables::Trace;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Result};

use crate::links::{Index, RELATIONS, Relation as Kind};
use crate::sqlite::{Column, Condition, Op, Plan, Relation, Relations, Rows};

/// Registers all relations of a trace.
pub(crate) fn register(
    connection: &Connection,
    relations: &Relations,
    trace: &Arc<Trace>,
) -> Result<()> {
    let index = Arc::new(Index::new(trace));
    for (kind, name, columns) in RELATIONS {
        let pairs = Pairs {
            kind: *kind,
            columns: *columns,
            index: index.clone(),
        };
        relations.register(connection, name, Arc::new(pairs))?;
    }
    Ok(())
}

#[derive(Debug)]
struct Pairs {
    kind: Kind,
    columns: [&'static str; 2],
    index: Arc<Index>,
}

impl Pairs {
    /// Returns true if unknown origins are errors, as in upstream's functions of these relations.
    fn is_strict(&self) -> bool {
        matches!(
            self.kind,
            Kind::SliceAncestors
                | Kind::SliceDescendants
                | Kind::CallsiteAncestors
                | Kind::FlowDirect
                | Kind::FlowFollowing
                | Kind::FlowPreceding
        )
    }
}

impl Relation for Pairs {
    fn columns(&self) -> Vec<Column> {
        self.columns.iter().map(|name| Column::new(*name)).collect()
    }

    fn plan(&self, conditions: &[Condition], _: &[(usize, bool)]) -> Option<Plan> {
        let is_origin = |c: &Condition| c.column == 0 && c.op == Op::Eq && c.is_usable;
        let origins = self.index.origins(self.kind) as f64;
        Some(match conditions.iter().position(is_origin) {
            Some(index) => Plan {
                used: vec![index],
                cost: 8.0,
                rows: 8.0,
                ..Plan::default()
            },
            None => Plan {
                cost: 8.0 * origins,
                rows: 8.0 * origins,
                ..Plan::default()
            },
        })
    }

    fn open(self: Arc<Self>) -> Box<dyn Rows> {
        Box::new(Reader {
            pairs: self,
            origin: 0,
            past: 0,
            others: Vec::new(),
            at: 0,
        })
    }
}

struct Reader {
    pairs: Arc<Pairs>,
    origin: u32,
    /// The origin after the last one.
    past: u32,
    others: Vec<i64>,
    at: usize,
}

impl Reader {
    /// Moves to the first origin with a pair.
    fn skip_empty(&mut self) {
        while self.at >= self.others.len() && self.origin < self.past {
            self.others.clear();
            self.at = 0;
            self.pairs
                .index
                .others(self.pairs.kind, self.origin, &mut self.others);
            if self.others.is_empty() {
                self.origin += 1;
            }
        }
    }
}

impl Rows for Reader {
    fn start(&mut self, conditions: &[(usize, Op, Value)]) -> Result<()> {
        let all = self.pairs.index.origins(self.pairs.kind) as u32;
        (self.origin, self.past) = (0, all);
        if let Some((_, _, value)) = conditions.first() {
            let origin = match value {
                Value::Integer(id) => u32::try_from(*id).ok().filter(|id| *id < all),
                _ => None,
            };
            if let (Value::Integer(id), None, true) = (value, origin, self.pairs.is_strict()) {
                let message = format!("there is no row with the id {id}");
                return Err(rusqlite::Error::ModuleError(message));
            }
            self.origin = origin.unwrap_or(0);
            self.past = origin.map_or(0, |id| id + 1);
        }
        self.others.clear();
        self.at = 0;
        self.skip_empty();
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        if self.at >= self.others.len() {
            self.origin += 1;
            self.skip_empty();
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.origin >= self.past
    }

    fn value(&self, column: usize) -> ValueRef<'_> {
        match column {
            0 => ValueRef::Integer(self.origin.into()),
            _ => self
                .others
                .get(self.at)
                .map_or(ValueRef::Null, |id| ValueRef::Integer(*id)),
        }
    }

    fn row(&self) -> i64 {
        i64::from(self.origin)
    }
}

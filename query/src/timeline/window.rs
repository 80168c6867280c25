//! Windows: a range of time in steps.

use std::sync::Arc;

use rusqlite::Result;
use rusqlite::types::{Value, ValueRef};

use crate::objects::failure;
use crate::sqlite::{Column, Condition, Op, Plan, Relation, Rows};

/// A range of time in steps, which are computed when they are read.
#[derive(Debug)]
pub(crate) struct Window {
    start: i64,
    dur: i64,
    quantum: i64,
    /// The number of steps.
    steps: i64,
}

impl Window {
    /// Returns a range of steps of `quantum`; 0 for one step.
    pub(crate) fn new(start: i64, dur: i64, quantum: i64) -> Result<Self> {
        if quantum < 0 {
            return Err(failure("the step of a window must not be negative"));
        }
        if dur > 0 && start.checked_add(dur).is_none() {
            return Err(failure("the end of the window is too large"));
        }
        let step = if quantum == 0 { dur } else { quantum };
        let steps = if dur > 0 {
            dur / step + i64::from(dur % step > 0)
        } else {
            0
        };
        Ok(Self {
            start,
            dur,
            quantum,
            steps,
        })
    }
}

impl Relation for Window {
    fn columns(&self) -> Vec<Column> {
        let shown = ["ts", "dur", "quantum_ts"].map(Column::new);
        let hidden = ["rowid", "quantum", "window_start", "window_dur"].map(Column::hidden);
        shown.into_iter().chain(hidden).collect()
    }

    fn plan(&self, _: &[Condition], order: &[(usize, bool)]) -> Option<Plan> {
        Some(Plan {
            cost: self.steps as f64,
            rows: self.steps as f64,
            is_ordered: matches!(order, [(0 | 2 | 3, false)]),
            ..Plan::default()
        })
    }

    fn open(self: Arc<Self>) -> Box<dyn Rows> {
        Box::new(Steps {
            window: self,
            at: 0,
        })
    }
}

struct Steps {
    window: Arc<Window>,
    at: i64,
}

impl Rows for Steps {
    fn start(&mut self, _: &[(usize, Op, Value)]) -> Result<()> {
        self.at = 0;
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.at >= self.window.steps
    }

    fn value(&self, column: usize) -> ValueRef<'_> {
        let window = &self.window;
        let step = match window.quantum {
            0 => window.dur,
            quantum => quantum,
        };
        ValueRef::Integer(match column {
            0 => window.start.saturating_add(self.at.saturating_mul(step)),
            1 => step,
            2 | 3 => self.at,
            4 => window.quantum,
            5 => window.start,
            _ => window.dur,
        })
    }

    fn row(&self) -> i64 {
        self.at
    }
}

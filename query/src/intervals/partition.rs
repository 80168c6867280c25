//! Intervals of inputs, by the values of their key columns.

use std::collections::HashMap;

use rusqlite::Result;
use rusqlite::types::Value;

use super::sweep::{Interval, compare};
use crate::limits::{Charge, Limits};
use crate::objects::failure;
use crate::relations::StoredRows;

/// The keys of all inputs of an operator, with numbers from 0 on.
#[derive(Debug)]
pub(super) struct Keys {
    numbers: HashMap<Vec<u8>, u32>,
    values: Vec<Vec<Value>>,
    charge: Charge,
}

impl Keys {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            numbers: HashMap::new(),
            values: Vec::new(),
            charge: limits.charge(),
        }
    }

    /// Returns the number of a key. Numbers that are equal in SQL are one key.
    fn number(&mut self, values: &[Value], buffer: &mut Vec<u8>) -> Result<u32> {
        buffer.clear();
        for value in values {
            encode(value, buffer);
        }
        if let Some(number) = self.numbers.get(buffer.as_slice()) {
            return Ok(*number);
        }
        let number = self.values.len() as u32;
        self.charge.grow(2 * (buffer.len() + 64) as u64)?;
        self.numbers.insert(buffer.clone(), number);
        self.values.push(values.to_vec());
        Ok(number)
    }

    pub(super) fn values(&self, number: usize) -> &[Value] {
        &self.values[number]
    }

    /// Returns the numbers of all keys in the order of their values.
    pub(super) fn sorted(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.values.len()).collect();
        order.sort_by(|a, b| {
            let pairs = self.values[*a].iter().zip(&self.values[*b]);
            let mut orders = pairs.map(|(a, b)| compare(a, b));
            orders.find(|order| order.is_ne()).unwrap_or(a.cmp(b))
        });
        order
    }
}

/// Adds the bytes of a value, which are equal for equal values.
fn encode(value: &Value, out: &mut Vec<u8>) {
    let (kind, content): (u8, &[u8]) = match value {
        Value::Null => (0, &[]),
        Value::Integer(number) => {
            out.push(1);
            return out.extend(number.to_le_bytes());
        }
        Value::Real(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
            out.push(1);
            return out.extend((*number as i64).to_le_bytes());
        }
        Value::Real(number) => {
            out.push(2);
            return out.extend(number.to_bits().to_le_bytes());
        }
        Value::Text(text) => (3, text.as_bytes()),
        Value::Blob(bytes) => (4, bytes),
    };
    out.push(kind);
    out.extend((content.len() as u64).to_le_bytes());
    out.extend(content);
}

/// Reads an integer of an input.
pub(super) fn integer(value: &Value, name: &str) -> Result<i64> {
    match value {
        Value::Integer(value) => Ok(*value),
        _ => Err(failure(format!(
            "the column '{name}' of an interval must be an integer"
        ))),
    }
}

/// Returns the intervals of rows `id, ts, dur, keys…` for each key, in the order of time. Rows
/// without a time are left out.
pub(super) fn partitions(
    rows: &StoredRows,
    keys: &mut Keys,
    charge: &mut Charge,
) -> Result<Vec<Vec<Interval>>> {
    let mut lists: Vec<Vec<Interval>> = Vec::new();
    let mut buffer = Vec::new();
    for row in 0..rows.len() {
        let values = rows.row(row);
        let (ts, dur) = (&values[1], &values[2]);
        if *ts == Value::Null || *dur == Value::Null {
            continue;
        }
        let (ts, dur) = (integer(ts, "ts")?, integer(dur, "dur")?);
        if dur < 0 {
            return Err(failure(
                "the column 'dur' of an interval must not be negative",
            ));
        }
        charge.grow(size_of::<Interval>() as u64)?;
        let key = keys.number(&values[3..], &mut buffer)? as usize;
        if lists.len() <= key {
            lists.resize_with(key + 1, Vec::new);
        }
        lists[key].push(Interval {
            ts,
            end: ts.saturating_add(dur),
            row: row as u32,
        });
    }
    for list in &mut lists {
        list.sort_by_key(|interval| interval.ts);
    }
    Ok(lists)
}

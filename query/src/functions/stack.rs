//! Stacks and profiles: `cat_stacks`, `stack_from_stack_profile_callsite`, `experimental_profile`.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferretto_tables::Trace;
use ferretto_wire::encode;
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Result};

use super::{failure, integer, scalar};
use crate::limits::{Charge, Limits};

/// Adds a frame to a stack in the form in which functions pass it on: for each frame, from the root
/// on, the length of the name and the name.
fn push(stack: &mut Vec<u8>, name: &[u8]) {
    stack.extend((name.len() as u32).to_le_bytes());
    stack.extend(name);
}

/// Returns the names of frames from the root on.
fn frames(mut stack: &[u8]) -> Result<Vec<&[u8]>> {
    let mut frames = Vec::new();
    while !stack.is_empty() {
        let split = stack
            .split_first_chunk::<4>()
            .and_then(|(len, rest)| rest.split_at_checked(u32::from_le_bytes(*len) as usize));
        let Some((name, rest)) = split else {
            return failure("the value is not a stack");
        };
        frames.push(name);
        stack = rest;
    }
    Ok(frames)
}

/// Joins texts, which become frames, and stacks. The root is the first one.
fn cat_stacks(context: &Context<'_>) -> Result<Value> {
    let mut stack = Vec::new();
    for index in 0..context.len() {
        match context.get_raw(index) {
            ValueRef::Null => {}
            ValueRef::Text(name) => push(&mut stack, name),
            ValueRef::Blob(part) => {
                frames(part)?;
                stack.extend(part);
            }
            _ => return failure("cat_stacks: each argument must be a text or a stack"),
        }
    }
    Ok(Value::Blob(stack))
}

/// Returns the name of a frame.
fn frame_name(trace: &Trace, frame: u32) -> String {
    let name = trace.tables().stack_profile_frame.name().get(frame);
    trace.strings().get(name).unwrap_or_default().to_owned()
}

/// Registers the functions that read callstacks of a trace.
pub(super) fn register_trace(connection: &Connection, trace: &Arc<Trace>) -> Result<()> {
    for count in [1, 2] {
        let name = "stack_from_stack_profile_callsite";
        let of = trace.clone();
        scalar(connection, name, count, move |context| {
            let Some(id) = integer(context, 0, name)? else {
                return Ok(Value::Null);
            };
            let callsites = &of.tables().stack_profile_callsite;
            let known = |id: &u32| *id < callsites.len();
            let Some(id) = u32::try_from(id).ok().filter(known) else {
                return failure(format!("{name}: there is no callsite {id}"));
            };
            let mut names = Vec::new();
            let mut next = Some(id);
            while let Some(callsite) = next.filter(|_| names.len() <= callsites.len() as usize) {
                names.push(frame_name(&of, callsites.frame_id().get(callsite)));
                next = callsites.parent_id().get(callsite);
            }
            let mut stack = Vec::new();
            for name in names.iter().rev() {
                push(&mut stack, name.as_bytes());
            }
            Ok(Value::Blob(stack))
        })?;
    }
    let of = trace.clone();
    let name = "stack_from_stack_profile_frame";
    scalar(connection, name, 1, move |context| {
        let Some(id) = integer(context, 0, name)? else {
            return Ok(Value::Null);
        };
        let known = |id: &u32| *id < of.tables().stack_profile_frame.len();
        let Some(id) = u32::try_from(id).ok().filter(known) else {
            return failure(format!("{name}: there is no frame {id}"));
        };
        let mut stack = Vec::new();
        push(&mut stack, frame_name(&of, id).as_bytes());
        Ok(Value::Blob(stack))
    })
}

/// `experimental_profile(stack [, type, unit, value]…)`: a profile in pprof's format.
struct Profile(Limits);

/// The sums of each stack.
#[derive(Debug)]
struct Sums {
    /// The type and unit of each value.
    types: Vec<(String, String)>,
    stacks: BTreeMap<Vec<u8>, Vec<i64>>,
    charge: Charge,
}

fn text(value: ValueRef<'_>) -> Result<String> {
    match value {
        ValueRef::Text(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        _ => failure("experimental_profile: the type and unit of a value must be texts"),
    }
}

impl Aggregate<Sums, Value> for Profile {
    fn init(&self, context: &mut Context<'_>) -> Result<Sums> {
        if context.is_empty() || !(context.len() - 1).is_multiple_of(3) {
            return failure("experimental_profile takes a stack, then types, units and values");
        }
        let mut types = Vec::new();
        for index in (1..context.len()).step_by(3) {
            types.push((
                text(context.get_raw(index))?,
                text(context.get_raw(index + 1))?,
            ));
        }
        if types.is_empty() {
            types.push(("samples".to_owned(), "count".to_owned()));
        }
        Ok(Sums {
            types,
            stacks: BTreeMap::new(),
            charge: self.0.charge(),
        })
    }

    fn step(&self, context: &mut Context<'_>, sums: &mut Sums) -> Result<()> {
        let ValueRef::Blob(stack) = context.get_raw(0) else {
            return failure("experimental_profile: the first argument must be a stack");
        };
        if !sums.stacks.contains_key(stack) {
            frames(stack)?;
            sums.charge.grow(stack.len() as u64 + 96)?;
            let zero = vec![0; sums.types.len()];
            sums.stacks.insert(stack.to_vec(), zero);
        }
        let Some(values) = sums.stacks.get_mut(stack) else {
            return Ok(());
        };
        for (number, value) in values.iter_mut().enumerate() {
            let added = match (context.len(), number) {
                (1, _) => 1,
                _ => integer(context, 3 + 3 * number, "experimental_profile")?.unwrap_or(0),
            };
            *value = value.saturating_add(added);
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, sums: Option<Sums>) -> Result<Value> {
        let Some(sums) = sums else {
            return Ok(Value::Null);
        };
        Ok(Value::Blob(pprof(&sums)?))
    }
}

/// Texts by number.
struct Texts<'a> {
    numbers: BTreeMap<&'a [u8], u64>,
    all: Vec<&'a [u8]>,
}

impl<'a> Texts<'a> {
    fn number(&mut self, text: &'a [u8]) -> u64 {
        let next = self.all.len() as u64;
        let number = *self.numbers.entry(text).or_insert(next);
        if number == next {
            self.all.push(text);
        }
        number
    }
}

/// Encodes a profile. Each name is a function with one location.
fn pprof(sums: &Sums) -> Result<Vec<u8>> {
    const SAMPLE_TYPE: u32 = 1;
    const SAMPLE: u32 = 2;
    const LOCATION: u32 = 4;
    const FUNCTION: u32 = 5;
    const STRING_TABLE: u32 = 6;
    let mut texts = Texts {
        numbers: BTreeMap::new(),
        all: Vec::new(),
    };
    texts.number(b"");
    let types: Vec<(u64, u64)> = sums
        .types
        .iter()
        .map(|(kind, unit)| (texts.number(kind.as_bytes()), texts.number(unit.as_bytes())))
        .collect();
    let mut samples = Vec::new();
    let mut functions = BTreeMap::new();
    for (stack, values) in &sums.stacks {
        let mut locations = Vec::new();
        for name in frames(stack)?.into_iter().rev() {
            let next = functions.len() as u64 + 1;
            let text = texts.number(name);
            locations.push(*functions.entry(text).or_insert(next));
        }
        samples.push((locations, values));
    }
    Ok(encode(|out| {
        for (kind, unit) in &types {
            out.nested(SAMPLE_TYPE, |out| {
                out.varint(1, *kind);
                out.varint(2, *unit);
            });
        }
        for (locations, values) in &samples {
            out.nested(SAMPLE, |out| {
                locations
                    .iter()
                    .for_each(|location| out.varint(1, *location));
                values.iter().for_each(|value| out.int(2, *value));
            });
        }
        for (name, id) in &functions {
            out.nested(LOCATION, |out| {
                out.varint(1, *id);
                out.nested(4, |out| out.varint(1, *id));
            });
            out.nested(FUNCTION, |out| {
                out.varint(1, *id);
                out.varint(2, *name);
            });
        }
        texts
            .all
            .iter()
            .for_each(|text| out.bytes(STRING_TABLE, text));
    }))
}

/// Registers the functions that need no trace.
pub(super) fn register(connection: &Connection, limits: &Limits) -> Result<()> {
    scalar(connection, "cat_stacks", -1, cat_stacks)?;
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    let profile = || Profile(limits.clone());
    connection.create_aggregate_function("experimental_profile", -1, flags, profile())
}

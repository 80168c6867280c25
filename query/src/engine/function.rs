//! Functions that are defined by queries.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Error, Result, Statement};

use super::Engine;
use crate::error::SqlError;
use crate::limits::{Charge, Limits};
use crate::relations::{Stored, StoredRows};
use crate::sqlite::{Callee, owned};
use crate::syntax::statement::{Argument, Definition, Returns};

/// A function that is defined by a query.
#[derive(Debug)]
pub(super) struct Function {
    name: String,
    arguments: Vec<Argument>,
    returns: Returns,
    sql: String,
    callee: Weak<Callee>,
    limits: Limits,
    /// The results by argument, if they are kept.
    known: Mutex<Option<Known>>,
}

/// The results of a function by argument.
#[derive(Debug)]
struct Known {
    values: HashMap<i64, Value>,
    charge: Charge,
    /// True while results are computed.
    is_active: bool,
    /// The argument whose result a computation lacks.
    missing: Option<i64>,
}

fn failure<T>(message: String) -> Result<T> {
    Err(Error::UserFunctionError(message.into()))
}

/// Returns true if a value may be passed as a type.
fn fits(kind: &str, value: ValueRef<'_>) -> bool {
    match (kind, value) {
        (_, ValueRef::Null) => true,
        ("DOUBLE" | "FLOAT", ValueRef::Integer(_) | ValueRef::Real(_)) => true,
        ("STRING", ValueRef::Text(_)) | ("BYTES" | "PROTO", ValueRef::Blob(_)) => true,
        ("DOUBLE" | "FLOAT" | "STRING" | "BYTES" | "PROTO", _) => false,
        ("ANY", _) | (_, ValueRef::Integer(_)) => true,
        _ => false,
    }
}

impl Function {
    fn bind(&self, statement: &mut Statement<'_>, values: &[Value]) -> Result<()> {
        for (argument, value) in self.arguments.iter().zip(values) {
            if !fits(&argument.kind, value.into()) {
                let (name, argument, kind) = (&self.name, &argument.name, &argument.kind);
                return failure(format!(
                    "{name}: the argument '{argument}' must be of type {kind}"
                ));
            }
            let name = format!("${}", argument.name);
            if let Some(index) = statement.parameter_index(&name)? {
                statement.raw_bind_parameter(index, value)?;
            }
        }
        Ok(())
    }

    fn callee(&self) -> Result<Arc<Callee>> {
        let closed = || Error::UserFunctionError("the session is closed".into());
        self.callee.upgrade().ok_or_else(closed)
    }

    /// Returns the value for these arguments.
    fn value(&self, values: &[Value]) -> Result<Value> {
        let callee = self.callee()?;
        let mut statement = callee.prepare(&self.sql)?;
        self.bind(&mut statement, values)?;
        let mut rows = statement.raw_query();
        let Some(row) = rows.next()? else {
            return Ok(Value::Null);
        };
        let value = owned(row.get_ref(0)?);
        if rows.next()?.is_some() {
            return failure(format!(
                "{}: the query of the function has several rows",
                self.name
            ));
        }
        Ok(value)
    }

    fn call(&self, context: &Context<'_>) -> Result<Value> {
        let values: Vec<Value> = (0..context.len())
            .map(|argument| owned(context.get_raw(argument)))
            .collect();
        let key = match values.as_slice() {
            [Value::Integer(key)] => Some(*key),
            _ => None,
        };
        match key {
            Some(key) if self.known().is_some() => self.kept_value(key),
            _ => self.limits.nested(&self.name, || self.value(&values)),
        }
    }

    fn known(&self) -> MutexGuard<'_, Option<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value for an argument, which is computed once. A computation that lacks the
    /// value for another argument ends, and begins again when that is known: so the function may
    /// call itself to any depth.
    fn kept_value(&self, key: i64) -> Result<Value> {
        if let Some(known) = self.known().as_mut() {
            if let Some(value) = known.values.get(&key) {
                return Ok(value.clone());
            }
            if known.is_active {
                known.missing = Some(key);
                return failure(format!("{}: the result for {key} is not known", self.name));
            }
            known.is_active = true;
        }
        let result = self.limits.nested(&self.name, || self.compute(key));
        if let Some(known) = self.known().as_mut() {
            known.is_active = false;
            known.missing = None;
        }
        result
    }

    /// Computes the value for an argument, after those that it needs.
    fn compute(&self, key: i64) -> Result<Value> {
        let mut stack = vec![key];
        let mut waiting = HashSet::from([key]);
        let mut charge = self.limits.charge();
        loop {
            let Some(key) = stack.last().copied() else {
                return Ok(Value::Null);
            };
            let result = self.value(&[Value::Integer(key)]);
            let mut known = self.known();
            let Some(known) = known.as_mut() else {
                return result;
            };
            match (result, known.missing.take()) {
                (Ok(value), _) => {
                    known.charge.add(&value)?;
                    known.values.insert(key, value.clone());
                    waiting.remove(&key);
                    stack.pop();
                    if stack.is_empty() {
                        return Ok(value);
                    }
                }
                (Err(_), Some(missing)) => {
                    if !waiting.insert(missing) {
                        let name = &self.name;
                        return failure(format!("{name}: the result for {missing} needs itself"));
                    }
                    charge.grow(4 * size_of::<i64>() as u64)?;
                    stack.push(missing);
                }
                (Err(error), None) => return Err(error),
            }
        }
    }

    /// Returns the rows for these arguments.
    fn rows(&self, values: &[Value]) -> Result<Arc<StoredRows>> {
        self.limits.nested(&self.name, || {
            let callee = self.callee()?;
            let mut statement = callee.prepare(&self.sql)?;
            self.bind(&mut statement, values)?;
            let mut out = StoredRows::new(statement.column_count(), &self.limits);
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                for column in 0..out.width {
                    out.push(owned(row.get_ref(column)?))?;
                }
            }
            Ok(Arc::new(out))
        })
    }
}

impl Engine {
    /// Creates a function.
    pub(super) fn define_function(
        &mut self,
        definition: Definition,
        arguments: Vec<Argument>,
        returns: Returns,
    ) -> std::result::Result<(), SqlError> {
        let name = definition.name.to_ascii_lowercase();
        if self.functions.contains_key(&name) && !definition.replace {
            return Err(SqlError::new(format!(
                "The function '{name}' exists already."
            )));
        }
        let body = self.expanded(&definition.body)?;
        let function = Arc::new(Function {
            name: name.clone(),
            arguments,
            returns,
            sql: body.sql.clone(),
            callee: Arc::downgrade(&self.callee),
            limits: self.limits.clone(),
            known: Mutex::default(),
        });
        if let Returns::Table(_) = function.returns {
            // Queries may have more columns than declared.
            let columns = self
                .column_names(&body.sql)
                .map_err(|error| body.located(error))?;
            let names = function
                .arguments
                .iter()
                .map(|a| format!("__{}", a.name))
                .collect();
            let of = function.clone();
            let relation = Stored::new(columns, names, move |values| of.rows(values));
            self.replace_relation(&name, relation)?;
        } else {
            self.register(&name, &function)?;
            // A function may call itself, so its query is checked when it exists.
            self.column_names(&body.sql)
                .map_err(|error| body.located(error))?;
        }
        self.functions.insert(name, function);
        Ok(())
    }

    fn register(&self, name: &str, function: &Arc<Function>) -> std::result::Result<(), SqlError> {
        let count = function.arguments.len() as i32;
        let function = function.clone();
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
        let call = move |context: &Context<'_>| function.call(context);
        let created = self
            .connection
            .create_scalar_function(name, count, flags, move |context| call(context));
        Ok(created?)
    }

    /// Creates another name for a function.
    pub(super) fn delegate(
        &mut self,
        name: &str,
        arguments: &[Argument],
        target: &str,
    ) -> std::result::Result<(), SqlError> {
        // SQLite knows functions by their number of arguments, so calls get the name of the target.
        if arguments
            .iter()
            .any(|argument| argument.kind.ends_with("..."))
        {
            let name = name.to_ascii_lowercase();
            self.aliases.insert(name, target.to_owned());
            return Ok(());
        }
        if let Some(function) = self.functions.get(&target.to_ascii_lowercase()).cloned() {
            self.register(name, &function)?;
            self.functions.insert(name.to_ascii_lowercase(), function);
            return Ok(());
        }
        let names: Vec<String> = arguments.iter().map(|a| format!("${}", a.name)).collect();
        let sql = format!("SELECT {target}({})", names.join(", "));
        // The place of an error would be one in this text.
        if let Err(error) = self.column_names(&sql) {
            let message = format!(
                "The function '{name}' cannot delegate to '{target}': {}",
                SqlError::from(error).message
            );
            return Err(SqlError::new(message));
        }
        let body = crate::syntax::lexer::tokenize(&sql)?;
        let definition = Definition {
            name: name.to_owned(),
            replace: true,
            columns: Vec::new(),
            body,
        };
        let returns = Returns::Scalar("ANY".to_owned());
        self.define_function(definition, arguments.to_vec(), returns)
    }

    /// Keeps the results of a function from now on.
    pub(super) fn memoize(&mut self, name: &str) -> std::result::Result<(), SqlError> {
        let Some(function) = self.functions.get(&name.to_ascii_lowercase()) else {
            return Err(SqlError::new(format!("There is no function '{name}'.")));
        };
        if function.arguments.len() != 1 || matches!(function.returns, Returns::Table(_)) {
            let message = "Only functions of one integer that return a value can be memoized.";
            return Err(SqlError::new(message));
        }
        function.known().get_or_insert_with(|| Known {
            values: HashMap::new(),
            charge: self.limits.charge(),
            is_active: false,
            missing: None,
        });
        Ok(())
    }
}

//! Tables that operators compute: `CREATE VIRTUAL TABLE n USING operator(…)`.

use std::sync::Arc;

use super::Engine;
use super::define::read;
use crate::error::SqlError;
use crate::flamegraph::Flamegraph;
use crate::sqlite::Relation;
use crate::syntax::lexer::{text, trim};
use crate::syntax::statement::{Operator, OperatorKind};
use crate::timeline::{CounterMipmap, SliceMipmap, Window};

impl Engine {
    /// Creates the table of an operator. Mipmaps read their input now.
    pub(super) fn define_operator(&mut self, operator: &Operator) -> Result<(), SqlError> {
        if self.exists(&operator.name, operator.if_new)? {
            return Ok(());
        }
        let arguments: Vec<String> = operator
            .arguments
            .iter()
            .map(|argument| Ok(self.expanded(argument)?.sql))
            .collect::<Result<_, SqlError>>()?;
        let relation: Arc<dyn Relation> = match (operator.kind, arguments.as_slice()) {
            (OperatorKind::SliceMipmap, [input]) => {
                let rows = read(
                    &self.callee,
                    &format!("SELECT * FROM {input}"),
                    &self.limits,
                )?;
                SliceMipmap::relation(&rows, &self.limits)?
            }
            (OperatorKind::CounterMipmap, [input]) => {
                let sql = format!("SELECT ts, value FROM {input}");
                CounterMipmap::relation(&read(&self.callee, &sql, &self.limits)?, &self.limits)?
            }
            (OperatorKind::Flamegraph, [input]) => {
                let sql = format!("SELECT * FROM {input}");
                let names = self.column_names(&sql)?;
                let rows = read(&self.callee, &sql, &self.limits)?;
                Arc::new(Flamegraph::new(names, rows, &self.limits)?)
            }
            (OperatorKind::Window, [_, _, _]) => {
                let number = |index: usize| {
                    let words = text(trim(&operator.arguments[index])).replace(' ', "");
                    words
                        .parse::<i64>()
                        .map_err(|_| SqlError::new(format!("'{words}' is not an integer.")))
                };
                Arc::new(Window::new(number(0)?, number(1)?, number(2)?)?)
            }
            (kind, given) => {
                let wanted = if kind == OperatorKind::Window { 3 } else { 1 };
                let given = given.len();
                let message = format!("The operator takes {wanted} arguments, not {given}.");
                return Err(SqlError::new(message));
            }
        };
        self.replace_relation(&operator.name, relation)
    }
}

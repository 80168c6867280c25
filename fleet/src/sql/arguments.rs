//! The arguments of calls.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, Select, TableFactor,
};

use super::walk;
use crate::error::SqlError;

/// Returns the arguments of a call. Fails if their number is not `expected`.
pub(super) fn positional(
    name: &str,
    arguments: &[FunctionArg],
    expected: usize,
) -> Result<Vec<Expr>, SqlError> {
    let values: Vec<Expr> = arguments
        .iter()
        .filter_map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        })
        .collect();
    if values.len() != expected || arguments.len() != expected {
        let message = format!(
            "The function '{name}' takes {expected} arguments, not {}.",
            arguments.len()
        );
        return Err(SqlError::new(message));
    }
    Ok(values)
}

/// Returns the name that qualifies columns of a table.
fn label(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table {
            alias: Some(alias), ..
        }
        | TableFactor::Derived {
            alias: Some(alias), ..
        }
        | TableFactor::Function {
            alias: Some(alias), ..
        } => Some(alias.name.clone()),
        TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident()).cloned(),
        _ => None,
    }
}

/// Qualifies columns in the arguments of table functions with the table before the function.
pub(super) fn qualify_arguments(select: &mut Select) -> Result<(), SqlError> {
    let mut before: Vec<Option<Ident>> = Vec::new();
    let factors = select.from.iter_mut().flat_map(|table| {
        std::iter::once(&mut table.relation)
            .chain(table.joins.iter_mut().map(|join| &mut join.relation))
    });
    for factor in factors {
        if let TableFactor::Table {
            args: Some(arguments),
            name,
            ..
        } = factor
        {
            let name = name.to_string();
            let mut ambiguous = None;
            let _ = walk::change_expressions(&mut arguments.args, |expr| {
                if let Expr::Subquery(_) = expr {
                    return ControlFlow::Break(());
                }
                if let Expr::Identifier(column) = expr
                    && !before.is_empty()
                {
                    match before.as_slice() {
                        [Some(table)] => {
                            *expr = Expr::CompoundIdentifier(vec![table.clone(), column.clone()]);
                        }
                        _ => ambiguous = Some(column.value.clone()),
                    }
                }
                ControlFlow::Continue(())
            });
            if let Some(column) = ambiguous {
                return Err(SqlError::new(format!(
                    "The column '{column}' in an argument of {name} needs its table, \
                     as in 'table.{column}'."
                )));
            }
        }
        before.push(label(factor));
    }
    Ok(())
}

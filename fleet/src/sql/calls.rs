//! Rewrites calls of user-defined functions, and of functions that differ in SQLite.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, Value,
};

use super::arguments::positional;
use super::bounds::Budget;
use super::build::{function, ordered, wrap_arguments};
use super::inspect::has_column;
use super::statement::Returns;
use super::truth::truth;
use super::user::{Functions, first_row};
use super::walk;
use crate::error::SqlError;

/// Rewrites a call in place, or returns the expression that replaces it.
pub(super) fn rewrite_call(
    functions: &Functions,
    budget: &mut Budget,
    call: &mut Function,
) -> Result<Option<Expr>, SqlError> {
    let name = call.name.to_string().to_ascii_lowercase();
    let FunctionArguments::List(list) = &mut call.args else {
        return Ok(None);
    };
    let count = list.args.len();
    let plain = call.over.is_none() && call.filter.is_none();
    if let Some(user) = functions.get(&name) {
        if let Returns::Table(_) = user.returns {
            return Err(SqlError::new(format!(
                "The function '{name}' returns a table: use it after FROM."
            )));
        }
        let values = positional(&name, &list.args, user.arguments.len())?;
        user.charge(&name, &values, budget)?;
        if let Some(body) = user.expression() {
            let mut body = body.clone();
            user.substitute(&mut body, &values);
            return Ok(Some(Expr::Nested(Box::new(body))));
        }
        let bare = |expr: &Expr| {
            let mut column = None;
            let _ = walk::expressions(expr, |e| match e {
                Expr::Identifier(name) => {
                    column = Some(name.value.clone());
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            });
            column
        };
        if let Some(column) = values.iter().find_map(bare) {
            return Err(SqlError::new(format!(
                "The column '{column}' in an argument of {name} needs its table, as in 'table.{column}'."
            )));
        }
        let mut body = user.bind(&values);
        if values.iter().any(has_column) {
            first_row(&mut body);
        }
        return Ok(Some(Expr::Subquery(body)));
    }
    if let Some(target) = functions.target(&name) {
        call.name = ObjectName::from(vec![Ident::new(target)]);
        return Ok(None);
    }
    let rename = |call: &mut Function, to: &str| {
        call.name = ObjectName::from(vec![Ident::new(to)]);
    };
    match (name.as_str(), count) {
        ("max" | "min", 2..) if plain => rename(call, &format!("__{name}")),
        ("count", 0) => list
            .args
            .push(FunctionArg::Unnamed(FunctionArgExpr::Wildcard)),
        ("iif" | "if", 2 | 3) => {
            let mut values = positional(&name, &list.args, count)?.into_iter();
            let mut condition = values.next().expect("two or three");
            truth(&mut condition);
            let result = values.next().expect("two or three");
            return Ok(Some(Expr::Case {
                case_token: ast::helpers::attached_token::AttachedToken::empty(),
                end_token: ast::helpers::attached_token::AttachedToken::empty(),
                operand: None,
                conditions: vec![CaseWhen { condition, result }],
                else_result: values.next().map(Box::new),
            }));
        }
        ("sum" | "avg", 1) => wrap_arguments(list, "__num"),
        ("total", 1) => {
            wrap_arguments(list, "__cast_real");
            rename(call, "sum");
            let zero = Expr::value(Value::Number("0.0".to_owned(), false));
            let sum = Expr::Function(call.clone());
            return Ok(Some(function("coalesce", vec![sum, zero])));
        }
        ("value_at_max_ts", 2) => {
            let values = positional(&name, &list.args, 2)?;
            let mut picked = ordered("last_value", &values[1], &values[0], true);
            if let Expr::Function(picked) = &mut picked {
                picked.filter = call.filter.take();
                picked.over = call.over.take();
            }
            return Ok(Some(picked));
        }
        ("lead" | "lag", 3) => return Ok(neighbour(call)),
        ("last_non_null", 1) => {
            rename(call, "last_value");
            call.null_treatment = Some(ast::NullTreatment::IgnoreNulls);
        }
        ("group_concat", 1) => {
            rename(call, "string_agg");
            if let FunctionArguments::List(list) = &mut call.args {
                let comma = Expr::value(Value::SingleQuotedString(",".to_owned()));
                list.args
                    .push(FunctionArg::Unnamed(FunctionArgExpr::Expr(comma)));
            }
        }
        ("group_concat", 2) => rename(call, "string_agg"),
        ("json_group_array", 1) | ("json_group_object", 2) => return Ok(json_group(call)),
        ("likely" | "unlikely", 1) | ("likelihood", 2) => {
            return Ok(positional(&name, &list.args, count)?.into_iter().next());
        }
        ("length", 1) => rename(call, "__length"),
        ("substr" | "substring", 2 | 3) => rename(call, "__substr"),
        ("round", 1 | 2) => rename(call, "__round"),
        ("ifnull", 2) | ("coalesce", 1..) => rename(call, "__coalesce"),
        ("hex" | "instr" | "replace" | "sign" | "unhex" | "ln" | "trim", _) => {
            rename(call, &format!("__{name}"));
        }
        _ => {}
    }
    Ok(None)
}

/// Returns `lead` or `lag` with a default that is not a constant, which DataFusion does not
/// support.
fn neighbour(call: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    let values = positional(&call.name.to_string(), &list.args, 3).ok()?;
    let [value, distance, default] = values.try_into().ok()?;
    if let Expr::Value(_) = default {
        return None;
    }
    let with = |value: Expr| {
        let mut call = call.clone();
        if let FunctionArguments::List(list) = &mut call.args {
            let argument = |e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e));
            list.args = vec![argument(value), argument(distance.clone())];
        }
        Expr::Function(call)
    };
    let one = Expr::value(Value::Number("1".to_owned(), false));
    Some(Expr::Case {
        case_token: ast::helpers::attached_token::AttachedToken::empty(),
        end_token: ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen {
            condition: Expr::IsNull(Box::new(with(one))),
            result: default,
        }],
        else_result: Some(Box::new(with(value))),
    })
}

/// Returns `json_group_array(value)` or `json_group_object(key, value)` as a concatenation of
/// texts.
fn json_group(call: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    let text = |text: &str| Expr::value(Value::SingleQuotedString(text.to_owned()));
    let concat = |left: Expr, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op: ast::BinaryOperator::StringConcat,
        right: Box::new(right),
    };
    let values = positional(&call.name.to_string(), &list.args, list.args.len()).ok()?;
    let mut quoted = values
        .into_iter()
        .map(|value| function("json_quote", vec![value]));
    let first = quoted.next()?;
    let (member, open, close) = match quoted.next() {
        Some(value) => (concat(concat(first, text(":")), value), "{", "}"),
        None => (first, "[", "]"),
    };
    let mut members = function("string_agg", vec![member, text(",")]);
    if let Expr::Function(members) = &mut members {
        members.filter.clone_from(&call.filter);
        members.over.clone_from(&call.over);
    }
    let members = function("__coalesce", vec![members, text("")]);
    Some(concat(concat(text(open), members), text(close)))
}

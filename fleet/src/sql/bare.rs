//! Bare columns: columns beside aggregates that are not in `GROUP BY`. SQLite takes them from any
//! row of the group, or from the row of a single `min` or `max`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, Query,
    Select, SelectItem, SetExpr, Value, Visitor,
};

use super::build::{function, ordered};
use super::walk;

const AGGREGATES: &[&str] = &[
    "avg",
    "count",
    "string_agg",
    "max",
    "min",
    "sum",
    "total",
    "value_at_max_ts",
    "median",
    "percentile",
    "percentile_cont",
    "approx_percentile_cont",
    "stddev",
    "var",
    "any_value",
    "first_value",
    "last_value",
    "array_agg",
];

fn is_aggregate(call: &Function) -> bool {
    let name = call.name.to_string().to_ascii_lowercase();
    call.over.is_none() && AGGREGATES.contains(&name.as_str())
}

/// Returns true if an aggregate is called outside of subqueries.
pub(super) fn has_aggregate(expr: &Expr) -> bool {
    struct Finder(usize);
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.0 -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(call) if self.0 == 0 && is_aggregate(call) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    walk::read(expr, &mut Finder(0)).is_break()
}

fn argument(call: &Function) -> Option<&Expr> {
    match &call.args {
        FunctionArguments::List(list) => match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))] => Some(expr),
            _ => None,
        },
        _ => None,
    }
}

/// Wraps the bare columns of a query in aggregates.
pub(super) fn wrap_query(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let GroupByExpr::Expressions(groups, _) = &select.group_by else {
        return;
    };
    let projected = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => Some(e.clone()),
        _ => None,
    };
    let aggregated = select
        .projection
        .iter()
        .filter_map(projected)
        .any(|e| has_aggregate(&e))
        || select.having.as_ref().is_some_and(has_aggregate);
    if groups.is_empty() && !aggregated {
        return;
    }
    let grouped: Vec<Expr> = groups.iter().map(|group| resolve(group, select)).collect();
    let picker = picker(select);
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let before = expr.clone();
                wrap(expr, &grouped, picker.as_ref());
                if *expr != before
                    && let Some(name) = column_name(&before)
                {
                    *item = SelectItem::ExprWithAlias {
                        expr: expr.clone(),
                        alias: Ident::with_quote('"', name.to_ascii_lowercase()),
                    };
                }
            }
            SelectItem::ExprWithAlias { expr, .. } => wrap(expr, &grouped, picker.as_ref()),
            _ => {}
        }
    }
    let aliases: Vec<String> = select
        .projection
        .iter()
        .filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.to_ascii_lowercase()),
            _ => None,
        })
        .collect();
    let known = |expr: &Expr| matches!(expr, Expr::Identifier(name) if aliases.contains(&name.value.to_ascii_lowercase()));
    if let Some(having) = &mut select.having
        && !known(having)
    {
        wrap_unless(having, &grouped, picker.as_ref(), &known);
    }
    if let Some(order) = &mut query.order_by
        && let datafusion::sql::sqlparser::ast::OrderByKind::Expressions(terms) = &mut order.kind
    {
        for term in terms {
            wrap_unless(&mut term.expr, &grouped, picker.as_ref(), &known);
        }
    }
}

fn column_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Identifier(name) => Some(&name.value),
        Expr::CompoundIdentifier(names) => names.last().map(|name| name.value.as_str()),
        _ => None,
    }
}

/// Returns the expression of an ordinal or an alias in `GROUP BY`.
fn resolve(group: &Expr, select: &Select) -> Expr {
    if let Expr::Value(value) = group
        && let Value::Number(number, _) = &value.value
        && let Some(item) = number
            .parse::<usize>()
            .ok()
            .and_then(|n| select.projection.get(n.checked_sub(1)?))
    {
        return match item {
            SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => e.clone(),
            _ => group.clone(),
        };
    }
    if let Expr::Identifier(name) = group {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { expr, alias } = item
                && alias.value.eq_ignore_ascii_case(&name.value)
                && column_name(expr).is_none_or(|n| !n.eq_ignore_ascii_case(&name.value))
            {
                return expr.clone();
            }
        }
    }
    group.clone()
}

/// Returns the argument of the single `min` (true) or `max` (false) whose row has the values of the
/// bare columns.
fn picker(select: &Select) -> Option<(bool, Expr)> {
    let mut found = Vec::new();
    for item in &select.projection {
        if let SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } = item {
            let _ = walk::expressions(e, |e| {
                if let Expr::Function(call) = e
                    && call.over.is_none()
                    && call.filter.is_none()
                {
                    let name = call.name.to_string().to_ascii_lowercase();
                    if let (true, Some(arg)) = (name == "max", argument(call)) {
                        found.push((false, arg.clone()));
                    } else if let (true, Some(arg)) = (name == "min", argument(call)) {
                        found.push((true, arg.clone()));
                    }
                }
                ControlFlow::Continue(())
            });
        }
    }
    found.dedup();
    if found.len() == 1 { found.pop() } else { None }
}

/// Returns true if two expressions have the same column name, or the same text.
fn same(a: &Expr, b: &Expr) -> bool {
    match (a, b) {
        (Expr::Nested(a), b) => same(a, b),
        (a, Expr::Nested(b)) => same(a, b),
        (Expr::Identifier(a), Expr::Identifier(b)) => a.value.eq_ignore_ascii_case(&b.value),
        (Expr::CompoundIdentifier(a), Expr::CompoundIdentifier(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|(a, b)| a.value.eq_ignore_ascii_case(&b.value))
        }
        (Expr::Identifier(a), Expr::CompoundIdentifier(b))
        | (Expr::CompoundIdentifier(b), Expr::Identifier(a)) => b
            .last()
            .is_some_and(|b| b.value.eq_ignore_ascii_case(&a.value)),
        (a, b) => a == b || a.to_string().eq_ignore_ascii_case(&b.to_string()),
    }
}

fn wrap(expr: &mut Expr, grouped: &[Expr], picker: Option<&(bool, Expr)>) {
    wrap_unless(expr, grouped, picker, &|_| false);
}

fn wrap_unless(
    expr: &mut Expr,
    grouped: &[Expr],
    picker: Option<&(bool, Expr)>,
    known: &dyn Fn(&Expr) -> bool,
) {
    if known(expr) || grouped.iter().any(|group| same(group, expr)) {
        return;
    }
    let each = |e: &mut Expr| wrap_unless(e, grouped, picker, known);
    match expr {
        Expr::Function(call) if is_aggregate(call) => {}
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
            let column = expr.clone();
            *expr = match picker {
                Some((least, by)) => ordered("first_value", &column, by, *least),
                None => function("first_value", vec![column]),
            };
        }
        Expr::Nested(e)
        | Expr::UnaryOp { expr: e, .. }
        | Expr::IsNull(e)
        | Expr::IsNotNull(e)
        | Expr::IsTrue(e)
        | Expr::IsFalse(e) => each(e),
        Expr::BinaryOp { left, right, .. }
        | Expr::IsDistinctFrom(left, right)
        | Expr::IsNotDistinctFrom(left, right) => {
            each(left);
            each(right);
        }
        Expr::Between {
            expr, low, high, ..
        } => {
            each(expr);
            each(low);
            each(high);
        }
        Expr::InList { expr, list, .. } => {
            each(expr);
            list.iter_mut().for_each(each);
        }
        Expr::Like { expr, pattern, .. } | Expr::ILike { expr, pattern, .. } => {
            each(expr);
            each(pattern);
        }
        Expr::Case {
            operand,
            conditions,
            else_result,
            ..
        } => {
            if let Some(e) = operand {
                each(e);
            }
            for when in conditions {
                each(&mut when.condition);
                each(&mut when.result);
            }
            if let Some(e) = else_result {
                each(e);
            }
        }
        Expr::Function(call) if call.over.is_none() => {
            if let FunctionArguments::List(list) = &mut call.args {
                for argument in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) = argument {
                        each(e);
                    }
                }
            }
        }
        Expr::Cast { expr, .. } => each(expr),
        _ => {}
    }
}

//! Rewrites SQLite's semantics for an engine with static types.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, Query, Select, SetExpr, TableFactor, UnaryOperator, Value, VisitMut,
    VisitorMut,
};

use super::arguments::{positional, qualify_arguments};
use super::bare;
use super::bounds::Budget;
use super::build::{alias_of, function, take};
use super::calls::rewrite_call;
use super::inspect::{has_column, refers_to};
use super::truth::truth;
use super::unique::unique_names;
use super::user::Functions;
use super::walk;
use crate::error::SqlError;

/// Rewrites a statement in index.
pub fn rewrite<T: VisitMut>(node: &mut T, functions: &Functions) -> Result<(), SqlError> {
    let mut rewriter = Rewriter {
        functions,
        budget: Budget::new(),
        depth: 0,
        error: None,
    };
    let _ = walk::change(node, &mut rewriter);
    rewriter.error.map_or(Ok(()), Err)
}

struct Rewriter<'a> {
    functions: &'a Functions,
    /// The remaining budget for bodies of functions.
    budget: Budget,
    /// The number of queries around the current node.
    depth: usize,
    /// The error that ended the walk.
    error: Option<SqlError>,
}

impl Rewriter<'_> {
    fn fail(&mut self, error: SqlError) -> ControlFlow<()> {
        self.error = Some(error);
        ControlFlow::Break(())
    }
}

impl VisitorMut for Rewriter<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        order_by_ordinal(query);
        if let Some(with) = &mut query.with
            && !with.recursive
        {
            // SQLite allows recursion without `RECURSIVE`.
            with.recursive = with.cte_tables.iter().any(|cte| {
                let union = matches!(*cte.query.body, SetExpr::SetOperation { .. });
                union && refers_to(&cte.query, &cte.alias.name.value)
            });
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let Err(error) = qualify_arguments(select) {
            return self.fail(error);
        }
        unique_names(&mut select.projection);
        for condition in [&mut select.selection, &mut select.having]
            .into_iter()
            .flatten()
        {
            truth(condition);
        }
        for table in &mut select.from {
            for join in &mut table.joins {
                normalize_join(&mut join.join_operator);
                if let Some(condition) = join_condition(&mut join.join_operator) {
                    truth(condition);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        bare::wrap_query(query);
        self.depth -= 1;
        if self.depth == 0 {
            order_by_groups(query);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let (name, arguments, alias) = match factor {
            TableFactor::Table {
                name,
                args: Some(args),
                alias,
                ..
            } => (name, &args.args, alias),
            TableFactor::Function {
                name, args, alias, ..
            } => (name, &*args, alias),
            _ => return ControlFlow::Continue(()),
        };
        let key = name.to_string().to_ascii_lowercase();
        let Some(user) = self.functions.get(&key) else {
            return ControlFlow::Continue(());
        };
        let values = match positional(&key, arguments, user.arguments.len()) {
            Ok(values) => values,
            Err(error) => return self.fail(error),
        };
        if let Err(error) = user.charge(&key, &values, &mut self.budget) {
            return self.fail(error);
        }
        let lateral = values.iter().any(has_column);
        let alias = alias.clone().or_else(|| Some(alias_of(Ident::new(key))));
        let mut subquery = user.bind(&values);
        // A subquery as argument is one value, which is usually the same for all rows.
        let varies = |value: &Expr| {
            let nested =
                matches!(value, Expr::Nested(inner) if matches!(**inner, Expr::Subquery(_)));
            !nested && !matches!(value, Expr::Subquery(_)) && has_column(value)
        };
        if values.iter().any(varies) && subquery.limit_clause.is_none() {
            subquery.order_by = None;
        }
        *factor = TableFactor::Derived {
            lateral,
            subquery,
            alias,
            sample: None,
        };
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Like {
                negated,
                any,
                expr: text,
                pattern,
                escape_char,
            } => {
                *expr = Expr::ILike {
                    negated: *negated,
                    any: *any,
                    expr: Box::new(function("__text", vec![take(text)])),
                    pattern: Box::new(take(pattern)),
                    escape_char: escape_char.clone(),
                };
            }
            Expr::Cast {
                expr: inner,
                data_type,
                ..
            } => {
                if let Some(name) = affinity(&data_type.to_string()) {
                    *expr = function(name, vec![take(inner)]);
                }
            }
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr: inner,
            }
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner) => truth(inner),
            Expr::Case {
                operand: None,
                conditions,
                ..
            } => {
                for when in conditions {
                    truth(&mut when.condition);
                }
            }
            Expr::Collate {
                expr: inner,
                collation,
            } => {
                let name = collation.to_string();
                if name.eq_ignore_ascii_case("nocase") {
                    *expr = function("lower", vec![take(inner)]);
                } else {
                    *expr = take(inner);
                }
            }
            Expr::Substring {
                expr: text,
                substring_from,
                substring_for,
                ..
            } => {
                let mut arguments = vec![take(text)];
                arguments.extend(substring_from.take().map(|e| *e));
                arguments.extend(substring_for.take().map(|e| *e));
                *expr = function("__substr", arguments);
            }
            Expr::Function(call) => match rewrite_call(self.functions, &mut self.budget, call) {
                Ok(Some(new)) => *expr = new,
                Ok(None) => {}
                Err(error) => return self.fail(error),
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Adds a condition that is always true to a left join without one, and converts a cross join with
/// a condition to an inner join.
fn normalize_join(operator: &mut ast::JoinOperator) {
    use ast::{JoinConstraint as C, JoinOperator as J};
    if let J::Left(constraint @ C::None) | J::LeftOuter(constraint @ C::None) = operator {
        *constraint = C::On(Expr::value(Value::Boolean(true)));
    }
    if let J::CrossJoin(constraint @ (C::On(_) | C::Using(_))) = operator {
        *operator = J::Inner(constraint.clone());
    }
}

/// Returns the condition of a join.
fn join_condition(operator: &mut ast::JoinOperator) -> Option<&mut Expr> {
    use ast::JoinOperator as J;
    let (J::Join(constraint)
    | J::Inner(constraint)
    | J::Left(constraint)
    | J::LeftOuter(constraint)
    | J::Right(constraint)
    | J::RightOuter(constraint)
    | J::FullOuter(constraint)
    | J::CrossJoin(constraint)) = operator
    else {
        return None;
    };
    match constraint {
        ast::JoinConstraint::On(condition) => Some(condition),
        _ => None,
    }
}

/// Returns the function for SQLite's cast to a type of this name.
pub fn affinity(data_type: &str) -> Option<&'static str> {
    let name = data_type.to_ascii_uppercase();
    let has = |part: &str| name.contains(part);
    Some(if has("INT") || name == "LONG" {
        "__cast_int"
    } else if has("CHAR") || has("CLOB") || has("TEXT") {
        "__cast_text"
    } else if has("BLOB") {
        return None;
    } else if has("REAL") || has("FLOA") || has("DOUB") {
        "__cast_real"
    } else {
        "__cast_numeric"
    })
}

/// Replaces columns of tables in the `ORDER BY` of a union by the ordinals of result columns.
fn order_by_ordinal(query: &mut Query) {
    let Some(ast::OrderByKind::Expressions(terms)) =
        query.order_by.as_mut().map(|order| &mut order.kind)
    else {
        return;
    };
    let mut body = query.body.as_ref();
    if !matches!(body, SetExpr::SetOperation { .. }) {
        return;
    }
    while let SetExpr::SetOperation { left, .. } = body {
        body = left;
    }
    let SetExpr::Select(first) = body else {
        return;
    };
    for term in terms {
        if !matches!(term.expr, Expr::CompoundIdentifier(_)) {
            continue;
        }
        let index = first.projection.iter().position(|item| match item {
            ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => {
                *expr == term.expr
            }
            _ => false,
        });
        if let Some(index) = index {
            term.expr = Expr::value(Value::Number((index + 1).to_string(), false));
        }
    }
}

/// Orders the groups of a query without `ORDER BY` by their keys, as SQLite does.
fn order_by_groups(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return;
    };
    let ast::GroupByExpr::Expressions(groups, _) = &select.group_by else {
        return;
    };
    if query.order_by.is_some() || groups.is_empty() || select.distinct.is_some() {
        return;
    }
    let terms = groups.iter().map(|group| ast::OrderByExpr {
        expr: group.clone(),
        options: ast::OrderByOptions {
            asc: None,
            nulls_first: None,
        },
        with_fill: None,
    });
    query.order_by = Some(ast::OrderBy {
        kind: ast::OrderByKind::Expressions(terms.collect()),
        interpolate: None,
    });
}

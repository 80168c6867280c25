//! User-defined functions, which are expanded to their queries with the arguments.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, Query, Select, SetExpr, TableFactor, Value, VisitMut, VisitorMut,
};

use super::bare;
use super::bounds::{Budget, size_of};
use super::build::{alias_of, function, ordered, take};
use super::statement::{Argument, Returns};
use super::walk;
use crate::error::SqlError;

/// A user-defined function.
#[derive(Debug, Clone)]
pub struct UserFunction {
    /// The arguments.
    pub arguments: Vec<Argument>,
    /// The result.
    pub returns: Returns,
    /// The rewritten query, with placeholders for the arguments.
    pub body: Box<Query>,
}

impl UserFunction {
    /// Returns the expression of a body that selects only one expression and from no table.
    pub fn expression(&self) -> Option<&Expr> {
        let SetExpr::Select(select) = self.body.body.as_ref() else {
            return None;
        };
        let plain = select.from.is_empty()
            && select.selection.is_none()
            && select.having.is_none()
            && select.distinct.is_none()
            && self.body.with.is_none()
            && self.body.limit_clause.is_none();
        match select.projection.as_slice() {
            [ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }]
                if plain && !bare::has_aggregate(expr) =>
            {
                Some(expr)
            }
            _ => None,
        }
    }

    /// Charges the body with these arguments.
    pub(super) fn charge(
        &self,
        name: &str,
        values: &[Expr],
        budget: &mut Budget,
    ) -> Result<(), SqlError> {
        let sizes: Vec<_> = values.iter().map(size_of).collect();
        let mut size = 0;
        let _ = walk::expressions(&*self.body, |expr| {
            size += 1 + self.argument_index(expr).map_or(0, |index| sizes[index]);
            ControlFlow::Continue(())
        });
        budget.charge(name, size)
    }

    /// Returns the index of the argument if the expression is a placeholder.
    fn argument_index(&self, expr: &Expr) -> Option<usize> {
        let name = placeholder(expr)?;
        let mut names = self.arguments.iter();
        names.position(|a| name.eq_ignore_ascii_case(&a.name))
    }

    /// Returns the body with placeholders replaced by arguments.
    pub fn bind(&self, values: &[Expr]) -> Box<Query> {
        let mut body = self.body.clone();
        // The tables of the body are renamed, so that columns of the arguments do not refer to
        // them.
        let _ = walk::change(&mut body, &mut RenameTables);
        self.substitute(&mut body, values);
        body
    }

    pub(super) fn substitute<T: VisitMut>(&self, node: &mut T, values: &[Expr]) {
        let _ = walk::change_expressions(node, |expr| {
            if let Some(index) = self.argument_index(expr) {
                *expr = Expr::Nested(Box::new(values[index].clone()));
            }
            ControlFlow::Continue(())
        });
    }
}

/// Renames all tables of a body.
struct RenameTables;

impl RenameTables {
    const PREFIX: &str = "__in_";

    fn rename(name: &mut Ident) {
        if !name.value.starts_with(Self::PREFIX) {
            *name = Ident::with_quote(
                '"',
                format!("{}{}", Self::PREFIX, name.value.to_ascii_lowercase()),
            );
        }
    }
}

impl VisitorMut for RenameTables {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, alias, .. } => {
                let own = name.0.last().and_then(|part| part.as_ident()).cloned();
                let alias = alias.get_or_insert_with(|| alias_of(own.unwrap_or(Ident::new(""))));
                Self::rename(&mut alias.name);
            }
            TableFactor::Derived {
                alias: Some(alias), ..
            }
            | TableFactor::Function {
                alias: Some(alias), ..
            } => Self::rename(&mut alias.name),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let ast::SelectItem::QualifiedWildcard(
                ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                _,
            ) = item
                && let Some(ast::ObjectNamePart::Identifier(first)) = name.0.first_mut()
            {
                Self::rename(first);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(names) = expr
            && let Some(first) = names.first_mut()
        {
            Self::rename(first);
        }
        ControlFlow::Continue(())
    }
}

/// Changes a query to return exactly one row, the first, as DataFusion requires of correlated
/// subqueries.
pub(super) fn first_row(query: &mut Query) {
    use ast::{GroupByExpr, OrderByKind, SelectItem as Item};
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let groups =
        !matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
    let [Item::UnnamedExpr(expr) | Item::ExprWithAlias { expr, .. }] =
        select.projection.as_mut_slice()
    else {
        return;
    };
    if groups || select.distinct.is_some() || bare::has_aggregate(expr) {
        return;
    }
    let order = query.order_by.take().and_then(|order| match order.kind {
        OrderByKind::Expressions(terms) => terms.into_iter().next(),
        OrderByKind::All(_) => None,
    });
    query.limit_clause = None;
    *expr = match order {
        Some(term) => ordered(
            "first_value",
            expr,
            &term.expr,
            term.options.asc.unwrap_or(true),
        ),
        None => function("first_value", vec![take(expr)]),
    };
}

/// The user-defined functions by name.
#[derive(Debug, Default)]
pub struct Functions {
    defined: HashMap<String, UserFunction>,
    /// Other names for functions of the engine.
    delegates: HashMap<String, String>,
}

impl Functions {
    /// Returns the function of this name.
    pub fn get(&self, name: &str) -> Option<&UserFunction> {
        self.defined.get(name)
    }

    /// Returns true if the function is user-defined.
    pub fn contains_key(&self, name: &str) -> bool {
        self.defined.contains_key(name)
    }

    /// Returns the names of all user-defined functions.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.defined.keys()
    }

    /// Adds a function.
    pub fn insert(&mut self, name: String, function: UserFunction) {
        self.defined.insert(name, function);
    }

    /// Adds another name for a function of the engine.
    pub fn delegate(&mut self, name: &str, target: &str) {
        self.delegates.insert(name.to_owned(), target.to_owned());
    }

    /// Returns the function of the engine with this other name.
    pub fn target(&self, name: &str) -> Option<&str> {
        self.delegates.get(name).map(String::as_str)
    }
}

fn placeholder(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => Some(name.trim_start_matches('$')),
            _ => None,
        },
        _ => None,
    }
}

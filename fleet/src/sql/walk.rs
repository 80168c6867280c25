//! Walks over syntax trees.
//!
//! The parser's own walk is compiled again for each type of visitor, a megabyte each time. These
//! walks have one type for all visitors that read, and one for all that change the tree.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};

/// A wrapper of all visitors that read.
struct Reader<'a>(&'a mut dyn Visitor<Break = ()>);

/// A wrapper of all visitors that change the tree.
struct Changer<'a>(&'a mut dyn VisitorMut<Break = ()>);

macro_rules! forward {
    ($($name:ident($($of:tt)*);)*) => {
        $(fn $name(&mut self, node: $($of)*) -> ControlFlow<()> {
            self.0.$name(node)
        })*
    };
}

impl Visitor for Reader<'_> {
    type Break = ();

    forward! {
        pre_visit_query(&Query);
        post_visit_query(&Query);
        pre_visit_select(&Select);
        post_visit_select(&Select);
        pre_visit_relation(&ObjectName);
        post_visit_relation(&ObjectName);
        pre_visit_table_factor(&TableFactor);
        post_visit_table_factor(&TableFactor);
        pre_visit_expr(&Expr);
        post_visit_expr(&Expr);
        pre_visit_statement(&Statement);
        post_visit_statement(&Statement);
        pre_visit_value(&ValueWithSpan);
        post_visit_value(&ValueWithSpan);
    }
}

impl VisitorMut for Changer<'_> {
    type Break = ();

    forward! {
        pre_visit_query(&mut Query);
        post_visit_query(&mut Query);
        pre_visit_select(&mut Select);
        post_visit_select(&mut Select);
        pre_visit_relation(&mut ObjectName);
        post_visit_relation(&mut ObjectName);
        pre_visit_table_factor(&mut TableFactor);
        post_visit_table_factor(&mut TableFactor);
        pre_visit_expr(&mut Expr);
        post_visit_expr(&mut Expr);
        pre_visit_statement(&mut Statement);
        post_visit_statement(&mut Statement);
        pre_visit_value(&mut ValueWithSpan);
        post_visit_value(&mut ValueWithSpan);
    }
}

struct OnExpressions<F>(F);

impl<F: FnMut(&Expr) -> ControlFlow<()>> Visitor for OnExpressions<F> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0(expr)
    }
}

impl<F: FnMut(&mut Expr) -> ControlFlow<()>> VisitorMut for OnExpressions<F> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.0(expr)
    }
}

struct OnRelations<F>(F);

impl<F: FnMut(&ObjectName) -> ControlFlow<()>> Visitor for OnRelations<F> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.0(relation)
    }
}

/// Visits all parts of a tree, until the visitor breaks.
pub fn read<T: Visit>(node: &T, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
    node.visit(&mut Reader(visitor))
}

/// Visits all parts of a tree and may change them, until the visitor breaks.
pub fn change<T: VisitMut>(
    node: &mut T,
    visitor: &mut dyn VisitorMut<Break = ()>,
) -> ControlFlow<()> {
    node.visit(&mut Changer(visitor))
}

/// Calls a function for each expression, outer ones first, until it breaks.
pub fn expressions<T: Visit>(
    node: &T,
    found: impl FnMut(&Expr) -> ControlFlow<()>,
) -> ControlFlow<()> {
    read(node, &mut OnExpressions(found))
}

/// Calls a function for each expression, inner ones first, until it breaks.
pub fn change_expressions<T: VisitMut>(
    node: &mut T,
    found: impl FnMut(&mut Expr) -> ControlFlow<()>,
) -> ControlFlow<()> {
    change(node, &mut OnExpressions(found))
}

/// Calls a function for each name of a relation, until it breaks.
pub fn relations<T: Visit>(
    node: &T,
    found: impl FnMut(&ObjectName) -> ControlFlow<()>,
) -> ControlFlow<()> {
    read(node, &mut OnRelations(found))
}

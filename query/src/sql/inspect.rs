//! Questions about syntax trees.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, Expr, Query, visit_expressions, visit_relations};

/// Returns true if the expression reads a column.
pub fn has_column(expr: &Expr) -> bool {
    visit_expressions(expr, |e| match e {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Returns true if a query reads the table.
pub(super) fn refers_to(query: &Query, name: &str) -> bool {
    visit_relations(query, |relation| {
        if relation.to_string().eq_ignore_ascii_case(name) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
    .is_break()
}

/// Returns the names of all tables and table functions that a query reads.
pub fn relations<T: ast::Visit>(node: &T) -> HashSet<String> {
    let mut names = HashSet::new();
    let _ = visit_relations(node, |relation| {
        let name = relation
            .0
            .last()
            .map(ToString::to_string)
            .unwrap_or_default();
        names.insert(name.trim_matches(['"', '`']).to_ascii_lowercase());
        ControlFlow::<()>::Continue(())
    });
    names
}

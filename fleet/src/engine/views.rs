//! The dependencies of views. If a table, view or function is replaced, views that depend on it are
//! planned again when a query next names them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, Visitor};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::Engine;
use crate::sql::inspect::relations;
use crate::sql::statement::Statement;
use crate::sql::walk;

/// The definitions that can be planned again, by name.
#[derive(Debug, Default)]
pub(super) struct Views(BTreeMap<String, View>);

/// A definition, and the names of the relations that it reads.
#[derive(Debug)]
struct View {
    statement: Statement,
    reads: BTreeSet<String>,
}

impl View {
    /// Returns true if the definition may depend on this name.
    fn mentions(&self, name: &str) -> bool {
        let in_text = || {
            match &self.statement {
            Statement::View(definition) => definition.body.iter().any(
                |token| matches!(&token.token, Token::Word(word) if word.value.eq_ignore_ascii_case(name)),
            ),
            _ => false,
        }
        };
        self.reads.contains(name) || in_text()
    }
}

impl Views {
    pub(super) fn insert(&mut self, name: &str, statement: Statement, reads: BTreeSet<String>) {
        self.0.insert(name.to_owned(), View { statement, reads });
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Returns true if one of the relations is the named one, or depends on it.
    pub(super) fn reach(&self, relations: &BTreeSet<String>, name: &str) -> bool {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut next: Vec<&str> = relations.iter().map(String::as_str).collect();
        while let Some(relation) = next.pop() {
            if relation == name {
                return true;
            }
            if seen.insert(relation)
                && let Some(view) = self.0.get(relation)
            {
                next.extend(view.reads.iter().map(String::as_str));
            }
        }
        false
    }

    /// Removes and returns the definitions that depend on a name, directly or indirectly.
    fn take_dependent(&mut self, name: &str) -> Vec<(String, Statement)> {
        let mut taken = Vec::new();
        let mut names = vec![name.to_owned()];
        while let Some(name) = names.pop() {
            let dependent = |own: &String, view: &mut View| *own != name && view.mentions(&name);
            for (own, view) in self.0.extract_if(.., dependent) {
                names.push(own.clone());
                taken.push((own, view.statement));
            }
        }
        taken
    }
}

impl Engine {
    /// Makes all definitions lazy that depend on a redefined name.
    pub(super) fn outdate(&mut self, name: &str) {
        for (view, statement) in self.views.take_dependent(name) {
            // The next query that names the view plans it again.
            if self.context.deregister_table(view.as_str()).is_ok() {
                self.lazy.insert(view, statement);
            }
        }
    }
}

/// Returns the relations that a statement reads, without those of its own `WITH`.
pub(super) fn reads(statement: &ast::Statement) -> BTreeSet<String> {
    struct Own(Vec<String>);
    impl Visitor for Own {
        type Break = ();

        fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
            let tables = query.with.iter().flat_map(|with| &with.cte_tables);
            self.0
                .extend(tables.map(|cte| cte.alias.name.value.to_ascii_lowercase()));
            ControlFlow::Continue(())
        }
    }
    let mut own = Own(Vec::new());
    let _ = walk::read(statement, &mut own);
    let mut names: BTreeSet<String> = relations(statement).into_iter().collect();
    for name in own.0 {
        names.remove(&name);
    }
    names
}

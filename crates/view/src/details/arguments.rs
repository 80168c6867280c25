//! Category and arguments of many rows of a node.

use ferretto_tables::StringId;
use serde_json::{Value, json};

use super::MAX_ARGS;
use super::arg_text;
use crate::nodes::Content;
use crate::view::View;

/// The most rows of an answer.
const MAX_ROWS: usize = 10_000;

impl View {
    /// Returns the category and the arguments of rows of a node as a list, in the order of `rows`;
    /// `None` if there is no such node or row, or if there are too many of them.
    pub(crate) fn arguments(&self, node: u32, rows: &[u32]) -> Option<Value> {
        let content = &self.node(node)?.content;
        if rows.len() > MAX_ROWS {
            return None;
        }
        let all = rows.iter().map(|row| {
            self.time_of(content, *row)?;
            let (category, set) = self.annotations(content, *row);
            let category = category.map_or("", |id| self.trace().strings().text(id));
            Some(json!([category, self.argument_set(set)]))
        });
        all.collect::<Option<Vec<Value>>>().map(Value::from)
    }

    /// Returns the category of a row and the set of its arguments.
    fn annotations(&self, content: &Content, row: u32) -> (Option<StringId>, Option<u32>) {
        let tables = self.trace().tables();
        match content {
            Content::Slices(_) => {
                let table = &tables.slice;
                (Some(table.category().get(row)), table.arg_set_id().get(row))
            }
            Content::Values(_) => {
                let table = &tables.state;
                (Some(table.category().get(row)), table.arg_set_id().get(row))
            }
            Content::Ftrace(_) => (None, tables.ftrace_event.arg_set_id().get(row)),
            Content::Lines => (None, tables.logs.arg_set_id().get(row)),
            _ => (None, None),
        }
    }

    /// Returns keys, values and types of a set of arguments.
    pub(super) fn argument_set(&self, set: Option<u32>) -> Vec<Value> {
        let Some(set) = set else {
            return Vec::new();
        };
        let (tables, strings) = (self.trace().tables(), self.trace().strings());
        let all = tables.args.set(set).take(MAX_ARGS).map(|arg| {
            let key = strings.text(arg.key);
            json!([key, arg_text(arg.value, strings), arg.value.type_name()])
        });
        all.collect()
    }
}

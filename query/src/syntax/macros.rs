//! Expansion of macros in tokens.

use std::collections::HashMap;

use super::lexer::{Kind, Token, closing, split_commas, text, tokenize, trim};
use super::statement::Argument;
use crate::error::{SqlError, nearest};
use crate::flamegraph::select_roots;
use crate::graphs::macros::{
    ancestors_sql, dominators_sql, partition_sql, scan_sql, search_sql, tree_rows_sql, tree_sql,
    weight_bounded_sql,
};

/// The definition of a macro.
#[derive(Debug, Clone)]
pub(crate) struct Macro {
    pub(crate) arguments: Vec<Argument>,
    /// The tokens after `AS`.
    pub(crate) body: Vec<Token>,
}

/// The macros by name, in lower case.
pub(crate) type Macros = HashMap<String, Macro>;

/// The largest depth of expansion, for macros that expand to each other.
const MAX_DEPTH: usize = 64;
/// The largest number of bytes that macros expand to, with those of the expansions in between.
const MAX_BYTES: usize = 1 << 25;

/// Expands every `name!(…)`.
pub(crate) fn expand(tokens: &[Token], macros: &Macros) -> Result<Vec<Token>, SqlError> {
    let mut expansion = Expansion {
        macros,
        budget: MAX_BYTES,
    };
    expansion
        .expand(tokens, 0)
        .map(bind_names)
        .map(select_roots)
        .map(row_numbers)
}

/// Replaces `_auto_id`, the number of a row of a table, by SQLite's name for it.
fn row_numbers(mut tokens: Vec<Token>) -> Vec<Token> {
    let mut is_alias = false;
    for token in tokens.iter_mut().filter(|token| !token.is_space()) {
        if token.is_word("_auto_id") && !is_alias {
            token.text = "rowid".to_owned();
        }
        is_alias = token.is_word("AS");
    }
    tokens
}

/// Rewrites `__intrinsic_table_ptr_bind(t.c0, 'name')` to a condition on the hidden column with the
/// name of a column.
pub(crate) fn bind_names(mut tokens: Vec<Token>) -> Vec<Token> {
    let calls = |token: &Token| token.is_word("__intrinsic_table_ptr_bind");
    while let Some(at) = tokens.iter().rposition(calls) {
        let solid = |from: usize| (from..tokens.len()).find(|index| !tokens[*index].is_space());
        let open = solid(at + 1).filter(|index| tokens[*index].is("("));
        let inner = open.and_then(|open| Some((open, closing(&tokens, open)?)));
        let parts = inner.map(|(open, close)| split_commas(&tokens[open + 1..close]));
        let bound = parts.as_deref().and_then(|parts| match parts {
            [column, name] => {
                let (last, qualifier) = trim(column).split_last()?;
                let column = crate::relations::name_column(&last.name()?)?;
                Some(format!("({}{column} = {})", text(qualifier), text(name)))
            }
            _ => None,
        });
        let offset = tokens[at].at;
        // Anything else stays a call of a function that does not exist.
        let (end, replacement) = match (inner, bound) {
            (Some((_, close)), Some(bound)) => (close + 1, bound),
            _ => (at + 1, "__intrinsic_table_ptr_bind ".to_owned()),
        };
        let word = Token::new(Kind::Symbol, replacement, offset);
        tokens.splice(at..end, [word]);
    }
    tokens
}

struct Expansion<'a> {
    macros: &'a Macros,
    budget: usize,
}

impl Expansion<'_> {
    fn expand(&mut self, tokens: &[Token], depth: usize) -> Result<Vec<Token>, SqlError> {
        let mut out = Vec::with_capacity(tokens.len());
        let mut at = 0;
        while at < tokens.len() {
            let Some((name, open)) = invocation(tokens, at) else {
                out.push(tokens[at].clone());
                at += 1;
                continue;
            };
            let offset = tokens[at].at;
            if depth >= MAX_DEPTH {
                let message = format!("The macro '{name}' expands without end.");
                return Err(SqlError::at(offset, message));
            }
            let Some(close) = closing(tokens, open) else {
                let message = "Syntax error: this parenthesis is not closed.";
                return Err(SqlError::at(tokens[open].at, message));
            };
            let expanded = self.invoke(&name, &tokens[open + 1..close], offset, depth)?;
            // Two words of different origin stay two words.
            out.push(Token::new(Kind::Space, " ", offset));
            out.extend(expanded);
            out.push(Token::new(Kind::Space, " ", offset));
            at = close + 1;
        }
        Ok(out)
    }

    fn invoke(
        &mut self,
        name: &str,
        inner: &[Token],
        offset: usize,
        depth: usize,
    ) -> Result<Vec<Token>, SqlError> {
        if name == "__intrinsic_stringify" || name == "__intrinsic_stringify_ignore_table" {
            // Upstream does not escape the text between the quotes, so two quotes in it are one.
            let expanded = self.expand(inner, depth + 1)?;
            let words = text(trim(&expanded)).replace("''", "'").replace('\'', "''");
            let word = Token::new(Kind::Text, format!("'{words}'"), offset);
            self.spend(std::slice::from_ref(&word), offset)?;
            return Ok(vec![word]);
        }
        if name.starts_with("__intrinsic_token_apply") {
            return self.apply(name, inner, offset, depth);
        }
        let parts = split_commas(inner).into_iter();
        let arguments: Vec<_> = parts
            .map(|part| self.expand(part, depth + 1))
            .collect::<Result<_, _>>()?;
        self.call(name, &arguments, offset, depth)
    }

    /// Counts tokens that a macro expands to, and fails if there are too many.
    fn spend(&mut self, tokens: &[Token], offset: usize) -> Result<(), SqlError> {
        let bytes: usize = tokens
            .iter()
            .map(|token| size_of::<Token>() + token.text.len())
            .sum();
        self.budget = self.budget.checked_sub(bytes).ok_or_else(|| {
            SqlError::at(
                offset,
                format!("Macros expand to more than {MAX_BYTES} bytes."),
            )
        })?;
        Ok(())
    }

    /// Replaces the parameters of a macro's body.
    fn call(
        &mut self,
        name: &str,
        arguments: &[Vec<Token>],
        offset: usize,
        depth: usize,
    ) -> Result<Vec<Token>, SqlError> {
        if let Some(sql) = builtin(name, arguments) {
            let mut tokens = tokenize(&sql).map_err(|error| SqlError::at(offset, error.message))?;
            self.spend(&tokens, offset)?;
            tokens.iter_mut().for_each(|token| token.at = offset);
            return self.expand(&tokens, depth + 1);
        }
        let Some(definition) = self.macros.get(name) else {
            let mut message = format!("There is no macro '{name}'.");
            if let Some(near) = nearest(name, self.macros.keys().map(String::as_str)) {
                message += &format!(" Did you mean '{near}'?");
            }
            message += " Its module may have to be included first.";
            return Err(SqlError::at(offset, message));
        };
        if definition.arguments.len() != arguments.len() {
            let (expected, given) = (definition.arguments.len(), arguments.len());
            let message = format!("The macro '{name}' takes {expected} arguments, not {given}.");
            return Err(SqlError::at(offset, message));
        }
        let mut body = Vec::new();
        for token in &definition.body {
            let is_named = |a: &Argument| token.text[1..].eq_ignore_ascii_case(&a.name);
            let argument = match token.kind {
                Kind::Parameter => definition.arguments.iter().position(is_named),
                _ => None,
            };
            match argument {
                Some(index) => {
                    self.spend(&arguments[index], offset)?;
                    body.extend(arguments[index].iter().cloned());
                }
                // Errors in the expansion have the place of the call.
                None => {
                    self.spend(std::slice::from_ref(token), offset)?;
                    body.push(Token {
                        at: offset,
                        ..token.clone()
                    });
                }
            }
        }
        self.expand(&body, depth + 1)
    }

    /// Expands `__intrinsic_token_apply!(macro, (a, b))` and its variants: calls the macro for each
    /// member of a list, or for the pairs of two lists as long as both have some, and puts a comma
    /// or `AND` between or before the results.
    fn apply(
        &mut self,
        name: &str,
        inner: &[Token],
        offset: usize,
        depth: usize,
    ) -> Result<Vec<Token>, SqlError> {
        let parts = split_commas(inner);
        let usage = format!("'{name}!' takes a macro and one or two lists.");
        let fail = || SqlError::at(offset, usage.clone());
        let (target, lists) = parts.split_first().ok_or_else(fail)?;
        let target = target.first().and_then(Token::name).ok_or_else(fail)?;
        let target = target.trim_end_matches('!').to_ascii_lowercase();
        let lists: Vec<Vec<Vec<Token>>> = lists
            .iter()
            .map(|list| Ok(members(&self.expand(list, depth + 1)?)))
            .collect::<Result<_, SqlError>>()?;
        // Longer lists are cut.
        let count = lists.iter().map(Vec::len).min().ok_or_else(fail)?;
        let separator = if name.contains("_and") {
            Token::new(Kind::Word, "AND", offset)
        } else {
            Token::new(Kind::Symbol, ",", offset)
        };
        let space = || Token::new(Kind::Space, " ", offset);
        let mut out = Vec::new();
        for index in 0..count {
            if name.ends_with("_prefix") || index > 0 {
                out.extend([space(), separator.clone(), space()]);
            }
            let arguments: Vec<_> = lists
                .iter()
                .filter_map(|list| list.get(index).cloned())
                .collect();
            out.extend(self.call(&target, &arguments, offset, depth + 1)?);
        }
        Ok(out)
    }
}

/// Returns the name of the macro called at `at` and the index of its parenthesis.
fn invocation(tokens: &[Token], at: usize) -> Option<(String, usize)> {
    let name = match tokens[at].kind {
        Kind::Word | Kind::Quoted => tokens[at].name()?,
        _ => return None,
    };
    let solid = |from: usize| (from..tokens.len()).find(|index| !tokens[*index].is_space());
    let mark = solid(at + 1).filter(|index| tokens[*index].is("!"))?;
    let open = solid(mark + 1).filter(|index| tokens[*index].is("("))?;
    Some((name.to_ascii_lowercase(), open))
}

/// Removes the parentheses around a list and splits it at commas.
fn members(tokens: &[Token]) -> Vec<Vec<Token>> {
    let tokens = trim(tokens);
    let inner = match tokens {
        [first, inner @ .., _] if first.is("(") && closing(tokens, 0) == Some(tokens.len() - 1) => {
            inner
        }
        _ => tokens,
    };
    split_commas(inner).into_iter().map(<[_]>::to_vec).collect()
}

/// Returns the SQL of macros that are operators of the engine.
fn builtin(name: &str, arguments: &[Vec<Token>]) -> Option<String> {
    let list = |index: usize| -> Vec<String> {
        members(&arguments[index])
            .iter()
            .map(|member| text(member))
            .collect()
    };
    let of = |index: usize| text(trim(&arguments[index]));
    match (name, arguments.len()) {
        ("metasql_unparenthesize_exprlist", 1) => Some(list(0).join(", ")),
        ("graph_reachable_dfs", 2) => Some(search_sql("__intrinsic_dfs", &of(0), &of(1))),
        ("graph_reachable_bfs", 2) => Some(search_sql("__intrinsic_bfs", &of(0), &of(1))),
        ("graph_reachable_weight_bounded_dfs", 3) => {
            Some(weight_bounded_sql(&of(0), &of(1), &of(2)))
        }
        ("graph_dominator_tree", 2) => Some(dominators_sql(&of(0), &of(1))),
        ("tree_structural_partition_by_group", 1) => Some(partition_sql(&of(0))),
        ("_tree_reachable_ancestors_or_self", 2) => Some(ancestors_sql(&of(0), &of(1))),
        ("_graph_scan" | "_graph_aggregating_scan", 4) => {
            let function = format!("__intrinsic{name}");
            Some(scan_sql(&function, &of(0), &of(1), &list(2), &of(3)))
        }
        ("_tree_from_table", 2) => Some(tree_sql(&of(0), &list(1))),
        ("_tree_to_table", 2) => Some(tree_rows_sql(&of(0), &list(1))),
        ("_interval_intersect", 2) => Some(crate::intervals::intersect_sql(&list(0), &list(1))),
        ("interval_self_intersect", 1) => {
            Some(crate::intervals::self_intersect_sql(&text(&arguments[0])))
        }
        ("_intervals_flatten", 1) => Some(crate::intervals::flatten_sql(&text(&arguments[0]))),
        ("asof_join", 3) => Some(crate::intervals::asof_sql(
            &text(&arguments[0]),
            &text(&arguments[1]),
            &list(2),
        )),
        _ => None,
    }
}

//! The names of result columns, which SQLite takes from the text of the query.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::lexer::{is_word, name_of, solid, split_commas, text, trim};

/// The names of the columns of a result that are known from the text.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct OutputNames {
    /// The names of the columns before the first `*`.
    pub before: Vec<String>,
    /// The names of the columns after the last `*`; `None` without a `*`.
    pub after: Option<Vec<String>>,
}

/// Reads the names from the first `SELECT` of the statement outside of parentheses.
pub fn output_names(tokens: &[TokenWithSpan]) -> OutputNames {
    let mut depth = 0usize;
    let mut start = None;
    let mut end = tokens.len();
    for (index, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(_) if depth == 0 => {
                let stop = [
                    "FROM",
                    "WHERE",
                    "GROUP",
                    "ORDER",
                    "LIMIT",
                    "UNION",
                    "EXCEPT",
                    "INTERSECT",
                    "HAVING",
                    "WINDOW",
                ];
                if start.is_none() && is_word(token, "SELECT") {
                    start = Some(index + 1);
                } else if start.is_some() && stop.iter().any(|word| is_word(token, word)) {
                    end = index;
                    break;
                }
            }
            _ => {}
        }
    }
    let Some(start) = start else {
        return OutputNames::default();
    };
    let mut items = trim(&tokens[start..end]);
    if let Some(first) = items.first()
        && (is_word(first, "DISTINCT") || is_word(first, "ALL"))
    {
        items = trim(&items[1..]);
    }
    let items = split_commas(items);
    let star = |item: &&[TokenWithSpan]| {
        solid(item).last().is_some_and(|t| t.token == Token::Mul) && solid(item).len() <= 3
    };
    let Some(first) = items.iter().position(&star) else {
        return OutputNames {
            before: items.iter().map(|i| name(i)).collect(),
            after: None,
        };
    };
    let last = items.iter().rposition(star).unwrap_or(first);
    OutputNames {
        before: items[..first].iter().map(|i| name(i)).collect(),
        after: Some(items[last + 1..].iter().map(|i| name(i)).collect()),
    }
}

/// Returns the alias, the column's name, or the text of one item.
fn name(item: &[TokenWithSpan]) -> String {
    let words = solid(item);
    let plain = |t: &TokenWithSpan| match &t.token {
        Token::Word(word) => Some(word.value.clone()),
        Token::SingleQuotedString(text) => Some(text.clone()),
        _ => None,
    };
    if let [.., before, last] = words.as_slice()
        && let Some(alias) = plain(last)
    {
        let implicit = matches!(
            before.token,
            Token::Word(_) | Token::RParen | Token::Number(..) | Token::SingleQuotedString(_)
        ) && matches!(last.token, Token::Word(_))
            && !is_word(last, "END")
            && !is_operator(before);
        if is_word(before, "AS") || implicit {
            return alias;
        }
    }
    match words.as_slice() {
        [only] if name_of(only).is_some() => name_of(only).unwrap_or_default().to_owned(),
        [.., dot, last] if dot.token == Token::Period && words.len() <= 5 => {
            name_of(last).map_or_else(|| text(item), str::to_owned)
        }
        _ => text(item),
    }
}

fn is_operator(token: &TokenWithSpan) -> bool {
    [
        "NOT", "IS", "AND", "OR", "IN", "LIKE", "GLOB", "REGEXP", "BETWEEN", "ESCAPE", "COLLATE",
    ]
    .iter()
    .any(|word| is_word(token, word))
}

impl OutputNames {
    /// Returns the names of a result, given the engine's names of its columns.
    pub fn apply(&self, engine: &[String]) -> Vec<String> {
        let mut names = engine.to_vec();
        match &self.after {
            None if self.before.len() == names.len() => names.clone_from(&self.before),
            None => {}
            Some(after) if self.before.len() + after.len() <= names.len() => {
                names[..self.before.len()].clone_from_slice(&self.before);
                let start = names.len() - after.len();
                names[start..].clone_from_slice(after);
            }
            Some(_) => {}
        }
        names
    }
}

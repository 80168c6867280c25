//! Expansion of macros in tokens.

use std::collections::HashMap;

use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

use super::bounds::MAX_TOKENS;
use super::lexer::{closing, name_of, split_commas, text, tokenize, trim, word_token};
use super::statement::Argument;
use crate::error::{SqlError, nearest};

/// The definition of a macro.
#[derive(Debug, Clone)]
pub struct Macro {
    /// The names of the arguments.
    pub arguments: Vec<Argument>,
    /// The tokens after `AS`.
    pub body: Vec<TokenWithSpan>,
}

/// The largest depth of expansion, for macros that expand to each other.
const MAX_DEPTH: usize = 64;

/// Expands every `name!(…)`.
pub fn expand(
    tokens: &[TokenWithSpan],
    macros: &HashMap<String, Macro>,
) -> Result<Vec<TokenWithSpan>, SqlError> {
    let mut budget = MAX_TOKENS;
    expand_at(tokens, macros, 0, &mut budget)
}

fn expand_at(
    tokens: &[TokenWithSpan],
    macros: &HashMap<String, Macro>,
    depth: usize,
    budget: &mut usize,
) -> Result<Vec<TokenWithSpan>, SqlError> {
    let mut out = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let Some((name, open)) = invocation(tokens, at) else {
            out.push(tokens[at].clone());
            at += 1;
            continue;
        };
        let span = tokens[at].span;
        if depth >= MAX_DEPTH {
            let message = format!("The macro '{name}' expands without end.");
            return Err(SqlError::at(span.start, message));
        }
        let Some(close) = closing(tokens, open) else {
            let message = "Syntax error: this parenthesis is not closed.";
            return Err(SqlError::at(tokens[open].span.start, message));
        };
        let inner = &tokens[open + 1..close];
        let expanded = match name.as_str() {
            "__intrinsic_stringify" => {
                // Upstream does not escape the text between the quotes, so two quotes in it are
                // one.
                let words =
                    text(trim(&expand_at(inner, macros, depth + 1, budget)?)).replace("''", "'");
                vec![TokenWithSpan::new(Token::SingleQuotedString(words), span)]
            }
            _ if name.starts_with("__intrinsic_token_apply") => {
                apply(&name, inner, span, macros, depth, budget)?
            }
            _ => {
                let arguments: Vec<_> = split_commas(inner)
                    .into_iter()
                    .map(|part| expand_at(part, macros, depth + 1, budget))
                    .collect::<Result<_, _>>()?;
                call(&name, &arguments, span, macros, depth, budget)?
            }
        };
        out.extend(expanded);
        at = close + 1;
    }
    Ok(out)
}

/// Returns the name of the macro called at `at` and the index of its parenthesis.
fn invocation(tokens: &[TokenWithSpan], at: usize) -> Option<(String, usize)> {
    let name = name_of(&tokens[at])?;
    if tokens.get(at + 1)?.token != Token::ExclamationMark {
        return None;
    }
    let blank = |t: &&TokenWithSpan| matches!(t.token, Token::Whitespace(_));
    let open = at + 2 + tokens[at + 2..].iter().take_while(blank).count();
    (tokens.get(open)?.token == Token::LParen).then(|| (name.to_ascii_lowercase(), open))
}

fn call(
    name: &str,
    arguments: &[Vec<TokenWithSpan>],
    span: Span,
    macros: &HashMap<String, Macro>,
    depth: usize,
    budget: &mut usize,
) -> Result<Vec<TokenWithSpan>, SqlError> {
    let wrong = |expected: usize| {
        let message = format!(
            "The macro '{name}' takes {expected} arguments, not {}.",
            arguments.len()
        );
        SqlError::at(span.start, message)
    };
    if let Some(expanded) = builtin(name, arguments, span)? {
        return expand_at(&expanded, macros, depth + 1, budget);
    }
    let Some(definition) = macros.get(name) else {
        let mut message = format!("There is no macro '{name}'.");
        if let Some(near) = nearest(name, macros.keys().map(String::as_str)) {
            message += &format!(" Did you mean '{near}'?");
        }
        message += " Its module may have to be included first.";
        return Err(SqlError::at(span.start, message));
    };
    if definition.arguments.len() != arguments.len() {
        return Err(wrong(definition.arguments.len()));
    }
    let mut body = Vec::new();
    for token in &definition.body {
        let argument = match &token.token {
            Token::Placeholder(word) => definition
                .arguments
                .iter()
                .position(|a| word[1..].eq_ignore_ascii_case(&a.name)),
            _ => None,
        };
        match argument {
            Some(index) => body.extend(arguments[index].iter().cloned()),
            // Errors in the expansion have the location of the call.
            None => body.push(TokenWithSpan::new(token.token.clone(), span)),
        }
        if body.len() > *budget {
            let message = format!("Macros expand to more than {MAX_TOKENS} words.");
            return Err(SqlError::at(span.start, message));
        }
    }
    *budget -= body.len();
    expand_at(&body, macros, depth + 1, budget)
}

/// Removes the parentheses around a list and splits it at commas.
fn unwrap_list(tokens: &[TokenWithSpan]) -> Vec<Vec<TokenWithSpan>> {
    let tokens = trim(tokens);
    let inner = match tokens {
        [first, inner @ .., last]
            if first.token == Token::LParen
                && last.token == Token::RParen
                && closing(tokens, 0) == Some(tokens.len() - 1) =>
        {
            inner
        }
        _ => tokens,
    };
    split_commas(inner).into_iter().map(<[_]>::to_vec).collect()
}

/// Expands the macros that are operators of the engine.
fn builtin(
    name: &str,
    arguments: &[Vec<TokenWithSpan>],
    span: Span,
) -> Result<Option<Vec<TokenWithSpan>>, SqlError> {
    if let ("metasql_unparenthesize_exprlist", [list]) = (name, arguments) {
        let members = unwrap_list(list);
        let comma = [TokenWithSpan::new(Token::Comma, span)];
        return Ok(Some(members.join(comma.as_slice())));
    }
    let operator = match (name, arguments.len()) {
        ("_interval_intersect", 2) => "__interval_intersect",
        ("interval_self_intersect", 1) => "__interval_self_intersect",
        ("asof_join", 3) => "__asof_join",
        _ => return Ok(None),
    };
    let inputs = match name {
        "_interval_intersect" => unwrap_list(&arguments[0]),
        "asof_join" => vec![arguments[0].clone(), arguments[1].clone()],
        _ => vec![arguments[0].clone()],
    };
    let selected = match name {
        "interval_self_intersect" => {
            "SELECT ts, dur, dense_rank() OVER (ORDER BY ts) AS group_id, id, interval_ends_at_ts"
        }
        _ => "SELECT *",
    };
    let columns = match arguments.last() {
        Some(list) if arguments.len() > 1 => unwrap_list(list),
        _ => Vec::new(),
    };
    let opening = tokenize(&format!("({selected} FROM {operator}("))?;
    let mut out: Vec<TokenWithSpan> = opening
        .into_iter()
        .map(|t| TokenWithSpan::new(t.token, span))
        .collect();
    for (index, input) in inputs.iter().enumerate() {
        if index > 0 {
            out.push(TokenWithSpan::new(Token::Comma, span));
        }
        let select = tokenize("(SELECT * FROM ")?;
        out.extend(
            select
                .into_iter()
                .map(|t| TokenWithSpan::new(t.token, span)),
        );
        out.extend(input.iter().cloned());
        out.push(TokenWithSpan::new(Token::RParen, span));
    }
    for column in columns {
        out.push(TokenWithSpan::new(Token::Comma, span));
        out.push(TokenWithSpan::new(
            Token::SingleQuotedString(text(&column)),
            span,
        ));
    }
    out.push(TokenWithSpan::new(Token::RParen, span));
    out.push(TokenWithSpan::new(Token::RParen, span));
    Ok(Some(out))
}

fn space() -> datafusion::sql::sqlparser::tokenizer::Whitespace {
    datafusion::sql::sqlparser::tokenizer::Whitespace::Space
}

/// Expands `__intrinsic_token_apply!(macro, (a, b))` and its variants: calls the macro for each
/// member of a list, or for the pairs of two lists, and puts a comma or `AND` between or before the
/// results.
fn apply(
    name: &str,
    inner: &[TokenWithSpan],
    span: Span,
    macros: &HashMap<String, Macro>,
    depth: usize,
    budget: &mut usize,
) -> Result<Vec<TokenWithSpan>, SqlError> {
    let parts = split_commas(inner);
    let fail = || {
        SqlError::at(
            span.start,
            format!("'{name}!' takes a macro and one or two lists."),
        )
    };
    let (target, lists) = parts.split_first().ok_or_else(fail)?;
    let target = target
        .first()
        .and_then(name_of)
        .ok_or_else(fail)?
        .to_ascii_lowercase();
    let lists: Vec<Vec<Vec<TokenWithSpan>>> = lists
        .iter()
        .map(|list| Ok(unwrap_list(&expand_at(list, macros, depth + 1, budget)?)))
        .collect::<Result<_, SqlError>>()?;
    let first = lists.first().ok_or_else(fail)?;
    let separator = if name.contains("_and") {
        word_token("AND", span)
    } else {
        TokenWithSpan::new(Token::Comma, span)
    };
    let prefix = name.ends_with("_prefix");
    let blank = || TokenWithSpan::new(Token::Whitespace(space()), span);
    let mut out = Vec::new();
    for index in 0..first.len() {
        if prefix || index > 0 {
            out.extend([blank(), separator.clone(), blank()]);
        }
        let arguments: Vec<_> = lists
            .iter()
            .filter_map(|list| list.get(index).cloned())
            .collect();
        out.extend(call(&target, &arguments, span, macros, depth + 1, budget)?);
    }
    Ok(out)
}

/// Returns an empty span, for tokens that are not in the SQL.
pub fn nowhere() -> Span {
    Span::new(Location::empty(), Location::empty())
}

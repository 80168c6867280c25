//! Converts the functions with which older queries define functions and include modules to
//! statements.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::lexer::{is_word, name_of, solid};

/// Returns the statement for `SELECT create_function('f(x INT)', 'INT', 'SELECT …')` and similar
/// calls; an empty text if the call has no effect.
pub(super) fn modern(tokens: &[TokenWithSpan]) -> Option<String> {
    let words = solid(tokens);
    let [select, name, open, arguments @ .., close] = words.as_slice() else {
        return None;
    };
    let call =
        is_word(select, "SELECT") && open.token == Token::LParen && close.token == Token::RParen;
    let name = name_of(name).filter(|_| call)?.to_ascii_lowercase();
    let texts: Vec<&str> = arguments
        .split(|t| t.token == Token::Comma)
        .map(|part| match part {
            [one] => match &one.token {
                Token::SingleQuotedString(text) => Some(text.as_str()),
                _ => None,
            },
            _ => None,
        })
        .collect::<Option<_>>()?;
    match (name.as_str(), texts.as_slice()) {
        ("create_function", [prototype, returns, body]) => Some(format!(
            "CREATE OR REPLACE PERFETTO FUNCTION {prototype} RETURNS {returns} AS {body}"
        )),
        ("create_view_function", [prototype, columns, body]) => Some(format!(
            "CREATE OR REPLACE PERFETTO FUNCTION {prototype} RETURNS TABLE({columns}) AS {body}"
        )),
        ("import", [module]) => Some(format!("INCLUDE PERFETTO MODULE {module}")),
        // Results of functions are not cached, so the call has no effect.
        ("experimental_memoize", [_]) => Some(String::new()),
        _ => None,
    }
}

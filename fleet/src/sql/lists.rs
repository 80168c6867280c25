//! Lists of tables in parentheses after `FROM`, which the parser does not support: their commas are
//! cross joins.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::lexer::{is_word, word_token};

/// Replaces the commas between tables in parentheses.
pub fn join_lists(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    // For each open parenthesis, true if it contains tables.
    let mut open: Vec<bool> = Vec::new();
    let mut after_from = false;
    let mut commas = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => {
                let first = tokens[index + 1..].iter().find(|token| !is_blank(token));
                let is_query = first.is_some_and(|first| {
                    let mut words = ["SELECT", "WITH", "VALUES"].iter();
                    words.any(|word| is_word(first, word))
                });
                open.push(after_from && !is_query);
            }
            Token::RParen => {
                open.pop();
            }
            Token::Comma if open.last() == Some(&true) => commas.push(index),
            _ => {}
        }
        if !is_blank(token) {
            after_from = is_word(token, "FROM") || is_word(token, "JOIN");
        }
    }
    if commas.is_empty() {
        return tokens;
    }
    let mut joined = Vec::with_capacity(tokens.len() + 4 * commas.len());
    let mut commas = commas.into_iter().peekable();
    for (index, token) in tokens.into_iter().enumerate() {
        if commas.next_if_eq(&index).is_some() {
            let blank = || TokenWithSpan::new(Token::Whitespace(Whitespace::Space), token.span);
            let word = |text| word_token(text, token.span);
            joined.extend([blank(), word("CROSS"), blank(), word("JOIN"), blank()]);
        } else {
            joined.push(token);
        }
    }
    joined
}

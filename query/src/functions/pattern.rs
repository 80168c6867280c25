//! `GLOB` and regular expressions.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use regex::{Regex, RegexBuilder};

use super::{ArrayFunction, texts};

pub(super) fn functions() -> Vec<ArrayFunction> {
    use DataType::{Boolean, Utf8};
    vec![
        ArrayFunction::new("glob", 2..=2, Boolean, |args, _| glob(&args[0], &args[1])),
        ArrayFunction::new("regexp", 2..=3, Boolean, regexp),
        ArrayFunction::new("regexp_extract", 2..=2, Utf8, |args, _| {
            extract(&args[0], &args[1])
        }),
        ArrayFunction::new("regexp_replace_simple", 3..=3, Utf8, |args, _| {
            let (text, pattern, to) = (texts(&args[0])?, texts(&args[1])?, texts(&args[2])?);
            let mut cache = Cache::default();
            let mut out = Vec::with_capacity(text.len());
            for i in 0..text.len() {
                if text.is_null(i) || pattern.is_null(i) || to.is_null(i) {
                    out.push(None);
                    continue;
                }
                let regex = cache.get(pattern.value(i), "")?;
                let to = regex::NoExpand(to.value(i));
                out.push(Some(regex.replace_all(text.value(i), to).into_owned()));
            }
            Ok(Arc::new(StringArray::from(out)))
        }),
    ]
}

/// Compiled expressions of one call.
#[derive(Default)]
struct Cache(HashMap<(String, String), Regex>);

impl Cache {
    fn get(&mut self, pattern: &str, flags: &str) -> Result<&Regex> {
        let key = (pattern.to_owned(), flags.to_owned());
        if !self.0.contains_key(&key) {
            let mut insensitive = false;
            for flag in flags.chars() {
                match flag {
                    'i' => insensitive = true,
                    'c' => insensitive = false,
                    _ => return exec_err!("regexp: there is no flag '{flag}': 'i' and 'c' are."),
                }
            }
            let regex = match RegexBuilder::new(pattern)
                .case_insensitive(insensitive)
                .build()
            {
                Ok(regex) => regex,
                Err(error) => return exec_err!("regexp: '{pattern}' cannot be read: {error}"),
            };
            self.0.insert(key.clone(), regex);
        }
        Ok(&self.0[&key])
    }
}

fn regexp(args: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    let (pattern, text) = (texts(&args[0])?, texts(&args[1])?);
    let flags = args.get(2).map(texts).transpose()?;
    let mut cache = Cache::default();
    let mut out = Vec::with_capacity(text.len());
    for i in 0..text.len() {
        let null = flags.as_ref().is_some_and(|f| f.is_null(i));
        if text.is_null(i) || pattern.is_null(i) || null {
            out.push(None);
            continue;
        }
        let flags = flags.as_ref().map_or("", |f| f.value(i));
        out.push(Some(
            cache.get(pattern.value(i), flags)?.is_match(text.value(i)),
        ));
    }
    Ok(Arc::new(BooleanArray::from(out)))
}

fn extract(text: &ArrayRef, pattern: &ArrayRef) -> Result<ArrayRef> {
    let (text, pattern) = (texts(text)?, texts(pattern)?);
    let mut cache = Cache::default();
    let mut out = Vec::with_capacity(text.len());
    for i in 0..text.len() {
        if text.is_null(i) || pattern.is_null(i) {
            out.push(None);
            continue;
        }
        let regex = cache.get(pattern.value(i), "")?;
        if regex.captures_len() > 2 {
            return exec_err!(
                "regexp_extract: '{}' has more than one group.",
                pattern.value(i)
            );
        }
        out.push(regex.captures(text.value(i)).map(|found| {
            let group = found.get(1).map(|g| g.as_str()).filter(|g| !g.is_empty());
            group.unwrap_or(&found[0]).to_owned()
        }));
    }
    Ok(Arc::new(StringArray::from(out)))
}

fn glob(pattern: &ArrayRef, text: &ArrayRef) -> Result<ArrayRef> {
    let (pattern, text) = (texts(pattern)?, texts(text)?);
    let mut last: Option<(String, Glob)> = None;
    let matched = (0..text.len()).map(|i| {
        if text.is_null(i) || pattern.is_null(i) {
            return None;
        }
        if last.as_ref().is_none_or(|(p, _)| p != pattern.value(i)) {
            last = Some((pattern.value(i).to_owned(), Glob::new(pattern.value(i))));
        }
        last.as_ref().map(|(_, glob)| glob.matches(text.value(i)))
    });
    Ok(Arc::new(matched.collect::<BooleanArray>()))
}

/// A pattern of `GLOB`: `*`, `?` and `[…]`, case-sensitive.
struct Glob(Vec<Piece>);

enum Piece {
    Any,
    One,
    Char(char),
    Set(bool, Vec<(char, char)>),
}

impl Glob {
    fn new(pattern: &str) -> Self {
        let chars: Vec<char> = pattern.chars().collect();
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < chars.len() {
            pieces.push(match chars[at] {
                '*' => Piece::Any,
                '?' => Piece::One,
                '[' => match set(&chars, at + 1) {
                    Some((piece, end)) => {
                        at = end;
                        piece
                    }
                    // An open bracket matches nothing.
                    None => Piece::Set(false, Vec::new()),
                },
                c => Piece::Char(c),
            });
            at += 1;
        }
        Self(pieces)
    }

    /// Goes back to the last `*` on a mismatch, so that time is bounded by the product of lengths.
    fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut piece, mut at) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let fits = match self.0.get(piece) {
                None if at == text.len() => return true,
                Some(Piece::Any) => {
                    retry = Some((piece + 1, at));
                    piece += 1;
                    continue;
                }
                None => false,
                Some(_) if at == text.len() => false,
                Some(Piece::One) => true,
                Some(Piece::Char(c)) => *c == text[at],
                Some(Piece::Set(negated, ranges)) => {
                    ranges.iter().any(|(a, b)| (*a..=*b).contains(&text[at])) != *negated
                }
            };
            if fits {
                piece += 1;
                at += 1;
            } else if let Some((after, start)) = retry
                && start < text.len()
            {
                retry = Some((after, start + 1));
                piece = after;
                at = start + 1;
            } else {
                return false;
            }
        }
    }
}

/// Reads a set up to its bracket and returns it with the bracket's index.
fn set(chars: &[char], mut at: usize) -> Option<(Piece, usize)> {
    let negated = chars.get(at) == Some(&'^');
    at += usize::from(negated);
    let mut ranges = Vec::new();
    let first = at;
    loop {
        match *chars.get(at)? {
            ']' if at > first => return Some((Piece::Set(negated, ranges), at)),
            low => {
                let range =
                    chars.get(at + 1) == Some(&'-') && chars.get(at + 2).is_some_and(|c| *c != ']');
                let high = if range { chars[at + 2] } else { low };
                ranges.push((low, high));
                at += if range { 3 } else { 1 };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn globs_match_as_sqlites() {
        let cases = [
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("?x", "ax", true),
            ("[a-c]1", "b1", true),
            ("[^a-c]1", "b1", false),
            ("[]]", "]", true),
            ("A*", "abc", false),
            ("*", "", true),
            ("**a", "ba", true),
            ("[", "[", false),
            ("", "x", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(
                Glob::new(pattern).matches(text),
                expected,
                "{pattern} {text}"
            );
        }
    }
}

//! `GLOB` and regular expressions.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, StringArray, StringViewArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use regex::{Regex, RegexBuilder};

use super::{ArrayFunction, texts};

pub(super) fn functions() -> Vec<ArrayFunction> {
    use DataType::{Boolean, Utf8};
    vec![
        ArrayFunction::new("glob", 2..=2, Boolean, |args, _| glob(&args[0], &args[1]))
            .with_text(glob_one),
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

/// The compiled expressions of one call.
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
                    _ => return exec_err!("regexp: unknown flag '{flag}': use 'i' or 'c'."),
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

/// Compares each text with the pattern of its row.
fn glob(pattern: &ArrayRef, text: &ArrayRef) -> Result<ArrayRef> {
    let (pattern, text) = (texts(pattern)?, texts(text)?);
    let mut last: Option<(&str, Glob)> = None;
    let mut out = Vec::with_capacity(text.len());
    for i in 0..text.len() {
        if text.is_null(i) || pattern.is_null(i) {
            out.push(None);
            continue;
        }
        let glob = match last.take() {
            Some((known, glob)) if known == pattern.value(i) => glob,
            _ => Glob::new(pattern.value(i)),
        };
        out.push(Some(glob.matches(text.value(i))));
        last = Some((pattern.value(i), glob));
    }
    Ok(Arc::new(BooleanArray::from(out)))
}

/// Compares all texts with one pattern.
fn glob_one(pattern: &str, text: &ArrayRef) -> Result<ArrayRef> {
    let glob = Glob::new(pattern);
    let nulls = text.logical_nulls();
    let values = match text.as_any().downcast_ref::<StringViewArray>() {
        Some(views) => {
            let mut cache = MatchCache::default();
            let matches = |i| cache.get(views.views()[i], || glob.matches(views.value(i)));
            BooleanBuffer::collect_bool(views.len(), matches)
        }
        None => {
            let texts = texts(text)?;
            BooleanBuffer::collect_bool(texts.len(), |i| glob.matches(texts.value(i)))
        }
    };
    Ok(Arc::new(BooleanArray::new(values, nulls)))
}

/// A cache of matches by the views of one array. A trace's texts are picked from one array, so rows
/// with the same text have the same view, and each text is compared with the pattern only once.
struct MatchCache(Vec<Option<(u128, bool)>>);

impl Default for MatchCache {
    fn default() -> Self {
        Self(vec![None; 1 << Self::BITS])
    }
}

impl MatchCache {
    const BITS: u32 = 9;

    /// Returns the cached or computed result for a view.
    fn get(&mut self, view: u128, compute: impl FnOnce() -> bool) -> bool {
        // The multiplier is 2^64 divided by the golden ratio, as in Fibonacci hashing.
        let mixed = (view as u64 ^ (view >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let slot = &mut self.0[(mixed >> (64 - Self::BITS)) as usize];
        match *slot {
            Some((cached, matches)) if cached == view => matches,
            _ => {
                let matches = compute();
                *slot = Some((view, matches));
                matches
            }
        }
    }
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
                    // A bracket that is not closed matches no text.
                    None => Piece::Set(false, Vec::new()),
                },
                c => Piece::Char(c),
            });
            at += 1;
        }
        Self(pieces)
    }

    /// Matches a text. Backtracks only to the last `*`, so the time is bounded by the product of
    /// the lengths.
    fn matches(&self, text: &str) -> bool {
        let (mut piece, mut rest) = (0, text.chars());
        let mut retry = None;
        loop {
            let mut after = rest.clone();
            let next = after.next();
            let fits = match (self.0.get(piece), next) {
                (None, None) => return true,
                (Some(Piece::Any), _) => {
                    piece += 1;
                    retry = Some((piece, rest.clone()));
                    continue;
                }
                (None, _) | (_, None) => false,
                (Some(Piece::One), _) => true,
                (Some(Piece::Char(c)), Some(next)) => *c == next,
                (Some(Piece::Set(negated, ranges)), Some(next)) => {
                    ranges.iter().any(|(a, b)| (*a..=*b).contains(&next)) != *negated
                }
            };
            if fits {
                piece += 1;
                rest = after;
            } else if let Some((from, skipped)) = &mut retry
                && skipped.next().is_some()
            {
                piece = *from;
                rest = skipped.clone();
            } else {
                return false;
            }
        }
    }
}

/// Parses a set. Returns it with the index of its closing bracket.
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
    use std::sync::Arc;

    use datafusion::arrow::array::{
        Array, ArrayRef, AsArray, StringArray, StringViewArray, UInt32Array,
    };
    use datafusion::arrow::compute::take;

    use super::{Glob, glob, glob_one};

    #[test]
    fn texts_picked_from_one_array_match_as_their_copies() {
        let texts = (0..2000).map(|n| match n % 3 {
            0 => None,
            1 => Some(format!("short {n}")),
            _ => Some(format!("a text that is longer than a view, number {n}")),
        });
        let pool: StringViewArray = texts.collect();
        let picked = UInt32Array::from_iter_values((0..9000).map(|n| n * 7919 % 2000));
        let views = take(&pool, &picked, None).expect("take");
        let copies: ArrayRef = Arc::new(views.as_string_view().iter().collect::<StringArray>());
        for pattern in ["*1?", "a*2*"] {
            let patterns: ArrayRef = Arc::new(StringArray::from_iter_values([pattern; 9000]));
            let of_views = glob_one(pattern, &views).expect("glob");
            assert_eq!(&of_views, &glob_one(pattern, &copies).expect("glob"));
            assert_eq!(&of_views, &glob(&patterns, &copies).expect("glob"));
            assert!((100..8000).contains(&of_views.as_boolean().true_count()));
            assert_eq!(of_views.null_count(), views.null_count());
        }
    }

    #[test]
    fn globs_match_as_in_sqlite() {
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

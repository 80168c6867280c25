//! Parses `/proc/kallsyms`. Lines are `ffffffff81000000 T _text`, and optionally a tab and
//! `[module]`.

use thiserror::Error;

/// The error of a text that is not in the format of `/proc/kallsyms`.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "line {line} of the kernel's symbols does not start with an address in lower-case hexadecimal digits"
)]
pub struct ParseError {
    /// The line, counted from 1.
    pub line: usize,
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) address: u64,
    pub(super) name: &'a [u8],
    /// Empty for the kernel's own.
    pub(super) module: &'a [u8],
}

/// The first column of a line.
enum Column<'a> {
    Address(u64, &'a [u8]),
    /// The end of the text, as in a buffer that is not full.
    End,
    Malformed,
}

/// Parses the functions in `text`, up to a NUL in place of an address.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = Result<Line<'_>, ParseError>> {
    let mut all = text.split(|&byte| byte == b'\n').enumerate();
    std::iter::from_fn(move || {
        loop {
            let (index, line) = all.next()?;
            if line.is_empty() {
                continue;
            }
            match address(line) {
                Column::Address(address, rest) => {
                    if let Some(found) = function(address, rest) {
                        return Some(Ok(found));
                    }
                }
                Column::End => {
                    all.by_ref().for_each(drop);
                    return None;
                }
                Column::Malformed => {
                    all.by_ref().for_each(drop);
                    return Some(Err(ParseError { line: index + 1 }));
                }
            }
        }
    })
}

/// Returns true if the start of the text has an address other than zero.
pub(super) fn shows_addresses(beginning: &[u8]) -> bool {
    beginning
        .split(|&byte| byte == b'\n')
        .filter_map(|line| line.split(|&byte| is_blank(byte)).next())
        .any(|column| {
            column
                .iter()
                .any(|&digit| digit != b'0' && digit.is_ascii_hexdigit())
        })
}

/// Parses the address of a line, and returns the rest.
fn address(line: &[u8]) -> Column<'_> {
    let mut address: u64 = 0;
    for (at, &byte) in line.iter().enumerate() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            0 => return Column::End,
            _ if is_blank(byte) && at > 0 => return Column::Address(address, &line[at..]),
            _ => return Column::Malformed,
        };
        if address >> 60 != 0 {
            return Column::Malformed;
        }
        address = address << 4 | u64::from(digit);
    }
    Column::Malformed
}

/// Parses the rest of a line, if it describes a function.
fn function(address: u64, rest: &[u8]) -> Option<Line<'_>> {
    let mut words = rest
        .split(|&byte| is_blank(byte))
        .filter(|word| !word.is_empty());
    let kind = words.next()?;
    let name = without_suffix(words.next()?);
    let module = words.next().unwrap_or_default();
    let module = module
        .strip_prefix(b"[")
        .and_then(|name| name.strip_suffix(b"]"));
    let wanted =
        address != 0 && matches!(kind, b"t" | b"T") && !name.is_empty() && !name.starts_with(b"$");
    wanted.then_some(Line {
        address,
        name,
        module: module.unwrap_or_default(),
    })
}

/// Removes the suffixes that compilers append for control-flow integrity.
fn without_suffix(name: &[u8]) -> &[u8] {
    let stripped = name
        .strip_suffix(b".cfi")
        .or_else(|| name.strip_suffix(b".cfi_jt"));
    stripped.unwrap_or(name)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

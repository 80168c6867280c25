//! Replaces regular expressions in a service built without them by a type without values.

use super::{PatternError, Purpose};

#[derive(Debug, Clone)]
pub(crate) enum Regex {}

#[derive(Debug, Clone)]
pub(crate) struct Captures;

pub(super) fn check(_pattern: &str, _unicode: bool) -> Result<(), PatternError> {
    Err(refusal())
}

pub(super) fn compile(
    _pattern: &str,
    _unicode: bool,
    _purpose: Purpose,
    _limit: usize,
) -> Result<Regex, PatternError> {
    Err(refusal())
}

fn refusal() -> PatternError {
    PatternError(
        "this service was built without regular expressions (feature \"regex\" of ferretto-service)".into(),
    )
}

pub(super) fn size(regex: &Regex) -> usize {
    match *regex {}
}

impl Regex {
    pub(crate) fn is_match(&self, _string: &[u8]) -> bool {
        match *self {}
    }

    pub(crate) fn captures(&self) -> Captures {
        match *self {}
    }

    pub(crate) fn find(
        &self,
        _string: &[u8],
        _from: usize,
        _groups: &mut Captures,
    ) -> Option<(usize, usize)> {
        match *self {}
    }
}

impl Captures {
    pub(crate) fn len(&self) -> usize {
        0
    }

    pub(crate) fn get(&self, _group: usize) -> Option<(usize, usize)> {
        None
    }
}

//! One fault, and its text form.

use std::fmt;
use std::str::FromStr;

use super::calls::{Effect, Kind};

/// The errors that calls return, with their names.
const ERRORS: &[(&str, i32)] = &[
    ("EAGAIN", libc::EAGAIN),
    ("EINTR", libc::EINTR),
    ("EIO", libc::EIO),
    ("EMFILE", libc::EMFILE),
    ("ENOBUFS", libc::ENOBUFS),
    ("ENOMEM", libc::ENOMEM),
    ("ENOSPC", libc::ENOSPC),
];

/// One failing call of a program. As text: `write 17 ENOSPC`; with `+` if all later ones fail,
/// too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub kind: Kind,
    /// The number among the calls of this kind, from 1 on.
    pub number: u64,
    pub effect: Effect,
}

impl Fault {
    /// Returns true if the call with this number fails.
    pub(super) fn strikes(&self, kind: Kind, number: u64) -> bool {
        let lasts = matches!(self.effect, Effect::LastingError(_));
        self.kind == kind && (number == self.number || (lasts && number > self.number))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} ", self.kind.name(), self.number)?;
        let name = |error| {
            let known = ERRORS.iter().find(|(_, number)| *number == error);
            known.map_or("?", |(name, _)| name)
        };
        match self.effect {
            Effect::Error(error) => write!(out, "{}", name(error)),
            Effect::LastingError(error) => write!(out, "{}+", name(error)),
            Effect::Short => write!(out, "short"),
            Effect::Kill => write!(out, "kill"),
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no fault; one is \"write 17 ENOSPC\"");
        let [kind, number, effect] = text.split(' ').collect::<Vec<_>>()[..] else {
            return Err(wrong());
        };
        let error = |name: &str| {
            let known = ERRORS.iter().find(|(known, _)| *known == name);
            known.map(|(_, number)| *number).ok_or_else(wrong)
        };
        let kinds = Kind::ALL.into_iter();
        Ok(Self {
            kind: kinds
                .clone()
                .find(|it| it.name() == kind)
                .ok_or_else(wrong)?,
            number: number.parse().map_err(|_| wrong())?,
            effect: match (effect, effect.strip_suffix('+')) {
                ("short", _) => Effect::Short,
                ("kill", _) => Effect::Kill,
                (_, Some(name)) => Effect::LastingError(error(name)?),
                (name, None) => Effect::Error(error(name)?),
            },
        })
    }
}

//! A check and its findings.

/// The status of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Everything works.
    Works,
    /// Some of it works.
    Limited,
    /// Nothing works.
    Missing,
}

impl State {
    /// Returns the status as a word.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Works => "ok",
            Self::Limited => "limited",
            Self::Missing => "missing",
        }
    }
}

/// The result of a check of something that recordings need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    /// The checked thing, in two or three words.
    pub(super) name: &'static str,
    /// Its status.
    pub(super) state: State,
    /// The finding, in half a sentence.
    pub(super) found: String,
    /// The consequence for recordings, in half a sentence. Empty if there is none.
    pub(super) effect: String,
    /// Remedies: commands or half sentences, each of which suffices.
    pub(super) remedies: Vec<String>,
}

impl Check {
    /// Returns a check that passed.
    pub(super) fn works(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Works,
            found: found.into(),
            effect: String::new(),
            remedies: Vec::new(),
        }
    }

    /// Returns a check that passed in part.
    pub(super) fn limited(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            state: State::Limited,
            ..Self::works(name, found)
        }
    }

    /// Returns a check that failed.
    pub(super) fn missing(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            state: State::Missing,
            ..Self::works(name, found)
        }
    }

    /// Sets the consequence.
    #[must_use]
    pub(super) fn so(mut self, effect: impl Into<String>) -> Self {
        self.effect = effect.into();
        self
    }

    /// Adds a remedy.
    #[must_use]
    pub(super) fn remedy(mut self, command: impl Into<String>) -> Self {
        self.remedies.push(command.into());
        self
    }
}

//! A check and its findings.

/// The state of something that recordings need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It is as it should be.
    Works,
    /// It works in part.
    Limited,
    /// It does not work.
    Missing,
}

impl State {
    /// Returns the word for it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Works => "ok",
            Self::Limited => "limited",
            Self::Missing => "missing",
        }
    }
}

/// A finding about one thing that recordings need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    /// The thing, in two or three words.
    pub(super) name: &'static str,
    /// Its state.
    pub(super) state: State,
    /// The finding, in half a sentence.
    pub(super) found: String,
    /// The consequence for recordings, in half a sentence. Empty if there is none.
    pub(super) effect: String,
    /// Commands, or half sentences where there is no command, any of which changes it.
    pub(super) remedies: Vec<String>,
}

impl Check {
    /// Returns the check of something that works.
    pub(super) fn works(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Works,
            found: found.into(),
            effect: String::new(),
            remedies: Vec::new(),
        }
    }

    /// Returns the check of something that works in part.
    pub(super) fn limited(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            state: State::Limited,
            ..Self::works(name, found)
        }
    }

    /// Returns the check of something that does not work.
    pub(super) fn missing(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            state: State::Missing,
            ..Self::works(name, found)
        }
    }

    /// Adds a consequence: something that does not work.
    #[must_use]
    pub(super) fn so(mut self, effect: impl Into<String>) -> Self {
        self.effect = effect.into();
        self
    }

    /// Adds a command that changes it.
    #[must_use]
    pub(super) fn remedy(mut self, command: impl Into<String>) -> Self {
        self.remedies.push(command.into());
        self
    }
}

//! The track events of a recording.

use std::time::Duration;

use ferretto_proto::fields::track_event_config as field;
use ferretto_wire::Encoder;

/// The track events that a recording wants, and how it wants them. By default those of all
/// categories but such as are tagged `slow` or `debug`.
///
/// Patterns end in `*` or are whole names. The most exact pattern that fits a category decides; if
/// two are as exact, enabling wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackEvents(Vec<u8>);

impl TrackEvents {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// All categories, with any tags.
    pub fn all() -> Self {
        Self::new().enable("*").enable_tag("*")
    }

    /// These categories and no others.
    pub fn only(patterns: &[&str]) -> Self {
        let all = Self::new().disable("*");
        patterns
            .iter()
            .fold(all, |events, pattern| events.enable(pattern))
    }

    /// Wants categories.
    #[must_use]
    pub fn enable(self, pattern: &str) -> Self {
        self.with(|config| config.string(field::ENABLED_CATEGORIES, pattern))
    }

    /// Does not want categories.
    #[must_use]
    pub fn disable(self, pattern: &str) -> Self {
        self.with(|config| config.string(field::DISABLED_CATEGORIES, pattern))
    }

    /// Wants categories with a tag.
    #[must_use]
    pub fn enable_tag(self, pattern: &str) -> Self {
        self.with(|config| config.string(field::ENABLED_TAGS, pattern))
    }

    /// Does not want categories with a tag.
    #[must_use]
    pub fn disable_tag(self, pattern: &str) -> Self {
        self.with(|config| config.string(field::DISABLED_TAGS, pattern))
    }

    /// Leaves arguments out.
    #[must_use]
    pub fn without_arguments(self) -> Self {
        self.with(|config| config.bool(field::FILTER_DEBUG_ANNOTATIONS, true))
    }

    /// Leaves names out that are not known at compile time.
    #[must_use]
    pub fn without_dynamic_names(self) -> Self {
        self.with(|config| config.bool(field::FILTER_DYNAMIC_EVENT_NAMES, true))
    }

    /// Records how much time the thread has been running.
    #[must_use]
    pub fn thread_time(self) -> Self {
        self.with(|config| config.bool(field::ENABLE_THREAD_TIME_SAMPLING, true))
    }

    /// Records times as multiples of `unit`.
    #[must_use]
    pub fn time_unit(self, unit: Duration) -> Self {
        let unit = u64::try_from(unit.as_nanos()).unwrap_or(u64::MAX);
        self.with(|config| config.varint(field::TIMESTAMP_UNIT_MULTIPLIER, unit))
    }

    /// Records times as such, not as differences to the event before.
    #[must_use]
    pub fn absolute_times(self) -> Self {
        self.with(|config| config.bool(field::DISABLE_INCREMENTAL_TIMESTAMPS, true))
    }

    /// The encoded `TrackEventConfig`.
    pub fn encode(self) -> Vec<u8> {
        self.0
    }

    fn with(mut self, write: impl FnOnce(&mut Encoder<'_, Vec<u8>>)) -> Self {
        write(&mut Encoder::new(&mut self.0));
        self
    }
}

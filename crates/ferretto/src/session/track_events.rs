//! Selection of track events.

use std::time::Duration;

use ferretto_proto::fields::track_event_config as field;
use ferretto_wire::Encoder;

/// The track events of a recording, and their form. By default, all categories except those tagged
/// `slow` or `debug` are recorded.
///
/// Patterns are names or end in `*`. The most specific matching pattern decides; enabling wins over
/// disabling of the same specificity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackEvents(Vec<u8>);

impl TrackEvents {
    /// Selects the default categories.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects all categories, whatever their tags.
    pub fn all() -> Self {
        Self::new().enable("*").enable_tag("*")
    }

    /// Selects only these categories.
    pub fn only(patterns: &[&str]) -> Self {
        let all = Self::new().disable("*");
        patterns
            .iter()
            .fold(all, |events, pattern| events.enable(pattern))
    }

    /// Enables categories.
    #[must_use]
    pub fn enable(self, pattern: &str) -> Self {
        self.with(|config| config.string(field::ENABLED_CATEGORIES, pattern))
    }

    /// Disables categories.
    #[must_use]
    pub fn disable(self, pattern: &str) -> Self {
        self.with(|config| config.string(field::DISABLED_CATEGORIES, pattern))
    }

    /// Enables categories with a tag.
    #[must_use]
    pub fn enable_tag(self, pattern: &str) -> Self {
        self.with(|config| config.string(field::ENABLED_TAGS, pattern))
    }

    /// Disables categories with a tag.
    #[must_use]
    pub fn disable_tag(self, pattern: &str) -> Self {
        self.with(|config| config.string(field::DISABLED_TAGS, pattern))
    }

    /// Omits arguments.
    #[must_use]
    pub fn without_arguments(self) -> Self {
        self.with(|config| config.bool(field::FILTER_DEBUG_ANNOTATIONS, true))
    }

    /// Omits names that are not known at compile time.
    #[must_use]
    pub fn without_dynamic_names(self) -> Self {
        self.with(|config| config.bool(field::FILTER_DYNAMIC_EVENT_NAMES, true))
    }

    /// Records the processor time of threads.
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

    /// Records absolute times instead of differences from the previous event.
    #[must_use]
    pub fn absolute_times(self) -> Self {
        self.with(|config| config.bool(field::DISABLE_INCREMENTAL_TIMESTAMPS, true))
    }

    /// Returns the encoded `TrackEventConfig`.
    pub fn encode(self) -> Vec<u8> {
        self.0
    }

    fn with(mut self, write: impl FnOnce(&mut Encoder<'_, Vec<u8>>)) -> Self {
        write(&mut Encoder::new(&mut self.0));
        self
    }
}

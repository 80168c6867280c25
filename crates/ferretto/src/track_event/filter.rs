//! Filters: which track events a recording wants, and in which form.

use std::collections::BTreeSet;

use ferretto_wire::{Field, Fields};

/// Field numbers of TrackEventConfig.
mod field {
    pub(super) use ferretto_proto::fields::track_event_config::*;
}

/// The prefix of dynamic category names that implies the tag `slow`.
const DISABLED_BY_DEFAULT: &str = "disabled-by-default-";

/// A decoded TrackEventConfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    enabled: Vec<Vec<u8>>,
    disabled: Vec<Vec<u8>>,
    enabled_tags: Vec<Vec<u8>>,
    disabled_tags: Vec<Vec<u8>>,
    /// Set for absolute instead of incremental timestamps.
    pub(crate) absolute_timestamps: bool,
    /// Nanoseconds per unit of the timestamps, at least 1.
    pub(crate) timestamp_unit: u64,
    /// Set if arguments are omitted.
    pub(crate) hide_arguments: bool,
    /// Set if names that are not known at compile time are omitted.
    pub(crate) hide_dynamic_names: bool,
    /// Set if events carry the processor time of their threads.
    pub(crate) thread_time: bool,
    /// The interval in nanoseconds within which the processor time is not read again.
    pub(crate) thread_time_interval: u64,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            enabled: Vec::new(),
            disabled: Vec::new(),
            enabled_tags: Vec::new(),
            disabled_tags: Vec::new(),
            absolute_timestamps: false,
            timestamp_unit: 1,
            hide_arguments: false,
            hide_dynamic_names: false,
            thread_time: false,
            thread_time_interval: 0,
        }
    }
}

/// The precedence of a pattern. The most specific pattern that matches decides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Exact,
    Prefix,
    Anything,
}

impl Filter {
    /// Decodes a config. As in other libraries, fields after malformed bytes are ignored.
    pub(crate) fn decode(config: &[u8]) -> Self {
        let mut filter = Self::default();
        for item in Fields::new(config).map_while(Result::ok) {
            filter.add(&item);
        }
        filter.timestamp_unit = filter.timestamp_unit.max(1);
        filter
    }

    fn add(&mut self, item: &Field<'_>) {
        let text = || item.as_bytes().map(<[u8]>::to_vec);
        match item.number {
            field::ENABLED_CATEGORIES => self.enabled.extend(text()),
            field::DISABLED_CATEGORIES => self.disabled.extend(text()),
            field::ENABLED_TAGS => self.enabled_tags.extend(text()),
            field::DISABLED_TAGS => self.disabled_tags.extend(text()),
            field::DISABLE_INCREMENTAL_TIMESTAMPS => {
                self.absolute_timestamps = item.as_bool().unwrap_or(false);
            }
            field::TIMESTAMP_UNIT_MULTIPLIER => {
                self.timestamp_unit = item.as_u64().unwrap_or(1);
            }
            field::FILTER_DEBUG_ANNOTATIONS => {
                self.hide_arguments = item.as_bool().unwrap_or(false);
            }
            field::FILTER_DYNAMIC_EVENT_NAMES => {
                self.hide_dynamic_names = item.as_bool().unwrap_or(false);
            }
            field::ENABLE_THREAD_TIME_SAMPLING => {
                self.thread_time = item.as_bool().unwrap_or(false);
            }
            field::THREAD_TIME_SUBSAMPLING_NS => {
                self.thread_time_interval = item.as_u64().unwrap_or(0);
            }
            _ => {}
        }
    }

    /// Returns true if the filter selects a dynamic category.
    pub(crate) fn is_enabled_dynamic(&self, name: &str) -> bool {
        let tags: &[&str] = if name.starts_with(DISABLED_BY_DEFAULT) {
            &["slow"]
        } else {
            &[]
        };
        self.is_enabled(name, tags)
    }

    /// Returns true if both filters select the same events, even if their encodings differ.
    pub(crate) fn selects_as(&self, other: &Self) -> bool {
        let set = |names: &[Vec<u8>]| names.iter().cloned().collect::<BTreeSet<_>>();
        let names = |filter: &Self| {
            let Self {
                enabled,
                disabled,
                enabled_tags,
                disabled_tags,
                ..
            } = filter;
            [enabled, disabled, enabled_tags, disabled_tags].map(|names| set(names))
        };
        names(self) == names(other)
            && self.hide_arguments == other.hide_arguments
            && self.hide_dynamic_names == other.hide_dynamic_names
    }

    /// Returns true if the filter selects a category with these tags.
    pub(crate) fn is_enabled(&self, name: &str, tags: &[&str]) -> bool {
        [Pass::Exact, Pass::Prefix, Pass::Anything]
            .into_iter()
            .find_map(|pass| self.decide(pass, name, tags))
            .unwrap_or(true)
    }

    fn decide(&self, pass: Pass, name: &str, tags: &[&str]) -> Option<bool> {
        let named = |patterns: &[Vec<u8>]| patterns.iter().any(|p| matches(p, name, pass));
        let tagged = |patterns: &[Vec<u8>]| {
            tags.iter()
                .any(|tag| patterns.iter().any(|p| matches(p, tag, pass)))
        };
        let default_off = pass == Pass::Exact
            && self.enabled_tags.is_empty()
            && self.disabled_tags.is_empty()
            && tags.iter().any(|tag| matches!(*tag, "slow" | "debug"));
        if named(&self.enabled) {
            Some(true)
        } else if named(&self.disabled) || default_off || tagged(&self.disabled_tags) {
            Some(false)
        } else if tagged(&self.enabled_tags) {
            Some(true)
        } else {
            None
        }
    }
}

fn matches(pattern: &[u8], text: &str, pass: Pass) -> bool {
    match pattern.iter().position(|&byte| byte == b'*') {
        None => pass == Pass::Exact && pattern == text.as_bytes(),
        Some(0) => pass == Pass::Anything,
        Some(star) => pass == Pass::Prefix && text.as_bytes().starts_with(&pattern[..star]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_wire::encode;

    fn words(text: &str) -> Vec<Vec<u8>> {
        text.split_whitespace()
            .map(|word| word.as_bytes().to_vec())
            .collect()
    }

    #[test]
    fn trackevent_036_categories_are_selected_as_in_other_libraries() {
        // Enabled and disabled categories, enabled and disabled tags, the category, its tags,
        // the expected result.
        for (ec, dc, et, dt, name, tags, expected) in [
            ("", "", "", "", "foo", "", true),
            ("", "", "", "", "foo", "slow", false),
            ("*", "", "", "", "foo", "slow", false),
            ("foo", "", "", "", "foo", "slow", true),
            ("fo*", "", "", "", "foo", "slow", false),
            ("", "*", "", "", "foo", "", false),
            ("foo", "*", "", "", "foo", "", true),
            ("*", "foo", "", "", "foo", "", false),
            ("*", "fo*", "", "", "foo", "", false),
            ("fo*", "foo", "", "", "foo", "", false),
            ("fo*", "f*", "", "", "foo", "", true),
            ("*", "*", "", "", "foo", "", true),
            ("", "*", "tag", "", "foo", "tag", true),
            ("", "foo", "tag", "", "foo", "tag", false),
            ("", "", "tag", "tag", "foo", "tag", false),
            ("", "", "tag", "", "foo", "slow tag", true),
            ("", "", "tag", "", "foo", "slow", true),
            ("", "", "", "tag", "foo", "slow", true),
            ("*", "", "slow debug", "", "foo", "slow", true),
            ("slow_*", "", "", "slow", "slow_x", "slow", false),
            ("*", "", "", "*", "foo", "tag", true),
            ("f*o", "*", "", "", "foo", "", true),
        ] {
            let filter = Filter {
                enabled: words(ec),
                disabled: words(dc),
                enabled_tags: words(et),
                disabled_tags: words(dt),
                ..Filter::default()
            };
            let tags: Vec<_> = tags.split_whitespace().collect();
            let case = (ec, dc, et, dt, name, &tags);
            assert_eq!(filter.is_enabled(name, &tags), expected, "{case:?}");
        }
    }

    #[test]
    fn trackevent_042_a_broken_config_counts_as_far_as_it_goes() {
        let mut config = encode(|m| {
            m.string(field::DISABLED_CATEGORIES, "foo");
            m.varint(field::TIMESTAMP_UNIT_MULTIPLIER, 0);
        });
        config.push(0x0a);
        let filter = Filter::decode(&config);
        assert!(!filter.is_enabled("foo", &[]) && filter.is_enabled("bar", &[]));
        assert_eq!(filter.timestamp_unit, 1);
    }

    #[test]
    fn trackevent_042_no_config_is_too_short() {
        let config = encode(|m| {
            m.string(field::ENABLED_CATEGORIES, "some*");
            m.string(field::DISABLED_CATEGORIES, "*");
            m.varint(field::TIMESTAMP_UNIT_MULTIPLIER, 1000);
            m.varint(field::THREAD_TIME_SUBSAMPLING_NS, u64::MAX);
        });
        for length in 0..=config.len() {
            let filter = Filter::decode(&config[..length]);
            assert_eq!(filter.is_enabled("foo", &[]), length < 10, "{length}");
            assert!(filter.is_enabled("something", &[]));
            assert!(filter.timestamp_unit == 1 || filter.timestamp_unit == 1000);
        }
    }

    #[test]
    fn trackevent_041_hostile_configs_are_endured() {
        let config = encode(|m| {
            m.bytes(field::DISABLED_CATEGORIES, b"");
            m.bytes(field::DISABLED_CATEGORIES, b"\xff\xfe");
            m.bytes(field::DISABLED_CATEGORIES, b"mid*dle");
            m.bytes(field::DISABLED_CATEGORIES, b"**");
            for index in 0..10_000 {
                m.string(field::ENABLED_CATEGORIES, &format!("category{index}"));
                m.string(field::ENABLED_TAGS, &format!("*tag{index}"));
            }
            m.varint(field::ENABLED_CATEGORIES, 7);
        });
        let filter = Filter::decode(&config);
        // An empty pattern matches the empty name; a number is not a pattern.
        for (name, expected) in [
            ("category9999", true),
            ("category", false),
            ("", false),
            ("middle", false),
            ("mi", false),
        ] {
            assert_eq!(filter.is_enabled(name, &[]), expected, "{name:?}");
        }
        assert!(
            !Filter::decode(&encode(|m| m.string(field::DISABLED_CATEGORIES, "")))
                .is_enabled("", &[])
        );
        let tags = ["slow"; 100];
        assert!(
            !filter.is_enabled("x", &tags),
            "the wildcard for names comes first"
        );
    }
}

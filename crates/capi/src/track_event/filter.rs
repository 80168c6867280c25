//! The filter of a recording, by the rules of upstream's C interface.

use ferretto_proto::fields::track_event_config as field;
use ferretto_wire::{Field, Fields};

/// A decoded TrackEventConfig.
#[derive(Debug)]
pub(super) struct Filter {
    enabled: Vec<Vec<u8>>,
    enabled_tags: Vec<Vec<u8>>,
    disabled: Vec<Vec<u8>>,
    disabled_tags: Vec<Vec<u8>>,
    /// True for absolute instead of incremental timestamps.
    pub(super) absolute_timestamps: bool,
    /// The unit of timestamps in nanoseconds, at least 1.
    pub(super) unit: u64,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            enabled: Vec::new(),
            enabled_tags: Vec::new(),
            disabled: Vec::new(),
            disabled_tags: Vec::new(),
            absolute_timestamps: false,
            unit: 1,
        }
    }
}

impl Filter {
    /// Decodes a config. Fields after malformed bytes are ignored, as in other libraries.
    pub(super) fn decode(config: &[u8]) -> Self {
        let mut filter = Self::default();
        for item in Fields::new(config).map_while(Result::ok) {
            filter.add(&item);
        }
        filter
    }

    fn add(&mut self, item: &Field<'_>) {
        let text = || item.as_bytes().unwrap_or_default().to_vec();
        match item.number {
            field::ENABLED_CATEGORIES => self.enabled.push(text()),
            field::ENABLED_TAGS => self.enabled_tags.push(text()),
            field::DISABLED_CATEGORIES => self.disabled.push(text()),
            field::DISABLED_TAGS => self.disabled_tags.push(text()),
            field::DISABLE_INCREMENTAL_TIMESTAMPS => {
                self.absolute_timestamps = item.as_bool().unwrap_or(false);
            }
            field::TIMESTAMP_UNIT_MULTIPLIER => self.unit = item.as_u64().unwrap_or(1).max(1),
            _ => {}
        }
    }

    /// Returns true if a category is recorded. Exact names take precedence over patterns, enabled
    /// over disabled entries, and names over tags. A category without a match is not recorded.
    pub(super) fn is_enabled<'a>(
        &self,
        name: &[u8],
        tags: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> bool {
        [is_equal, is_match]
            .into_iter()
            .find_map(|matches| {
                let named = |patterns: &[Vec<u8>]| patterns.iter().any(|p| matches(p, name));
                let tagged = |patterns: &[Vec<u8>]| {
                    tags.clone()
                        .any(|tag| patterns.iter().any(|p| matches(p, tag)))
                };
                if named(&self.enabled) || tagged(&self.enabled_tags) {
                    Some(true)
                } else if named(&self.disabled) || tagged(&self.disabled_tags) {
                    Some(false)
                } else {
                    None
                }
            })
            .unwrap_or(false)
    }
}

fn is_equal(pattern: &[u8], text: &[u8]) -> bool {
    pattern == text
}

fn is_match(pattern: &[u8], text: &[u8]) -> bool {
    let star = pattern.iter().position(|&byte| byte == b'*');
    star.is_some_and(|star| text.starts_with(&pattern[..star]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_wire::encode;

    #[test]
    fn trackevent_036_categories_of_c_programs_are_selected_as_in_the_c_library() {
        // Enabled and disabled categories, enabled and disabled tags, the category, its tags, and
        // the result.
        for (ec, dc, et, dt, name, tags, expected) in [
            ("", "", "", "", "foo", "", false),
            ("", "", "", "", "foo", "slow", false),
            ("*", "", "", "", "foo", "slow", true),
            ("foo", "", "", "", "foo", "slow", true),
            ("fo*", "", "", "", "foo", "slow", true),
            ("", "*", "", "", "foo", "", false),
            ("foo", "*", "", "", "foo", "", true),
            ("*", "foo", "", "", "foo", "", false),
            ("*", "fo*", "", "", "foo", "", true),
            ("fo*", "foo", "", "", "foo", "", false),
            ("fo*", "f*", "", "", "foo", "", true),
            ("*", "*", "", "", "foo", "", true),
            ("", "*", "tag", "", "foo", "tag", true),
            ("", "foo", "tag", "", "foo", "tag", true),
            ("", "", "tag", "tag", "foo", "tag", true),
            ("", "", "tag", "", "foo", "slow tag", true),
            ("", "", "tag", "", "foo", "slow", false),
            ("", "", "", "tag", "foo", "slow", false),
            ("*", "", "slow debug", "", "foo", "slow", true),
            ("slow_*", "", "", "slow", "slow_x", "slow", false),
            ("*", "", "", "*", "foo", "tag", true),
            ("f*o", "*", "", "", "foo", "", true),
        ] {
            let config = encode(|m| {
                for (number, texts) in [
                    (field::ENABLED_CATEGORIES, ec),
                    (field::DISABLED_CATEGORIES, dc),
                    (field::ENABLED_TAGS, et),
                    (field::DISABLED_TAGS, dt),
                ] {
                    texts
                        .split_whitespace()
                        .for_each(|text| m.string(number, text));
                }
            });
            let filter = Filter::decode(&config);
            let verdict =
                filter.is_enabled(name.as_bytes(), tags.split_whitespace().map(str::as_bytes));
            assert_eq!(verdict, expected, "{:?}", (ec, dc, et, dt, name, tags));
        }
    }

    #[test]
    fn a_malformed_config_is_used_up_to_its_malformed_field() {
        let mut config = encode(|m| {
            m.string(field::ENABLED_CATEGORIES, "foo");
            m.varint(field::TIMESTAMP_UNIT_MULTIPLIER, 0);
        });
        config.push(0x0a);
        let filter = Filter::decode(&config);
        let none = || std::iter::empty();
        assert!(filter.is_enabled(b"foo", none()) && !filter.is_enabled(b"bar", none()));
        assert_eq!(filter.unit, 1);
    }
}

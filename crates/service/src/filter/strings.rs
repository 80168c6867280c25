//! String rules, which redact parts of the strings that pass the filter.

use ferretto_proto::fields::trace_config::trace_filter::string_filter_rule::{
    POLICY, SEMANTIC_TYPE,
};
use ferretto_proto::trace_config::trace_filter::{StringFilterPolicy, StringFilterRule};
use ferretto_wire::Value;

use super::FilterError;
use crate::matching::{Budget, Captures, Regex, Weight, compile_bytes, compile_whole_bytes};

/// The number of semantic types that rules can name. All rules apply to fields of a higher type.
const MAX_SEMANTIC_TYPES: u32 = 128;

/// The text that overwrites the start of a redacted group.
const REDACTED: &[u8] = b"P60REDACTED";
/// The byte that overwrites the rest of the group.
const FILL: u8 = b'-';

/// The effect of a rule on a string that it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// Redacts the groups of a match of the whole string.
    Redact,
    /// Passes the string on unchanged.
    Break,
    /// Redacts the groups of every match in the string.
    RedactAll,
}

#[derive(Debug, Clone)]
struct StringRule {
    action: Action,
    /// If set, the rule applies to atrace strings whose text has this prefix.
    atrace_prefix: Option<Vec<u8>>,
    regex: Regex,
    groups: Captures,
    name: Vec<u8>,
    /// One bit for each semantic type.
    semantic_types: u128,
}

/// The rules of a filter, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct StringRules(Vec<StringRule>);

impl StringRules {
    /// Compiles rules. A rule with the name of an earlier one replaces it.
    pub(super) fn load<'a>(
        config: impl Iterator<Item = &'a StringFilterRule>,
        budget: &mut Budget,
    ) -> Result<Self, FilterError> {
        let mut rules: Vec<StringRule> = Vec::new();
        for rule in config {
            let rule = StringRule::load(rule, budget)?;
            let named = |other: &&mut StringRule| !rule.name.is_empty() && other.name == rule.name;
            match rules.iter_mut().find(named) {
                Some(replaced) => *replaced = rule,
                None => rules.push(rule),
            }
        }
        Ok(Self(rules))
    }

    /// Returns the size of the expressions.
    pub(super) fn weight(&self) -> Weight {
        self.0.iter().map(|rule| Weight::of(&rule.regex)).sum()
    }

    /// Redacts a string.
    pub(super) fn redact(&mut self, string: &mut [u8], semantic_type: u16) {
        if string.is_empty() {
            return;
        }
        let mut payload = Payload::Unknown;
        for rule in &mut self.0 {
            if !rule.is_for(semantic_type) {
                continue;
            }
            if let Some(prefix) = &rule.atrace_prefix {
                let begin = payload.begin(string);
                let text = begin.and_then(|begin| string.get(begin..));
                if !text.is_some_and(|text| text.starts_with(prefix)) {
                    continue;
                }
            }
            if rule.apply(string) {
                return;
            }
        }
    }
}

/// The start of the text of an atrace string, searched at most once.
enum Payload {
    Unknown,
    Known(Option<usize>),
}

impl Payload {
    fn begin(&mut self, string: &[u8]) -> Option<usize> {
        if let Self::Unknown = self {
            *self = Self::Known(atrace_payload(string));
        }
        match self {
            Self::Unknown => None,
            Self::Known(begin) => *begin,
        }
    }
}

/// Returns the index of the text in strings such as `B|1234|text`. The end of a slice (`E|1234`)
/// has no text.
fn atrace_payload(string: &[u8]) -> Option<usize> {
    if string.first() == Some(&b'E') {
        return None;
    }
    let bar = string.get(2..)?.iter().position(|byte| *byte == b'|')?;
    Some(bar + 3)
}

impl StringRule {
    fn load(config: &StringFilterRule, budget: &mut Budget) -> Result<Self, FilterError> {
        use StringFilterPolicy as Policy;
        let unknown = |field: u32| {
            let fields = config.unknown_fields.iter();
            fields.filter(move |unknown| unknown.number == field)
        };
        let (action, atrace) = match config.policy {
            // An unknown policy is among the unknown fields.
            _ if unknown(POLICY).next().is_some() => return Err(FilterError::StringPolicy),
            None | Some(Policy::SFP_UNSPECIFIED) => return Err(FilterError::StringPolicy),
            Some(Policy::SFP_MATCH_REDACT_GROUPS) => (Action::Redact, false),
            Some(Policy::SFP_ATRACE_MATCH_REDACT_GROUPS) => (Action::Redact, true),
            Some(Policy::SFP_MATCH_BREAK) => (Action::Break, false),
            Some(Policy::SFP_ATRACE_MATCH_BREAK) => (Action::Break, true),
            Some(Policy::SFP_ATRACE_REPEATED_SEARCH_REDACT_GROUPS) => (Action::RedactAll, true),
        };
        let mut semantic_types = 0u128;
        let named = config.semantic_type.iter().map(|kind| *kind as u64);
        let unnamed = unknown(SEMANTIC_TYPE).filter_map(|field| match field.value {
            Some(Value::Varint(value)) => Some(value),
            _ => None,
        });
        for kind in named.chain(unnamed) {
            // Enums have 32 bits; negative values are too large.
            let bit = 1u128.checked_shl(kind as u32);
            semantic_types |= bit.ok_or(FilterError::SemanticType)?;
        }
        if semantic_types == 0 {
            semantic_types = 1;
        }
        let pattern = config.regex_pattern.as_deref().unwrap_or_default();
        let regex = match action {
            Action::Redact | Action::Break => compile_whole_bytes(pattern, budget),
            Action::RedactAll => compile_bytes(pattern, budget),
        };
        let regex = regex.map_err(|error| FilterError::pattern(pattern, error))?;
        let prefix = || {
            config
                .atrace_payload_starts_with
                .clone()
                .unwrap_or_default()
        };
        Ok(Self {
            action,
            atrace_prefix: atrace.then(prefix),
            groups: regex.captures(),
            regex,
            name: config.name.clone().unwrap_or_default(),
            semantic_types,
        })
    }

    fn is_for(&self, semantic_type: u16) -> bool {
        let semantic_type = u32::from(semantic_type);
        semantic_type >= MAX_SEMANTIC_TYPES || self.semantic_types >> semantic_type & 1 == 1
    }

    /// Applies the rule. Returns true if no further rule is to be applied.
    fn apply(&mut self, string: &mut [u8]) -> bool {
        match self.action {
            Action::Break => self.regex.is_match(string),
            Action::Redact => self.redact_at(string, 0).is_some(),
            Action::RedactAll => {
                let mut next = 0;
                let mut any = false;
                while let Some((begin, end)) = self.redact_at(string, next) {
                    any = true;
                    // Skips an empty match, which would be found again.
                    next = if begin == end { end + 1 } else { end };
                }
                any
            }
        }
    }

    /// Redacts the groups of the first match at or after `from`. Returns the position of the match.
    fn redact_at(&mut self, string: &mut [u8], from: usize) -> Option<(usize, usize)> {
        if from > string.len() {
            return None;
        }
        let found = self.regex.find(string, from, &mut self.groups)?;
        for group in 1..self.groups.len() {
            let Some((begin, end)) = self.groups.get(group) else {
                continue;
            };
            if let Some(group) = string.get_mut(begin..end) {
                overwrite(group);
            }
        }
        Some(found)
    }
}

fn overwrite(group: &mut [u8]) {
    for (index, byte) in group.iter_mut().enumerate() {
        *byte = REDACTED.get(index).copied().unwrap_or(FILL);
    }
}

#[cfg(all(test, feature = "regex"))]
mod tests;

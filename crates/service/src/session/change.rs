//! ChangeTraceConfig: more producers for a running session.

use ferretto_proto::TraceConfig;

use super::{Session, SessionState};
use crate::context::Context;
use crate::matching::{Budget, Pattern, Weight};

impl Session {
    /// Applies the producer filters of the new config to the data sources in both configs, and sets
    /// up matching producers that take no part yet. All other differences are ignored, and no data
    /// source is stopped. `others` is the size of the expressions of the user's other sessions.
    pub(crate) fn change(&mut self, cx: &mut Context, new: &TraceConfig, others: Weight) {
        if !matches!(self.state, SessionState::Configured | SessionState::Started) {
            return;
        }
        let mut budget = Budget::beside(self.expressions(), others);
        let mut changed = Vec::new();
        for (index, source) in self.config.data_sources.iter_mut().enumerate() {
            let name = source.config.name.as_deref().unwrap_or_default();
            let same = |other: &&ferretto_proto::trace_config::DataSource| {
                other.config.name.as_deref().unwrap_or_default() == name
            };
            let Some(other) = new.data_sources.iter().find(same) else {
                continue;
            };
            let patterns: Result<Vec<Pattern>, _> = other
                .producer_name_regex_filter
                .iter()
                .map(|p| Pattern::new(p, &mut budget))
                .collect();
            // An invalid filter changes nothing.
            let Ok(patterns) = patterns else { continue };
            source.producer_name_filter = other.producer_name_filter.clone();
            source.producer_name_regex_filter = other.producer_name_regex_filter.clone();
            self.sources[index].patterns = patterns;
            changed.push(index);
        }
        for source in changed {
            for key in self.set_up_source(cx, source, true) {
                if self.state == SessionState::Started {
                    self.start_instance(cx, key);
                }
            }
        }
    }
}

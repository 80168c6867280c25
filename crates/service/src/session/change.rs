//! ChangeTraceConfig: more producers for a running session.

use ferretto_proto::TraceConfig;

use super::{Session, State};
use crate::limits::{ProducerId, SessionId};
use crate::matching::{Budget, Pattern};
use crate::service::Service;

impl Service {
    /// Takes over the producer filters of the data sources both configs name, and sets up those
    /// producers that take no part yet. All other differences are ignored; nothing is ever stopped.
    pub(crate) fn change_trace_config(&mut self, id: SessionId, new: &TraceConfig) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let others = self.expressions_of_user(session.consumer_uid, Some(id));
        let mut budget = Budget::beside(session.expressions(), others);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if !matches!(session.state, State::Configured | State::Started) {
            return;
        }
        let mut changed = Vec::new();
        for (index, source) in session.config.data_sources.iter_mut().enumerate() {
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
            // A filter that cannot be understood changes nothing.
            let Ok(patterns) = patterns else { continue };
            source.producer_name_filter = other.producer_name_filter.clone();
            source.producer_name_regex_filter = other.producer_name_regex_filter.clone();
            session.sources[index].patterns = patterns;
            changed.push(index);
        }
        let started = session.state == State::Started;
        for source in changed {
            let takes_no_part = |session: &Session, producer: ProducerId| {
                let mut own = session.instances.range((producer, 0)..);
                own.next().is_none_or(|((first, _), _)| *first != producer)
            };
            let keys = self.set_up_source(id, source, takes_no_part);
            for key in keys.into_iter().filter(|_| started) {
                self.start_instance(id, key);
            }
        }
    }
}

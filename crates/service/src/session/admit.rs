//! Whether a session may exist beside those that already do.

use std::collections::BTreeMap;

use ferretto_proto::TraceConfig;

use super::validate::EnableError;
use super::{Session, State};
use crate::limits::{GUARDED_COOLDOWN_NS, MAX_SESSIONS, MAX_SESSIONS_PER_UID};
use crate::service::Service;

impl Service {
    /// Sessions that were not freed.
    pub(crate) fn live_sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions
            .values()
            .filter(|session| !session.is_retiring())
    }

    /// Checks a config against the existing sessions, in upstream's order. Changes nothing.
    pub(crate) fn check_admission(
        &self,
        config: &TraceConfig,
        uid: u32,
    ) -> Result<(), EnableError> {
        self.check_exclusive(config)?;
        // An exclusive session ends all others first, so they cannot be in its way.
        let exclusive = config.exclusive_prio.unwrap_or(0) > 0;
        if !exclusive {
            self.check_name(config)?;
            self.check_semaphores(config)?;
        }
        self.check_cooldown(config)?;
        if !exclusive {
            self.check_counts(uid)?;
        }
        Ok(())
    }

    fn check_exclusive(&self, config: &TraceConfig) -> Result<(), EnableError> {
        let requested = config.exclusive_prio.unwrap_or(0);
        let priorities = self
            .live_sessions()
            .map(|s| s.config.exclusive_prio.unwrap_or(0));
        let active = priorities.max().unwrap_or(0);
        if active > 0 && active >= requested {
            return Err(EnableError::Exclusive { active, requested });
        }
        Ok(())
    }

    fn check_name(&self, config: &TraceConfig) -> Result<(), EnableError> {
        let name = config.unique_session_name.as_deref().unwrap_or_default();
        if !name.is_empty()
            && self
                .live_sessions()
                .any(|session| session.cloned.is_none() && session.name() == name)
        {
            return Err(EnableError::NameTaken(
                String::from_utf8_lossy(name).into_owned(),
            ));
        }
        Ok(())
    }

    fn check_semaphores(&self, config: &TraceConfig) -> Result<(), EnableError> {
        // Declarations of each name, and the least any of them allows.
        let mut held: BTreeMap<&[u8], (u64, u64)> = BTreeMap::new();
        let over = |state| matches!(state, State::Disabled | State::Cloned);
        for session in self.live_sessions().filter(|s| !over(s.state)) {
            for semaphore in &session.config.session_semaphores {
                let name = semaphore.name.as_deref().unwrap_or_default();
                let (count, least) = held.entry(name).or_insert((0, u64::MAX));
                *count += 1;
                *least = (*least).min(semaphore.max_other_session_count.unwrap_or(0));
            }
        }
        for semaphore in &config.session_semaphores {
            let name = semaphore.name.as_deref().unwrap_or_default();
            let own = semaphore.max_other_session_count.unwrap_or(0);
            if let Some(&(count, others)) = held.get(name)
                && count > own.min(others)
            {
                let name = String::from_utf8_lossy(name).into_owned();
                return Err(EnableError::Semaphore {
                    name,
                    count,
                    own,
                    others,
                });
            }
        }
        Ok(())
    }

    fn check_cooldown(&self, config: &TraceConfig) -> Result<(), EnableError> {
        if !config.enable_extra_guardrails.unwrap_or(false) {
            return Ok(());
        }
        let name = config.unique_session_name.as_deref().unwrap_or_default();
        let Some(began) = self.cooldown.get(name) else {
            return Ok(());
        };
        let age_s = self.now.boottime.saturating_sub(*began) / 1_000_000_000;
        if age_s > GUARDED_COOLDOWN_NS / 1_000_000_000 {
            return Ok(());
        }
        let name = String::from_utf8_lossy(name).into_owned();
        Err(EnableError::Cooldown { name, age_s })
    }

    /// Freed sessions count as long as their files are being written: they hold their buffers.
    fn check_counts(&self, uid: u32) -> Result<(), EnableError> {
        let count = self
            .sessions
            .values()
            .filter(|s| s.consumer_uid == uid)
            .count();
        if count >= MAX_SESSIONS_PER_UID {
            return Err(EnableError::TooManySessionsOfUser {
                count,
                uid,
                limit: MAX_SESSIONS_PER_UID,
            });
        }
        let total = self.sessions.len();
        if total >= MAX_SESSIONS {
            return Err(EnableError::TooManySessions(total));
        }
        Ok(())
    }

    /// Notes when an unattended session began, forgetting those long over.
    pub(crate) fn begin_cooldown(&mut self, config: &TraceConfig) {
        if !config.enable_extra_guardrails.unwrap_or(false) {
            return;
        }
        let now = self.now.boottime;
        let whole_seconds = |began: &u64| now.saturating_sub(*began) / 1_000_000_000;
        self.cooldown
            .retain(|_, began| whole_seconds(began) <= GUARDED_COOLDOWN_NS / 1_000_000_000);
        self.cooldown
            .insert(config.unique_session_name.clone().unwrap_or_default(), now);
    }
}

//! Whether a session may exist beside those that already do.

use std::collections::BTreeMap;

use ferretto_proto::TraceConfig;

use crate::limits::{
    GUARDED_COOLDOWN_NS, MAX_COOLDOWNS, MAX_SESSIONS, MAX_SESSIONS_PER_UID, SessionId,
};
use crate::matching::{Pattern, Weight};
use crate::service::Service;
use crate::session::triggers::hash;
use crate::session::validate::EnableError;
use crate::session::{Session, SessionFilter, State};

/// The user that may end everyone's sessions anyway.
const ROOT: u32 = 0;

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
        self.check_exclusive(config, uid)?;
        // An exclusive session ends others first, so those cannot be in its way.
        let exclusive = is_exclusive(config);
        let left = || {
            let sessions = self.sessions.values();
            sessions.filter(move |s| !(exclusive && rules_over(uid, s.consumer_uid)))
        };
        let live = || left().filter(|session| !session.is_retiring());
        check_name(config, live())?;
        check_semaphores(config, live())?;
        self.check_cooldown(config)?;
        check_counts(uid, left())
    }

    /// Those that a session with this config, of this user, ends by being there.
    pub(crate) fn sessions_to_end(&self, config: &TraceConfig, uid: u32) -> Vec<SessionId> {
        let ends =
            |session: &Session| is_exclusive(config) && rules_over(uid, session.consumer_uid);
        let sessions = self.sessions.iter().filter(|(_, session)| ends(session));
        sessions.map(|(id, _)| *id).collect()
    }

    fn check_exclusive(&self, config: &TraceConfig, uid: u32) -> Result<(), EnableError> {
        let requested = config.exclusive_prio.unwrap_or(0);
        let above = self
            .live_sessions()
            .filter(|s| rules_over(s.consumer_uid, uid));
        let priorities = above.map(|s| s.config.exclusive_prio.unwrap_or(0));
        let active = priorities.max().unwrap_or(0);
        if active > 0 && active >= requested {
            return Err(EnableError::Exclusive { active, requested });
        }
        Ok(())
    }

    fn check_cooldown(&self, config: &TraceConfig) -> Result<(), EnableError> {
        if !config.enable_extra_guardrails.unwrap_or(false) {
            return Ok(());
        }
        let name = config.unique_session_name.as_deref().unwrap_or_default();
        let Some(began) = self.cooldown.get(&hash(name)) else {
            return Ok(());
        };
        let age_s = self.now.boottime.saturating_sub(*began) / 1_000_000_000;
        if age_s > GUARDED_COOLDOWN_NS / 1_000_000_000 {
            return Ok(());
        }
        let name = String::from_utf8_lossy(name).into_owned();
        Err(EnableError::Cooldown { name, age_s })
    }

    /// What the regular expressions of a user's sessions take, but for one of these.
    pub(crate) fn expressions_of_user(&self, uid: u32, except: Option<SessionId>) -> Weight {
        let sessions = self.sessions.iter().filter(|(id, _)| Some(**id) != except);
        let of_user = sessions.filter(|(_, session)| session.consumer_uid == uid);
        of_user.map(|(_, session)| session.expressions()).sum()
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
        let name = config.unique_session_name.as_deref().unwrap_or_default();
        if self.cooldown.len() < MAX_COOLDOWNS {
            self.cooldown.insert(hash(name), now);
        }
    }
}

impl Session {
    /// What its regular expressions take.
    pub(crate) fn expressions(&self) -> Weight {
        let sources = self.sources.iter().flat_map(|source| &source.patterns);
        let patterns = sources.chain(self.triggers.patterns());
        let of_filter = self.filter.iter().map(SessionFilter::weight);
        patterns.map(Pattern::weight).chain(of_filter).sum()
    }
}

fn is_exclusive(config: &TraceConfig) -> bool {
    config.exclusive_prio.unwrap_or(0) > 0
}

/// Returns true if exclusive sessions of the first user concern sessions of the second: one's own, and root's everyone's.
/// Upstream's concern everyone's.
fn rules_over(uid: u32, other: u32) -> bool {
    uid == other || uid == ROOT
}

fn check_name<'a>(
    config: &TraceConfig,
    mut others: impl Iterator<Item = &'a Session>,
) -> Result<(), EnableError> {
    let name = config.unique_session_name.as_deref().unwrap_or_default();
    let is_taken = |session: &Session| session.cloned.is_none() && session.name() == name;
    if !name.is_empty() && others.any(is_taken) {
        return Err(EnableError::NameTaken(
            String::from_utf8_lossy(name).into_owned(),
        ));
    }
    Ok(())
}

fn check_semaphores<'a>(
    config: &TraceConfig,
    others: impl Iterator<Item = &'a Session>,
) -> Result<(), EnableError> {
    // Declarations of each name, and the least any of them allows.
    let mut held: BTreeMap<&[u8], (u64, u64)> = BTreeMap::new();
    let over = |state| matches!(state, State::Disabled | State::Cloned);
    for session in others.filter(|s| !over(s.state)) {
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

/// Freed sessions count as long as their files are being written: they hold their buffers.
fn check_counts<'a>(
    uid: u32,
    others: impl Iterator<Item = &'a Session>,
) -> Result<(), EnableError> {
    let (mut total, mut count) = (0, 0);
    for session in others {
        total += 1;
        count += usize::from(session.consumer_uid == uid);
    }
    if count >= MAX_SESSIONS_PER_UID {
        return Err(EnableError::TooManySessionsOfUser {
            count,
            uid,
            limit: MAX_SESSIONS_PER_UID,
        });
    }
    if total >= max_sessions(uid) {
        return Err(EnableError::TooManySessions(total));
    }
    Ok(())
}

/// How many sessions there may be for this user to begin another: a few are kept for root, whatever others have.
pub(crate) fn max_sessions(uid: u32) -> usize {
    match uid {
        ROOT => MAX_SESSIONS + MAX_SESSIONS_PER_UID,
        _ => MAX_SESSIONS,
    }
}

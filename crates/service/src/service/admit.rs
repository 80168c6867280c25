//! Admission of a new session alongside the existing ones.

use std::collections::BTreeMap;

use ferretto_proto::TraceConfig;

use super::trigger_history::hash;
use crate::ids::SessionId;
use crate::limits::{GUARDED_COOLDOWN_NS, MAX_COOLDOWNS, MAX_SESSIONS, MAX_SESSIONS_PER_UID};
use crate::session::{EnableError, Session, SessionState};
use crate::sessions::Sessions;

/// The user that may end all sessions.
const ROOT: u32 = 0;

/// Checks a config of this user against the existing sessions, in upstream's order.
pub(super) fn check(
    sessions: &Sessions,
    cooldowns: &Cooldowns,
    config: &TraceConfig,
    uid: u32,
    boottime: u64,
) -> Result<(), EnableError> {
    check_exclusive(config, uid, sessions.live())?;
    // An exclusive session ends others first, so these cannot prevent it.
    let exclusive = is_exclusive(config);
    let left = || {
        let all = sessions.iter();
        all.filter(move |s| !(exclusive && rules_over(uid, s.uid())))
    };
    let live = || left().filter(|session| !session.is_retiring());
    check_name(config, live())?;
    check_semaphores(config, live())?;
    cooldowns.check(config, boottime)?;
    check_counts(uid, left())
}

/// Returns the sessions that a session with this config, of this user, ends.
pub(super) fn sessions_to_end(
    sessions: &Sessions,
    config: &TraceConfig,
    uid: u32,
) -> Vec<SessionId> {
    let ends = |session: &&Session| is_exclusive(config) && rules_over(uid, session.uid());
    let ended = sessions.iter().filter(ends);
    ended.map(Session::id).collect()
}

/// The last start of unattended sessions by the hash of their name, in `CLOCK_BOOTTIME`.
#[derive(Debug, Default)]
pub(super) struct Cooldowns(BTreeMap<u64, u64>);

impl Cooldowns {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn check(&self, config: &TraceConfig, now: u64) -> Result<(), EnableError> {
        if !config.enable_extra_guardrails.unwrap_or(false) {
            return Ok(());
        }
        let name = config.unique_session_name.as_deref().unwrap_or_default();
        let Some(began) = self.0.get(&hash(name)) else {
            return Ok(());
        };
        let age_s = whole_seconds(now, *began);
        if age_s > GUARDED_COOLDOWN_NS / NS_PER_S {
            return Ok(());
        }
        let name = String::from_utf8_lossy(name).into_owned();
        Err(EnableError::Cooldown { name, age_s })
    }

    /// Notes the start of an unattended session, and forgets expired ones.
    pub(super) fn begin(&mut self, config: &TraceConfig, now: u64) {
        if !config.enable_extra_guardrails.unwrap_or(false) {
            return;
        }
        self.0
            .retain(|_, began| whole_seconds(now, *began) <= GUARDED_COOLDOWN_NS / NS_PER_S);
        let name = config.unique_session_name.as_deref().unwrap_or_default();
        if self.0.len() < MAX_COOLDOWNS {
            self.0.insert(hash(name), now);
        }
    }
}

const NS_PER_S: u64 = 1_000_000_000;

fn whole_seconds(now: u64, began: u64) -> u64 {
    now.saturating_sub(began) / NS_PER_S
}

fn check_exclusive<'a>(
    config: &TraceConfig,
    uid: u32,
    live: impl Iterator<Item = &'a Session>,
) -> Result<(), EnableError> {
    let requested = config.exclusive_prio.unwrap_or(0);
    let above = live.filter(|s| rules_over(s.uid(), uid));
    let priorities = above.map(|s| s.config().exclusive_prio.unwrap_or(0));
    let active = priorities.max().unwrap_or(0);
    if active > 0 && active >= requested {
        return Err(EnableError::Exclusive { active, requested });
    }
    Ok(())
}

fn is_exclusive(config: &TraceConfig) -> bool {
    config.exclusive_prio.unwrap_or(0) > 0
}

/// Returns true if exclusive sessions of `uid` affect sessions of `other`: those of the same user,
/// and for root, all. In upstream they affect all sessions.
fn rules_over(uid: u32, other: u32) -> bool {
    uid == other || uid == ROOT
}

fn check_name<'a>(
    config: &TraceConfig,
    mut others: impl Iterator<Item = &'a Session>,
) -> Result<(), EnableError> {
    let name = config.unique_session_name.as_deref().unwrap_or_default();
    let is_taken = |session: &Session| !session.is_clone() && session.name() == name;
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
    // The number of declarations of each name, and the smallest limit among them.
    let mut held: BTreeMap<&[u8], (u64, u64)> = BTreeMap::new();
    let over = |state| matches!(state, SessionState::Disabled | SessionState::Cloned);
    for session in others.filter(|s| !over(s.state())) {
        for semaphore in &session.config().session_semaphores {
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

/// Checks the number of sessions. Freed sessions count as long as their files are being written,
/// since they still have their buffers.
fn check_counts<'a>(
    uid: u32,
    others: impl Iterator<Item = &'a Session>,
) -> Result<(), EnableError> {
    let (mut total, mut count) = (0, 0);
    for session in others {
        total += 1;
        count += usize::from(session.uid() == uid);
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

/// Returns the largest number of sessions with which this user may start another: a few are
/// reserved for root.
pub(super) fn max_sessions(uid: u32) -> usize {
    match uid {
        ROOT => MAX_SESSIONS + MAX_SESSIONS_PER_UID,
        _ => MAX_SESSIONS,
    }
}

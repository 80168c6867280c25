//! CloneSession: selects the session, and checks that the consumer may clone it.

use ferretto_ipc::PassedFd;
use ferretto_proto::CloneSessionRequest;
use ferretto_proto::clone_session_request::Selector;

use super::Service;
use super::admit::max_sessions;
use crate::consumer::Consumer;
use crate::event::ClientId;
use crate::session::{
    CloneError, CloneOrder, Requester, Session, SessionState, clone_trigger, reply_not_cloned,
};

/// Selects the session best suited for a bug report.
const BUGREPORT_SESSION: u64 = u64::MAX;

impl Service {
    pub(super) fn clone_session(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        request: &CloneSessionRequest,
        fd: Option<PassedFd>,
    ) {
        let requester = Requester { client, request_id };
        if let Err(error) = self.begin_clone(requester, request, fd) {
            reply_not_cloned(&mut self.cx, requester, &error);
        }
    }

    fn begin_clone(
        &mut self,
        requester: Requester,
        request: &CloneSessionRequest,
        output: Option<PassedFd>,
    ) -> Result<(), CloneError> {
        let is_bugreport = request.selector == Some(Selector::SessionId(BUGREPORT_SESSION));
        let session = self.select_source(request.selector.as_ref())?;
        self.check_clone(requester.client, session, output.is_some())?;
        let id = session.id();
        let order = CloneOrder {
            requester,
            filtered: !is_bugreport && !request.skip_trace_filter.unwrap_or(false),
            for_bugreport: is_bugreport || request.for_bugreport.unwrap_or(false),
            trigger: clone_trigger(request),
            output,
        };
        let begun = self.act(id, |session, cx| session.begin_clone(cx, order));
        begun.unwrap_or(Err(CloneError::NotFound))
    }

    fn select_source(&self, selector: Option<&Selector>) -> Result<&Session, CloneError> {
        let mut live = self.sessions.live();
        match selector {
            Some(Selector::SessionId(BUGREPORT_SESSION)) => live
                .filter(|session| session.state() == SessionState::Started)
                .map(|session| (session.config().bugreport_score.unwrap_or(0), session))
                .filter(|(score, _)| *score > 0)
                .max_by_key(|(score, session)| (*score, std::cmp::Reverse(session.id())))
                .map(|(_, session)| session)
                .ok_or(CloneError::NothingEligible),
            Some(Selector::SessionId(wanted)) => live
                .find(|session| session.id().get() == *wanted)
                .ok_or(CloneError::NotFound),
            Some(Selector::UniqueSessionName(name)) if !name.is_empty() => live
                .find(|session| !session.is_clone() && session.name() == name)
                .ok_or(CloneError::NotFound),
            _ => Err(CloneError::NotFound),
        }
    }

    fn check_clone(
        &self,
        client: ClientId,
        session: &Session,
        has_output: bool,
    ) -> Result<(), CloneError> {
        let uid = self.cx.consumers.get(client).map_or(0, Consumer::uid);
        if uid != 0 && uid != session.uid() {
            return Err(CloneError::OtherUser);
        }
        if session.writes_into_file() && !has_output {
            return Err(CloneError::NoOutput);
        }
        let pending = self.sessions.iter().map(Session::pending_clones);
        let total = self.sessions.len() + pending.sum::<usize>();
        if total >= max_sessions(uid) {
            return Err(CloneError::TooManySessions(total));
        }
        Ok(())
    }
}

//! Whose work it is that no client asks for at the moment.

use crate::event::FileId;
use crate::service::Service;

impl Service {
    /// Returns the user id of the consumer whose session is written into this file; `None` if there is no such session.
    pub fn user_of_file(&self, file: FileId) -> Option<u32> {
        let session = self.sessions.get(&self.session_of_file(file)?)?;
        Some(session.consumer_uid)
    }

    /// Returns the user id of the consumer for whose session [`handle_timeout`](Self::handle_timeout) has something to do
    /// next; `None` if nothing is waited for.
    pub fn user_of_timeout(&self) -> Option<u32> {
        let session = self.timers.next(&self.now)?.session();
        Some(self.sessions.get(&session)?.consumer_uid)
    }
}

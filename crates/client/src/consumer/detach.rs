//! Sessions that outlive their consumer.

use std::time::Duration;

use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::{AttachRequest, DetachRequest, EnableTracingRequest, TraceConfig};

use super::{CallError, Consumer};

impl Consumer {
    /// Leaves the session to itself. It goes on without this consumer, which may start another, until somebody of the
    /// same user attaches to it with the same key.
    ///
    /// # Errors
    ///
    /// [`CallError::Rejected`] if there is no session or the key is in use.
    pub fn detach(&mut self, key: &str, limit: Duration) -> Result<(), CallError> {
        let request = Request::Detach(DetachRequest {
            key: Some(key.as_bytes().to_vec()),
            ..Default::default()
        });
        self.call(request, None, limit)?;
        self.session = None;
        Ok(())
    }

    /// Takes over the session that was detached with `key` and returns its config. Its end is told as that of a session
    /// started here.
    ///
    /// # Errors
    ///
    /// [`CallError::Rejected`] if there is no such session.
    pub fn attach(&mut self, key: &str, limit: Duration) -> Result<TraceConfig, CallError> {
        let request = Request::Attach(AttachRequest {
            key: Some(key.as_bytes().to_vec()),
            ..Default::default()
        });
        let config = match self.call(request, None, limit)?.result {
            Ok(Reply::Attach(mut reply)) => reply.trace_config.take().unwrap_or_default(),
            _ => return Err(CallError::Rejected { method: "Attach" }),
        };
        // Nothing is enabled: this only asks to be told of the end.
        let request = Request::EnableTracing(EnableTracingRequest {
            attach_notification_only: Some(true),
            ..Default::default()
        });
        self.session = Some(self.invoke(request)?);
        Ok(config)
    }
}

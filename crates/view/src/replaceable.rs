//! Traces that are replaced while they are shown.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ferretto_tables::ImportError;

use crate::view::View;

/// A trace that may be replaced by another one: a longer one, or one that was imported again
/// because its index is damaged.
#[derive(Debug)]
pub(crate) struct Replaceable {
    view: RwLock<Arc<View>>,
    /// Locked while the trace is imported again.
    importing: Mutex<()>,
}

impl Replaceable {
    pub(crate) fn new(view: View) -> Self {
        Self {
            view: RwLock::new(Arc::new(view)),
            importing: Mutex::default(),
        }
    }

    /// Returns the current trace.
    pub(crate) fn get(&self) -> Arc<View> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        view.clone()
    }

    /// Replaces the trace.
    pub(crate) fn set(&self, view: View) {
        let view = Arc::new(view);
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = view;
    }

    /// Reads the trace. If its index turns out to be damaged, imports it again and reads that.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be imported again.
    pub(crate) fn read<R>(&self, read: impl Fn(&View) -> R) -> Result<R, ImportError> {
        let view = self.get();
        let damaged = match view.intact(|| read(&view)) {
            Ok(result) => return Ok(result),
            Err(damaged) => damaged,
        };
        let importing = self.importing.lock();
        let importing = importing.unwrap_or_else(PoisonError::into_inner);
        // Another request may have imported it in the meantime.
        if Arc::ptr_eq(&view, &self.get()) {
            self.set(damaged.import_again()?);
        }
        drop(importing);
        Ok(read(&self.get()))
    }
}

//! Traces that are replaced while they are shown.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ferretto_tables::ImportError;

use crate::view::View;

/// The number of bytes of an index after which it is opened again. Most of them are kept in memory,
/// and opening the index of the largest traces takes some ten milliseconds.
const MOST_READ: u64 = 128 << 20;

/// A trace that may be replaced by another one: a longer one, or the same one because its index is
/// damaged or because much of it was read.
#[derive(Debug)]
pub(crate) struct Replaceable {
    view: RwLock<Arc<View>>,
    /// Locked while the trace is opened again.
    opening: Mutex<()>,
    most_read: u64,
}

impl Replaceable {
    pub(crate) fn new(view: View) -> Self {
        Self {
            view: RwLock::new(Arc::new(view)),
            opening: Mutex::default(),
            most_read: MOST_READ,
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
            Ok(result) => {
                self.free(&view);
                return Ok(result);
            }
            Err(damaged) => damaged,
        };
        let opening = self.opening.lock();
        let opening = opening.unwrap_or_else(PoisonError::into_inner);
        // Another request may have imported it in the meantime.
        if Arc::ptr_eq(&view, &self.get()) {
            self.set(damaged.import_again()?);
        }
        drop(opening);
        Ok(read(&self.get()))
    }

    /// Frees what requests have read of the index, if it is much: opens it again. Requests that
    /// still read the old view keep it until they end.
    fn free(&self, view: &Arc<View>) {
        if view.bytes_read() < self.most_read {
            return;
        }
        // Another request does it.
        let Ok(_opening) = self.opening.try_lock() else {
            return;
        };
        if Arc::ptr_eq(view, &self.get())
            && let Some(again) = view.open_again()
        {
            self.set(again);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ferretto_tables::{Continue, Options};

    use super::*;
    use crate::cache::Cache;

    /// Returns the names and durations of all slices.
    fn slices(view: &View) -> Vec<(String, i64)> {
        let (trace, slices) = (view.trace(), &view.trace().tables().slice);
        let rows = 0..slices.len();
        rows.map(|row| {
            let name = trace.strings().text(slices.name().get(row));
            (name.to_owned(), slices.dur().get(row))
        })
        .collect()
    }

    #[test]
    fn an_index_of_which_much_was_read_is_opened_again() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("trace.json");
        let slice = |n: u64| {
            let (at, duration) = (n * 10, n % 7 + 1);
            format!(
                r#"{{"ph":"X","name":"{}","pid":1,"tid":1,"ts":{at},"dur":{duration}}}"#,
                n % 5
            )
        };
        let events: Vec<String> = (0..5000).map(slice).collect();
        fs::write(&path, format!("[{}]", events.join(","))).expect("trace");
        let cache = Cache::new(folder.path().join("cache")).with_least(0);
        let options = Options::default();
        let open = || {
            cache
                .open(&path, &options, |_| Continue::Yes)
                .expect("trace")
        };
        let (imported, index) = open();
        index.expect("an index").write(&imported).expect("index");

        let mut replaceable = Replaceable::new(open().0);
        replaceable.most_read = 10_000;
        let first = replaceable.get();
        // Nothing was read since it was opened.
        replaceable.read(View::nodes).expect("nodes");
        assert!(Arc::ptr_eq(&first, &replaceable.get()));
        let read = replaceable.read(slices).expect("slices");
        assert_eq!(read, slices(&imported));
        let second = replaceable.get();
        assert!(!Arc::ptr_eq(&first, &second));
        assert_eq!(second.bytes_read(), 0);
        // It remains readable if the index is removed.
        fs::remove_dir_all(folder.path().join("cache")).expect("no cache");
        assert_eq!(replaceable.read(slices).expect("slices"), read);
        assert!(!Arc::ptr_eq(&second, &replaceable.get()));

        // An imported trace has nothing to free.
        let mut replaceable = Replaceable::new(imported);
        replaceable.most_read = 0;
        let first = replaceable.get();
        replaceable.read(slices).expect("slices");
        assert!(Arc::ptr_eq(&first, &replaceable.get()));
    }
}

//! Forked children: detects them, and provides state that they do not share with their parent.
//!
//! A child has one thread, and any lock may stay locked for ever by a thread that does not exist
//! there. So this module takes no locks, and the handlers that run during the fork only store to
//! atomics.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, IntoRawFd as _};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

/// The number of forks between the first process that called [`watch`] and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The values that a forked child stores.
static STORES: AppendList<Store> = AppendList::new();

/// The descriptors that a child must not keep open; [`NONE`] in unused entries.
static DISOWNED: AppendList<AtomicI32> = AppendList::new();

/// The inert descriptor that replaces them.
static NOTHING: AtomicI32 = AtomicI32::new(NONE);

const NONE: i32 = -1;

struct Store {
    target: &'static AtomicU32,
    value: u32,
}

/// Returns the number of forks between this process and the first one that called [`watch`].
#[inline]
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Makes forked children of this process, and their children, detect that. Cheap to call again.
///
/// # Errors
///
/// Fails if the system is out of memory.
pub fn watch() -> io::Result<()> {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if IS_WATCHED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    if let Ok(nothing) = std::fs::File::open("/dev/null") {
        // It stays open as long as the process runs.
        NOTHING.store(nothing.into_raw_fd(), Ordering::Relaxed);
    }
    // SAFETY: `in_child` may be called at any time, does not unwind, and only uses atomics and
    // memory that is never freed, as is required of code in the child of a process with several
    // threads.
    let error = unsafe { pthread_atfork(None, None, Some(in_child)) };
    if error == 0 {
        return Ok(());
    }
    IS_WATCHED.store(false, Ordering::Relaxed);
    Err(io::Error::from_raw_os_error(error))
}

/// Stores `value` in `target` in every forked child of this process. Call it once for each target.
pub fn store_in_child(target: &'static AtomicU32, value: u32) {
    STORES.push(Store { target, value });
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    for store in STORES.iter() {
        store.target.store(store.value, Ordering::Relaxed);
    }
    let nothing = NOTHING.load(Ordering::Relaxed);
    for disowned in DISOWNED.iter() {
        let disowned = disowned.load(Ordering::Relaxed);
        if disowned != NONE && nothing != NONE {
            // SAFETY: the owner of the number still owns an open descriptor afterwards; the call is
            // among those allowed here.
            unsafe { dup3(nothing, disowned, CLOSE_ON_EXEC) };
        }
    }
}

/// Closes a descriptor in forked children until the result is dropped: in a child, its number
/// refers to an inert file. Otherwise a connection would stay open as long as a child lives,
/// although its owner is gone.
///
/// Drop the result before the descriptor is closed.
pub fn disown_in_child(fd: BorrowedFd<'_>) -> Disowned {
    let number = fd.as_raw_fd();
    let free = DISOWNED.iter().find(|entry| {
        let taken = entry.compare_exchange(NONE, number, Ordering::Relaxed, Ordering::Relaxed);
        taken.is_ok()
    });
    Disowned(free.unwrap_or_else(|| DISOWNED.push(AtomicI32::new(number))))
}

/// A descriptor that is closed in forked children.
#[derive(Debug)]
#[must_use]
pub struct Disowned(&'static AtomicI32);

impl Drop for Disowned {
    fn drop(&mut self) {
        self.0.store(NONE, Ordering::Relaxed);
    }
}

const CLOSE_ON_EXEC: i32 = rustix::fs::OFlags::CLOEXEC.bits() as i32;

// The C library, with which the standard library is linked anyway.
unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> i32;
    fn dup3(old: i32, new: i32, flags: i32) -> i32;
}

/// A list that only grows, and that is extended and iterated without locks, last entry first. It is
/// for statics, since entries are never freed.
pub struct AppendList<T: 'static> {
    head: AtomicPtr<Entry<T>>,
}

struct Entry<T: 'static> {
    value: T,
    next: Option<&'static Self>,
}

impl<T: Send + Sync> AppendList<T> {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Adds an entry.
    pub fn push(&self, value: T) -> &'static T {
        let entry = Box::leak(Box::new(Entry { value, next: None }));
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            // SAFETY: null, or from `Box::leak` below and published with release ordering, and
            // never freed.
            entry.next = unsafe { head.as_ref() };
            let published = self.head.compare_exchange_weak(
                head,
                ptr::from_mut(entry),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match published {
                Ok(_) => return &entry.value,
                Err(current) => head = current,
            }
        }
    }

    /// Returns the entries.
    pub fn iter(&self) -> impl Iterator<Item = &'static T> {
        // SAFETY: as in `push`.
        let mut next: Option<&'static Entry<T>> =
            unsafe { self.head.load(Ordering::Acquire).as_ref() };
        std::iter::from_fn(move || {
            let entry = next?;
            next = entry.next;
            Some(&entry.value)
        })
    }
}

impl<T: Send + Sync> Default for AppendList<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for AppendList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppendList").finish_non_exhaustive()
    }
}

/// A value that each process creates for itself: a forked child does not inherit its parent's. It
/// is for statics, since values are never dropped.
pub struct PerProcess<T: 'static> {
    current: AtomicPtr<Made<T>>,
}

struct Made<T> {
    value: T,
    forks: u32,
}

impl<T: Send + Sync> PerProcess<T> {
    /// Creates a cell without a value.
    pub const fn new() -> Self {
        Self {
            current: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Returns the value of this process, if it has created one.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        let made = self.any()?;
        // SAFETY: as in `any`.
        let made = unsafe { made.as_ref() };
        (made.forks == forks()).then_some(&made.value)
    }

    /// Returns true if this process or an ancestor has created a value.
    pub fn is_inherited(&self) -> bool {
        self.any().is_some()
    }

    /// Returns the value of this process, and creates it if there is none. Several threads may
    /// create one at the same time; all get the same one.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &'static T {
        if let Some(value) = self.get() {
            return value;
        }
        let forks = forks();
        let made = Box::new(Made {
            value: make(),
            forks,
        });
        let made = NonNull::from(Box::leak(made));
        let mut current = self.current.load(Ordering::Acquire);
        loop {
            // SAFETY: null, or as in `any`.
            if let Some(other) = unsafe { current.as_ref() }
                && other.forks == forks
            {
                // SAFETY: from `Box::leak` above, and shown to nobody.
                drop(unsafe { Box::from_raw(made.as_ptr()) });
                return &other.value;
            }
            let published = self.current.compare_exchange(
                current,
                made.as_ptr(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match published {
                // SAFETY: from `Box::leak` above, and from now on never freed.
                Ok(_) => return unsafe { &(*made.as_ptr()).value },
                Err(other) => current = other,
            }
        }
    }

    #[inline]
    fn any(&self) -> Option<NonNull<Made<T>>> {
        // A value found here was published with release ordering by `get_or_init`, and is never
        // freed.
        NonNull::new(self.current.load(Ordering::Acquire))
    }
}

impl<T: Send + Sync> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerProcess").finish_non_exhaustive()
    }
}

/// A value that a process leaves to its forked children. It is for statics.
///
/// A child sees the last value set before the fork, even if a thread was about to replace it.
pub struct Inherited<T: 'static> {
    current: AtomicPtr<Made<T>>,
    /// [`forks`] plus one of the process that has set a value; 0 if none has.
    owner: AtomicU32,
}

impl<T: Send + Sync> Inherited<T> {
    /// Creates a cell without a value.
    pub const fn new() -> Self {
        Self {
            current: AtomicPtr::new(ptr::null_mut()),
            owner: AtomicU32::new(0),
        }
    }

    /// Sets the value for children that are forked from now on.
    pub fn set(&self, value: T) {
        let forks = forks();
        let made = Box::into_raw(Box::new(Made { value, forks }));
        // Before the value is published, see `get`.
        self.owner.store(forks + 1, Ordering::Release);
        let old = self.current.swap(made, Ordering::AcqRel);
        // SAFETY: null, or from `Box::into_raw` above and published with release ordering. Each
        // value is swapped out once, and freed by nobody else.
        let is_own = unsafe { old.as_ref() }.is_some_and(|old| old.forks == forks);
        if is_own {
            // SAFETY: as before; `get` returns no references to values of its own process.
            drop(unsafe { Box::from_raw(old) });
        }
    }

    /// Returns the value of an ancestor, unless this process has set one.
    pub fn get(&self) -> Option<&'static T> {
        let current = self.current.load(Ordering::Acquire);
        if self.owner.load(Ordering::Acquire) == forks() + 1 {
            return None;
        }
        // SAFETY: null, or from `Box::into_raw` in `set`. A value of this process was published
        // after its store to `owner`, which would have been seen here. Values of ancestors are
        // never freed.
        let made: Option<&'static Made<T>> = unsafe { current.as_ref() };
        made.map(|made| &made.value)
    }
}

impl<T: Send + Sync> Default for Inherited<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Inherited<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inherited").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
        fn _exit(status: i32) -> !;
    }

    /// Returns the result of `check` in a forked child.
    fn holds_in_child(check: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child uses nothing that other threads may have locked, and ends.
        let child = unsafe { fork() };
        if child == 0 {
            let holds = check();
            // SAFETY: ends the process without running anything of the parent's.
            unsafe { _exit(i32::from(!holds)) };
        }
        let mut status = -1;
        // SAFETY: `status` is valid for writing.
        assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
        status == 0
    }

    #[test]
    fn a_child_finds_the_stored_values() {
        static MASK: AtomicU32 = AtomicU32::new(5);
        static VALUE: PerProcess<String> = PerProcess::new();
        watch().unwrap();
        watch().unwrap();
        store_in_child(&MASK, 7);
        let forks_before = forks();
        assert!(!VALUE.is_inherited());
        assert_eq!(VALUE.get_or_init(|| "parent".to_owned()), "parent");
        let holds = holds_in_child(|| {
            let is_new = forks() == forks_before + 1
                && MASK.load(Ordering::Relaxed) == 7
                && VALUE.get().is_none()
                && VALUE.is_inherited();
            VALUE.get_or_init(|| "child".to_owned());
            is_new
                && holds_in_child(|| {
                    forks() == forks_before + 2
                        && VALUE.get().is_none()
                        && VALUE.get_or_init(|| "grandchild".to_owned()) == "grandchild"
                })
                && VALUE.get().is_some_and(|value| value == "child")
        });
        assert!(holds);
        assert_eq!(forks(), forks_before);
        assert_eq!(MASK.load(Ordering::Relaxed), 5);
        assert_eq!(VALUE.get().unwrap(), "parent");
    }

    #[test]
    fn a_child_inherits_the_last_value() {
        static LEFT: Inherited<String> = Inherited::new();
        watch().unwrap();
        LEFT.set("first".to_owned());
        LEFT.set("last".to_owned());
        assert!(
            LEFT.get().is_none(),
            "a process inherits nothing from itself"
        );
        let holds = holds_in_child(|| {
            let inherited = LEFT.get();
            let holds_in_grandchild = || {
                holds_in_child(|| LEFT.get().is_some_and(|value| value == "last"))
                    && inherited.is_some_and(|value| value == "last")
            };
            holds_in_grandchild() && {
                LEFT.set("unused".to_owned());
                LEFT.set("of the child".to_owned());
                LEFT.get().is_none()
                    && inherited.is_some_and(|value| value == "last")
                    && holds_in_child(|| LEFT.get().is_some_and(|value| value == "of the child"))
            }
        });
        assert!(holds);
    }

    #[test]
    fn a_list_keeps_the_entries_of_all_threads() {
        static LIST: AppendList<u32> = AppendList::new();
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                std::thread::spawn(move || {
                    (0..100)
                        .for_each(|n| assert_eq!(*LIST.push(thread * 100 + n), thread * 100 + n));
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        let mut all: Vec<u32> = LIST.iter().copied().collect();
        all.sort_unstable();
        assert_eq!(all, (0..400).collect::<Vec<_>>());
    }

    #[test]
    fn a_process_has_one_value() {
        static VALUE: PerProcess<usize> = PerProcess::new();
        let threads: Vec<_> = (0..8)
            .map(|n| std::thread::spawn(move || *VALUE.get_or_init(|| n)))
            .collect();
        let values: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        assert!(values.iter().all(|value| Some(value) == VALUE.get()));
    }
}

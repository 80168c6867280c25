//! The variables that programs read.
//!
//! A program that is not position-independent has copies of them, made by the dynamic linker, which
//! all modules, including this library, must use. They do: a symbol of default visibility in a
//! shared library is accessed through the global offset table, which the dynamic linker fills in.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};

use crate::track_event::PerfettoTeCategoryImpl;

/// Always false. Categories and data sources point to it before they are registered.
#[unsafe(no_mangle)]
pub static perfetto_atomic_false: AtomicBool = AtomicBool::new(false);

/// The category of events whose category is only known at run time; null before [`PerfettoTeInit`].
///
/// [`PerfettoTeInit`]: crate::PerfettoTeInit
#[unsafe(no_mangle)]
pub static perfetto_te_any_categories: AtomicPtr<PerfettoTeCategoryImpl> =
    AtomicPtr::new(std::ptr::null_mut());

/// Points to the flag that is true while track events are recorded.
#[unsafe(no_mangle)]
pub static perfetto_te_any_categories_enabled: AtomicPtr<AtomicBool> =
    AtomicPtr::new((&raw const perfetto_atomic_false).cast_mut());

/// The uuid of the process's track; 0 before [`PerfettoTeInit`](crate::PerfettoTeInit).
#[unsafe(no_mangle)]
pub static perfetto_te_process_track_uuid: AtomicU64 = AtomicU64::new(0);

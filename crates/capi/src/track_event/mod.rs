//! Track events of the C interface.

mod category;
mod emit;
mod fields;
mod filter;
mod interner;
mod low_level;
mod sequence;
mod source;
mod thread;
mod tracks;

pub use category::{
    PerfettoTeCategoryImpl, PerfettoTeCategoryImplCallback, PerfettoTeCategoryImplCreate,
    PerfettoTeCategoryImplDestroy, PerfettoTeCategoryImplGetEnabled, PerfettoTeCategoryImplGetIid,
    PerfettoTeCategoryImplSetCallback,
};
pub use emit::PerfettoTeHlEmitImpl;
pub use low_level::*;
pub use source::{PerfettoTeInit, PerfettoTePublishCategories};

pub(crate) use thread::{TeThread, collect};

use std::ffi::{CStr, c_char};

/// Returns a text of a program without its zero byte; `None` if null.
///
/// # Safety
///
/// `text` is null or zero-terminated, and does not change during `'a`.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a [u8]> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by contract.
    Some(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Returns the pointers of a null-terminated list, which may be null itself.
///
/// # Safety
///
/// `list` is null or such a list, which does not change during the iteration.
unsafe fn list<T>(mut list: *const *const T) -> impl Iterator<Item = *const T> {
    std::iter::from_fn(move || {
        if list.is_null() {
            return None;
        }
        // SAFETY: by contract; the end is not reached yet.
        let item = unsafe { *list };
        list = list.wrapping_add(1);
        (!item.is_null()).then_some(item)
    })
    .fuse()
}

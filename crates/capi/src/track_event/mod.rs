//! Track events, the C flavour.

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

/// A text of a program, without the zero byte at its end; `None` if null.
///
/// # Safety
///
/// `text` is null or ends with a zero byte, and stays as it is for `'a`.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a [u8]> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by contract.
    Some(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// The pointers of a list that ends with null; none if there is no list.
///
/// # Safety
///
/// `list` is null or such a list, which stays as it is while it is walked.
unsafe fn list<T>(mut list: *const *const T) -> impl Iterator<Item = *const T> {
    std::iter::from_fn(move || {
        if list.is_null() {
            return None;
        }
        // SAFETY: by contract; the end was not reached.
        let item = unsafe { *list };
        list = list.wrapping_add(1);
        (!item.is_null()).then_some(item)
    })
    .fuse()
}

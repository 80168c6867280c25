//! The macros that mark what happens in a program.

/// A slice: something that takes a time. It begins here and ends when the value is dropped.
///
/// ```
/// fn draw(frame: u64, title: &str) {
///     let _slice = ferretto::slice!("rendering", "draw", frame = frame, title = title);
///     // …
/// }
/// # draw(1, "a");
/// ```
///
/// The category is a literal or the path of a [`Category`](crate::Category); the name is a literal or any `&str`
/// expression, which costs more. Arguments are evaluated only if somebody records the category.
#[macro_export]
macro_rules! slice {
    ($($category:tt)::+, $($event:tt)+) => {{
        $crate::__category!(CATEGORY = $($category)::+);
        if CATEGORY.is_enabled() {
            $crate::__emit!(CATEGORY, Begin, $($event)+);
            $crate::track_event::Slice::begun(CATEGORY)
        } else {
            $crate::track_event::Slice::disabled()
        }
    }};
}

/// The beginning of a slice that [`end!`](crate::end) ends, on the same thread. Takes what [`slice!`](crate::slice)
/// takes.
#[macro_export]
macro_rules! begin {
    ($($category:tt)::+, $($event:tt)+) => {{
        $crate::__category!(CATEGORY = $($category)::+);
        if CATEGORY.is_enabled() {
            $crate::__emit!(CATEGORY, Begin, $($event)+);
        }
    }};
}

/// The end of the slice begun last on this thread.
///
/// ```
/// ferretto::begin!("loading", "fetch");
/// ferretto::end!("loading");
/// ```
#[macro_export]
macro_rules! end {
    ($($category:tt)::+ $(,)?) => {{
        $crate::__category!(CATEGORY = $($category)::+);
        if CATEGORY.is_enabled() {
            $crate::track_event::emit(CATEGORY, $crate::track_event::Kind::End, None, &[]);
        }
    }};
}

/// Something that happens at a moment. Takes what [`slice!`](crate::slice) takes.
///
/// ```
/// ferretto::instant!("input", "click", x = 10, y = 20);
/// ferretto::instant!("input", &format!("key {}", 'a'));
/// ```
#[macro_export]
macro_rules! instant {
    ($($category:tt)::+, $($event:tt)+) => {{
        $crate::__category!(CATEGORY = $($category)::+);
        if CATEGORY.is_enabled() {
            $crate::__emit!(CATEGORY, Instant, $($event)+);
        }
    }};
}

/// Sets a counter of the process, which is known by its name.
///
/// ```
/// ferretto::counter!("rendering", "frames per second", 59.7);
/// ```
#[macro_export]
macro_rules! counter {
    ($($category:tt)::+, $name:literal, $value:expr $(,)?) => {
        $crate::__counter!($($category)::+, $crate::track_event::Name::Static($name), $value)
    };
    ($($category:tt)::+, $name:expr, $value:expr $(,)?) => {
        $crate::__counter!($($category)::+, $crate::track_event::Name::Dynamic($name), $value)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __counter {
    ($($category:tt)::+, $name:expr, $value:expr) => {{
        $crate::__category!(CATEGORY = $($category)::+);
        if CATEGORY.is_enabled() {
            let value = $crate::track_event::CounterValue::from($value);
            $crate::track_event::emit_counter(CATEGORY, $name, value);
        }
    }};
}

/// Brings a category into scope as a static reference: a new one for a literal.
#[doc(hidden)]
#[macro_export]
macro_rules! __category {
    ($name:ident = $category:literal) => {
        static $name: &$crate::Category = {
            static CATEGORY: $crate::Category = $crate::Category::new($category);
            &CATEGORY
        };
    };
    ($name:ident = $category:path) => {
        let $name: &'static $crate::Category = &$category;
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __emit {
    ($category:ident, $kind:ident, $name:literal $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::track_event::emit(
            $category,
            $crate::track_event::Kind::$kind,
            Some($crate::track_event::Name::Static($name)),
            &[$((stringify!($key), &$value as &dyn $crate::track_event::Argument)),*],
        )
    };
    ($category:ident, $kind:ident, $name:expr $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::track_event::emit(
            $category,
            $crate::track_event::Kind::$kind,
            Some($crate::track_event::Name::Dynamic($name)),
            &[$((stringify!($key), &$value as &dyn $crate::track_event::Argument)),*],
        )
    };
}

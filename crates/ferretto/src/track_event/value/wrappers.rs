//! Wrappers that select how a value is written.

use std::error::Error;
use std::fmt;

use super::annotation::{Annotation, Argument};

/// Wraps a value to be written by its `Display` implementation. The text is written in place,
/// without an intermediate `String`.
///
/// ```
/// let version = std::process::id();
/// ferretto::instant!("update", "found", version = ferretto::display(&version));
/// ```
#[inline]
pub const fn display<T: fmt::Display>(value: T) -> Displayed<T> {
    Displayed(value)
}

/// Wraps a value to be written by its `Debug` implementation, on one line. The text is written in
/// place, without an intermediate `String`.
///
/// ```
/// let range = 3..7;
/// ferretto::instant!("loading", "part", range = ferretto::debug(&range));
/// ```
#[inline]
pub const fn debug<T: fmt::Debug>(value: T) -> Debugged<T> {
    Debugged(value)
}

/// Wraps bytes to be written as text: printable ASCII unchanged, other bytes as `\xff`.
///
/// ```
/// let line: std::borrow::Cow<'_, [u8]> = b"GET /\r\n".into();
/// ferretto::instant!("server", "line", text = ferretto::bytes(&line));
/// ```
#[inline]
pub const fn bytes<T: AsRef<[u8]>>(value: T) -> Bytes<T> {
    Bytes(value)
}

/// Wraps an error to be written with its causes: `cannot load: no such file`.
///
/// ```
/// if let Err(error) = "x".parse::<f32>() {
///     ferretto::instant!("loading", "failed", because = ferretto::error(&error));
/// }
/// ```
#[inline]
pub const fn error(value: &dyn Error) -> ErrorChain<'_> {
    ErrorChain(value)
}

/// A value to be displayed. See [`display`].
#[derive(Clone, Copy, Debug)]
pub struct Displayed<T>(T);

/// A value to be printed by its `Debug` implementation. See [`debug`].
#[derive(Clone, Copy, Debug)]
pub struct Debugged<T>(T);

/// Bytes to be written as text. See [`bytes`].
#[derive(Clone, Copy, Debug)]
pub struct Bytes<T>(T);

/// An error to be written with its causes. See [`error`].
#[derive(Clone, Copy, Debug)]
pub struct ErrorChain<'a>(&'a dyn Error);

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        // A longer chain must be a cycle.
        for _ in 0..64 {
            let Some(error) = next else { break };
            write!(f, ": {error}")?;
            next = error.source();
        }
        Ok(())
    }
}

impl Argument for ErrorChain<'_> {
    fn write(&self, annotation: &mut Annotation<'_>) {
        annotation.display(self);
    }
}

impl<T: fmt::Display> Argument for Displayed<T> {
    fn write(&self, annotation: &mut Annotation<'_>) {
        annotation.display(&self.0);
    }
}

impl<T: fmt::Debug> Argument for Debugged<T> {
    fn write(&self, annotation: &mut Annotation<'_>) {
        annotation.debug(&self.0);
    }
}

impl<T: AsRef<[u8]>> Argument for Bytes<T> {
    fn write(&self, annotation: &mut Annotation<'_>) {
        annotation.bytes(self.0.as_ref());
    }
}

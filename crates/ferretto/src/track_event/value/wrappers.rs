//! Wrappers that say how a value is to be written.

use std::error::Error;
use std::fmt;

use super::annotation::{Annotation, Argument};

/// The value as its `Display` implementation shows it; written in place, without a `String`
/// between.
///
/// ```
/// let version = std::process::id();
/// ferretto::instant!("update", "found", version = ferretto::display(&version));
/// ```
#[inline]
pub const fn display<T: fmt::Display>(value: T) -> Displayed<T> {
    Displayed(value)
}

/// The value as its `Debug` implementation shows it, on one line; written in place, without a
/// `String` between.
///
/// ```
/// let range = 3..7;
/// ferretto::instant!("loading", "part", range = ferretto::debug(&range));
/// ```
#[inline]
pub const fn debug<T: fmt::Debug>(value: T) -> Debugged<T> {
    Debugged(value)
}

/// Bytes, as text: printable ASCII as it is, `\xff` and the like for the rest.
///
/// ```
/// let line: std::borrow::Cow<'_, [u8]> = b"GET /\r\n".into();
/// ferretto::instant!("server", "line", text = ferretto::bytes(&line));
/// ```
#[inline]
pub const fn bytes<T: AsRef<[u8]>>(value: T) -> Bytes<T> {
    Bytes(value)
}

/// An error with its causes: `cannot load: no such file`.
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

/// Made by [`display`].
#[derive(Clone, Copy, Debug)]
pub struct Displayed<T>(T);

/// Made by [`debug`].
#[derive(Clone, Copy, Debug)]
pub struct Debugged<T>(T);

/// Made by [`bytes`].
#[derive(Clone, Copy, Debug)]
pub struct Bytes<T>(T);

/// Made by [`error`].
#[derive(Clone, Copy, Debug)]
pub struct ErrorChain<'a>(&'a dyn Error);

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        // A chain this long can only be a circle.
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

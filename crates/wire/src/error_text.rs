//! The text of errors.

/// Implements `Display` and `Error` for an error type: a sentence for each pattern, with what the
/// pattern binds inside it; then, where there are some, the patterns with a cause, and the variants
/// that are made of their causes.
///
/// ```
/// /// Why there is no port.
/// #[derive(Debug)]
/// enum PortError {
///     Privileged { port: u16 },
///     Malformed(std::num::ParseIntError),
/// }
///
/// ferretto_wire::error_text! {
///     PortError {
///         Self::Privileged { port } => "port {port} is for the system",
///         Self::Malformed(error) => "a port is a number: {error}",
///     }
///     source { Self::Malformed(error) => error }
///     from { Malformed(std::num::ParseIntError) }
/// }
///
/// let error: PortError = "x".parse::<u16>().unwrap_err().into();
/// assert_eq!(error.to_string(), "a port is a number: invalid digit found in string");
/// assert!(std::error::Error::source(&error).is_some());
/// assert_eq!(PortError::Privileged { port: 22 }.to_string(), "port 22 is for the system");
/// ```
#[macro_export]
macro_rules! error_text {
    (
        $type:ty { $($pattern:pat => $text:literal $(($($argument:expr),+))?),+ $(,)? }
        $(source { $($caused:pat => $cause:expr),+ $(,)? })?
        $(from { $($variant:ident($from:ty)),+ $(,)? })?
    ) => {
        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self {
                    $($pattern => ::std::write!(f, $text $(, $($argument),+)?),)+
                }
            }
        }

        impl ::std::error::Error for $type {
            $(fn source(&self) -> Option<&(dyn ::std::error::Error + 'static)> {
                #[allow(unreachable_patterns, reason = "of some types every value has a cause")]
                match self {
                    $($caused => Some($cause),)+
                    _ => None,
                }
            })?
        }

        $($(impl From<$from> for $type {
            fn from(cause: $from) -> Self {
                Self::$variant(cause)
            }
        })+)?
    };
}

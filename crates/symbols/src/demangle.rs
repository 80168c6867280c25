//! Names of functions as they are in the source.

use std::fmt::{self, Write};

/// Longest name that is demangled, and longest result, in bytes: a short name may stand for a huge
/// one.
const MAX_NAME: usize = 1 << 12;
/// The depth to which the parts of a C++ name may be nested.
const MAX_DEPTH: u32 = 96;

/// The name in the source of a Rust or C++ function, without hash, parameters and return type;
/// `None` if the name is not mangled, or is no good one.
///
/// Time and memory are bounded on any input: the result is at most 4 KiB long.
#[must_use]
pub fn demangle(name: &str) -> Option<String> {
    if name.len() > MAX_NAME {
        return None;
    }
    let mut out = Bounded(String::new());
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        write!(out, "{rust:#}").ok()?;
        return Some(out.0);
    }
    let itanium = ["_Z", "__Z"].iter().any(|start| name.starts_with(start));
    if !itanium {
        return None;
    }
    let parse = cpp_demangle::ParseOptions::default().recursion_limit(MAX_DEPTH);
    let symbol = cpp_demangle::Symbol::new_with_options(name, &parse).ok()?;
    let options = cpp_demangle::DemangleOptions::new()
        .no_params()
        .no_return_type()
        .recursion_limit(MAX_DEPTH);
    symbol.structured_demangle(&mut out, &options).ok()?;
    Some(out.0).filter(|name| !name.is_empty())
}

/// Text that may not grow beyond [`MAX_NAME`].
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_NAME {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_in_the_source() {
        let names = [
            (
                "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
                "core::fmt::Formatter::pad",
            ),
            (
                "_RNvCskwGfYPst2Cb_3foo16example_function",
                "foo::example_function",
            ),
            (
                "_ZNSt6vectorIiSaIiEE9push_backEOi",
                "std::vector<int, std::allocator<int> >::push_back",
            ),
        ];
        for (mangled, name) in names {
            assert_eq!(demangle(mangled).as_deref(), Some(name));
        }
    }

    #[test]
    fn what_is_no_mangled_name_is_left() {
        for name in ["main", "_Z", "", "_ZN", "i", "_R"] {
            assert_eq!(demangle(name), None, "{name}");
        }
    }

    #[test]
    fn names_that_stand_for_huge_ones_are_left() {
        assert_eq!(demangle(&"_ZN".repeat(5000)), None);
        // Each substitution doubles the text of the one before it.
        let mut name = "_Z1fI1aE".to_owned();
        for _ in 0..200 {
            name.push_str("S_S_");
        }
        let _ = demangle(&name);
        let nested = format!("_Z1f{}i{}", "PK".repeat(1500), "E".repeat(10));
        let _ = demangle(&nested);
        let deep = format!("_RINvC1a1b{}", "IC1a".repeat(900));
        assert!(demangle(&deep).is_none_or(|name| name.len() <= MAX_NAME));
    }
}

//! Demangling of function names.

use std::fmt::{self, Write};

/// The largest size of a name to demangle and of the result, in bytes. A short name may expand to a
/// huge one.
const MAX_NAME: usize = 1 << 12;
/// The largest nesting depth of a C++ name.
const MAX_DEPTH: u32 = 96;

/// Returns the source name of a Rust or C++ function, without hash, parameters and return type;
/// `None` if the name is not mangled or malformed.
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

/// Text of at most [`MAX_NAME`] bytes.
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
    fn mangled_names_become_source_names() {
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
    fn other_names_are_left_alone() {
        for name in ["main", "_Z", "", "_ZN", "i", "_R"] {
            assert_eq!(demangle(name), None, "{name}");
        }
    }

    #[test]
    fn names_that_expand_without_bound_are_left_alone() {
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

//! Names of functions as they are in the source.

use std::fmt::{self, Write};

/// Longest name that is demangled, and longest result, in bytes: a short name may stand for a huge one.
const MAX_NAME: usize = 1 << 12;
/// How deep the parts of a C++ name may be nested.
const MAX_DEPTH: u32 = 96;

/// The name in the source, without hash, parameters and return type; `None` if the name is not mangled.
pub(super) fn demangle(name: &str) -> Option<String> {
    if name.len() > MAX_NAME {
        return None;
    }
    let mut out = Bounded(String::new());
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        write!(out, "{rust:#}").ok()?;
        return Some(out.0);
    }
    if !name.starts_with("_Z") && !name.starts_with("__Z") {
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
        assert_eq!(demangle("main"), None);
        assert_eq!(demangle("_Z"), None);
        assert_eq!(demangle(&"_ZN".repeat(5000)), None);
    }
}

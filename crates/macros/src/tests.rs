//! Tests of error messages for unsupported code.

use proc_macro2::TokenStream;
use syn::{LitStr, Macro};

/// Returns the error message of the attribute, and the unchanged function.
fn trace(options: &str, function: &str) -> (String, String) {
    let expanded = crate::trace::expand(options.parse().unwrap(), function.parse().unwrap());
    let text = expanded.to_string();
    match text.split_once('}') {
        Some((error, function)) if error.contains("compile_error") => {
            (message(&format!("{error}}}")), function.trim().to_owned())
        }
        _ => (String::new(), text),
    }
}

fn derive(item: &str) -> String {
    let error = crate::derive::expand(syn::parse_str(item).unwrap()).unwrap_err();
    error.to_string()
}

/// Returns the text of a call of `compile_error!`.
fn message(tokens: &str) -> String {
    let call: Macro = syn::parse_str(tokens).unwrap();
    let text: LitStr = syn::parse2::<LitStr>(call.tokens).unwrap();
    text.value()
}

#[test]
fn mistakes_in_the_attribute_are_reported() {
    let cases = [
        ("", "struct X;", "only functions can be traced"),
        ("", "fn f();", "a function without a body cannot be traced"),
        (
            "",
            "pub const unsafe fn f() {}",
            "a `const fn` cannot be traced, because it may run at compile time",
        ),
        ("polls", "fn f() {}", "`polls` is for `async fn`"),
        (
            "polls, name = n",
            "async fn f(n: &str) {}",
            "with `polls` the name must be a literal, because it is written repeatedly",
        ),
        ("skip(b)", "fn f(a: u8) {}", "there is no parameter `b`"),
        (
            "colour = 1",
            "fn f() {}",
            "unknown option `colour`, expected one of `category`, `name`, `args`, `skip`, `polls` and `crate`",
        ),
        (
            "name = 1, name = 2",
            "fn f() {}",
            "the option `name` is repeated",
        ),
        (
            "args(1)",
            "fn f() {}",
            "expected a parameter, or `name = value`",
        ),
        ("args(a = )", "fn f() {}", "expected an expression"),
        (
            "category = 1",
            "fn f() {}",
            "expected a literal, or the path of a `Category`",
        ),
    ];
    for (options, function, expected) in cases {
        let (message, rest) = trace(options, function);
        assert_eq!(message, expected, "{options} {function}");
        let rest: TokenStream = rest.parse().unwrap();
        let function: TokenStream = function.parse().unwrap();
        assert_eq!(
            rest.to_string(),
            function.to_string(),
            "the item is unchanged"
        );
    }
}

#[test]
fn mistakes_in_the_derive_are_reported() {
    let cases = [
        (
            "union U { a: u8 }",
            "a union cannot be an argument: the active field is unknown",
        ),
        (
            "struct S { #[argument(colour)] a: u8 }",
            "expected `rename`, `skip`, `with` or `crate`",
        ),
        (
            "struct S { #[argument(with = hex)] a: u8 }",
            "expected `display` or `debug`",
        ),
        (
            "struct S(#[argument(rename = \"a\")] u8);",
            "`rename` is not supported on this field",
        ),
        (
            "#[argument(skip)] struct S;",
            "`skip` is not supported on a type",
        ),
        (
            "#[argument(rename = \"a\")] enum E {}",
            "`rename` is not supported on an enum",
        ),
        (
            "enum E { #[argument(with = debug)] A }",
            "`with` is not supported on a variant",
        ),
    ];
    for (item, expected) in cases {
        assert_eq!(derive(item), expected, "{item}");
    }
}

//! Names in the schema as names in Rust.

/// `GPUFooBar2` to `gpu_foo_bar2`, as the message modules are named.
pub(super) fn snake_case(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, c) in chars.iter().enumerate() {
        let starts_word = c.is_ascii_uppercase()
            && i > 0
            && chars[i - 1] != '_'
            && (!chars[i - 1].is_ascii_uppercase()
                || chars.get(i + 1).is_some_and(char::is_ascii_lowercase));
        if starts_word {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// `foo_bar2` to `FooBar2`, as the types and variants of a `oneof` are named.
pub(super) fn pascal_case(name: &str) -> String {
    let words = name.split('_').filter(|word| !word.is_empty());
    words
        .flat_map(|word| {
            let (first, rest) = word.split_at(1);
            [first.to_ascii_uppercase(), rest.to_owned()]
        })
        .collect()
}

/// The name as an identifier, also if it is a word of the language.
pub(super) fn identifier(name: &str) -> String {
    const WORDS: &[&str] = &[
        "as", "async", "await", "break", "const", "continue", "dyn", "else", "enum", "extern",
        "false", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "match", "mod", "move",
        "mut", "pub", "ref", "return", "static", "struct", "trait", "true", "type", "unsafe",
        "use", "where", "while", "yield",
    ];
    if WORDS.contains(&name) {
        format!("r#{name}")
    } else {
        name.to_owned()
    }
}

//! Short names of functions for boxes.

/// Removes generic arguments from a name: `Vec<T>::push` becomes `Vec::push`, `<Vec<T> as
/// Extend<T>>::extend` becomes `Vec::extend`.
pub(super) fn short_name(whole: &str) -> String {
    let name = without_qualification(whole);
    let mut short = String::new();
    // Unclosed brackets are not arguments.
    let mut open: Vec<usize> = Vec::new();
    let mut before = '\0';
    for c in name.chars() {
        short.push(c);
        match c {
            '<' if !short[..short.len() - 1].ends_with("operator") => open.push(short.len() - 1),
            // The bracket is not part of an arrow.
            '>' if before != '-' => {
                if let Some(start) = open.pop() {
                    short.truncate(start);
                    if short.ends_with("::") {
                        short.truncate(start - 2);
                    }
                }
            }
            _ => {}
        }
        before = c;
    }
    let short = short.trim_end();
    match short.strip_prefix("::").unwrap_or(short) {
        "" => whole.to_owned(),
        short => short.to_owned(),
    }
}

/// Replaces `<A as B>::c` by `A::c`, also if nested.
fn without_qualification(name: &str) -> String {
    let mut name = name.to_owned();
    while let Some(inside) = name.strip_prefix('<') {
        let Some(end) = closing(inside) else { break };
        let parts = inside[..end].match_indices(" as ");
        let outer = parts
            .map(|(at, _)| &inside[..at])
            .find(|subject| is_balanced(subject));
        let subject = outer.unwrap_or(&inside[..end]);
        let subject = subject
            .trim_start_matches(['&', '*'])
            .trim_start_matches("mut ");
        let shorter = format!("{subject}{}", &inside[end + 1..]);
        if shorter.len() >= name.len() {
            break;
        }
        name = shorter;
    }
    name
}

/// Returns true if the brackets of a text are balanced.
fn is_balanced(text: &str) -> bool {
    let arrows = text.matches("->").count();
    text.matches('<').count() + arrows == text.matches('>').count()
}

/// Returns the offset of the bracket that closes one before the text.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut before = '\0';
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return Some(at),
            },
            _ => {}
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::short_name;

    #[test]
    fn generic_arguments_are_removed() {
        let cases = [
            ("main", "main"),
            (
                "std::vector<int, std::allocator<int>>::push_back",
                "std::vector::push_back",
            ),
            (
                "<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend",
                "alloc::vec::Vec::extend",
            ),
            (
                "<dyn Fn(A) -> B as FnOnce<A>>::call_once",
                "dyn Fn(A) -> B::call_once",
            ),
            ("run::<fn(A) -> B, C>::{closure#0}", "run::{closure#0}"),
            ("<<A as B>::C as D>::e", "A::C::e"),
            ("std::operator< <char>", "std::operator<"),
            ("std::operator<< <char>", "std::operator<<"),
            ("a < b", "a < b"),
            ("<", "<"),
            ("<>", "<>"),
            ("", ""),
        ];
        for (name, short) in cases {
            assert_eq!(short_name(name), short, "of {name}");
        }
    }
}

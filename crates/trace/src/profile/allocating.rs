//! Functions that allocate on behalf of their callers, which are the sites of the allocations.

/// Functions of allocators, and functions that wrap or call `malloc`. C++ operators are matched
/// separately because some traces contain them with parameters.
const ALLOCATORS: [&str; 16] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "aligned_alloc",
    "memalign",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "strdup",
    "strndup",
    "__strdup",
    "__strndup",
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rust_realloc",
];

/// Modules of Rust's `alloc` and `core`. In other languages these names have no special meaning.
const RUSTS: [&str; 24] = [
    "alloc",
    "array",
    "borrow",
    "boxed",
    "cell",
    "clone",
    "collections",
    "convert",
    "default",
    "ffi",
    "fmt",
    "hash",
    "iter",
    "mem",
    "ops",
    "option",
    "ptr",
    "raw_vec",
    "rc",
    "result",
    "slice",
    "str",
    "string",
    "vec",
];

/// Returns true for functions of allocators and standard libraries: the function that pushes to a
/// vector is more informative than the growth of the vector.
pub(super) fn allocates_for_others(name: &str) -> bool {
    if name.starts_with("operator new") || ALLOCATORS.contains(&name) {
        return true;
    }
    match name.strip_prefix('<') {
        Some(implementation) => is_librarys_implementation(implementation),
        None => is_librarys(last_word(name)),
    }
}

/// Returns true for `Type as Trait>::function` or `Type>::function` if a standard library contains
/// the type, or if it contains the trait and the type is primitive or generic (`<T as …>`). Types
/// of programs have a path.
fn is_librarys_implementation(rest: &str) -> bool {
    let end = ends(rest).unwrap_or(rest.len());
    let (subject, implemented) = match split_as(&rest[..end]) {
        Some((subject, implemented)) => (subject, Some(implemented)),
        None => (&rest[..end], None),
    };
    let subject = subject.trim_start_matches('&').trim_start_matches("mut ");
    let subject = subject.trim_start_matches("dyn ");
    let has_no_path = subject.starts_with(['[', '(', '*']) || !subject.contains("::");
    let is_implemented_there = |name: &str| is_librarys(name) || name.starts_with('<');
    let is_known_only_there = !subject.is_empty() && has_no_path;
    is_librarys(subject) || (is_known_only_there && implemented.is_none_or(is_implemented_there))
}

/// Returns the position of the angle bracket that closes the one before `text`.
fn ends(text: &str) -> Option<usize> {
    let mut depth = 1;
    let mut before = 0;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            // An arrow is not a bracket.
            b'>' if before != b'-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(index);
        }
        before = byte;
    }
    None
}

/// Splits `Type as Trait` outside of brackets.
fn split_as(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' => depth += 1,
            b'>' | b')' | b']' => depth -= 1,
            b' ' if depth == 0 && text[index..].starts_with(" as ") => {
                return Some((&text[..index], &text[index + 4..]));
            }
            _ => {}
        }
    }
    None
}

/// Returns the name of the function in `result name(parameters)`: names of C++ template functions
/// may contain both.
fn last_word(name: &str) -> &str {
    let mut depth = 0;
    let mut start = 0;
    for (index, byte) in name.bytes().enumerate() {
        match byte {
            b'(' if depth == 0 && index > start => return &name[start..index],
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' => depth -= 1,
            b' ' if depth == 0 && !name[start..index].ends_with("operator") => start = index + 1,
            _ => {}
        }
    }
    &name[start..]
}

fn is_librarys(path: &str) -> bool {
    let mut parts = path.split("::");
    let (first, second) = (parts.next(), parts.next());
    match first {
        Some("std" | "__gnu_cxx" | "hashbrown" | "__rustc") => second.is_some(),
        Some("alloc" | "core") => second.is_some_and(|module| RUSTS.contains(&module)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::allocates_for_others;

    #[test]
    fn functions_of_allocators_and_standard_libraries_allocate_for_others() {
        for name in [
            "operator new",
            "operator new[](unsigned long)",
            "strdup",
            "__rust_alloc",
            "std::vector<int, std::allocator<int> >::push_back",
            "void std::vector<Mine>::_M_realloc_insert<Mine>(int, Mine&&)",
            "std::__cxx11::basic_string<char>::append",
            "std::operator+<char, std::char_traits<char> >",
            "__gnu_cxx::new_allocator<Mine>::allocate(unsigned long, void const*)",
            "alloc::alloc::alloc",
            "alloc::vec::Vec<mine::Row>::push",
            "<alloc::string::String as core::clone::Clone>::clone",
            "<alloc::vec::Vec<mine::Row> as core::iter::Extend<fn() -> u8>>::extend",
            "<T as alloc::slice::hack::ConvertVec>::to_vec",
            "<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>",
            "<i32 as core::fmt::Display>::fmt",
            "<[mine::Row]>::to_vec",
            "<str>::to_lowercase",
            "<&mut alloc::vec::Vec<u8> as std::io::Write>::write_all",
            "hashbrown::raw::RawTable<(u32, u32)>::reserve_rehash",
        ] {
            assert!(allocates_for_others(name), "{name}");
        }
    }

    #[test]
    fn other_functions_are_sites() {
        for name in [
            "main",
            "remember",
            "malloced",
            "load_names(int)",
            "std::vector<int> load<int>(int)",
            "mine::std::load",
            "standard::load",
            "core::Engine::load",
            "std",
            "(anonymous namespace)::load(std::string const&)",
            "Index::operator()(std::string const&) const",
            "Index::operator new_row",
            "<mine::Row as core::clone::Clone>::clone",
            "<mine::Rows<alloc::vec::Vec<u8>>>::load",
            "<T as mine::Load>::load",
            "<[u8] as mine::Load>::load",
            "<",
            "",
            "a<b",
            "f)>(",
            "libc.so.6+0x1234",
        ] {
            assert!(!allocates_for_others(name), "{name}");
        }
    }
}

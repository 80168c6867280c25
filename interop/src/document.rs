//! Tables in `docs/interop.md` that the listed tests generate.

use std::path::Path;

/// Compares a part of the document, between the comments `NAME: begin` and `NAME: end`, with the
/// expected text. Writes it if `UPDATE_DOCS` is set in the environment.
///
/// # Panics
///
/// If the part differs or does not exist.
pub fn check(name: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/interop.md");
    let document = std::fs::read_to_string(&path).expect("docs/interop.md is there");
    let (begin, end) = (
        format!("<!-- {name}: begin -->\n"),
        format!("<!-- {name}: end -->\n"),
    );
    let (before, rest) = document.split_once(&begin).expect("the part begins");
    let (_, after) = rest.split_once(&end).expect("the part ends");
    let wanted = format!("{before}{begin}{wanted}{end}{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, wanted).expect("docs/interop.md is written");
    } else {
        let advice = "run this test with UPDATE_DOCS=1 to write docs/interop.md";
        assert!(document == wanted, "{advice}");
    }
}

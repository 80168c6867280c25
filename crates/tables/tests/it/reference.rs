//! The reference of all tables in `docs/tables.md`.

use std::fs;
use std::path::Path;

#[test]
fn the_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tables.md");
    let page = ferretto_tables::schema::reference();
    if std::env::var_os("FERRETTO_WRITE_REFERENCE").is_some() {
        fs::write(&path, &page).expect("the page is written");
    }
    let Ok(written) = fs::read_to_string(&path) else {
        println!("skipped: the package has no documents beside it");
        return;
    };
    assert_eq!(
        written, page,
        "docs/tables.md: run FERRETTO_WRITE_REFERENCE=1 cargo test -p ferretto-tables --test it reference::"
    );
}

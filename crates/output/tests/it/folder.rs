//! Output folders.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};

use ferretto_output::Folder;

const NOBODY: u32 = 65_534;

#[test]
fn a_folder_has_its_name_once_it_is_complete() {
    let world = tempfile::tempdir().expect("a folder");
    let target = world.path().join("out");
    let folder = Folder::new(&target).expect("begun");
    let mut file = folder.create("a/b/data").expect("a file");
    file.write_all(b"x").expect("written");
    assert!(!target.exists());
    assert!(folder.create("a/b/data").is_err());
    let mode = fs::metadata(folder.path()).expect("there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
    folder.finish([]).expect("finished");
    assert_eq!(fs::read(target.join("a/b/data")).expect("read"), b"x");
    drop(Folder::new(&world.path().join("other")).expect("begun"));
    assert_eq!(fs::read_dir(world.path()).expect("read").count(), 1);
    // A folder about a private file is private.
    let private = world.path().join("input");
    fs::write(&private, "").expect("a file");
    fs::set_permissions(&private, Permissions::from_mode(0o600)).expect("set");
    let other = world.path().join("other");
    let folder = Folder::new(&other).expect("begun");
    folder.finish([private.as_path()]).expect("finished");
    let mode = fs::metadata(&other).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let error = Folder::new(&target).expect_err("taken").to_string();
    assert!(error.contains("exists already"), "{error}");
}

#[test]
fn links_of_other_users_are_not_followed() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can create files of other users");
        return;
    }
    for mode in [0o1777, 0o777, 0o775] {
        let world = tempfile::tempdir().expect("a folder");
        let shared = world.path().join("shared");
        fs::create_dir(&shared).expect("a folder");
        fs::set_permissions(&shared, Permissions::from_mode(mode)).expect("set");
        let victim = world.path().join("victim");
        fs::create_dir(&victim).expect("a folder");
        for to in [victim.clone(), world.path().join("missing")] {
            let link = shared.join("out");
            symlink(&to, &link).expect("a link");
            lchown(&link, Some(NOBODY), Some(NOBODY)).expect("given away");
            let error = format!("{:#}", Folder::new(&link).expect_err("refused"));
            assert!(error.contains("symbolic link of another user"), "{error}");
            fs::remove_file(&link).expect("removed");
        }
        assert_eq!(fs::read_dir(&victim).expect("read").count(), 0);
        assert_eq!(fs::read_dir(&shared).expect("read").count(), 0);
    }
}

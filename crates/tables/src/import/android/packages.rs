//! Lists of packages: `PackagesList`.

use ferretto_proto::fields::packages_list::{self, package_info as of};
use ferretto_wire::Fields;

use super::super::context::Context;
use crate::schema::PackageListRow;
use crate::stats::Stat;
use crate::strings::StringId;

/// Reads a `PackagesList`. Lists repeat packages.
pub(super) fn parse(cx: &mut Context, bytes: &[u8]) {
    for field in Fields::new(bytes).map_while(Result::ok) {
        let is_set = field.as_bool().unwrap_or(false);
        match field.number {
            packages_list::PACKAGES => package(cx, field.as_bytes().unwrap_or_default()),
            packages_list::PARSE_ERROR if is_set => {
                cx.store.stats.add(Stat::packages_list_has_parse_errors, 1);
            }
            packages_list::READ_ERROR if is_set => {
                cx.store.stats.add(Stat::packages_list_has_read_errors, 1);
            }
            _ => {}
        }
    }
}

fn package(cx: &mut Context, bytes: &[u8]) {
    let mut row = PackageListRow {
        package_name: StringId::NULL,
        uid: 0,
        debuggable: false,
        profileable_from_shell: false,
        version_code: 0,
    };
    for field in Fields::new(bytes).map_while(Result::ok) {
        let number = field.as_i64().unwrap_or(0);
        match field.number {
            of::NAME => {
                let name = field.as_bytes().unwrap_or_default();
                row.package_name = cx.store.strings.intern_bytes(name);
            }
            of::UID => row.uid = number,
            of::DEBUGGABLE => row.debuggable = number != 0,
            of::PROFILEABLE_FROM_SHELL => row.profileable_from_shell = number != 0,
            of::VERSION_CODE => row.version_code = number,
            _ => {}
        }
    }
    cx.store.add_package(row);
}

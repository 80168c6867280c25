//! Lists of names that replace hashes and shortened names.

use ferretto_proto::fields::slice_name_translation_table::raw_to_deobfuscated_name_entry as pair_of;
use ferretto_proto::fields::{
    chrome_historgram_translation_table as histogram,
    chrome_performance_mark_translation_table as mark, chrome_study_translation_table as study,
    chrome_user_event_translation_table as user,
    process_track_name_translation_table as process_track, slice_name_translation_table as slice,
    translation_table as table,
};
use ferretto_wire::Fields;

use super::context::Context;
use super::message::Message;
use crate::strings::StringId;
use crate::trackers::translation::{HISTOGRAM, MARK, MARK_SITE, TRIGGER, USER_ACTION};

/// Reads a `TranslationTable`, in the order of the file.
pub(super) fn read(cx: &mut Context, bytes: &[u8]) {
    for part in Fields::new(bytes).map_while(Result::ok) {
        let bytes = part.as_bytes().unwrap_or_default();
        for entry in Fields::new(bytes).map_while(Result::ok) {
            // Keys and values have the same numbers in all lists.
            let pair = Message::<3>::read(entry.as_bytes().unwrap_or_default());
            let to = cx.store.strings.intern_bytes(pair.bytes(pair_of::VALUE));
            let hashed = match (part.number, entry.number) {
                (table::CHROME_HISTOGRAM, histogram::HASH_TO_NAME) => HISTOGRAM,
                (table::CHROME_USER_EVENT, user::ACTION_HASH_TO_NAME) => USER_ACTION,
                (table::CHROME_PERFORMANCE_MARK, mark::SITE_HASH_TO_NAME) => MARK_SITE,
                (table::CHROME_PERFORMANCE_MARK, mark::MARK_HASH_TO_NAME) => MARK,
                (table::CHROME_STUDY, study::HASH_TO_NAME) => TRIGGER,
                (table::SLICE_NAME, slice::RAW_TO_DEOBFUSCATED_NAME) => {
                    let from = name(cx, &pair);
                    cx.slices.rename(from, to);
                    continue;
                }
                (table::PROCESS_TRACK_NAME, process_track::RAW_TO_DEOBFUSCATED_NAME) => {
                    let from = name(cx, &pair);
                    cx.translations.rename_process_track(from, to);
                    continue;
                }
                _ => continue,
            };
            cx.translations
                .name_hash(hashed, pair.uint(pair_of::KEY), to);
        }
    }
}

/// Returns the key of an entry with texts.
fn name(cx: &mut Context, pair: &Message<'_, 3>) -> StringId {
    cx.store.strings.intern_bytes(pair.bytes(pair_of::KEY))
}

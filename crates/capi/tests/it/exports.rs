//! The exports of the shared library.

use std::collections::BTreeMap;
use std::fs;

use crate::common::library;

/// The functions up to version 58.
const FUNCTIONS: &str = "
    PerfettoStreamWriterUpdateWritePtr PerfettoStreamWriterNewChunk PerfettoStreamWriterAppendBytesSlowpath
    PerfettoStreamWriterAnnotatePatch PerfettoStreamWriterReserveBytesSlowpath
    PerfettoHeapBufferCreate PerfettoHeapBufferCopyInto PerfettoHeapBufferDestroy
    PerfettoPbDecoderParseField PerfettoPbDecoderSkipField PerfettoGetThreadIdImpl
    PerfettoProducerBackendInitArgsCreate PerfettoProducerBackendInitArgsSetShmemSizeHintKb
    PerfettoProducerBackendInitArgsSetMachineId PerfettoProducerBackendInitArgsDestroy
    PerfettoProducerSystemInit PerfettoProducerInProcessInit PerfettoProducerActivateTriggers
    PerfettoDsImplCreate PerfettoDsSetOnSetupCallback PerfettoDsSetOnStartCallback PerfettoDsSetOnStopCallback
    PerfettoDsSetOnDestroyCallback PerfettoDsSetOnFlushCallback PerfettoDsSetOnCreateTls PerfettoDsSetOnDeleteTls
    PerfettoDsSetOnCreateIncr PerfettoDsSetOnDeleteIncr PerfettoDsSetOnClearIncr PerfettoDsSetCbUserArg
    PerfettoDsSetBufferExhaustedPolicy PerfettoDsSetBufferExhaustedPolicyConfigurable PerfettoDsImplRegister
    PerfettoDsImplUpdateDescriptor PerfettoDsOnStopArgsPostpone PerfettoDsStopDone PerfettoDsOnFlushArgsPostpone
    PerfettoDsFlushDone PerfettoDsImplGetInstanceLocked PerfettoDsImplReleaseInstanceLocked
    PerfettoDsImplGetCustomTls PerfettoDsImplGetIncrementalState PerfettoDsImplTraceIterateBegin
    PerfettoDsImplTraceIterateNext PerfettoDsImplTraceIterateBreak PerfettoDsTracerImplPacketBegin
    PerfettoDsTracerImplPacketEnd PerfettoDsTracerImplFlush PerfettoDsTracerImplGetDropCount
    PerfettoDsGetDefaultClockId PerfettoDsGetTimestamp
    PerfettoTracingSessionSystemCreate PerfettoTracingSessionInProcessCreate PerfettoTracingSessionSetup
    PerfettoTracingSessionSetStopCb PerfettoTracingSessionStartAsync PerfettoTracingSessionStartBlocking
    PerfettoTracingSessionStopAsync PerfettoTracingSessionStopBlocking PerfettoTracingSessionFlushAsync
    PerfettoTracingSessionFlushBlocking PerfettoTracingSessionReadTraceBlocking PerfettoTracingSessionDestroy
    PerfettoTeInit PerfettoTeCategoryImplCreate PerfettoTePublishCategories PerfettoTeCategoryImplGetEnabled
    PerfettoTeCategoryImplSetCallback PerfettoTeCategoryImplGetIid PerfettoTeCategoryImplDestroy
    PerfettoTeGetTimestamp PerfettoTeHlEmitImpl PerfettoTeLlImplBegin PerfettoTeLlImplNext PerfettoTeLlImplBreak
    PerfettoTeLlImplDynCatEnabled PerfettoTeLlImplTrackSeen PerfettoTeLlImplIntern";

/// The functions that were added or renamed after version 58.
const LATER_FUNCTIONS: &str = "
    PerfettoPbMsgWriterUpdateWritePtr PerfettoPbMsgWriterNewChunk PerfettoPbMsgWriterAppendBytesSlowpath
    PerfettoPbMsgWriterAnnotatePatch PerfettoPbMsgWriterReserveBytesSlowpath
    PerfettoDsOnFlushArgsGetReason PerfettoDsSetSupportsTracingV2";

/// The variables and their sizes.
const VARIABLES: [(&str, u64); 4] = [
    ("perfetto_atomic_false", 1),
    ("perfetto_te_any_categories", 8),
    ("perfetto_te_any_categories_enabled", 8),
    ("perfetto_te_process_track_uuid", 8),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Symbol {
    /// 1 for data, 2 for a function.
    kind: u8,
    size: u64,
    is_defined: bool,
}

/// The bytes of a file with little-endian numbers.
struct Bytes(Vec<u8>);

impl Bytes {
    fn number(&self, at: usize, size: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&self.0[at..at + size]);
        u64::from_le_bytes(bytes)
    }

    fn text(&self, at: usize) -> String {
        let rest = &self.0[at..];
        let end = rest.iter().position(|&byte| byte == 0).unwrap();
        String::from_utf8_lossy(&rest[..end]).into_owned()
    }
}

/// Returns the dynamic symbols of the library. See `elf(5)`.
fn symbols() -> BTreeMap<String, Symbol> {
    let file = Bytes(fs::read(library::path()).unwrap());
    assert_eq!(file.0[..6], *b"\x7fELF\x02\x01");
    let (sections, size) = (file.number(0x28, 8) as usize, file.number(0x3a, 2) as usize);
    let section = |index: usize, member: usize, length| {
        file.number(sections + index * size + member, length) as usize
    };
    let dynamic = (0..file.number(0x3c, 2) as usize)
        .find(|&index| section(index, 4, 4) == 11)
        .unwrap();
    let names = section(section(dynamic, 0x28, 4), 0x18, 8);
    let start = section(dynamic, 0x18, 8);
    (0..section(dynamic, 0x20, 8) / 24)
        .map(|index| {
            let at = start + index * 24;
            let symbol = Symbol {
                kind: file.0[at + 4] & 0xf,
                size: file.number(at + 16, 8),
                is_defined: file.number(at + 6, 2) != 0,
            };
            (file.text(names + file.number(at, 4) as usize), symbol)
        })
        .collect()
}

#[test]
fn sdk_034_the_whole_interface_is_exported() {
    ferretto_testing::own_process!();
    let symbols = symbols();
    let functions: Vec<_> = FUNCTIONS.split_whitespace().collect();
    assert_eq!(functions.len(), 78);
    for name in functions
        .into_iter()
        .chain(LATER_FUNCTIONS.split_whitespace())
    {
        let symbol = symbols
            .get(name)
            .unwrap_or_else(|| panic!("{name} is missing"));
        assert!(symbol.is_defined && symbol.kind == 2, "{name}: {symbol:?}");
    }
    for (name, size) in VARIABLES {
        let symbol = symbols
            .get(name)
            .unwrap_or_else(|| panic!("{name} is missing"));
        let expected = Symbol {
            kind: 1,
            size,
            is_defined: true,
        };
        assert_eq!(*symbol, expected, "{name}");
    }
}

#[test]
fn nothing_else_is_exported() {
    ferretto_testing::own_process!();
    let known: Vec<_> = FUNCTIONS
        .split_whitespace()
        .chain(LATER_FUNCTIONS.split_whitespace())
        .chain(VARIABLES.map(|(name, _)| name))
        .collect();
    let defined = symbols()
        .into_iter()
        .filter(|(_, symbol)| symbol.is_defined);
    let other: Vec<_> = defined
        .filter(|(name, _)| !known.contains(&name.as_str()))
        .collect();
    assert!(other.is_empty(), "{other:?}");
}

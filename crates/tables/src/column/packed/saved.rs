//! Saved blocks.

use std::io;
use std::sync::OnceLock;

use super::block::{BLOCK, Block};
use crate::saved::{Element, Reader, Stored, Writer};

/// The blocks of a list in a file. Their list and their data are read on first use.
#[derive(Debug, Clone)]
pub(super) struct SavedBlocks {
    data: Stored,
    /// The least number and the width of each block.
    list: Stored,
    blocks: OnceLock<Vec<SavedBlock>>,
    len: usize,
}

#[derive(Debug, Clone)]
struct SavedBlock {
    least: i64,
    /// The place of the differences in the data, and the number of bytes of each.
    at: usize,
    width: u8,
    block: OnceLock<Block>,
}

/// The number of bytes of a block in the list: its least number, and its width.
const ENTRY_BYTES: usize = 9;

/// Writes blocks, and their list.
pub(super) fn write_blocks(
    writer: &mut Writer<'_>,
    blocks: impl Iterator<Item = Block>,
) -> io::Result<()> {
    let (mut list, mut bytes, mut length) = (Vec::new(), Vec::new(), 0);
    for block in blocks {
        list.extend(block.least.to_le_bytes());
        list.push(block.width() as u8);
        bytes.clear();
        block.write(&mut bytes);
        length += bytes.len() as u64;
        writer.data(&bytes)?;
    }
    writer.number(length);
    writer.data(&list)
}

impl SavedBlocks {
    /// Returns the blocks of this many numbers.
    pub(super) fn load(reader: &mut Reader, len: usize) -> io::Result<Self> {
        let length = reader.small()?;
        Ok(Self {
            data: reader.stored(length)?,
            list: reader.stored(len.div_ceil(BLOCK).saturating_mul(ENTRY_BYTES))?,
            blocks: OnceLock::new(),
            len,
        })
    }

    /// Returns the memory that the data of all blocks takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.data.length()
    }

    /// Returns the memory of the list in bytes.
    pub(super) fn memory(&self) -> usize {
        self.blocks.get().map_or(0, Vec::capacity) * size_of::<SavedBlock>()
    }

    /// Returns the memory of the list and of the blocks that were read, in bytes.
    pub(super) fn memory_read(&self) -> usize {
        let blocks = self.blocks.get().into_iter().flatten();
        let read = blocks.filter_map(|saved| saved.block.get());
        self.memory() + read.map(Block::bytes).sum::<usize>()
    }

    /// Returns a block.
    pub(super) fn get(&self, index: usize) -> Option<&Block> {
        let saved = self.blocks().get(index)?;
        Some(saved.block.get_or_init(|| {
            let width = usize::from(saved.width);
            let count = BLOCK.min(self.len - index * BLOCK);
            let bytes = self.data.read_part(saved.at, count * width);
            Block::read_from(saved.least, width, bytes)
        }))
    }

    /// Reads all blocks.
    pub(super) fn into_blocks(self) -> Vec<Block> {
        let blocks = 0..self.blocks().len();
        blocks
            .filter_map(|index| self.get(index).cloned())
            .collect()
    }

    fn blocks(&self) -> &[SavedBlock] {
        self.blocks.get_or_init(|| {
            let list = self.list.read();
            let mut at = 0;
            let entries = list.chunks_exact(ENTRY_BYTES).zip(0..);
            let blocks = entries.map(|(entry, index)| {
                let (least, width) = entry.split_at(ENTRY_BYTES - 1);
                let block = SavedBlock {
                    least: i64::read(least),
                    at,
                    width: u8::read(width),
                    block: OnceLock::new(),
                };
                at += BLOCK.min(self.len - index * BLOCK) * usize::from(block.width);
                block
            });
            blocks.collect()
        })
    }
}

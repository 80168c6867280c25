//! The thread that writes packets. Only this thread waits for free chunks of shared memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use ferretto_client::{Notice, NoticeHandler, ProducerHandle};
use ferretto_metatrace::Event;
use ferretto_shm::TraceWriter;
use ferretto_symbols::kernel::KernelSymbols;

use super::mailbox::{Mailbox, Message, Start};
use super::off_cpu::OffCpuSamples;
use super::remark;
use super::{Metatraces, Sample, SourceOutput};
use crate::barrier::{Action, Barrier, SourceKey};
use crate::registration::LINUX_PERF;

/// Writes the results of the other threads.
pub(crate) struct Writer {
    mailbox: Arc<Mailbox>,
    handle: ProducerHandle,
    on_notice: Option<NoticeHandler>,
    sources: BTreeMap<SourceKey, Written>,
    symbols: Option<Arc<KernelSymbols>>,
    kallsyms: Option<Arc<File>>,
    metatraces: Metatraces,
}

struct Written {
    output: SourceOutput<TraceWriter>,
    off_cpu: Option<OffCpuSamples>,
    wants_kernel_symbols: bool,
    /// The latest reported time, which is the end time if the instance ends now.
    latest: u64,
    is_ending: bool,
}

impl Written {
    fn write(&mut self, samples: Vec<Sample>) {
        for sample in samples {
            self.latest = self.latest.max(sample.time);
            let complete = match &mut self.off_cpu {
                Some(off_cpu) => off_cpu.left(sample),
                None => Some(sample),
            };
            if let Some(sample) = complete {
                self.output.sample(&sample);
            }
        }
    }

    fn end(&mut self) {
        if let Some(off_cpu) = &mut self.off_cpu {
            for sample in off_cpu.end(self.latest) {
                self.output.sample(&sample);
            }
        }
        self.output.sink().flush(None);
    }
}

impl Writer {
    pub(crate) fn new(
        mailbox: Arc<Mailbox>,
        handle: ProducerHandle,
        on_notice: Option<NoticeHandler>,
        kallsyms: Option<Arc<File>>,
        metatraces: Metatraces,
    ) -> Self {
        Self {
            mailbox,
            handle,
            on_notice,
            sources: BTreeMap::new(),
            symbols: None,
            kallsyms,
            metatraces,
        }
    }

    /// Runs until the mailbox is closed.
    pub(crate) fn run(mut self) {
        let mailbox = Arc::clone(&self.mailbox);
        while let Some(messages) = mailbox.take() {
            for message in messages {
                let samples = match &message {
                    Message::Samples(_, samples) => samples.len(),
                    _ => 0,
                };
                self.handle(message);
                if samples > 0 {
                    mailbox.written(samples);
                }
            }
            self.metatraces.collect();
            if !self.sources.values().any(|source| source.is_ending) {
                self.metatraces.stop_ending(&self.handle);
            }
        }
        for written in self.sources.values_mut() {
            written.end();
        }
        self.metatraces.finish();
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Start(start) => self.start(*start),
            Message::Samples(source, samples) => {
                if let Some(written) = self.sources.get_mut(&source) {
                    written.write(samples);
                }
            }
            Message::Names(source, tree) => {
                if let Some(written) = self.sources.get_mut(&source) {
                    written.output.names(&tree);
                }
            }
            Message::Lost { source, cpu, count } => {
                if let Some(written) = self.sources.get_mut(&source) {
                    written.output.lost(cpu, count);
                }
            }
            Message::Resumed(source, resumed) => {
                let Some(written) = self.sources.get_mut(&source) else {
                    return;
                };
                for one in &resumed {
                    written.latest = written.latest.max(one.since + one.duration);
                    let off_cpu = written.off_cpu.as_mut();
                    if let Some(sample) = off_cpu.and_then(|off_cpu| off_cpu.resumed(one)) {
                        written.output.sample(&sample);
                    }
                }
            }
            Message::Unsampled(source, unsampled, now) => {
                let written = self.sources.get_mut(&source);
                if let Some(off_cpu) = written.and_then(|written| written.off_cpu.as_mut()) {
                    off_cpu.unsampled(unsampled, now);
                }
            }
            Message::Remark(source, text) => {
                if let Some(written) = self.sources.get_mut(&source) {
                    written.output.remark(&text);
                }
            }
            Message::NotStarted(writer, reason) => remark::not_started(*writer, &reason),
            Message::Clear(source) => {
                if let Some(written) = self.sources.get_mut(&source) {
                    written.output.clear_incremental_state();
                }
            }
            Message::Guardrail(source) => {
                if let Some(mut written) = self.sources.remove(&source) {
                    written.output.guardrail();
                    written.output.sink().flush(None);
                }
                self.forget_symbols();
            }
            Message::Ending(source) => {
                if let Some(written) = self.sources.get_mut(&source) {
                    written.is_ending = true;
                }
            }
            Message::StartMetatrace(key, writer) => self.metatraces.start(key, *writer),
            Message::EndMetatrace(key, instance) => self.metatraces.end(key, instance),
            // Handled after every message.
            Message::CollectMetatrace => {}
            Message::Purge(source) => {
                self.sources.remove(&source);
                self.forget_symbols();
            }
            Message::Barrier(barrier) => {
                if barrier.arrives() {
                    self.carry_out(&barrier);
                }
            }
            Message::Overdue(barrier) => self.carry_out(&barrier),
        }
    }

    fn start(&mut self, start: Start) {
        let Start {
            source,
            writer,
            defaults,
            wants_kernel_symbols,
            is_off_cpu,
        } = start;
        let mut output = SourceOutput::new(writer, defaults);
        if wants_kernel_symbols {
            match self.kernel_symbols() {
                Ok(symbols) => output.set_kernel_symbols(symbols),
                Err(reason) => {
                    output.remark(&reason);
                    self.remark(reason);
                }
            }
        }
        let written = Written {
            output,
            off_cpu: is_off_cpu.then(OffCpuSamples::default),
            wants_kernel_symbols,
            latest: 0,
            is_ending: false,
        };
        self.sources.insert(source, written);
    }

    /// Returns the kernel's symbols, which all instances share.
    fn kernel_symbols(&mut self) -> Result<Arc<KernelSymbols>, String> {
        if let Some(symbols) = &self.symbols {
            return Ok(Arc::clone(symbols));
        }
        let _scope = self.metatraces.recorder().scope(Event::KallsymsParse);
        let loaded = match &self.kallsyms {
            Some(list) => KernelSymbols::load_from(list),
            None => KernelSymbols::load(),
        };
        let loaded =
            loaded.map_err(|error| format!("frames of the kernel have no names: {error}"))?;
        Ok(Arc::clone(self.symbols.insert(Arc::new(loaded))))
    }

    /// Drops the symbols: they take several megabytes, and a module may be loaded before they are
    /// needed again.
    fn forget_symbols(&mut self) {
        let mut sources = self.sources.values();
        if !sources.any(|source| source.wants_kernel_symbols) {
            self.symbols = None;
        }
    }

    fn remark(&self, text: String) {
        if let Some(handler) = &self.on_notice {
            handler(&Notice::Remark {
                source: LINUX_PERF.to_owned(),
                text,
            });
        }
    }

    fn carry_out(&mut self, barrier: &Barrier) {
        if !barrier.claim() {
            return;
        }
        match &barrier.action {
            Action::Flush { request, sources } => {
                for source in sources {
                    if let Some(written) = self.sources.get_mut(source) {
                        written.output.sink().flush(None);
                    }
                    self.metatraces.flush(*source);
                }
                self.handle.flush_done(*request);
            }
            Action::Stop { source, instance } => {
                if let Some(mut written) = self.sources.remove(source) {
                    written.end();
                }
                self.forget_symbols();
                self.handle.notify_stopped(*instance);
            }
        }
    }
}

//! The streams of one execution: one for each backend that works asynchronously, and what their commands still access.
//!
//! A command is pending from when it is enqueued until its stream is finished. Everything that another stream or the
//! host would access in conflict with a pending command is ordered here: streams wait for each other's events where
//! both have the same kind of events; else, and for the host, the stream is finished.

#![allow(unsafe_code, reason = "memory of commands that are still to run")]

use crate::call::Call;
use crate::variables::Span;
use std::sync::Arc;
use tenon_backend::{Backend, Event, Stream};
use tenon_base::{Error, ErrorKind, Result};

#[derive(Default)]
pub(super) struct Streams {
    /// Those of the backends with tensors; `None` for a backend that works synchronously.
    all: Vec<(Arc<dyn Backend>, Option<Commands>)>,
}

/// A stream and its pending commands.
struct Commands {
    stream: Box<dyn Stream>,
    /// The number of the first pending command; all before it have ended.
    first: u64,
    /// The kernels of the pending commands; `None` for a copy.
    pending: Vec<Option<Arc<Call>>>,
    /// Plain memory that pending copies read, and that they write.
    sources: Vec<Span>,
    targets: Vec<Span>,
    /// Events of other streams that pending commands wait for, and the last command of each stream that they cover.
    events: Vec<Box<dyn Event>>,
    covered: Vec<(usize, u64)>,
}

/// A pending access to a tensor.
#[derive(Clone, Copy)]
pub(super) struct Access {
    stream: usize,
    command: u64,
    writes: bool,
}

impl Streams {
    /// The position of the backend's stream, created on first use; `None` if it works synchronously.
    pub fn of(&mut self, backend: &Arc<dyn Backend>) -> Result<Option<usize>> {
        let known = self.all.iter().position(|(of, _)| Arc::ptr_eq(of, backend));
        let position = match known {
            Some(position) => position,
            None => {
                let commands = backend.stream(None)?.map(Commands::new);
                self.all.push((backend.clone(), commands));
                self.all.len() - 1
            }
        };
        Ok(self.all[position].1.as_ref().map(|_| position))
    }

    fn commands(&mut self, position: usize) -> Result<&mut Commands> {
        let commands = self.all.get_mut(position).and_then(|(_, of)| of.as_mut());
        commands.ok_or_else(|| Error::new(ErrorKind::Internal, "a stream is missing"))
    }

    /// The stream at a position, to which the caller enqueues one command of `call`, or a copy.
    pub fn enqueue(
        &mut self,
        position: usize,
        call: Option<&Arc<Call>>,
    ) -> Result<&mut dyn Stream> {
        let commands = self.commands(position)?;
        commands.pending.push(call.cloned());
        Ok(&mut *commands.stream)
    }

    /// The stream at a position, finished.
    pub fn finished(&mut self, position: usize) -> Result<&mut dyn Stream> {
        self.finish(position)?;
        Ok(&mut *self.commands(position)?.stream)
    }

    fn is_pending(&self, access: &Access) -> bool {
        let commands = self.all.get(access.stream).and_then(|(_, of)| of.as_ref());
        commands.is_some_and(|commands| access.command >= commands.first)
    }

    /// Orders an access of the host (`None`) or of the next command of a stream after the pending ones in conflict
    /// with it.
    pub fn access(
        &mut self,
        by: Option<usize>,
        accesses: &mut Vec<Access>,
        writes: bool,
    ) -> Result<()> {
        let Some(stream) = by else {
            return self.settle(accesses, writes);
        };
        self.order(stream, accesses, writes)?;
        let commands = self.commands(stream)?;
        let access = Access {
            stream,
            command: commands.first + commands.pending.len() as u64,
            writes,
        };
        // Later accesses are ordered after this one, and so after those before it.
        accesses.retain(|old| !writes && (old.stream != stream || old.writes));
        accesses.push(access);
        Ok(())
    }

    fn order(&mut self, stream: usize, accesses: &mut Vec<Access>, writes: bool) -> Result<()> {
        accesses.retain(|access| self.is_pending(access));
        for access in &*accesses {
            if access.stream != stream && (writes || access.writes) {
                self.wait_for(stream, access)?;
            }
        }
        Ok(())
    }

    fn wait_for(&mut self, stream: usize, access: &Access) -> Result<()> {
        let covers =
            |&(of, command): &(usize, u64)| of == access.stream && command >= access.command;
        let waiting = self.commands(stream)?;
        if waiting.covered.iter().any(covers) {
            return Ok(());
        }
        if !self.have_events(stream, access.stream) {
            return self.finish(access.stream);
        }
        let other = self.commands(access.stream)?;
        let event = other.stream.record()?;
        other.pending.push(None);
        let last = other.first + other.pending.len() as u64 - 1;
        let waiting = self.commands(stream)?;
        // SAFETY: the event is kept until this stream is finished.
        unsafe { waiting.stream.wait(&*event)? };
        waiting.pending.push(None);
        waiting.events.push(event);
        waiting.covered.push((access.stream, last));
        Ok(())
    }

    /// Whether one stream can wait for events of the other.
    fn have_events(&self, first: usize, second: usize) -> bool {
        let kind = |position: usize| {
            let commands = self.all.get(position).and_then(|(_, of)| of.as_ref());
            commands.map(|commands| commands.stream.event_kind())
        };
        kind(first) == kind(second) && kind(first).is_some_and(|kind| !kind.is_empty())
    }

    /// Finishes the streams whose pending accesses are in conflict with one of the host.
    fn settle(&mut self, accesses: &mut Vec<Access>, writes: bool) -> Result<()> {
        for access in &*accesses {
            if (writes || access.writes) && self.is_pending(access) {
                self.finish(access.stream)?;
            }
        }
        accesses.retain(|access| self.is_pending(access));
        Ok(())
    }

    /// Records that a pending copy of a stream reads, or `writes`, a span of plain memory.
    pub fn add_plain(&mut self, stream: usize, span: Span, writes: bool) -> Result<()> {
        let commands = self.commands(stream)?;
        let spans = match writes {
            true => &mut commands.targets,
            false => &mut commands.sources,
        };
        spans.push(span);
        Ok(())
    }

    /// Finishes the streams, except one, with pending copies in conflict with an access of a span of plain memory.
    pub fn settle_plain(&mut self, span: &Span, writes: bool, except: Option<usize>) -> Result<()> {
        for position in 0..self.all.len() {
            if let (_, Some(commands)) = &self.all[position]
                && Some(position) != except
            {
                let overlaps = |spans: &[Span]| spans.iter().any(|other| other.overlaps(span));
                if overlaps(&commands.targets) || writes && overlaps(&commands.sources) {
                    self.finish(position)?;
                }
            }
        }
        Ok(())
    }

    /// Waits until all commands of a stream have ended. An error names the kernel of the command that failed.
    fn finish(&mut self, position: usize) -> Result<()> {
        let commands = self.commands(position)?;
        if commands.pending.is_empty() {
            return Ok(());
        }
        let finished = commands.stream.finish();
        let finished = finished.map_err(|error| {
            let failed = commands.stream.failed_command();
            let failed = failed.and_then(|command| usize::try_from(command).ok());
            let call = failed.and_then(|command| commands.pending.get(command)?.as_ref());
            match call {
                Some(call) => error.at(call.location()),
                None => error,
            }
        });
        commands.first += commands.pending.len() as u64;
        commands.pending.clear();
        commands.sources.clear();
        commands.targets.clear();
        commands.events.clear();
        commands.covered.clear();
        finished
    }

    /// Finishes all streams; the error is the first one.
    pub fn finish_all(&mut self) -> Result<()> {
        let mut first = Ok(());
        for position in 0..self.all.len() {
            if self.all[position].1.is_some() {
                first = first.and(self.finish(position));
            }
        }
        first
    }
}

impl Commands {
    fn new(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            first: 0,
            pending: Vec::new(),
            sources: Vec::new(),
            targets: Vec::new(),
            events: Vec::new(),
            covered: Vec::new(),
        }
    }
}

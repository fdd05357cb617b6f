//! One queue or ram: slots, pointers, and what the host pushes (facts 6.1, 6.2).

use super::tensor::{TileTensor, checked_shape, reserved};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::TensorType;
use tenon_tile::DataFormat;
use tenon_tile::QueueLayout;

/// Most entries of a queue.
pub(super) const MAX_ENTRIES: usize = 1 << 20;

/// What a queue is declared with.
#[derive(Debug, Clone)]
pub struct QueueSpec {
    /// Its name.
    pub name: String,
    /// Whether it is memory without flow control.
    pub is_ram: bool,
    /// Its slots.
    pub entries: usize,
    /// Slices, rows and columns of tiles of an entry.
    pub tiles: [usize; 3],
    /// Height and width of a tile.
    pub tile: [usize; 2],
    /// The format of its elements.
    pub format: DataFormat,
    /// The op that fills it; none when the host does.
    pub source: Option<String>,
    /// The ram of which this is another view.
    pub view_of: Option<String>,
    /// How its elements lie in memory, where that matters: of a ram that others are views of, and
    /// of those.
    pub layout: Option<QueueLayout>,
}

impl QueueSpec {
    /// Checks its sizes; answers the type of an entry.
    pub(super) fn check(&self) -> Result<TensorType> {
        if self.entries == 0 || self.entries > MAX_ENTRIES {
            let text = format!("queue '{}' has too many entries, or none", self.name);
            return Err(Error::new(ErrorKind::OutOfMemory, text)
                .expected(format_args!("1 to {MAX_ENTRIES}"))
                .found(self.entries));
        }
        let ty = checked_shape(self.tiles, self.tile)?;
        let [t, rows, columns] = self.tiles;
        let shape = [t, rows * self.tile[0], columns * self.tile[1]];
        if self
            .layout
            .is_some_and(|layout| layout.shape() != Some(shape))
        {
            let text = format!("the blocks of queue '{}' do not make its tiles", self.name);
            return Err(
                Error::new(ErrorKind::InvalidProgram, text).expected(format_args!(
                    "grid, mblock and ublock of {shape:?} elements"
                )),
            );
        }
        Ok(ty)
    }
}

/// Makes the entry of a number that the host pushes, or that a slot of a ram holds at first.
pub type EntrySource = Arc<dyn Fn(u64) -> Result<TileTensor> + Send + Sync>;

/// How an execute reads and writes a queue (facts 6.3).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Setting {
    pub prologue: bool,
    pub epilogue: bool,
    pub zero: bool,
    pub rd_local: Option<i64>,
    pub rd_global: Option<i64>,
    pub wr_global: Option<i64>,
    pub rd_autoinc: Option<i64>,
    pub global_rd_autoinc: i64,
    pub global_wr_autoinc: Option<i64>,
}

#[derive(Debug, Clone)]
enum Slot {
    Empty,
    /// The entry of that number, which the feed makes.
    Fed(u64),
    Held(TileTensor),
}

/// What a slot holds, to be made outside of the lock that queues are behind.
pub(super) enum Content {
    Held(TileTensor),
    Fed(EntrySource, u64),
    Zeros([usize; 3], [usize; 2]),
    Nothing,
}

impl Content {
    /// The entry; `None` where there is none.
    pub fn entry(self) -> Result<Option<TileTensor>> {
        match self {
            Content::Held(entry) => Ok(Some(entry)),
            Content::Fed(feed, number) => feed(number).map(Some),
            Content::Zeros(tiles, tile) => TileTensor::zeroed(tiles, tile).map(Some),
            Content::Nothing => Ok(None),
        }
    }
}

/// The state of a queue.
pub(super) struct Queue {
    pub spec: QueueSpec,
    pub feed: Option<EntrySource>,
    slots: Vec<Slot>,
    /// Of a queue modulo twice the entries, of a ram below the entries.
    rd: i64,
    wr: i64,
    local: i64,
    base: i64,
    setting: Option<Setting>,
    /// Entries that the host has pushed.
    fed: u64,
    /// Whether what is pushed is kept for the host, and not in slots.
    pub drained: bool,
    /// Whether what is pushed is kept for the host besides.
    pub recorded: bool,
    pub outputs: Vec<TileTensor>,
}

impl Queue {
    pub fn new(spec: QueueSpec) -> Result<Self> {
        spec.check()?;
        let mut slots = reserved(spec.entries)?;
        slots.resize(spec.entries, Slot::Empty);
        Ok(Self {
            slots,
            feed: None,
            rd: 0,
            wr: 0,
            local: 0,
            base: 0,
            setting: None,
            fed: 0,
            drained: false,
            recorded: false,
            outputs: Vec::new(),
            spec,
        })
    }

    /// The same, but for what was kept for the host.
    pub fn without_outputs(&self) -> Self {
        Self {
            slots: self.slots.clone(),
            spec: self.spec.clone(),
            feed: self.feed.clone(),
            outputs: Vec::new(),
            ..*self
        }
    }

    fn entries(&self) -> i64 {
        self.slots.len() as i64
    }

    /// Empty, its pointers at 0.
    pub fn clear(&mut self) {
        self.slots.fill(Slot::Empty);
        (self.rd, self.wr, self.local, self.base) = (0, 0, 0, 0);
        self.setting = None;
        self.refill();
    }

    /// Entries between the pointers.
    pub fn occupancy(&self) -> i64 {
        (self.wr - self.rd).rem_euclid(2 * self.entries())
    }

    /// The host pushes what it has while there is room.
    pub fn refill(&mut self) {
        if self.spec.is_ram || self.feed.is_none() || self.spec.source.is_some() {
            return;
        }
        while self.occupancy() < self.entries() {
            let slot = Slot::Fed(self.fed);
            self.fed += 1;
            self.append(slot);
        }
    }

    fn append(&mut self, slot: Slot) {
        let at = (self.wr % self.entries()) as usize;
        self.slots[at] = slot;
        self.wr = (self.wr + 1) % (2 * self.entries());
    }

    /// Whether another entry has no room.
    pub fn is_full(&self) -> bool {
        !self.spec.is_ram && !self.drained && self.occupancy() >= self.entries()
    }

    /// An op or the host writes an entry: at the end of a queue, into the slot of a ram.
    pub fn push(&mut self, entry: TileTensor) -> Result<()> {
        if self.recorded || self.drained {
            self.outputs.push(entry.clone());
        }
        if self.spec.is_ram {
            let at = self.slot(self.wr, "writes")?;
            self.slots[at] = Slot::Held(entry);
            let setting = self.setting.unwrap_or_default();
            if !setting.prologue && !setting.epilogue {
                let step = setting.global_wr_autoinc.unwrap_or(0);
                self.wr = (self.wr + step).rem_euclid(self.entries());
            }
        } else if !self.drained {
            self.append(Slot::Held(entry));
        }
        Ok(())
    }

    /// The slot of a ram that is written next.
    pub fn write_slot(&self) -> Result<usize> {
        self.slot(self.wr, "writes")
    }

    /// Puts an entry into a slot; pointers stay.
    pub fn put(&mut self, slot: usize, entry: TileTensor) -> Result<()> {
        self.has_slot(slot)?;
        self.slots[slot] = Slot::Held(entry);
        Ok(())
    }

    /// An error for the number of a slot that there is not.
    pub fn has_slot(&self, slot: usize) -> Result<()> {
        let count = self.slots.len();
        match slot < count {
            true => Ok(()),
            false => {
                let text = format!("'{}' has no slot {slot}", self.spec.name);
                let error = Error::new(ErrorKind::OutOfBounds, text);
                Err(error.expected(format_args!("less than {count}")))
            }
        }
    }

    /// Slot of a ram's pointer, which nothing bounds before it is used.
    fn slot(&self, pointer: i64, what: &str) -> Result<usize> {
        let slot = usize::try_from(pointer).ok();
        slot.filter(|&slot| slot < self.slots.len()).ok_or_else(|| {
            let text = format!(
                "ram '{}': the pointer that {what} is outside",
                self.spec.name
            );
            Error::new(ErrorKind::OutOfBounds, text)
                .expected(format_args!("0 to {}", self.slots.len() - 1))
                .found(pointer)
        })
    }

    /// The slot that an op reads next; `None` when nothing is there yet.
    pub fn next_slot(&self) -> Result<Option<usize>> {
        if self.spec.is_ram {
            return self.slot(self.rd, "reads").map(Some);
        }
        let n = self.entries();
        let pointer = match self.setting {
            Some(_) => self.local,
            None => self.rd,
        };
        let slot = pointer.rem_euclid(n);
        let behind = (slot - self.rd).rem_euclid(n);
        // A host that pushes whenever there is room leaves no slot empty.
        let there = behind < self.occupancy() || self.feed.is_some();
        Ok(there.then_some(slot as usize))
    }

    /// The slot of the entry that is so many behind the first; `None` when nothing is there yet.
    pub fn slot_behind(&self, first: usize) -> Option<usize> {
        let behind = i64::try_from(first).ok()?;
        match self.spec.is_ram {
            true => usize::try_from(self.rd)
                .ok()
                .map(|rd| (rd + first) % self.slots.len()),
            false if behind < self.occupancy() => {
                Some(((self.rd + behind) % self.entries()) as usize)
            }
            false => None,
        }
    }

    /// What a slot holds. What nobody has written in a ram is zeros, unless the host has something.
    pub fn content(&self, slot: usize) -> Content {
        match (self.slots.get(slot), &self.feed) {
            (Some(Slot::Held(entry)), _) => Content::Held(entry.clone()),
            (Some(Slot::Fed(number)), Some(feed)) => Content::Fed(feed.clone(), *number),
            (Some(Slot::Empty), Some(feed)) if self.spec.is_ram => {
                Content::Fed(feed.clone(), slot as u64)
            }
            _ if self.spec.is_ram => Content::Zeros(self.spec.tiles, self.spec.tile),
            _ => Content::Nothing,
        }
    }

    /// Keeps the entry of a number that the feed has made, where its slot is read again and again:
    /// of a ram, or before the first input of each execute.
    pub fn keep(&mut self, slot: usize, number: u64, entry: &TileTensor) {
        let again = self.spec.is_ram || self.setting.is_some_and(|setting| setting.prologue);
        let Some(place) = self.slots.get_mut(slot).filter(|_| again) else {
            return;
        };
        let is_it = match place {
            Slot::Empty => true,
            Slot::Fed(own) => *own == number,
            Slot::Held(_) => false,
        };
        if is_it {
            *place = Slot::Held(entry.clone());
        }
    }

    /// The host takes the first entry.
    pub fn pop(&mut self) -> Result<Option<Content>> {
        if self.spec.is_ram {
            let text = format!("'{}' is a ram: nothing can be popped", self.spec.name);
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        if self.occupancy() == 0 {
            return Ok(None);
        }
        let content = self.content((self.rd % self.entries()) as usize);
        self.advance_rd(self.rd + 1);
        Ok(Some(content))
    }

    /// Applies a setting; the first of a run sets the read pointer even backwards (facts 10.3).
    pub fn apply(&mut self, setting: Setting, is_first: bool) -> Result<()> {
        self.setting = Some(setting);
        if setting.zero {
            if !setting.prologue {
                let text = format!("'{}' is cleared without being loaded", self.spec.name);
                return Err(Error::new(ErrorKind::InvalidArgument, text)
                    .expected("prologue: true where zero is true"));
            }
            let zeros = TileTensor::zeroed(self.spec.tiles, self.spec.tile)?;
            self.slots.fill(Slot::Held(zeros));
        }
        if let Some(rd) = setting.rd_global {
            self.set_rd(rd, is_first);
        }
        if let Some(wr) = setting.wr_global
            && self.spec.is_ram
        {
            self.wr = wr;
        }
        self.set_local(setting.rd_local.unwrap_or(self.rd));
        Ok(())
    }

    /// Where the consumer starts.
    pub fn set_local(&mut self, to: i64) {
        (self.local, self.base) = (to, to);
    }

    pub fn set_wr(&mut self, to: i64) {
        if self.spec.is_ram {
            self.wr = to;
        }
    }

    /// Moves the read pointer: a plain set, or popping up to there.
    pub fn set_rd(&mut self, to: i64, plain: bool) {
        if self.spec.is_ram {
            self.rd = to;
        } else if plain {
            let to = to.rem_euclid(2 * self.entries());
            let count = (to - self.rd).rem_euclid(2 * self.entries());
            if count <= self.occupancy() {
                self.forget(count);
            }
            self.rd = to;
            self.refill();
        } else {
            self.advance_rd(to);
        }
    }

    /// Pops up to a pointer. One that wraps at the entries instead of at twice as many takes the
    /// write pointer along; nothing is wrong with popping more than there is (facts 6.4b).
    fn advance_rd(&mut self, to: i64) {
        let n = self.entries();
        let to = to.rem_euclid(2 * n);
        let count = (to - self.rd).rem_euclid(2 * n);
        let occupancy = self.occupancy();
        self.forget(count.min(occupancy));
        if count > occupancy {
            self.wr = match count - n {
                0.. if count - n <= occupancy => (self.wr + n) % (2 * n),
                _ => to,
            };
        }
        self.rd = to;
        self.refill();
    }

    /// Lets go of the first entries of a queue that an op fills: what is popped there is not read
    /// again, and a ring of many large entries would come to hold more than the memory there is.
    /// What the host pushes stays: forward and backward programs keep pointers of their own on it
    /// (facts 10.3).
    fn forget(&mut self, count: i64) {
        if self.spec.source.is_none() {
            return;
        }
        let n = self.entries();
        for popped in self.rd..self.rd + count {
            self.slots[(popped % n) as usize] = Slot::Empty;
        }
    }

    pub fn setting_mut(&mut self) -> Option<&mut Setting> {
        self.setting.as_mut()
    }

    /// One input of the graph has been computed: the pointers of those that read move on.
    pub fn input_done(&mut self) {
        let Some(setting) = self.setting else {
            // A queue inside an epoch streams: what was read is gone.
            if !self.spec.is_ram && self.occupancy() > 0 {
                self.advance_rd(self.rd + 1);
            }
            return;
        };
        let streams = !setting.prologue && !setting.epilogue;
        if self.spec.is_ram {
            if streams {
                let step = setting.global_rd_autoinc;
                self.rd = (self.rd + step).rem_euclid(self.entries());
            }
            return;
        }
        if streams {
            self.local += setting.rd_autoinc.unwrap_or(1);
        }
        if setting.global_rd_autoinc != 0 {
            self.advance_rd(self.rd + setting.global_rd_autoinc);
        }
    }

    /// The graph has run: the next execute has a setting of its own, or none.
    pub fn execute_done(&mut self) {
        self.local = self.base;
        self.setting = None;
    }

    /// The read pointer, the write pointer, in words.
    pub fn describe(&self) -> String {
        format!(
            "{} of {} entries, read pointer {}, write pointer {}",
            self.occupancy(),
            self.slots.len(),
            self.rd,
            self.wr
        )
    }
}

#[cfg(test)]
mod tests;

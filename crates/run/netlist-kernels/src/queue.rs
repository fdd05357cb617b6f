//! A queue (ring buffer) or ram: slots, pointers, and the entries that the host pushes (netlist 6.1, 6.2).

use super::tensor::{TileTensor, checked_shape, reserved};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::TensorType;
use tenon_tile::DataFormat;
use tenon_tile::QueueLayout;

/// Most entries of a queue.
pub(super) const MAX_ENTRIES: usize = 1 << 20;

/// The declaration of a queue.
#[derive(Debug, Clone)]
pub struct QueueSpec {
    /// The name, unique in the netlist.
    pub name: String,
    /// Whether it is a ram: memory without flow control.
    pub is_ram: bool,
    /// The number of slots.
    pub entries: usize,
    /// Slices, rows and columns of tiles of an entry.
    pub tiles: [usize; 3],
    /// Height and width of a tile.
    pub tile: [usize; 2],
    /// The format of its elements.
    pub format: DataFormat,
    /// The op that fills it; `None` when the host does.
    pub source: Option<String>,
    /// The ram whose memory this one shares.
    pub view_of: Option<String>,
    /// The layout of its elements in memory, of rams that share memory.
    pub layout: Option<QueueLayout>,
}

impl QueueSpec {
    /// Checks the sizes, and returns the type of an entry.
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
            let text = format!(
                "the blocking of queue '{}' does not match its tiles",
                self.name
            );
            return Err(
                Error::new(ErrorKind::InvalidProgram, text).expected(format_args!(
                    "grid, mblock and ublock of {shape:?} elements"
                )),
            );
        }
        Ok(ty)
    }
}

/// Returns an entry by its index: that the host pushes, or the initial content of a slot of a ram.
pub type EntrySource = Arc<dyn Fn(u64) -> Result<TileTensor> + Send + Sync>;

/// The setting of a queue in an execute (netlist 6.3).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct QueueSetting {
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
    /// The entry of this index of the entry source.
    Generated(u64),
    Stored(TileTensor),
}

/// The content of a slot, from which the entry is made without holding the machine's lock.
pub(super) enum SlotContent {
    Stored(TileTensor),
    Generated(EntrySource, u64),
    Zeros([usize; 3], [usize; 2]),
    Empty,
}

impl SlotContent {
    /// The entry; `None` of an empty slot.
    pub fn into_entry(self) -> Result<Option<TileTensor>> {
        match self {
            SlotContent::Stored(entry) => Ok(Some(entry)),
            SlotContent::Generated(source, number) => source(number).map(Some),
            SlotContent::Zeros(tiles, tile) => TileTensor::zeroed(tiles, tile).map(Some),
            SlotContent::Empty => Ok(None),
        }
    }
}

/// The state of a queue.
pub(super) struct Queue {
    pub spec: QueueSpec,
    pub entry_source: Option<EntrySource>,
    slots: Vec<Slot>,
    /// The read pointer: of a queue modulo twice the entries, of a ram below the entries.
    rd: i64,
    wr: i64,
    local: i64,
    base: i64,
    setting: Option<QueueSetting>,
    /// Entries that the host has pushed so far.
    generated: u64,
    /// Whether pushed entries are outputs only, and not stored in slots.
    pub drained: bool,
    /// Whether pushed entries are outputs as well.
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
            entry_source: None,
            rd: 0,
            wr: 0,
            local: 0,
            base: 0,
            setting: None,
            generated: 0,
            drained: false,
            recorded: false,
            outputs: Vec::new(),
            spec,
        })
    }

    /// A copy without the outputs.
    pub fn without_outputs(&self) -> Self {
        Self {
            slots: self.slots.clone(),
            spec: self.spec.clone(),
            entry_source: self.entry_source.clone(),
            outputs: Vec::new(),
            ..*self
        }
    }

    fn entries(&self) -> i64 {
        self.slots.len() as i64
    }

    /// Empties the queue and sets its pointers to 0.
    pub fn clear(&mut self) {
        self.slots.fill(Slot::Empty);
        (self.rd, self.wr, self.local, self.base) = (0, 0, 0, 0);
        self.setting = None;
        self.refill();
    }

    /// The number of entries between the pointers.
    pub fn occupancy(&self) -> i64 {
        (self.wr - self.rd).rem_euclid(2 * self.entries())
    }

    /// Pushes entries of the entry source until the queue is full.
    pub fn refill(&mut self) {
        if self.spec.is_ram || self.entry_source.is_none() || self.spec.source.is_some() {
            return;
        }
        while self.occupancy() < self.entries() {
            let slot = Slot::Generated(self.generated);
            self.generated += 1;
            self.append(slot);
        }
    }

    fn append(&mut self, slot: Slot) {
        let at = (self.wr % self.entries()) as usize;
        self.slots[at] = slot;
        self.wr = (self.wr + 1) % (2 * self.entries());
    }

    /// Whether an entry cannot be pushed.
    pub fn is_full(&self) -> bool {
        !self.spec.is_ram && !self.drained && self.occupancy() >= self.entries()
    }

    /// Writes an entry of an op or of the host: at the end of a queue, at the write pointer of a ram.
    pub fn push(&mut self, entry: TileTensor) -> Result<()> {
        if self.recorded || self.drained {
            self.outputs.push(entry.clone());
        }
        if self.spec.is_ram {
            let at = self.slot(self.wr, "writes")?;
            self.slots[at] = Slot::Stored(entry);
            let setting = self.setting.unwrap_or_default();
            if !setting.prologue && !setting.epilogue {
                let step = setting.global_wr_autoinc.unwrap_or(0);
                self.wr = (self.wr + step).rem_euclid(self.entries());
            }
        } else if !self.drained {
            self.append(Slot::Stored(entry));
        }
        Ok(())
    }

    /// The slot at the write pointer of a ram.
    pub fn write_slot(&self) -> Result<usize> {
        self.slot(self.wr, "writes")
    }

    /// Writes an entry to a slot, without moving pointers.
    pub fn put(&mut self, slot: usize, entry: TileTensor) -> Result<()> {
        self.check_slot(slot)?;
        self.slots[slot] = Slot::Stored(entry);
        Ok(())
    }

    /// An error unless the queue has this slot.
    pub fn check_slot(&self, slot: usize) -> Result<()> {
        let count = self.slots.len();
        if slot < count {
            return Ok(());
        }
        let text = format!("'{}' has no slot {slot}", self.spec.name);
        let error = Error::new(ErrorKind::OutOfBounds, text);
        Err(error.expected(format_args!("less than {count}")))
    }

    /// The slot of a ram's pointer; programs may set it to any value, so that it is checked here.
    fn slot(&self, pointer: i64, what: &str) -> Result<usize> {
        let slot = usize::try_from(pointer).ok();
        slot.filter(|&slot| slot < self.slots.len()).ok_or_else(|| {
            let text = format!(
                "ram '{}': the pointer that {what} is out of bounds",
                self.spec.name
            );
            Error::new(ErrorKind::OutOfBounds, text)
                .expected(format_args!("0 to {}", self.slots.len() - 1))
                .found(pointer)
        })
    }

    /// The slot that an op reads next; `None` when it has no entry yet.
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
        // A queue with an entry source is always full.
        let has_entry = behind < self.occupancy() || self.entry_source.is_some();
        Ok(has_entry.then_some(slot as usize))
    }

    /// The slot `offset` entries after the first; `None` when it has no entry yet.
    pub fn slot_at_offset(&self, offset: usize) -> Option<usize> {
        if self.spec.is_ram {
            let rd = usize::try_from(self.rd).ok()?;
            return Some((rd + offset) % self.slots.len());
        }
        let offset = i64::try_from(offset).ok()?;
        (offset < self.occupancy()).then(|| ((self.rd + offset) % self.entries()) as usize)
    }

    /// The content of a slot. An unwritten slot of a ram has its entry of the entry source, else zeros.
    pub fn content(&self, slot: usize) -> SlotContent {
        match (self.slots.get(slot), &self.entry_source) {
            (Some(Slot::Stored(entry)), _) => SlotContent::Stored(entry.clone()),
            (Some(Slot::Generated(number)), Some(source)) => {
                SlotContent::Generated(source.clone(), *number)
            }
            (Some(Slot::Empty), Some(source)) if self.spec.is_ram => {
                SlotContent::Generated(source.clone(), slot as u64)
            }
            _ if self.spec.is_ram => SlotContent::Zeros(self.spec.tiles, self.spec.tile),
            _ => SlotContent::Empty,
        }
    }

    /// Stores entry `index` of the entry source in its slot, where the slot is read several times: of a
    /// ram, or in the prologue of each execute.
    pub fn cache_entry(&mut self, slot: usize, index: u64, entry: &TileTensor) {
        let is_reread = self.spec.is_ram || self.setting.is_some_and(|setting| setting.prologue);
        let Some(slot) = self.slots.get_mut(slot).filter(|_| is_reread) else {
            return;
        };
        let is_current = match slot {
            Slot::Empty => true,
            Slot::Generated(current) => *current == index,
            Slot::Stored(_) => false,
        };
        if is_current {
            *slot = Slot::Stored(entry.clone());
        }
    }

    /// Removes and returns the first entry, for the host.
    pub fn pop(&mut self) -> Result<Option<SlotContent>> {
        if self.spec.is_ram {
            let text = format!(
                "'{}' is a ram, which has no first entry to pop",
                self.spec.name
            );
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        if self.occupancy() == 0 {
            return Ok(None);
        }
        let content = self.content((self.rd % self.entries()) as usize);
        self.advance_rd(self.rd + 1);
        Ok(Some(content))
    }

    /// Applies a setting; the first of a run sets the read pointer even backwards (netlist 6.6).
    pub fn apply(&mut self, setting: QueueSetting, is_first: bool) -> Result<()> {
        self.setting = Some(setting);
        if setting.zero {
            if !setting.prologue {
                let text = format!("'{}' is cleared without being loaded", self.spec.name);
                return Err(Error::new(ErrorKind::InvalidArgument, text)
                    .expected("prologue: true where zero is true"));
            }
            let zeros = TileTensor::zeroed(self.spec.tiles, self.spec.tile)?;
            self.slots.fill(Slot::Stored(zeros));
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

    /// Sets the consumer's pointer.
    pub fn set_local(&mut self, to: i64) {
        (self.local, self.base) = (to, to);
    }

    pub fn set_wr(&mut self, to: i64) {
        if self.spec.is_ram {
            self.wr = to;
        }
    }

    /// Sets the read pointer, or pops up to it unless `without_pop`.
    pub fn set_rd(&mut self, to: i64, without_pop: bool) {
        if self.spec.is_ram {
            self.rd = to;
        } else if without_pop {
            let to = to.rem_euclid(2 * self.entries());
            let count = (to - self.rd).rem_euclid(2 * self.entries());
            if count <= self.occupancy() {
                self.free_popped(count);
            }
            self.rd = to;
            self.refill();
        } else {
            self.advance_rd(to);
        }
    }

    /// Pops up to a pointer. A pointer that wraps at the entries instead of at twice as many moves the
    /// write pointer too; popping more than the occupancy is no error (netlist 6.6).
    fn advance_rd(&mut self, to: i64) {
        let n = self.entries();
        let to = to.rem_euclid(2 * n);
        let count = (to - self.rd).rem_euclid(2 * n);
        let occupancy = self.occupancy();
        self.free_popped(count.min(occupancy));
        if count > occupancy {
            self.wr = match count - n {
                0.. if count - n <= occupancy => (self.wr + n) % (2 * n),
                _ => to,
            };
        }
        self.rd = to;
        self.refill();
    }

    /// Frees the first entries of a queue that an op fills: they are not read after a pop, and a ring
    /// of large entries could exceed the memory. Entries of the host are retained: forward and backward
    /// programs have separate pointers on them (netlist 6.6).
    fn free_popped(&mut self, count: i64) {
        if self.spec.source.is_none() {
            return;
        }
        let n = self.entries();
        for popped in self.rd..self.rd + count {
            self.slots[(popped % n) as usize] = Slot::Empty;
        }
    }

    pub fn setting_mut(&mut self) -> Option<&mut QueueSetting> {
        self.setting.as_mut()
    }

    /// Advances the pointers after one input of the graph.
    pub fn input_done(&mut self) {
        let Some(setting) = self.setting else {
            // A queue inside an epoch streams: each input pops what it has read.
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

    /// Ends an execute: the setting applies to no later one.
    pub fn execute_done(&mut self) {
        self.local = self.base;
        self.setting = None;
    }

    /// Occupancy and pointers, as text.
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

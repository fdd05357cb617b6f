//! Loops on all threads whose iterations own a part of the data, or have a result.

use std::sync::Mutex;
use tenon_base::pool;

/// A task of [`all`].
pub(crate) type Task<'a, T> = Box<dyn FnOnce() -> T + Send + 'a>;

/// The results of `tasks`, in their order.
pub(crate) fn all<'a, T: Send>(tasks: impl IntoIterator<Item = Task<'a, T>>) -> Vec<T> {
    map(tasks, |task| task())
}

/// The results of `work` on each of `items`, in their order.
pub(crate) fn map<I: Send, T: Send>(
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> T + Sync,
) -> Vec<T> {
    let slot = |item| Mutex::new((Some(item), None));
    let slots: Vec<_> = items.into_iter().map(slot).collect();
    // No lock is contended or poisoned: each is held by one thread, for a move.
    pool::for_each(slots.len(), |index| {
        let item = slots[index].lock().ok().and_then(|mut slot| slot.0.take());
        let done = item.map(&work);
        if let Ok(mut slot) = slots[index].lock() {
            slot.1 = done;
        }
    });
    let results = slots.into_iter().filter_map(|slot| slot.into_inner().ok());
    results.filter_map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_in_the_order_of_the_items() {
        let mut values: Vec<usize> = (0..1000).collect();
        let found = super::map(&mut values, |value| {
            *value += 1;
            *value
        });
        assert!(found.into_iter().eq(1..1001));
        assert!(values.into_iter().eq(1..1001));
    }
}

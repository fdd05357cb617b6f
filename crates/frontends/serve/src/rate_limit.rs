//! The most requests in a second: the generic cell rate algorithm (ITU-T I.371), a token bucket that keeps one time.

use crate::status::{Refusal, Status};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A limit of the requests of one model.
#[derive(Debug)]
pub struct RateLimit {
    /// The time of one request at the greatest rate.
    interval: Duration,
    /// How far requests may be ahead of the rate.
    tolerance: Duration,
    /// When the next request arrives at the greatest rate.
    expected: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// At most `rate` requests a second in the long run, and `burst` at once.
    pub fn new(rate: f64, burst: u32) -> Self {
        let interval = Duration::from_secs_f64(1.0 / rate);
        Self {
            interval,
            tolerance: interval.saturating_mul(burst.saturating_sub(1)),
            expected: Mutex::default(),
        }
    }

    /// Counts a request that arrives at `now`.
    ///
    /// # Errors
    /// [`Status::RateLimited`] for a request that is too early.
    pub fn take(&self, now: Instant) -> Result<(), Refusal> {
        let mut expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        let next = expected.map_or(now, |expected| expected.max(now));
        let early = next.saturating_duration_since(now);
        if early > self.tolerance {
            let wait = (early - self.tolerance).as_secs_f64();
            let rate = 1.0 / self.interval.as_secs_f64();
            let text = format!(
                "the model takes {rate} requests a second (max_rate): send it again after {wait:.3} s"
            );
            return Err(Refusal::new(Status::RateLimited, text));
        }
        *expected = next.checked_add(self.interval);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let limit = RateLimit::new(10.0, 3);
        let start = Instant::now();
        let at = |millis| limit.take(start + Duration::from_millis(millis)).is_ok();
        assert!(at(0) && at(0) && at(0));
        assert!(!at(0) && !at(99));
        assert!(at(100) && !at(150) && at(200));
        // After a pause only the burst is allowed.
        let later: Vec<bool> = (0..5).map(|_| at(10_000)).collect();
        assert_eq!(later, [true, true, true, false, false]);
        let refusal = limit.take(start + Duration::from_millis(10_000));
        assert_eq!(refusal.unwrap_err().status, Status::RateLimited);
    }
}

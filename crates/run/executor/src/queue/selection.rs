//! Selection of a work queue by name (bef 2.6): `s`, `mstd`, `mstd:N`, `mstd:N,M`.

use super::{MultiThreaded, SingleThreaded, WorkQueue};
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};

/// The default number of threads for blocking tasks.
const BLOCKING_THREADS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// The maximum number of threads of either kind: far more than a machine has CPUs, and few enough
/// that a typing error does not exhaust it.
const MOST_THREADS: usize = 4096;

/// A parsed name of a work queue.
///
/// ```
/// use tenon_executor::QueueSelection;
/// let queue = "mstd:2,8".parse::<QueueSelection>()?.start()?;
/// assert_eq!(queue.name(), "Multi-threaded C++ work queue (2 threads, 8 blocking threads)");
/// # Ok::<(), tenon_base::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueSelection {
    /// `s`: tasks run on the thread that awaits.
    #[default]
    SingleThreaded,
    /// `mstd`: tasks run on the threads of the queue.
    MultiThreaded {
        /// The number of worker threads.
        threads: NonZeroUsize,
        /// The maximum number of threads for blocking tasks.
        blocking_threads: NonZeroUsize,
    },
}

impl QueueSelection {
    /// Creates the queue and starts its threads.
    pub fn start(self) -> Result<Arc<dyn WorkQueue>> {
        match self {
            Self::SingleThreaded => Ok(Arc::new(SingleThreaded::new())),
            Self::MultiThreaded {
                threads,
                blocking_threads,
            } => {
                let queue = MultiThreaded::new(threads.get(), blocking_threads.get());
                let queue = queue.map_err(|error| {
                    Error::new(
                        ErrorKind::OutOfMemory,
                        format!("cannot start {threads} threads: {error}"),
                    )
                    .help("name a work queue of fewer threads, such as mstd:1")
                })?;
                Ok(Arc::new(queue))
            }
        }
    }
}

impl FromStr for QueueSelection {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let (kind, counts) = match name.split_once(':') {
            Some((kind, counts)) => (kind, Some(counts)),
            None => (name, None),
        };
        match (kind, counts) {
            ("s", None) => Ok(Self::SingleThreaded),
            ("mstd", None) => Ok(Self::multi_threaded(None, None)),
            ("mstd", Some(counts)) => {
                let (threads, blocking) = match counts.split_once(',') {
                    Some((threads, blocking)) => (threads, Some(blocking)),
                    None => (counts, None),
                };
                let threads = count("threads", threads);
                let blocking = blocking.map(|text| count("blocking threads", text));
                match (threads, blocking.transpose()) {
                    (Ok(threads), Ok(blocking)) => {
                        Ok(Self::multi_threaded(Some(threads), blocking))
                    }
                    (threads, blocking) => {
                        let problems = [threads.err(), blocking.err()].into_iter().flatten();
                        Err(Error::from_all(problems).unwrap_or_else(|| unknown(name)))
                    }
                }
            }
            _ => Err(unknown(name)),
        }
    }
}

impl QueueSelection {
    fn multi_threaded(threads: Option<NonZeroUsize>, blocking: Option<NonZeroUsize>) -> Self {
        let machine = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self::MultiThreaded {
            threads: threads.unwrap_or_else(machine),
            blocking_threads: blocking.unwrap_or(BLOCKING_THREADS),
        }
    }
}

fn count(of: &str, text: &str) -> Result<NonZeroUsize> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number
        .filter(|number: &NonZeroUsize| number.get() <= MOST_THREADS)
        .ok_or_else(|| {
            Error::new(ErrorKind::InvalidArgument, format!("wrong number of {of}"))
                .expected(format!("1 to {MOST_THREADS}"))
                .found(format!("{text:?}"))
        })
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, "unknown work queue")
        .expected("s, mstd, mstd:THREADS or mstd:THREADS,BLOCKING_THREADS")
        .found(format!("{name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str) -> Result<QueueSelection> {
        name.parse()
    }

    fn counts(threads: usize, blocking: usize) -> QueueSelection {
        QueueSelection::MultiThreaded {
            threads: NonZeroUsize::new(threads).unwrap(),
            blocking_threads: NonZeroUsize::new(blocking).unwrap(),
        }
    }

    #[test]
    fn names_select_queues() {
        assert_eq!(parse("s").unwrap(), QueueSelection::SingleThreaded);
        assert_eq!(parse("mstd:4").unwrap(), counts(4, 256));
        assert_eq!(parse("mstd:4,16").unwrap(), counts(4, 16));
        let machine = std::thread::available_parallelism().unwrap().get();
        assert_eq!(parse("mstd").unwrap(), counts(machine, 256));
    }

    #[test]
    fn queues_return_their_printed_names() {
        let name = |selection: &str| parse(selection).unwrap().start().unwrap().name();
        assert_eq!(name("s"), "single-threaded");
        assert_eq!(
            name("mstd:4"),
            "Multi-threaded C++ work queue (4 threads, 256 blocking threads)"
        );
    }

    #[test]
    fn errors_of_wrong_names_list_the_valid_names() {
        for name in ["", "m", "S", "s:1", "mstd2"] {
            let error = parse(name).unwrap_err().to_string();
            let expected = "expected s, mstd, mstd:THREADS or mstd:THREADS,BLOCKING_THREADS";
            assert!(error.contains(expected), "{error}");
        }
        let error = parse("mstd:0,+4").unwrap_err();
        let lines: Vec<String> = error
            .all()
            .map(|error| error.single().to_string())
            .collect();
        assert_eq!(
            lines,
            [
                "wrong number of threads: expected 1 to 4096, found \"0\"",
                "wrong number of blocking threads: expected 1 to 4096, found \"+4\"",
            ]
        );
        for name in [
            "mstd:",
            "mstd:,",
            "mstd:4,",
            "mstd:4,5,6",
            "mstd:99999999999999999999",
        ] {
            assert!(parse(name).is_err(), "{name}");
        }
    }
}

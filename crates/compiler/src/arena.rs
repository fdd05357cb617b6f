//! Ranges of the arena: those alive at the same time share no byte.

use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::ALIGNMENT;

/// Memory that is wanted from the start of one kernel to the end of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Size in bytes.
    pub bytes: usize,
    /// The first kernel that touches it.
    pub first: u32,
    /// The last kernel that touches it, `first` or later.
    pub last: u32,
}

impl Request {
    fn meets(&self, other: &Request) -> bool {
        self.bytes > 0 && other.bytes > 0 && self.first <= other.last && other.first <= self.last
    }
}

/// Where each request lies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assignment {
    /// Offsets in the order of the requests, multiples of 64.
    pub offsets: Vec<usize>,
    /// The arena's size: the largest end.
    pub bytes: usize,
}

/// Finds offsets. Two orders are tried, largest first and earliest first, and the smaller arena is
/// taken; each request goes to the smallest gap that holds it.
pub fn assign(requests: &[Request]) -> Result<Assignment> {
    let mut by_size: Vec<usize> = (0..requests.len()).collect();
    let mut by_time = by_size.clone();
    by_size.sort_by_key(|&i| (usize::MAX - requests[i].bytes, requests[i].first, i));
    by_time.sort_by_key(|&i| (requests[i].first, usize::MAX - requests[i].bytes, i));
    let largest_first = assign_in_order(requests, &by_size)?;
    let earliest_first = assign_in_order(requests, &by_time)?;
    Ok(if earliest_first.bytes < largest_first.bytes {
        earliest_first
    } else {
        largest_first
    })
}

fn assign_in_order(requests: &[Request], order: &[usize]) -> Result<Assignment> {
    let mut offsets = vec![0usize; requests.len()];
    let mut bytes = 0;
    // Requests already placed, sorted by offset, so that gaps are seen in one walk.
    let mut placed: Vec<usize> = Vec::with_capacity(order.len());
    for &index in order {
        let request = &requests[index];
        let padded = request
            .bytes
            .checked_next_multiple_of(ALIGNMENT)
            .ok_or_else(too_large)?;
        if padded == 0 {
            continue;
        }
        let mut best: Option<(usize, usize)> = None;
        let mut end = 0;
        for &other in placed
            .iter()
            .filter(|&&other| requests[other].meets(request))
        {
            let gap = offsets[other].saturating_sub(end);
            if gap >= padded && best.is_none_or(|(smallest, _)| gap < smallest) {
                best = Some((gap, end));
            }
            let other_end = offsets[other] + requests[other].bytes.next_multiple_of(ALIGNMENT);
            end = end.max(other_end);
        }
        let offset = best.map_or(end, |(_, offset)| offset);
        offsets[index] = offset;
        bytes = bytes.max(offset.checked_add(padded).ok_or_else(too_large)?);
        let position = placed.partition_point(|&other| offsets[other] <= offset);
        placed.insert(position, index);
    }
    Ok(Assignment { offsets, bytes })
}

fn too_large() -> Error {
    Error::new(
        ErrorKind::OutOfMemory,
        "the model's intermediate values are larger than memory can be",
    )
}

/// Checks that no two requests alive at the same time overlap, that offsets are aligned and that
/// all lies inside the arena.
pub fn check(requests: &[Request], assignment: &Assignment) -> Result<()> {
    let wrong = |text: String| Err(Error::new(ErrorKind::Internal, text));
    if requests.len() != assignment.offsets.len() {
        return wrong("the memory plan lacks requests".into());
    }
    // Swept in order of first kernel, keeping those still alive.
    let mut order: Vec<usize> = (0..requests.len())
        .filter(|&i| requests[i].bytes > 0)
        .collect();
    order.sort_by_key(|&i| requests[i].first);
    let mut alive: Vec<usize> = Vec::new();
    for index in order {
        let (request, offset) = (&requests[index], assignment.offsets[index]);
        let end = offset.saturating_add(request.bytes);
        if offset % ALIGNMENT != 0 || end > assignment.bytes || request.last < request.first {
            return wrong(format!("range {index} of the memory plan is misplaced"));
        }
        alive.retain(|&other| requests[other].last >= request.first);
        for &other in &alive {
            let other_offset = assignment.offsets[other];
            if offset < other_offset + requests[other].bytes && other_offset < end {
                return wrong(format!(
                    "ranges {other} and {index} of the memory plan overlap"
                ));
            }
        }
        alive.push(index);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(bytes: usize, first: u32, last: u32) -> Request {
        Request { bytes, first, last }
    }

    #[test]
    fn a_chain_needs_two_ranges() {
        let chain: Vec<Request> = (0..10).map(|k| request(100, k, k + 1)).collect();
        let plan = assign(&chain).unwrap();
        check(&chain, &plan).unwrap();
        assert_eq!(plan.bytes, 256);
    }

    #[test]
    fn a_gap_is_used_and_nothing_takes_no_room() {
        let requests = [
            request(64, 0, 9),
            request(128, 0, 3),
            request(0, 0, 9),
            request(64, 4, 9),
        ];
        let plan = assign(&requests).unwrap();
        check(&requests, &plan).unwrap();
        assert_eq!(plan.bytes, 192);
    }

    #[test]
    fn the_checker_finds_an_overlap() {
        let requests = [request(65, 0, 2), request(64, 2, 3)];
        let bad = Assignment {
            offsets: vec![0, 64],
            bytes: 128,
        };
        assert!(check(&requests, &bad).is_err());
        let good = Assignment {
            offsets: vec![0, 128],
            bytes: 192,
        };
        check(&requests, &good).unwrap();
        let outside = Assignment {
            offsets: vec![0, 128],
            bytes: 128,
        };
        assert!(check(&requests, &outside).is_err());
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert!(assign(&[request(usize::MAX, 0, 0)]).is_err());
        assert!(assign(&[request(usize::MAX - 100, 0, 0), request(100, 0, 0)]).is_err());
    }

    proptest! {
        #[test]
        fn no_plan_overlaps(spans in proptest::collection::vec((0usize..5000, 0u32..40, 0u32..20), 0..60)) {
            let requests: Vec<Request> = spans
                .iter()
                .map(|&(bytes, first, length)| request(bytes, first, first + length))
                .collect();
            let plan = assign(&requests).unwrap();
            check(&requests, &plan).unwrap();
            let all: usize = requests.iter().map(|r| r.bytes.next_multiple_of(ALIGNMENT)).sum();
            prop_assert!(plan.bytes <= all);
            prop_assert_eq!(plan, assign(&requests).unwrap());
        }
    }
}

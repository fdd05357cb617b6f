//! Properties of all strategies, and cases in which each is optimal.

use super::*;
use proptest::prelude::*;

fn block(bytes: usize, first: u32, last: u32) -> Block {
    Block { bytes, first, last }
}

/// The strategies of `--memory-strategy`, and that of instances.
fn all_strategies() -> impl Iterator<Item = &'static dyn MemoryStrategy> {
    let quick: &dyn MemoryStrategy = &Quick;
    MEMORY_STRATEGIES.into_iter().chain([quick])
}

/// The size that a strategy needs.
fn size(strategy: &dyn MemoryStrategy, blocks: &[Block]) -> usize {
    assign(strategy, blocks).unwrap().bytes
}

#[test]
fn a_chain_needs_two_ranges() {
    let chain: Vec<Block> = (0..10).map(|k| block(100, k, k + 1)).collect();
    assert_eq!(lower_bound(&chain).unwrap(), 256);
    assert_eq!(size(&GreedyBySize, &chain), 256);
    assert_eq!(size(&SingleAxisPriority, &chain), 256);
    assert_eq!(size(&Quick, &chain), 256);
    assert_eq!(size(&Constant, &chain), 1280);
}

#[test]
fn gaps_are_used_and_empty_blocks_take_no_space() {
    let blocks = [
        block(64, 0, 9),
        block(128, 0, 3),
        block(0, 0, 9),
        block(64, 4, 9),
        block(64, 4, 9),
    ];
    assert_eq!(size(&GreedyBySize, &blocks), 192);
    // The two that follow the large one need a bin each, one of which is its own.
    assert_eq!(size(&SingleAxisPriority, &blocks), 256);
    assert_eq!(size(&Constant, &blocks), 320);
}

#[test]
fn the_search_finds_what_no_simple_order_does() {
    // Largest first and earliest first both leave a hole here.
    let blocks = [
        block(6 * 64, 0, 1),
        block(4 * 64, 0, 3),
        block(5 * 64, 2, 5),
        block(3 * 64, 2, 4),
        block(7 * 64, 5, 7),
        block(2 * 64, 4, 7),
    ];
    assert_eq!(size(&GreedyBySize, &blocks), lower_bound(&blocks).unwrap());
}

#[test]
fn the_checker_finds_every_mistake() {
    let blocks = [block(65, 0, 2), block(64, 2, 3), block(0, 0, 3)];
    let bin = |bytes, blocks: &[(usize, usize)]| Bin {
        bytes,
        blocks: blocks.to_vec(),
    };
    let verdict = |bins: &[Bin]| check(&blocks, bins).map_err(|error| error.to_string());
    assert_eq!(verdict(&[bin(192, &[(0, 0), (1, 128)])]), Ok(()));
    assert_eq!(
        verdict(&[bin(128, &[(0, 0)]), bin(64, &[(1, 0), (2, 0)])]),
        Ok(())
    );
    for (bins, expected) in [
        (vec![bin(192, &[(0, 0), (1, 64)])], "blocks 0 and 1 overlap"),
        (vec![bin(192, &[(1, 0), (0, 0)])], "blocks 0 and 1 overlap"),
        (
            vec![bin(128, &[(0, 0), (1, 128)])],
            "block 1 is misplaced in bin 0",
        ),
        (
            vec![bin(192, &[(0, 32), (1, 128)])],
            "block 0 is misplaced in bin 0",
        ),
        (vec![bin(192, &[(0, 0)])], "block 1 is in no bin"),
        (
            vec![bin(192, &[(0, 0), (1, 128), (1, 128)])],
            "block 1 is in two bins",
        ),
        (
            vec![bin(192, &[(0, 0), (7, 128)])],
            "bin 0 has a block 7 that does not exist",
        ),
        (vec![bin(190, &[(0, 0)])], "bin 0 has 190 bytes"),
    ] {
        assert_eq!(verdict(&bins), Err(expected.to_owned()));
    }
}

#[test]
fn an_invalid_result_names_its_strategy() {
    struct EmptyStrategy;
    impl MemoryStrategy for EmptyStrategy {
        fn name(&self) -> &'static str {
            "nothing"
        }
        fn description(&self) -> &'static str {
            "forgets the blocks"
        }
        fn pack(&self, _: &[Block]) -> Result<Vec<Bin>> {
            Ok(Vec::new())
        }
    }
    let error = assign(&EmptyStrategy, &[block(1, 0, 0)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "memory strategy 'nothing': block 0 is in no bin"
    );
}

#[test]
fn strategies_have_names() {
    for strategy in MEMORY_STRATEGIES {
        assert_eq!(
            memory_strategy(strategy.name()).unwrap().name(),
            strategy.name()
        );
    }
    assert!(memory_strategy("best").is_err());
}

#[test]
fn sizes_that_overflow_are_refused() {
    for strategy in all_strategies() {
        assert!(assign(strategy, &[block(usize::MAX, 0, 0)]).is_err());
        let two = [block(usize::MAX - 100, 0, 0), block(100, 0, 0)];
        assert!(assign(strategy, &two).is_err());
    }
}

fn any_blocks(most: usize) -> impl Strategy<Value = Vec<Block>> {
    let one = (0usize..5000, 0u32..40, 0u32..20);
    let blocks = proptest::collection::vec(one, 0..most);
    blocks.prop_map(|list| {
        list.into_iter()
            .map(|(bytes, first, life)| block(bytes, first, first + life))
            .collect()
    })
}

proptest! {
    #[test]
    fn every_plan_is_valid_and_deterministic(blocks in any_blocks(60)) {
        let bound = lower_bound(&blocks).unwrap();
        let all: usize = blocks.iter().map(|b| b.padded().unwrap()).sum();
        for strategy in all_strategies() {
            let plan = assign(strategy, &blocks).unwrap();
            prop_assert!(bound <= plan.bytes && plan.bytes <= all, "{}", strategy.name());
            prop_assert_eq!(&plan, &assign(strategy, &blocks).unwrap());
        }
        prop_assert!(size(&GreedyBySize, &blocks) <= size(&SingleAxisPriority, &blocks));
        prop_assert_eq!(size(&Constant, &blocks), all);
    }

    /// The checker agrees with a comparison of every two blocks byte by byte.
    #[test]
    fn the_checker_agrees_with_all_pairs(
        blocks in any_blocks(8),
        positions in proptest::collection::vec(0usize..40, 8),
    ) {
        let offsets: Vec<(usize, usize)> =
            (0..blocks.len()).map(|index| (index, positions[index] * 64)).collect();
        let bin = Bin { bytes: 1 << 20, blocks: offsets.clone() };
        let overlap = offsets.iter().any(|&(a, at)| offsets.iter().any(|&(b, other)| {
            a < b
                && blocks[a].overlaps(&blocks[b])
                && (at..at + blocks[a].bytes).any(|byte| (other..other + blocks[b].bytes).contains(&byte))
        }));
        prop_assert_eq!(check(&blocks, &[bin]).is_err(), overlap);
    }
}

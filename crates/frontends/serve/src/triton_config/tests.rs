//! Configurations and what is wrong with them.

use super::*;
use std::collections::BTreeSet;

const BATCHING: &str = include_str!("../../tests/data/configs/batching.pbtxt");
const SEQUENCE: &str = include_str!("../../tests/data/configs/sequence.pbtxt");
const ENSEMBLE: &str = include_str!("../../tests/data/configs/ensemble.pbtxt");

#[test]
fn configurations_are_settings() {
    let expected = Settings {
        max_batch: Some(16),
        max_batch_size: Some(16),
        preferred_batch: BTreeSet::from([4, 8]),
        batch_delay: Some(Duration::from_micros(200)),
        max_waiting: Some(64),
        timeout: Some(Duration::from_millis(250)),
        instances: Some(3),
        cache_bytes: Some(CACHE_BYTES),
        labels: BTreeMap::from([("scores".to_owned(), "classes.txt".into())]),
        ..Settings::default()
    };
    assert_eq!(parse(BATCHING, "digits").unwrap(), expected);

    let settings = parse(SEQUENCE, "any").unwrap();
    assert_eq!(settings.max_batch, Some(8));
    let sequence = settings.sequence.unwrap();
    assert_eq!(sequence.idle, Some(Duration::from_secs(5)));
    assert_eq!(sequence.start_input.as_deref(), Some("start"));
    let [state] = &sequence.states[..] else {
        panic!("{sequence:?}");
    };
    assert_eq!([&state.input, &state.output], ["h", "h_next"]);

    let settings = parse(ENSEMBLE, "both_steps").unwrap();
    let ensemble = settings.ensemble.unwrap();
    assert_eq!(ensemble.outputs, ["z"]);
    let versions: Vec<_> = ensemble.steps.iter().map(|step| step.version).collect();
    assert_eq!(versions, [None, Some(1)]);
    assert_eq!(ensemble.steps[1].inputs["in"], "positive");
    assert_eq!(ensemble.steps[1].outputs["out"], "z");
}

#[test]
fn requests_are_joined_only_where_a_scheduler_says_so() {
    let max_batch = |text: &str| parse(text, "m").unwrap().max_batch;
    assert_eq!(max_batch(""), Some(1));
    assert_eq!(max_batch("max_batch_size: 8"), Some(1));
    assert_eq!(max_batch("max_batch_size: 8 dynamic_batching { }"), Some(8));
    assert_eq!(max_batch("dynamic_batching { }"), Some(1));
}

#[test]
fn all_problems_are_reported_with_their_places() {
    let text = "name: \"other\"\nmax_batch_size: -1\nunknown_field: 1\nmodel_transaction_policy { decoupled: true }
        input { dims: 3 reshape { shape: [2, -1] } format: FORMAT_CHW }\ndynamic_batching: 3\nresponse_cache { enable: yes }
        sequence_batching { control_input { name: 'r' control { kind: CONTROL_SEQUENCE_READY int32_false_true: [1, 0] } }
        state { input_name: 'h' } iterative_sequence: true }
        instance_group { count: 0 }\nensemble_scheduling { step { input_map { key: 'x' } } }";
    let error = parse(text, "m").unwrap_err();
    let lines: Vec<_> = error.all().map(|error| error.location().line).collect();
    let expected = [1, 2, 3, 4, 5, 5, 5, 6, 7, 8, 9, 9, 10, 11, 11];
    assert_eq!(lines, expected.map(Some), "{error}");
    let error = parse(
        "max_batch_size: 4 dynamic_batching { preferred_batch_size: 8 }",
        "m",
    );
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("at most max_batch_size, 4")
    );
    for text in [
        "max_batch_size: 3000000000",
        "max_batch_size: '4'",
        "a {",
        "instance_group: []",
    ] {
        assert_eq!(parse(text, "m").is_ok(), text.ends_with("[]"), "{text}");
    }
}

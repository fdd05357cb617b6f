//! Real netlists, where the folder of extra data has them.
#![allow(clippy::print_stderr, reason = "the test prints its findings")]

use std::collections::BTreeMap;
use tenon_netlist::{Device, Severity, Source, check, check_device, format_with_comments, read};
use tenon_test_data::netlists;

#[test]
fn every_sample_is_parsed_without_errors() {
    let mut failures = Vec::new();
    for path in netlists() {
        let source = Source::new(&path, std::fs::read_to_string(&path).unwrap());
        // Negative samples may have syntax errors.
        if path.iter().any(|part| part == "error_tests") {
            continue;
        }
        let read = read(&source);
        let errors = read
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        failures.extend(errors.map(|finding| finding.display(&source).to_string()));
    }
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn every_printed_sample_parses_to_an_equal_netlist() {
    for path in netlists() {
        let source = Source::new(&path, std::fs::read_to_string(&path).unwrap());
        let first = read(&source);
        if first.findings.has_errors() {
            continue;
        }
        let printed = Source::new("printed.yaml", first.netlist.to_string());
        let second = read(&printed);
        let shown: Vec<_> = second
            .findings
            .iter()
            .map(|f| f.display(&printed).to_string())
            .collect();
        assert!(
            !second.findings.has_errors(),
            "{}: {}",
            path.display(),
            shown.join("\n")
        );
        assert_eq!(first.netlist, second.netlist, "{}", path.display());
        let commented = Source::new(
            "commented.yaml",
            format_with_comments(&source, &first.netlist),
        );
        let third = read(&commented);
        assert_eq!(first.netlist, third.netlist, "{}", path.display());
        assert_eq!(
            format_with_comments(&commented, &third.netlist),
            commented.text(),
            "{}",
            path.display()
        );
        assert_eq!(
            second.netlist.to_string(),
            printed.text(),
            "{}",
            path.display()
        );
    }
}

#[test]
fn positive_samples_pass_the_rules_and_negative_ones_fail() {
    let mut failures = Vec::new();
    for path in netlists() {
        let source = Source::new(&path, std::fs::read_to_string(&path).unwrap());
        let read = read(&source);
        let mut findings = read.findings;
        if !findings.has_errors() {
            findings.extend(check(&read.netlist, None));
        }
        let errors = findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        let errors: Vec<_> = errors
            .map(|finding| finding.display(&source).to_string())
            .collect();
        let is_bad = path.iter().any(|part| part == "error_tests");
        if is_bad && errors.is_empty() {
            failures.push(format!("{}: accepted", path.display()));
        } else if !is_bad {
            failures.extend(errors);
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// The message for each negative sample with a descriptive name.
#[test]
fn negative_samples_violate_their_rule() {
    let reasons = [
        (
            "netlist_fused_op_with_matmul_invalid_output.yaml",
            "must write an intermediate buffer",
        ),
        (
            "netlist_fused_op_with_matmul_intermed_input_1.yaml",
            "cannot be an intermediate buffer",
        ),
        (
            "netlist_fused_op_missing_pop_on_intermed.yaml",
            "unknown type of op",
        ),
        (
            "netlist_fused_op_matmul_invalid_m_k_u_kt.yaml",
            "m_k and u_kt are 4 and 1",
        ),
        (
            "netlist_fused_op_with_bcast_invalid_mblock_r.yaml",
            "a broadcast of rows requires",
        ),
    ];
    for path in netlists() {
        let reason = reasons.iter().find(|(name, _)| path.ends_with(name));
        let Some((name, reason)) = reason else {
            continue;
        };
        let source = Source::new(&path, std::fs::read_to_string(&path).unwrap());
        let read = read(&source);
        let mut findings = read.findings;
        findings.extend(check(&read.netlist, None));
        let shown: Vec<_> = findings.iter().map(|f| f.sentence()).collect();
        assert!(
            shown.iter().any(|text| text.contains(reason)),
            "{name}: {shown:#?}"
        );
    }
}

/// Most real netlists fit their target device; the test prints the findings.
#[test]
fn most_samples_fit_their_device() {
    let mut rules: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let (mut all, mut fit) = (0, 0);
    for path in netlists() {
        let source = Source::new(&path, std::fs::read_to_string(&path).unwrap());
        let read = read(&source);
        if read.findings.has_errors() {
            continue;
        }
        let arch = read.netlist.arch[0].value.name();
        let findings = check_device(&read.netlist, &Device::find(arch).unwrap());
        all += 1;
        fit += usize::from(!findings.has_errors());
        for finding in findings.iter() {
            let shown = finding.display(&source).to_string();
            rules.entry(finding.rule.id()).or_default().push(shown);
        }
    }
    for (rule, found) in rules {
        eprintln!("{rule}: {}\n{}", found.len(), found[0]);
    }
    assert!(fit * 10 >= all * 8, "{fit} of {all} fit");
}

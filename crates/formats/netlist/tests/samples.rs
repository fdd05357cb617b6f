//! Real netlists, where the folder of extra data has them.
#![allow(clippy::print_stderr, reason = "a test says what it found")]

use std::collections::BTreeMap;
use tenon_netlist::{Device, Severity, Source, check, check_device, format_with_comments, read};
use tenon_test_data::netlists;

#[test]
fn every_sample_reads() {
    let mut failures = Vec::new();
    for path in netlists() {
        let source = Source::new(&path, std::fs::read_to_string(&path).unwrap());
        // Files that are wrong on purpose may be wrong already in a word.
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
fn every_sample_prints_and_reads_back_equal() {
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
fn every_good_sample_passes_the_rules_and_every_bad_one_fails() {
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

/// The rule that each file which is wrong on purpose breaks, by what its name says.
#[test]
fn bad_samples_break_the_rule_they_were_written_for() {
    let reasons = [
        (
            "netlist_fused_op_with_matmul_invalid_output.yaml",
            "writes an intermediate",
        ),
        (
            "netlist_fused_op_with_matmul_intermed_input_1.yaml",
            "no intermediate can hold it",
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
            "rows are broadcast from one row",
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

/// Most real netlists fit the device they were made for; what is found is told.
#[test]
fn most_good_samples_fit_their_device() {
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

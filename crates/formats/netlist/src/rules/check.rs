//! The check of all rules that do not depend on a device.

use super::{Rule, cycles, fused, names, ops, programs, queues, shapes};
use crate::links::Links;
use crate::netlist::{Netlist, Op, ScheduledOp};
use crate::testing;
use crate::{Finding, Findings, Span};
use std::fmt::Display;
use tenon_tile::Arch;

/// The input and the findings of the rules.
pub(super) struct Checker<'n> {
    pub(super) netlist: &'n Netlist,
    pub(super) links: &'n Links<'n>,
    /// The architectures that it is checked for.
    pub(super) arch: Vec<Arch>,
    findings: Findings,
    /// Number of undefined names so far.
    pub(super) undefined_names: usize,
}

impl Checker<'_> {
    pub(super) fn report(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Whether grayskull is the only architecture, so that features of later ones are errors.
    pub(super) fn is_grayskull(&self) -> bool {
        self.arch == [Arch::Grayskull]
    }
}

impl Op {
    /// A violation of a rule by this op.
    pub(super) fn finding(&self, rule: Rule, span: Span, message: impl Display) -> Finding {
        let message = format!("op '{}': {message}", self.name.value);
        Finding::new(rule, span, message)
    }
}

impl ScheduledOp {
    /// A violation of a rule by this op.
    pub(super) fn finding(&self, rule: Rule, span: Span, message: impl Display) -> Finding {
        let message = format!("scheduled op '{}': {message}", self.name.value);
        Finding::new(rule, span, message)
    }
}

/// Checks a netlist that was parsed without errors against the rules of the netlist level
/// (netlist 7.1). With several architectures, a rule is satisfied if it is for one of them, unless
/// `arch` selects the target.
pub fn check(netlist: &Netlist, arch: Option<Arch>) -> Findings {
    let declared = || netlist.arch.iter().map(|arch| arch.value).collect();
    let mut checker = Checker {
        netlist,
        links: &Links::new(netlist),
        arch: arch.map_or_else(declared, |arch| vec![arch]),
        findings: Findings::default(),
        undefined_names: 0,
    };
    if let (Some(arch), Some(first)) = (arch, netlist.arch.first())
        && netlist.arch.iter().all(|named| named.value != arch)
    {
        let named: Vec<&str> = netlist
            .arch
            .iter()
            .map(|named| named.value.name())
            .collect();
        let message = format!("the netlist does not support {arch}");
        let finding = Finding::new(Rule::DeviceArch, first.span, message);
        checker.report(finding.expected(arch).found(named.join(", ")));
    }
    names::check(&mut checker);
    queues::check(&mut checker);
    ops::check(&mut checker);
    shapes::check(&mut checker);
    cycles::check(&mut checker);
    fused::check(&mut checker);
    programs::check(&mut checker);
    checker.findings.extend(testing::check(netlist));
    checker.findings.sorted()
}

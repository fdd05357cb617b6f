//! All rules over one netlist.

use super::{Rule, circles, fused, names, ops, programs, queues, shapes};
use crate::links::Links;
use crate::netlist::Netlist;
use crate::testing;
use crate::{Finding, Findings};
use tenon_tile::Arch;

/// What a rule needs: the netlist, its names, and where findings go.
pub(super) struct Checker<'n> {
    pub(super) netlist: &'n Netlist,
    pub(super) links: Links<'n>,
    /// The architectures it is checked for.
    pub(super) arch: Vec<Arch>,
    findings: Findings,
    /// Names that stood for nothing so far.
    pub(super) unknown_names: usize,
}

impl Checker<'_> {
    pub(super) fn report(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Whether it is to run on grayskull and nothing else: what only a later architecture can do
    /// is wrong then.
    pub(super) fn is_grayskull(&self) -> bool {
        self.arch == [Arch::Grayskull]
    }
}

/// Checks a netlist that was read without errors against the rules of the netlist level
/// (facts 7.1). A netlist for several architectures keeps a rule that one of them keeps, unless
/// `arch` names the one it is to run on.
pub fn check(netlist: &Netlist, arch: Option<Arch>) -> Findings {
    let given = || netlist.arch.iter().map(|arch| arch.value).collect();
    let mut checker = Checker {
        netlist,
        links: Links::new(netlist),
        arch: arch.map_or_else(given, |arch| vec![arch]),
        findings: Findings::default(),
        unknown_names: 0,
    };
    if let (Some(arch), Some(first)) = (arch, netlist.arch.first())
        && netlist.arch.iter().all(|named| named.value != arch)
    {
        let named: Vec<&str> = netlist
            .arch
            .iter()
            .map(|named| named.value.name())
            .collect();
        let message = format!("the netlist is not for {arch}");
        let finding = Finding::new(Rule::DeviceArch, first.span, message);
        checker.report(finding.expected(arch).found(named.join(", ")));
    }
    names::check(&mut checker);
    queues::check(&mut checker);
    ops::check(&mut checker);
    shapes::check(&mut checker);
    circles::check(&mut checker);
    fused::check(&mut checker);
    programs::check(&mut checker);
    checker.findings.extend(testing::check(netlist));
    checker.findings.sorted()
}

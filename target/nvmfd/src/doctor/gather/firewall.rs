//! The rules that packets meet on their way in.

use super::tree::Tree;
use crate::doctor::facts::Firewall;
use std::process::{Command, Stdio};

/// Asks the tool of whichever filter is in use. A filter that is not loaded is left alone: its tool
/// would load it.
pub(super) fn firewall(tree: &Tree) -> Firewall {
    let nft = tree.exists("sys/module/nf_tables");
    let iptables = tree.exists("sys/module/ip_tables");
    if nft && let Some(rules) = said("nft", &["list", "ruleset"]) {
        return Firewall::Nft(rules);
    }
    if (nft || iptables)
        && let Some(rules) = said("iptables-save", &[])
    {
        return Firewall::Iptables(rules);
    }
    if nft || iptables { Firewall::Unreadable } else { Firewall::None }
}

/// What a program says, if it is there and content.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

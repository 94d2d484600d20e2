//! Facts about an interface from the kernel and its driver, as names and values.

use quaff_os::ethtool::Card;
use quaff_os::rtnl;
use std::collections::BTreeMap;

/// Reads the facts about an interface of the calling thread's network namespace.
pub fn facts(name: &str) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut fact = |what: &str, value: Option<String>| {
        if let Some(value) = value {
            facts.insert(format!("{name} {what}"), value);
        }
    };
    let yes = |on: bool| Some(if on { "on" } else { "off" }.to_owned());
    fact("MTU", rtnl::link(name).ok().map(|link| link.mtu.to_string()));
    let card = Card::read(name);
    fact("driver", card.driver.ok().flatten());
    fact("speed", card.speed_mbps.ok().flatten().map(|mbps| format!("{mbps} Mbit/s")));
    if let Ok(features) = card.features {
        let is_on = |prefix: &str| features.iter().any(|(name, it)| it.is_on && name.starts_with(prefix));
        let is_set = |name: &str| features.get(name).is_some_and(|it| it.is_on);
        fact("GRO", yes(is_set("rx-gro")));
        fact("LRO", yes(is_set("rx-lro")));
        fact("transmit checksum offload", yes(is_on("tx-checksum-")));
    }
    let ring = card.rx_ring.ok().flatten();
    fact("receive ring", ring.map(|ring| format!("{} of {} frames", ring.frames, ring.frames_max)));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_has_facts_and_a_missing_one_has_none() {
        assert!(facts("lo").contains_key("lo MTU"));
        assert!(facts("no-such0").is_empty());
    }
}

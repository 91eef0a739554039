use super::*;
use crate::target::tests::*;
use crate::target::{Referral, TellPorts};

#[test]
fn a_removed_port_closes_what_came_through_it() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.ready();
    let io = bench.io_queue(cntlid, 1).unwrap();
    let unconnected = bench.open(0, 32);
    let second = PortConfig { id: 2, address: "192.0.2.2:4420".parse().unwrap() };
    bench.target.add_port(second.clone(), &mut bench.out).unwrap();
    assert_eq!(bench.target.add_port(second, &mut bench.out), Err(ConfigError::PortExists(2)));
    bench.target.remove_port(2, &mut bench.out).unwrap();
    assert_eq!(bench.closed(), []);
    bench.target.remove_port(1, &mut bench.out).unwrap();
    let closed: Vec<_> = bench.closed().into_iter().map(|(queue, _)| queue).collect();
    assert_eq!(closed, [io, admin, unconnected]);
    assert_eq!(bench.target.remove_port(1, &mut bench.out), Err(ConfigError::UnknownPort(1)));
}

fn set(bench: &mut Bench, config: DiscoveryConfig) -> Result<(), ConfigError> {
    bench.target.set_discovery(config, &mut bench.out)
}

fn referral(address: &str) -> Referral {
    Referral { address: address.parse().unwrap(), nqn: None }
}

#[test]
fn discovery_answers_to_the_well_known_name_and_to_its_own() {
    const OWN: &str = "nqn.2026-01.io.example:discovery";
    let mut bench = Bench::new();
    let named = |nqn: Option<&str>| DiscoveryConfig {
        nqn: nqn.map(str::to_owned),
        ..DiscoveryConfig::default()
    };
    set(&mut bench, named(Some(OWN))).unwrap();
    assert_eq!(bench.admin_to(DISCOVERY_NQN, 0).1, 1);
    assert_eq!(bench.admin_to(OWN, 0).1, 2);
    let names: Vec<_> = bench.target.controllers().map(|c| c.subnqn.to_string()).collect();
    assert_eq!(names, [OWN, OWN]);
    set(&mut bench, named(None)).unwrap();
    assert_eq!(bench.target.find_subsystem(OWN), None);
    assert_eq!(bench.admin_to(DISCOVERY_NQN, 0).1, 3);
    let taken = Err(ConfigError::SubsystemExists(SUBNQN.to_owned()));
    assert_eq!(set(&mut bench, named(Some(SUBNQN))), taken);
    assert!(set(&mut bench, named(Some("a name"))).is_err());
}

#[test]
fn referrals_that_lead_nowhere_are_refused() {
    let mut bench = Bench::new();
    let to = |referrals| DiscoveryConfig { referrals, ..DiscoveryConfig::default() };
    let wildcard = referral("0.0.0.0:4420");
    let error = Err(ConfigError::InvalidReferral(wildcard.address));
    assert_eq!(set(&mut bench, to(vec![wildcard])), error);
    let one = referral("192.0.2.8:4420");
    let error = Err(ConfigError::InvalidReferral(one.address));
    assert_eq!(set(&mut bench, to(vec![one.clone(), one])), error);
    let many = |count: usize| -> Vec<_> {
        (0..count).map(|n| referral(&format!("192.0.2.{n}:4420"))).collect()
    };
    assert!(set(&mut bench, to(many(MAX_REFERRALS))).is_ok());
    assert!(set(&mut bench, to(many(MAX_REFERRALS + 1))).is_err());
}

#[test]
fn hosts_that_stay_with_discovery_are_told_of_what_concerns_them_once() {
    let mut bench = Bench::new();
    let (stays, _) = bench.ready_discovery(5000);
    let (leaves, _) = bench.ready_discovery(0);
    let mut slots = Vec::new();
    for queue in [stays, leaves] {
        let command = admin_command(nvme_spec_types::AdminOpcode::ASYNC_EVENT_REQUEST, 9);
        slots.push((queue, bench.feed(queue, &command, &[])));
    }
    let config = DiscoveryConfig { tell: TellPorts::All, ..DiscoveryConfig::default() };
    set(&mut bench, config.clone()).unwrap();
    let told = bench.answer(slots[0].0, slots[0].1).expect("told");
    assert_eq!(told.result as u32, AsyncEvent::DISCOVERY_LOG_CHANGED.to_dw0());
    assert_eq!(bench.answer(slots[1].0, slots[1].1), None, "it is about to leave");
    let generation = bench.target.discovery_generation;
    set(&mut bench, config).unwrap();
    assert_eq!(bench.target.discovery_generation, generation, "nothing changed");
}

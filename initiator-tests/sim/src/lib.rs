//! Deterministic simulator of hosts, network and disks around the production reactor

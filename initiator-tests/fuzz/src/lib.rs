//! Fuzzing without instrumentation: inputs are changed at random, and those are kept that reach
//! something new.
//!
//! A *target* takes any bytes and panics when a promise is broken. What it reached it names itself,
//! as numbers; an input that reached a number first is worth keeping and
//! changing further. Most targets read their input as operations of a fixed length, so inputs are
//! also cut and joined at those borders.
//!
//! The corpus is a file for each target, one input a line, in hexadecimal digits. A plain test
//! replays it.

pub mod controller;
pub mod corpus;
pub mod mutate;
pub mod run;

/// Something to fuzz.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// What the command line and the corpus call it.
    pub name: &'static str,
    /// Tries an input; returns what it reached, panics when a promise is broken.
    pub try_input: fn(&[u8]) -> Vec<u32>,
    /// Bytes of one operation; 1 where the input is just bytes.
    pub op_len: usize,
    /// Longest input that is made, in bytes.
    pub max_len: usize,
    /// What the numbers that were reached say in words, where they do.
    pub summary: Option<fn(&[u32]) -> String>,
}

/// All targets.
pub const TARGETS: [Target; 4] = [
    Target {
        name: "capsules",
        try_input: controller::capsules,
        op_len: controller::OP_LEN,
        max_len: controller::MAX_OPS * controller::OP_LEN,
        summary: Some(controller::summary),
    },
    Target {
        name: "packets",
        try_input: soft_roce::fuzzing::packets,
        op_len: 1,
        max_len: 300,
        summary: None,
    },
    Target {
        name: "queue-pairs",
        try_input: soft_roce::fuzzing::queue_pairs,
        op_len: soft_roce::fuzzing::OP_LEN,
        max_len: 400 * soft_roce::fuzzing::OP_LEN,
        summary: None,
    },
    Target {
        name: "connections",
        try_input: soft_roce::fuzzing::connections,
        op_len: soft_roce::fuzzing::OP_LEN,
        max_len: 300 * soft_roce::fuzzing::OP_LEN,
        summary: None,
    },
];

/// The target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

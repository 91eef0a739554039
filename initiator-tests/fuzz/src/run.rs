//! The loop: change, try, keep.

use crate::mutate::{Dice, change};
use crate::{Target, corpus};
use anyhow::Result;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How a run went.
#[derive(Debug)]
pub struct Report {
    /// Inputs tried.
    pub tried: u64,
    /// The different things reached, by rising number.
    pub features: Vec<u32>,
    /// Inputs in the corpus afterwards.
    pub kept: usize,
    /// The shortest form found of an input that breaks a promise.
    pub broken: Option<Vec<u8>>,
}

/// Fuzzes `target` for that long or until a promise is broken.
///
/// # Errors
/// When the corpus cannot be read or written.
pub fn fuzz(target: &Target, time: Duration, seed: u64) -> Result<Report> {
    let mut dice = Dice::new(seed);
    let mut seen = HashSet::new();
    let mut pool: Vec<(Vec<u8>, Vec<u32>)> = Vec::new();
    let mut queue = corpus::read(target.name)?;
    queue.push(Vec::new());
    let (end, mut tried, mut broken) = (Instant::now() + time, 0, None);
    loop {
        let old = queue.pop();
        if old.is_none() && Instant::now() >= end {
            break;
        }
        let input = old.unwrap_or_else(|| {
            // Half of the time, one of those that reached something new lately.
            let lately = pool.len().saturating_sub(16);
            let at = match dice.below(2) {
                0 => lately + dice.below(pool.len() - lately),
                _ => dice.below(pool.len()),
            };
            let other = dice.below(pool.len());
            change(&mut dice, &pool[at].0, &pool[other].0, target.op_len, target.max_len)
        });
        tried += 1;
        match attempt(target, &input) {
            Some(features) => {
                let fresh = features.iter().filter(|feature| seen.insert(**feature)).count();
                if fresh > 0 || pool.is_empty() {
                    pool.push((input, features));
                }
            }
            None => {
                broken = Some(shorten(target, input));
                break;
            }
        }
    }
    let kept = corpus::write(target.name, &pool)?;
    let mut features: Vec<u32> = seen.into_iter().collect();
    features.sort_unstable();
    Ok(Report { tried, features, kept, broken })
}

/// What an input reaches; `None` when it breaks a promise.
pub fn attempt(target: &Target, input: &[u8]) -> Option<Vec<u32>> {
    catch_unwind(AssertUnwindSafe(|| (target.try_input)(input))).ok()
}

/// Leaves out what is not needed to break the promise.
fn shorten(target: &Target, mut input: Vec<u8>) -> Vec<u8> {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let mut piece = input.len() / 2;
    while piece >= target.op_len {
        piece = piece / target.op_len * target.op_len;
        let mut at = 0;
        while at < input.len() {
            let mut less = input.clone();
            less.drain(at..(at + piece).min(input.len()));
            if attempt(target, &less).is_none() {
                input = less;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    std::panic::set_hook(quiet);
    input
}

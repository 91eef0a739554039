//! Inputs worth keeping, in a file.

use anyhow::{Context, Result};
use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Where a target's inputs are kept.
pub fn path(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format!("{target}.hex"))
}

/// Reads a target's inputs; none when there is no file.
///
/// # Errors
/// When the file cannot be read or holds something else.
pub fn read(target: &str) -> Result<Vec<Vec<u8>>> {
    let path = path(target);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("reading the corpus {}", path.display()))?;
    text.lines().map(from_hex).collect()
}

/// Bytes of a target's corpus at most: a repository is no place for more.
const MAX_BYTES: usize = 24 << 10;

/// Keeps of `inputs` those that reach most for their length, until they reach all that all reach
/// or the corpus is full.
///
/// # Errors
/// When the file cannot be written.
pub fn write(target: &str, inputs: &[(Vec<u8>, Vec<u32>)]) -> Result<usize> {
    let mut left: Vec<_> = inputs.iter().collect();
    let (mut seen, mut room, mut kept) = (HashSet::<u32>::new(), MAX_BYTES, Vec::new());
    loop {
        let gain = |features: &[u32]| features.iter().filter(|f| !seen.contains(*f)).count();
        left.retain(|(input, features)| input.len() <= room && gain(features) > 0);
        // Most for each byte, with something for the line itself.
        let worth =
            |(input, features): &(Vec<u8>, Vec<u32>)| gain(features) * 100_000 / (input.len() + 32);
        let Some(at) = (0..left.len()).max_by_key(|at| worth(left[*at])) else { break };
        let (input, features) = left.swap_remove(at);
        room -= input.len();
        seen.extend(features);
        kept.push(to_hex(input));
    }
    kept.sort_unstable();
    let path = path(target);
    let text: String = kept.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, text)
        .with_context(|| format!("writing the corpus {}", path.display()))?;
    Ok(kept.len())
}

/// The bytes that hexadecimal digits spell.
///
/// # Errors
/// When `text` is something else.
pub fn from_hex(text: &str) -> Result<Vec<u8>> {
    let text = text.trim();
    anyhow::ensure!(text.is_ascii() && text.len().is_multiple_of(2), "not pairs of digits");
    (0..text.len() / 2).map(|at| Ok(u8::from_str_radix(&text[at * 2..at * 2 + 2], 16)?)).collect()
}

/// The bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

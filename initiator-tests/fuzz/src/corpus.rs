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

/// Keeps of `inputs` as few as reach everything that all reach, the short ones first.
///
/// # Errors
/// When the file cannot be written.
pub fn write(target: &str, inputs: &[(Vec<u8>, Vec<u32>)]) -> Result<usize> {
    let mut inputs: Vec<_> = inputs.iter().collect();
    inputs.sort_by_key(|(input, _)| input.len());
    let mut seen = HashSet::new();
    let mut text = String::new();
    let mut kept = 0;
    for (input, features) in inputs {
        if features.iter().filter(|feature| seen.insert(**feature)).count() > 0 {
            text.push_str(&to_hex(input));
            text.push('\n');
            kept += 1;
        }
    }
    let path = path(target);
    std::fs::write(&path, text)
        .with_context(|| format!("writing the corpus {}", path.display()))?;
    Ok(kept)
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

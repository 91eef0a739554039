//! The cache folder: what is slow to fetch or build and outlives a checkout.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// The cache folder, made if missing: `$XDG_CACHE_HOME/nvmfd`, else
/// `~/.cache/nvmfd`.
///
/// # Errors
/// When neither variable is set or the folder cannot be made.
pub fn folder() -> Result<PathBuf> {
    let base = match env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => {
            PathBuf::from(env::var_os("HOME").context("set HOME or XDG_CACHE_HOME")?).join(".cache")
        }
    };
    let dir = base.join("nvmfd");
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir)
}

/// A folder below the cache folder, made if missing.
///
/// # Errors
/// As [`folder`].
pub fn subfolder(name: &str) -> Result<PathBuf> {
    let dir = folder()?.join(name);
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir)
}

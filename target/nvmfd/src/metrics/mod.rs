//! The daemon's counts in the text format of OpenMetrics, which Prometheus reads.
//!
//! Nothing is registered or kept: a collector is made from one picture for each scrape, so that what
//! is gone from the daemon is gone from the text.

mod collect;
mod histogram;
#[cfg(test)]
mod tests;

use crate::status::Picture;
use collect::Scrape;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use reactor::run::Shown;

/// The media type of the text.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text for a picture and the counts of the data cores.
///
/// # Errors
/// Never by what is in them: only when a name breaks the format's rules.
pub(crate) fn text(picture: Picture, cores: Vec<Shown>) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::with_prefix("nvmfd");
    registry.register_collector(Box::new(Scrape { picture, cores }));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

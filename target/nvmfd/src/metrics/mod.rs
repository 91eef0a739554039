//! The daemon's counts in the text format of OpenMetrics, or in the one from before it.
//!
//! Nothing is registered or kept: a collector is made from one picture for each scrape, so that what
//! is gone from the daemon is gone from the text.

mod collect;
mod histogram;
mod plain;
#[cfg(test)]
mod tests;

use crate::status::Picture;
use collect::Scrape;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use reactor::run::Shown;
use std::sync::Arc;

/// What a caller has to say that it accepts, to be told in OpenMetrics.
const OPENMETRICS: &str = "application/openmetrics-text";
/// The media type of OpenMetrics.
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text for a picture and the counts of the data cores in a format that the caller accepts, and
/// its media type.
///
/// # Errors
/// As for [`text`].
pub(crate) fn acceptable(
    accept: &str,
    picture: Arc<Picture>,
    cores: Vec<Shown>,
) -> Result<(&'static str, String), std::fmt::Error> {
    let text = text(picture, cores)?;
    Ok(if accept.contains(OPENMETRICS) {
        (MEDIA_TYPE, text)
    } else {
        (plain::MEDIA_TYPE, plain::plain(&text))
    })
}

/// In OpenMetrics.
///
/// # Errors
/// Never by what is in them: only when a name breaks the format's rules.
fn text(picture: Arc<Picture>, cores: Vec<Shown>) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::with_prefix("nvmfd");
    registry.register_collector(Box::new(Scrape { picture, cores }));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

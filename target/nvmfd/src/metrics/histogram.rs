//! Histograms of times, as they are counted by the cores.

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use reactor::core::Latency;
use std::fmt::Error;

/// A histogram to be told once.
#[derive(Debug)]
pub(super) struct Times(pub(super) Latency);

impl EncodeMetric for Times {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), Error> {
        let Times(latency) = self;
        let seconds = |ns: u64| ns as f64 / 1e9;
        let buckets: Vec<(f64, u64)> = latency
            .buckets()
            .map(|(bound, count)| (bound.map_or(f64::INFINITY, seconds), count))
            .collect();
        let sum = seconds(latency.sum_ns());
        encoder.encode_histogram::<NoLabelSet>(sum, latency.total(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
